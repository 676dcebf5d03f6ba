"""Signals of the trace process in the agent's process: stored, explained, and what was done reported back."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import msgspec
from tests.fakes.node.agent_world import live, world

from cotenant.engine.node.decision_log import DecisionKind
from cotenant.engine.node.recovery.incident import Incident, IncidentAction, IncidentEvent, TroubleReading
from cotenant.engine.node.recovery.policy import RecoveryMemory
from cotenant.engine.node.recovery.stages import IncidentStage, RecoveryRung
from cotenant.model.machine.node_state import PPM
from cotenant.model.machine.replica_signal import MaxAction
from cotenant.services.agent.agent_process import AgentProcess
from cotenant.services.agent.reports.objective_actions import actions_of, moves_of
from cotenant.services.agent_settings.config import ClusterAccess
from cotenant.services.reporting.signals import ActionTaken, SignalLine, WireSignal
from cotenant.services.zones.agent_view import pod_burns_of
from cotenant.services.zones.state_file import remove_state, write_state

BURNING = WireSignal("shop/o", "shop/web", "", "", 5000, 10_000, MaxAction.CAP, True, 9_000_000, 400, 80, 9000, 9000)


def signal(process: AgentProcess, pod: str) -> WireSignal:
    found = next(node_pod for node_pod in process.pods if node_pod.group == pod)
    return WireSignal(
        **{name: getattr(BURNING, name) for name in WireSignal.__struct_fields__}
        | {"pod": found.key, "pod_uid": found.uid}
    )


def test_signals_of_a_zones_pods_are_asked_for_and_kept_for_its_keeper(tmp_path: Path) -> None:
    pod = {"kind": "service", "namespace": "shop", "fullName": "box-web", "ready": True}
    pods = {"web": {**pod, "uid": "u-1"}, "once": {**pod, "kind": "batch", "uid": "u-2"}, "old": {"kind": "service"}}
    write_state(tmp_path, {"zone": "box", "pid": os.getpid(), "state": "active", "pods": pods})
    write_state(tmp_path, {"zone": "gone", "pid": os.getpid(), "state": "gone", "pods": {"web": {**pod, "uid": "u-3"}}})
    w = world(cluster=ClusterAccess(zone_state_dir=tmp_path))

    async def scenario(process: AgentProcess) -> None:
        assert ("shop/box-web", "u-1") in process.signals.asked
        assert not {"u-2", "u-3"} & {uid for _, uid in process.signals.asked}
        of_zone = {"pod": "shop/box-web", "pod_uid": "u-1"}
        wire = {name: getattr(BURNING, name) for name in WireSignal.__struct_fields__}
        process.signals.came(SignalLine((WireSignal(**wire | of_zone), WireSignal(**wire | {"pod_uid": "u-2"}))))
        assert process.signals.counts == {"taken": 1, "unknown": 1, "invalid": 0}
        await w.tick(process, 1)
        page = json.loads(msgspec.json.encode(process.state_page(process.agent.state())))  # type: ignore[arg-type]
        (found,) = page["zone_pods"]
        assert (found["zone"], found["pod"], found["name"]) == ("box", "web", "shop/box-web")
        assert pod_burns_of(page, "box") == {"web": 20.0}
        assert pod_burns_of(page, "other") == {}
        assert not process.signals.asks_for_others(process.pods)
        process.signals.came(SignalLine((), (("shop/box-web", "shop/o"),)))
        assert process.signals.zone_pods.page(0)[0].signals == ()
        remove_state(tmp_path, "box")
        assert process.signals.asks_for_others(process.pods)
        assert process.signals.zone_pods.page(0) == ()

    live(w, scenario)


def test_a_burning_signal_cuts_best_effort_work_is_explained_and_reported() -> None:
    w = world()
    w.use = {"top/web": 500, "top/job": 2400}
    text: list[str] = []
    actions: list[ActionTaken] = []

    async def scenario(process: AgentProcess) -> None:
        for _ in range(5):
            process.signals.came(SignalLine((signal(process, "top/web"),)))
            await w.tick(process, 1)
        state = process.agent.state()
        assert state is not None
        entry = next(pod for pod in state.pods if pod.pod.group == "top/web")
        assert (entry.pod.objective_p99_us, entry.health is not None) == (5000, True)
        story = process.agent.explain("top/web")
        assert story is not None
        text.extend(story.text)
        now_us = process.components.clocks.now_us()
        actions.extend(actions_of(process.agent.decisions(), state, "n", now_us, 1000.0))
        process.signals.came(SignalLine((BURNING,), ((entry.pod.key, "shop/o"),)))
        await w.tick(process, 1)
        assert process.agent.state().pods[0].signals == ()  # type: ignore[union-attr]
        assert process.signals.counts == {"taken": 5, "unknown": 1, "invalid": 0}

    process = live(w, scenario)
    assert any(
        name.startswith(
            "objective shop/o: 80 of 400 requests missed it within 9.0 s, p99 9.0 ms against 5 ms, budget burns 20.0 x"
        )
        for name in text
    )
    assert {action.objective for action in actions} == {"shop/o"}
    assert "cap" in {action.action for action in actions}
    assert any(decision.what is DecisionKind.HELD for decision in process.agent.decisions())


def test_a_move_is_asked_for_once_and_only_for_an_objective() -> None:
    lease = IncidentAction(RecoveryRung.MOVE, "uid-b", "batch/b", since_us=5_000_000, until_us=9_000_000)
    incident = Incident(
        number=1,
        victim="uid-web",
        name="shop/web-1",
        service="shop/web",
        objective="shop/o",
        objective_us=10_000,
        opened_us=1_000_000,
        stage=IncidentStage.ACTING,
        since_us=5_000_000,
        before=TroubleReading(2 * PPM, 3000),
        threshold_ppm=PPM,
        lease=lease,
        events=(IncidentEvent(5_000_000, IncidentStage.ACTING, "caused by batch/b"),),
    )
    others = (
        replace(incident, objective=""),
        replace(incident, lease=None),
        replace(incident, lease=replace(lease, rung=RecoveryRung.CAP)),
    )
    memory = RecoveryMemory(incidents=(incident, *others))
    asked = ActionTaken("shop/o", "n1", "shop/web-1", "move", "caused by batch/b", 999.0, culprit="batch/b")
    assert list(moves_of(memory, "n1", 6_000_000, 1000.0, since_us=0)) == [asked]
    assert list(moves_of(memory, "n1", 7_000_000, 1001.0, since_us=5_000_000)) == []


def test_a_silent_source_is_explained_and_impossible_figures_are_counted() -> None:
    w = world()
    w.use = {"top/web": 500, "top/job": 2400}
    text: list[str] = []

    async def scenario(process: AgentProcess) -> None:
        good = signal(process, "top/web")
        process.signals.came(SignalLine((good,)))
        wrong = {name: getattr(good, name) for name in WireSignal.__struct_fields__} | {"bad": 401}
        process.signals.came(SignalLine((WireSignal(**wrong),)))
        await w.tick(process, 8)
        story = process.agent.explain("top/web")
        assert story is not None
        text.extend(story.text)
        assert process.signals.counts["invalid"] == 1

    live(w, scenario)
    assert any(
        "no signal from the trace process for" in entry and "run delay and pressure are used instead" in entry
        for entry in text
    )

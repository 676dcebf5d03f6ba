"""Reports of incidents: each verdict until it is answered, over lost answers, an absent receiver and restarts."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.fakes.node.agent_world import World, live
from tests.fakes.node.troubled_node import SECOND_US, TroubledNode

from cotenant.engine.node.mode import AgentMode
from cotenant.engine.node.recovery.policy import RecoveryMemory, decide
from cotenant.engine.node.recovery.settings import RecoverySettings
from cotenant.model.errors import InvalidInput, Permanent, Transient
from cotenant.model.machine.node_state import NodeState
from cotenant.policy.credit.pricing import CauseVerdict
from cotenant.services.agent.agent_process import AgentProcess
from cotenant.services.agent.reports.incidents import MAX_WAITING, IncidentReporter
from cotenant.services.agent_settings.config import read_config
from cotenant.services.reporting.incident import IncidentBody


class KilledError(BaseException):
    """The agent ends here."""


class Receiver:
    """Stores each key and verdict once, like the credit process."""

    def __init__(self) -> None:
        self.stored: list[tuple[str, str]] = []
        self.fails: Callable[[], BaseException | None] = lambda: None
        self.fails_after: Callable[[], BaseException | None] = lambda: None

    async def post(self, url: str, body: bytes) -> None:
        assert url == "http://credit/credit/v1/incidents"
        if error := self.fails():
            raise error
        given = json.loads(body)
        stored = (given["key"], given.get("verdict", "attributed"))
        if stored not in self.stored:
            self.stored.append(stored)
        if error := self.fails_after():
            raise error


def culprit_found() -> tuple[RecoveryMemory, NodeState]:
    """A node whose service recovered while pod b was limited."""
    node, memory = TroubledNode(Random(3), guilty="b"), RecoveryMemory()
    settings = RecoverySettings(lease_us=10 * SECOND_US)
    for _ in range(60):
        state = node.second()
        verdict, memory = decide(state, settings, memory)
        node.obey(verdict)
        if memory.incidents and memory.incidents[0].proofs and memory.incidents[0].proofs[-1].helped:
            return memory, state
    raise AssertionError("no proof")


def cleared(found: tuple[RecoveryMemory, NodeState]) -> tuple[RecoveryMemory, NodeState]:
    """The same after a later action did not help."""
    memory, state = found
    incident = memory.incidents[0]
    later = replace(incident.proofs[-1], helped=False, at_us=incident.proofs[-1].at_us + 1)
    return replace(memory, incidents=(replace(incident, proofs=(*incident.proofs, later)),)), state


FOUND = culprit_found()


def reporter(receiver: Receiver, found: Any, file: Path | None = None, wall_s: float = 1000.0) -> IncidentReporter:
    return IncidentReporter("http://credit/", "n1", receiver.post, found, lambda: wall_s, file)


def test_a_verdict_is_reported_once_and_reversed_when_the_culprit_is_cleared(tmp_path: Path) -> None:
    receiver, found = Receiver(), [FOUND]
    sender = reporter(receiver, lambda: found[0], tmp_path / "incidents.json")

    async def scenario() -> None:
        for _ in range(3):
            sender.note_verdicts()
            assert await sender.deliver()
        found[0] = cleared(FOUND)
        sender.note_verdicts()
        assert await sender.deliver()

    asyncio.run(scenario())
    ((key, first), (again, second)) = receiver.stored
    assert (first, second, key == again) == ("proven", "cleared", True)
    assert sender.counts == {"delivered": 2, "refused": 0, "failed": 0, "dropped": 0}
    assert json.loads((tmp_path / "incidents.json").read_text()) == []


def test_a_culprit_that_was_never_reported_needs_no_reversal() -> None:
    sender = reporter(Receiver(), lambda: cleared(FOUND))
    sender.note_verdicts()
    assert sender.waiting == {}


@pytest.mark.parametrize(("later_s", "is_cleared"), [(600.0, True), (3700.0, False)])
def test_a_restarted_agent_clears_what_the_earlier_one_reported(
    tmp_path: Path, later_s: float, is_cleared: bool
) -> None:
    receiver, file = Receiver(), tmp_path / "incidents.json"
    first = reporter(receiver, lambda: FOUND, file)
    first.note_verdicts()
    assert asyncio.run(first.deliver())
    second = reporter(receiver, lambda: cleared(FOUND), file, 1000.0 + later_s)
    second.load()
    for _ in range(2):
        second.note_verdicts()
        assert asyncio.run(second.deliver())
    keys = {key for key, _ in receiver.stored}
    assert len(keys) == 1
    assert [verdict for _, verdict in receiver.stored] == ["proven", *(["cleared"] if is_cleared else [])]


def test_a_restarted_agent_that_finds_the_same_culprit_clears_nothing(tmp_path: Path) -> None:
    receiver, file = Receiver(), tmp_path / "incidents.json"
    for wall_s in (1000.0, 1300.0):
        sender = reporter(receiver, lambda: FOUND, file, wall_s)
        sender.load()
        sender.note_verdicts()
        assert asyncio.run(sender.deliver())
    assert [verdict for _, verdict in receiver.stored] == ["proven", "proven"]
    (file.parent / "incidents-standing.json").write_text("[{]")
    reporter(receiver, lambda: FOUND, file).load()


def test_an_absent_receiver_loses_nothing_and_a_refusal_is_dropped() -> None:
    receiver = Receiver()
    sender = reporter(receiver, lambda: FOUND)

    async def scenario() -> None:
        receiver.fails = lambda: Transient("away")
        sender.note_verdicts()
        assert not await sender.deliver()
        assert len(sender.waiting) == 1
        receiver.fails = lambda: InvalidInput("report ca file", "/etc/ca.crt", "certificates as PEM")  # not written yet
        assert not await sender.deliver()
        assert len(sender.waiting) == 1
        receiver.fails = lambda: Permanent("422")
        assert await sender.deliver()
        assert sender.waiting == {}

    asyncio.run(scenario())
    assert sender.counts == {"delivered": 0, "refused": 1, "failed": 2, "dropped": 0}


@pytest.mark.parametrize("killed", ["before", "after", "saving"])
def test_an_agent_killed_at_any_moment_reports_under_the_same_key(
    killed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    receiver, file = Receiver(), tmp_path / "incidents.json"

    def end() -> BaseException | None:
        return KilledError()

    async def first() -> None:
        sender = reporter(receiver, lambda: FOUND, file)
        sender.note_verdicts()
        if killed == "saving":  # stored and answered, and the file has it still
            sender._save = lambda: (_ for _ in ()).throw(KilledError())  # type: ignore[method-assign, assignment]
        else:
            setattr(receiver, "fails" if killed == "before" else "fails_after", end)
        await sender.deliver()

    with pytest.raises(KilledError):
        asyncio.run(first())
    receiver.fails = receiver.fails_after = lambda: None
    second = reporter(receiver, lambda: None, file, wall_s=2000.0)
    second.load()
    assert asyncio.run(second.deliver())
    assert len(receiver.stored) == 1
    assert json.loads(file.read_text()) == []


def test_what_waits_is_bounded_and_a_broken_file_is_set_aside(tmp_path: Path) -> None:
    (tmp_path / "incidents.json").write_text("[{")
    sender = reporter(Receiver(), lambda: FOUND, tmp_path / "incidents.json")
    sender.load()
    for number in range(MAX_WAITING + 3):
        sender.waiting[str(number)] = IncidentBody(str(number), 0, 0, 0)
    sender.note_verdicts()
    assert len(sender.waiting) == MAX_WAITING
    assert sender.counts["dropped"] == 4
    unwritable = reporter(Receiver(), lambda: FOUND, tmp_path / "none" / "incidents.json")
    unwritable.note_verdicts()
    assert len(unwritable.waiting) == 1


def test_the_agents_process_reports_while_it_acts_and_not_while_it_observes(tmp_path: Path) -> None:
    file = tmp_path / "agent.yaml"
    file.write_text(f"""
mode: act
writable: [top]
state_dir: {tmp_path}
credit: {{url: "http://credit"}}
groups:
  - {{group: top/web, name: shop/web, qos: LS, objective_p99_ms: 5}}
  - {{group: top/job, name: jobs/one, qos: BE}}
policies:
  best_effort_cpu: null
  burst: null
  recovery: {{rungs: [cap], max_action: idle, lease_us: 5000000, attribution: {{signals: [run-delay]}}}}
""")
    receiver = Receiver()
    w = World(read_config(file), more={"post_incident": receiver.post})

    async def scenario(process: AgentProcess) -> None:
        assert process.incidents is not None
        for second in range(40):
            loud = second > 12 and not w.knobs.snapshot()
            w.use = {"top/web": 1000, "top/job": 1400 if loud else 100}
            w.delay_ppm = {"top/web": 900_000 if loud else 20_000}
            await w.tick(process)
            process.config = replace(process.config, mode=AgentMode.OBSERVE)
            process.incidents.note_verdicts()
            assert process.incidents.waiting == {}
            process.config = replace(process.config, mode=AgentMode.ACT)
            process.incidents.note_verdicts()
            if process.incidents.waiting:
                break
        (body,) = process.incidents.waiting.values()
        assert (body.culprit_pod, body.victim_pod, body.verdict) == ("jobs/one", "shop/web", CauseVerdict.PROVEN)
        assert body.evidence["signal"] == "run-delay"
        assert await process.incidents.deliver()
        assert 'cotenant_agent_incident_reports_total{outcome="delivered"} 1.0' in process.metrics.page().decode()

    live(w, scenario)

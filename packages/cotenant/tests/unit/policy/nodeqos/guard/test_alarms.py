"""Alarms since the last sample, as signals of the pods that they are about."""

from __future__ import annotations

from dataclasses import replace

from tests.unit.policy.nodeqos.nodes import in_use, node

from cotenant.model.machine.node_state import Alarm, NodeState, PodUse
from cotenant.policy.nodeqos.guard.alarms import MACHINE, Alarms
from cotenant.policy.nodeqos.guard.config import GuardConfig
from cotenant.policy.nodeqos.guard.signals import PodSignal
from cotenant.policy.nodeqos.guard.step import CALM, CLOSE, MISSED, PRESSED

WEB, DB = in_use("web", 500), in_use("db", 500)
PODS = (WEB, DB)
CONFIG = GuardConfig()


def state(*alarms: tuple[str, str, int]) -> NodeState:
    return node(PODS, alarms=tuple(Alarm(1, group, what, stall) for group, what, stall in alarms))


def of(told: NodeState, pods: tuple[PodUse, ...] = PODS, yielding: bool = False) -> Alarms:
    return Alarms.of(told, pods, CONFIG, yielding)


def test_an_alarm_of_cpu_counts_for_the_pod_whose_group_it_is_or_is_below_and_the_longest_does() -> None:
    found = of(
        state(
            ("pods/web", "cpu", 300_000),
            ("pods/web/main", "cpu", 500_000),
            ("pods/web/side", "cpu", 400_000),
            ("pods/web-2", "cpu", 900_000),
            ("pods/db", "memory", 900_000),
            ("", "io", 900_000),
        )
    )
    assert (found.pods, found.machine) == ({"uid-web": 500_000}, None)
    bare = replace(WEB, pod=replace(WEB.pod, group=""))
    assert of(state(("pods/x", "cpu", 1)), (bare,)).pods == {}


def test_an_alarm_of_the_machine_is_no_pods() -> None:
    found = of(state(("", "cpu", 300_000), ("", "cpu", 700_000), ("", "cpu", 600_000), ("pods/db", "cpu", 1)))
    assert (found.pods, found.machine) == ({"uid-db": 1}, 700_000)
    assert found.stalls(with_machine=True) == {"uid-db": 1, MACHINE: 700_000}
    assert found.stalls(with_machine=False) == {"uid-db": 1}
    assert of(state(("pods/db", "cpu", 1))).stalls(with_machine=True) == {"uid-db": 1}


def signals(web: int, db: int) -> dict[str, PodSignal]:
    return {
        "uid-web": PodSignal("ns/web", web, "latency", "as sampled"),
        "uid-db": PodSignal("ns/db", db, "latency", "as sampled"),
    }


def severities(found: tuple[PodSignal, ...]) -> list[tuple[str, int, str]]:
    return [(one.pod, one.severity, one.signal) for one in found]


def test_an_alarm_takes_the_place_of_a_signal_where_it_is_worse() -> None:
    alarms = of(state(("pods/web", "cpu", 10_000), ("", "cpu", 250_000)))
    assert severities(alarms.over(PODS, signals(CALM, CALM), with_machine=False)) == [
        ("ns/web", PRESSED, "alarm"),
        ("ns/db", CALM, "latency"),
    ]
    for as_bad in (PRESSED, MISSED):
        assert severities(alarms.over(PODS, signals(as_bad, CALM), with_machine=False))[0] == (
            "ns/web",
            as_bad,
            "latency",
        )
    *_, last = alarms.over(PODS, signals(CALM, CALM), with_machine=True)
    assert (last.pod, last.severity) == ("", PRESSED)
    assert last.text.startswith("the machine was stalled on CPU for 25")
    assert "ns/web was stalled on CPU for 1" in alarms.over(PODS, signals(CALM, CALM), with_machine=False)[0].text
    assert len(of(state()).over(PODS, signals(CALM, CALM), with_machine=True)) == 2


def test_where_best_effort_work_yields_already_a_short_stall_only_stops_growth() -> None:
    told = state(("pods/web", "cpu", CONFIG.stall_cut_ppm - 1), ("pods/db", "cpu", CONFIG.stall_cut_ppm))
    mild = of(told, yielding=True).over(PODS, signals(CALM, CALM), with_machine=False)
    assert [one.severity for one in mild] == [CLOSE, PRESSED]
    assert [one.severity for one in of(told).over(PODS, signals(CALM, CALM), with_machine=False)] == [PRESSED] * 2

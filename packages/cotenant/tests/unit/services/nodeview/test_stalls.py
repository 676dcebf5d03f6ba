"""The watch of waits: a ring for each group, and its metrics by pod."""

from __future__ import annotations

from prometheus_client.registry import CollectorRegistry

from cotenant.model.machine.node_pod import NodePod
from cotenant.model.machine.run_queue import BUCKETS, WaitHistogram
from cotenant.model.machine.stalls import GroupStalls, LongWait, StallKind, StallReading
from cotenant.services.agent.stall_metrics import StallMetrics
from cotenant.services.nodeview.stalls import MAX_GROUPS, RING, StallWatch


def wait_of(group: str, at_us: int) -> LongWait:
    return LongWait(at_us, group, StallKind.BLOCKED, 9, 1, "db", group, 2, "kworker")


class ScriptedProbe:
    """Readings a minute apart, of two containers of one pod and of another group."""

    def __init__(self) -> None:
        self.at_us = 0
        self.waits: list[LongWait] = []

    def read(self) -> StallReading:
        self.at_us += 60_000_000
        blocked = WaitHistogram(4, 3_000_000, (0,) * 20 + (4,) + (0,) * (BUCKETS - 21))
        return StallReading(
            self.at_us,
            (
                GroupStalls("pods/a/one", blocked, runnable=2),
                GroupStalls("pods/a/two", blocked, uninterruptible=1),
                GroupStalls("pods/ab", blocked, runnable=50),
            ),
            lost=3,
        )

    def long_waits(self) -> list[LongWait]:
        found, self.waits = self.waits, []
        return found


def test_a_busy_group_does_not_push_out_the_waits_of_another() -> None:
    probe = ScriptedProbe()
    watch = StallWatch(probe, cpus=4)
    probe.waits = [wait_of("quiet", 0), *(wait_of("busy", at) for at in range(1, 3 * RING))]
    watch.view()
    assert len(watch.ring()) == RING + 1
    assert watch.ring()[0] == wait_of("quiet", 0)
    assert [wait.at_us for wait in watch.ring("busy")] == list(range(2 * RING, 3 * RING))


def test_a_pod_with_very_many_groups_does_not_push_out_the_ring_of_another_pod() -> None:
    probe = ScriptedProbe()
    watch = StallWatch(probe, cpus=4)
    probe.waits = [wait_of("pods/quiet/main", 0)]
    watch.view()
    for start in range(0, 10_000, 500):
        probe.waits = [wait_of(f"pods/storm/{number}", number) for number in range(start, start + 500)]
        watch.view()
    assert watch.ring("pods/quiet/main") == [wait_of("pods/quiet/main", 0)]
    assert watch.ring("pods/storm/9999")
    assert not watch.ring("pods/storm/0")
    assert len(watch.ring()) == MAX_GROUPS


def test_metrics_are_of_pods_with_all_their_groups() -> None:
    registry = CollectorRegistry()
    watch = StallWatch(ScriptedProbe(), cpus=4, system_us={"pods/a": 2_500_000}.get)
    registry.register(StallMetrics(watch, lambda: [NodePod("1", "shop", "a", "pods/a")]))
    watch.view()
    watch.view()

    def value(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(name, {"pod": "shop/a", "group": "pods/a", **labels})

    assert value("cotenant_pod_waits_total", kind="blocked") == 8
    assert value("cotenant_pod_waited_seconds_total", kind="blocked") == 6.0
    assert value("cotenant_pod_waits_total", kind="reclaim") == 0
    assert value("cotenant_pod_system_seconds_total") == 2.5
    running, blocked = (
        value("cotenant_pod_load", state="R", minutes="1"),
        value("cotenant_pod_load", state="D", minutes="1"),
    )
    assert running is not None
    assert blocked is not None
    assert 1.0 < running <= 2.0
    assert running > 1.9 * blocked > 0
    assert registry.get_sample_value("cotenant_long_waits_lost_total") == 3
    assert registry.get_sample_value("cotenant_node_problem", {"type": "SlowBlockIo", "reason": "WaitsAreShort"}) == 0

"""Metrics of what pods wait for besides a CPU, as of the last look: load averages, waits, time in the kernel, and the
node's conditions.

A pod's waits are those of all groups below its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from cotenant.engine.node.loads import MINUTES, Loads
from cotenant.model.machine.node_pod import NodePod
from cotenant.model.machine.run_queue import WaitHistogram
from cotenant.model.machine.stalls import GroupStalls
from cotenant.services.agent.metric_families import Sample, counter, gauge
from cotenant.services.nodeview.stalls import StallWatch

_POD = ("pod", "group")


class StallMetrics(Collector):
    """A collector of this watch. `pods`: the node's now."""

    def __init__(self, watch: StallWatch, pods: Callable[[], Sequence[NodePod]]) -> None:
        self._watch = watch
        self._pods = pods

    def describe(self) -> list[Metric]:
        """Nothing is read at registration."""
        return []

    def collect(self) -> Iterator[Metric]:
        """All families."""
        view = self._watch.last()
        loads: list[Sample] = []
        seconds: list[Sample] = []
        number: list[Sample] = []
        system: list[Sample] = []
        for pod in self._pods():
            labels = (f"{pod.namespace}/{pod.name}", pod.group)
            for state, values in _summed(pod.group, view.loads):
                loads += [
                    ((*labels, state, str(minutes)), value) for minutes, value in zip(MINUTES, values, strict=True)
                ]
            for kind, waits in _waits(pod.group, view.groups):
                seconds.append(((*labels, kind), sum(found.sum_us for found in waits) / 1e6))
                number.append(((*labels, kind), sum(found.count for found in waits)))
            if (system_us := self._watch.system_us(pod.group)) is not None:
                system.append((labels, system_us / 1e6))
        yield gauge(
            "cotenant_pod_load",
            "Load averages of a pod: tasks that run or wait for a CPU (R), in uninterruptible sleep (D)",
            (*_POD, "state", "minutes"),
            loads,
        )
        yield counter(
            "cotenant_pod_waited_seconds",
            "Time that a pod's tasks spent in uninterruptible sleep (blocked) and in freeing memory (reclaim)",
            (*_POD, "kind"),
            seconds,
        )
        yield counter("cotenant_pod_waits", "Such waits of a pod's tasks", (*_POD, "kind"), number)
        yield counter("cotenant_pod_system_seconds", "CPU time of a pod's tasks in the kernel", _POD, system)
        yield gauge(
            "cotenant_node_problem",
            "Whether a condition of the node holds that its groups' waits show",
            ("type", "reason"),
            [((problem.type, problem.reason), int(problem.is_true)) for problem in view.problems],
        )
        yield counter(
            "cotenant_long_waits_lost", "Long waits that found no room in the kernel's ring", (), [((), view.lost)]
        )


def _within(group: str, pod: str) -> bool:
    return group == pod or group.startswith(f"{pod}/")


def _summed(pod: str, loads: dict[str, Loads]) -> Iterable[tuple[str, tuple[float, ...]]]:
    found = [load for group, load in loads.items() if _within(group, pod)]
    for state, values in (
        ("R", [load.runnable for load in found]),
        ("D", [load.uninterruptible for load in found]),
    ):
        yield state, tuple(sum(value[at] for value in values) for at in range(len(MINUTES)))


def _waits(pod: str, groups: Iterable[GroupStalls]) -> Iterable[tuple[str, list[WaitHistogram]]]:
    found = [group for group in groups if _within(group.group, pod)]
    yield "blocked", [group.blocked for group in found]
    yield "reclaim", [group.reclaim for group in found]

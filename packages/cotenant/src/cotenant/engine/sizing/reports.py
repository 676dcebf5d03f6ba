"""Which reports of use are believed: new ones, of amounts that the pod and its node can have.

A report that is told twice would prove a size twice, and one value of a counter that jumped would set a size for two
weeks. Clocks of nodes are wrong, so a report is new when its time is another one than that of the last, whatever time
it is; only the first of a node is compared with our clock.
Limits: after an agent's clock was set back by less than `MAX_AGE_S`, its reports are left out until it has caught up.
"""

from __future__ import annotations

from collections.abc import Callable

from cotenant.model.machine.node_metric import NodeMetric, Use
from cotenant.model.sizes.container import SizedPod

MAX_AGE_S = 900.0  # of the first report, and of one from before the last
TOO_MUCH = 1.1  # times what there is: measurements over a while are not that wrong

CapacityOf = Callable[[str], Use | None]  # of a node; None = not known


class Reports:
    """What was seen of each node's reports."""

    def __init__(self, capacity_of: CapacityOf) -> None:
        self.impossible = 0  # amounts of pods that were not believed
        self._capacity_of = capacity_of
        self._updated_s: dict[str, float] = {}  # by node, by its own clock

    def is_new(self, metric: NodeMetric) -> bool:
        """Whether it tells something that was not told before; it counts as told from now on."""
        last_s, is_young = self._updated_s.get(metric.node), metric.age_s <= MAX_AGE_S
        if last_s is not None and 0.0 <= last_s - metric.updated_s < MAX_AGE_S:
            return False  # the same again, or one that was overtaken
        self._updated_s[metric.node] = metric.updated_s
        return is_young or (last_s is not None and metric.updated_s > last_s)

    def node_gone(self, node: str) -> None:
        """Its report was deleted."""
        self._updated_s.pop(node, None)

    def is_possible(self, pod: SizedPod, use: Use) -> bool:
        """Whether a pod can have used this much."""
        there = self._capacity_of(pod.node)
        is_found = there is None or _is_within(use, there)
        limit_bytes = _memory_limit_bytes(pod)
        if limit_bytes is not None and use.memory_bytes > TOO_MUCH * limit_bytes:
            is_found = False
        self.impossible += not is_found
        return is_found


def _is_within(use: Use, capacity: Use) -> bool:
    return use.cpu_m <= TOO_MUCH * capacity.cpu_m and use.memory_bytes <= TOO_MUCH * capacity.memory_bytes


def _memory_limit_bytes(pod: SizedPod) -> int | None:
    """What its only container may use at most, by what was asked or what is in place; None = no limit, or several
    containers.
    """
    if not pod.is_of_one_container:
        return None
    (container,) = pod.containers
    asked = container.size.memory_limit_bytes
    there = container.allocated.memory_limit_bytes if container.allocated is not None else asked
    return None if asked is None or there is None else max(asked, there)

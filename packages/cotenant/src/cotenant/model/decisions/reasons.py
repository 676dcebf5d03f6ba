"""Why nodes were rejected, counted per reason, in kube-scheduler's wording.

"Pending" alone explains nothing, and a list of thousands of nodes is unreadable. One count per reason, rendered like
kube-scheduler's FitError so that existing dashboards can parse it.
Limits: as in kube-scheduler, a node that lacks two resources is counted under both, so the counts may add up to more
than the number of nodes.
"""

from __future__ import annotations

from dataclasses import dataclass

from cotenant.model.errors import InvalidInput

NOT_READY = "node(s) were not ready or unschedulable"


@dataclass(frozen=True, slots=True)
class Rejection:
    """Number of nodes that one filter rejected for one reason."""

    filter: str
    reason: str
    nodes: int

    def __post_init__(self) -> None:
        if self.nodes < 1:
            raise InvalidInput(f"rejections by {self.filter}", self.nodes, "1 node or more")


def no_node_line(nodes: int, rejections: tuple[Rejection, ...]) -> str:
    """`0/249 nodes are available: 12 Insufficient cpu, 237 node(s) ...`; equal reasons from different filters are
    summed.
    """
    if nodes == 0:
        return "no nodes available to schedule pods"
    count: dict[str, int] = {}
    for rejection in rejections:
        count[rejection.reason] = count.get(rejection.reason, 0) + rejection.nodes
    counted = ", ".join(sorted(f"{number} {reason}" for reason, number in count.items()))
    return f"0/{nodes} nodes are available: {counted}." if counted else f"0/{nodes} nodes are available."

"""Why nodes were turned down, counted per reason, in the words Kubernetes users know.

Problem: "Pending" alone helps nobody, and the list of thousands of nodes neither. Choice: a count per reason, rendered as
kube-scheduler's FitError renders it, so existing dashboards and habits read it. Limits: a node that lacks two resources is counted
under both, as there, so counts may add up to more than the nodes.
"""

from __future__ import annotations

from dataclasses import dataclass

from cotenant.model.errors import InvalidInput

NOT_READY = "node(s) were not ready or unschedulable"


@dataclass(frozen=True, slots=True)
class Rejection:
    """So many nodes were turned down by one filter for one reason."""

    filter: str
    reason: str
    nodes: int

    def __post_init__(self) -> None:
        if self.nodes < 1:
            raise InvalidInput(f"rejections by {self.filter}", self.nodes, "1 node or more")


def no_node_line(nodes: int, rejections: tuple[Rejection, ...]) -> str:
    """`0/249 nodes are available: 12 Insufficient cpu, 237 node(s) ...`; equal reasons of different filters are added up."""
    if nodes == 0:
        return "no nodes available to schedule pods"
    count: dict[str, int] = {}
    for rejection in rejections:
        count[rejection.reason] = count.get(rejection.reason, 0) + rejection.nodes
    told = ", ".join(sorted(f"{number} {reason}" for reason, number in count.items()))
    return f"0/{nodes} nodes are available: {told}." if told else f"0/{nodes} nodes are available."

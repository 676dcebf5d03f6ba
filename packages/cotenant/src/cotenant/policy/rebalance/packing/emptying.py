"""Nodes that may be emptied, so that they can be removed: underused by requests, the least used first.

After load falls, pods are scattered over more nodes than they need. A node is underused where the requests of its pods
are below all thresholds; the caller empties one after another, each only when everything on it that is not a
DaemonSet's or static fits on nodes that are kept. A node that received pods in this round is not emptied. Difference
from upstream: a node is emptied whole or not at all.
Limits: by requests, not by measured use.
Source: Kubernetes' descheduler, plugin HighNodeUtilization.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from cotenant.model.counted import counted


@dataclass(frozen=True, slots=True)
class NodeRequests:
    """One node: requests and allocatable by resource, and whether it takes new pods."""

    name: str
    requested: Mapping[str, int]
    allocatable: Mapping[str, int]
    open: bool = True

    def percent(self, resource: str) -> float:
        """Requests in percent of allocatable; 0 without any."""
        size = self.allocatable.get(resource, 0)
        return self.requested.get(resource, 0) * 100.0 / size if size > 0 else 0.0


@dataclass(frozen=True, slots=True)
class EmptyResult:
    """`underused` in the order in which they were tried, `emptied` those whose pods all land."""

    underused: tuple[str, ...]
    emptied: tuple[str, ...]
    note: str = ""


Empties = Callable[[str, Sequence[str]], Collection[str] | None]


def underused(nodes: Sequence[NodeRequests], thresholds: Mapping[str, float]) -> list[NodeRequests]:
    """The nodes with requests at or below every threshold, the least used first."""
    found = [node for node in nodes if all(node.percent(name) <= limit for name, limit in thresholds.items())]
    return sorted(
        found, key=lambda node_requests: (sum(node_requests.percent(name) for name in thresholds), node_requests.name)
    )


def empty_nodes(
    nodes: Sequence[NodeRequests], thresholds: Mapping[str, float], number_of_nodes: int, empties: Empties, most: int
) -> EmptyResult:
    """Empty up to `most` nodes. `empties(node, targets)` moves every pod of the node to some of the targets and
    returns those that received one; None = not all land, and nothing moved.
    """
    low = underused(nodes, thresholds)
    names = tuple(node_requests.name for node_requests in low)
    if not low:
        return EmptyResult((), (), "no node is underused")
    if len(low) <= number_of_nodes:
        few = counted(len(low), "node is", "nodes are")
        return EmptyResult(names, (), f"{few} underused, numberOfNodes is {number_of_nodes}")
    kept = {node.name for node in nodes if node.open}
    received: set[str] = set()
    emptied: list[str] = []
    for node_requests in low:
        if len(emptied) >= most:
            break
        if node_requests.name in received:
            continue
        targets = tuple(sorted(kept - {node_requests.name} - set(emptied)))
        reached = empties(node_requests.name, targets)
        if reached is not None:
            emptied.append(node_requests.name)
            received |= set(reached)
    return EmptyResult(names, tuple(emptied))

"""The NUMA zones of a node's NodeResourceTopology, as the manager of lent resources sees them.

A value with each zone's size and what is lent in it, so that equal values mean that there is nothing to do.
Limits: zones of type Node that have a number; CPU and memory.
Source: Koordinator, NodeResourceTopology of topology.node.k8s.io/v1alpha1 (zones node-0 and so on).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from cotenant.model.machine.node_metric import Use


@dataclass(frozen=True, slots=True)
class LentZone:
    """One NUMA node. `size` is its allocatable CPU and memory."""

    name: str  # node-0
    number: int
    size: Use
    lent: Mapping[str, int] = field(default_factory=dict)  # short names (batch-cpu), as the zone offers them now


@dataclass(frozen=True, slots=True)
class NodeZones:
    """The zones of one node by number; none where one of them has no CPU or memory. `written` is the annotation
    with the terms.
    """

    node: str
    zones: tuple[LentZone, ...] = ()
    written: str = ""

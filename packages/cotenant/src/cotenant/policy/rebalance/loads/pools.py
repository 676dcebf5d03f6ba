"""Node pools, and the columns of the nodes that LowNodeLoad compares.

One cluster has nodes of several kinds with their own thresholds, and a node must not be acted on twice in a round.
Pools in the configured order; the overloaded nodes of a pool are hidden from later pools, its other nodes are not.
Difference from upstream: that holds for pools without a selector too.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from cotenant.model.arrays import Int, Mask
from cotenant.model.cluster.labels import Labels, LabelSelector
from cotenant.policy.rebalance.loads.detector import AnomalyCondition
from cotenant.policy.rebalance.loads.thresholds import Percentages

DEFAULT_POOL = "__default_node_pool__"


@dataclass(frozen=True, slots=True)
class NodePool:
    """A pool; no selector = every node. `weights` order nodes and pods; a resource that is not named weighs 1. No
    anomaly condition = the first round counts.
    """

    name: str
    percentages: Percentages
    selector: LabelSelector | None = None
    weights: Mapping[str, int] = field(default_factory=dict)
    anomaly: AnomalyCondition | None = field(default_factory=AnomalyCondition)

    def weights_of(self, names: Sequence[str]) -> dict[str, int]:
        """The weight of each of these resources; what is not positive counts as 1."""
        return {name: weight if (weight := self.weights.get(name, 1)) > 0 else 1 for name in names}


@dataclass(frozen=True, slots=True)
class NodeLoads:
    """Measured nodes: `allocatable`, `usage` of all pods and `prod` of production pods are `int64[N, R]` in the
    order of `resources`.
    """

    names: tuple[str, ...]
    labels: tuple[Labels, ...]
    resources: tuple[str, ...]
    allocatable: Int
    usage: Int
    prod: Int
    unschedulable: Mask

    def of(self, rows: Int) -> NodeLoads:
        """Copies of these rows."""
        return NodeLoads(
            tuple(self.names[row] for row in rows.tolist()),
            tuple(self.labels[row] for row in rows.tolist()),
            self.resources,
            self.allocatable[rows],
            self.usage[rows],
            self.prod[rows],
            self.unschedulable[rows],
        )


def members(
    selector: LabelSelector | None, names: Sequence[str], labels: Sequence[Labels], processed: Collection[str]
) -> Int:
    """Indices of the nodes of a pool that no earlier pool has processed."""
    found = [
        row
        for row, (name, own) in enumerate(zip(names, labels, strict=True))
        if name not in processed and (selector is None or selector.matches(own))
    ]
    return np.array(found, dtype=np.int64)

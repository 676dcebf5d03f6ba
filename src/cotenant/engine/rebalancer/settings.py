"""What a rebalancer's configuration sets."""

from __future__ import annotations

from dataclasses import dataclass, field

from cotenant.model.cluster.labels import LabelSelector
from cotenant.policy.rebalance.loads.pools import NodePool
from cotenant.policy.rebalance.migration.evictable import EvictionFilter


@dataclass(frozen=True, slots=True)
class MoveLimits:
    """How many pods may move at a time; 0 or None = no limit. The `round_` limits count the moves of one round."""

    globally: int | None = None
    per_node: int | None = 2
    per_namespace: int | None = None
    round_total: int | None = None
    round_per_node: int | None = None
    round_per_namespace: int | None = None


@dataclass(frozen=True, slots=True)
class RebalancerSettings:
    """One profile with LowNodeLoad and the filters and limits of MigrationController."""

    pools: tuple[NodePool, ...]
    number_of_nodes: int = 0
    node_fit: bool = True
    expires_s: float = 180.0  # of a node's measurement
    include: tuple[str, ...] = ()  # namespaces whose pods LowNodeLoad moves; empty = all
    exclude: tuple[str, ...] = ()
    pod_selectors: tuple[LabelSelector, ...] = ()  # any must select the pod; empty = every pod
    node_selector: LabelSelector | None = None  # of the profile; None = every node
    filter: EvictionFilter = field(default_factory=EvictionFilter)
    limits: MoveLimits = field(default_factory=MoveLimits)
    not_applied: tuple[str, ...] = ()  # settings that only matter where moves are carried out

"""What the manager keeps of one node."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf, nan

from cotenant.model.cluster.managed import ManagedNode
from cotenant.model.machine.node_metric import NO_USE, NodeMetric
from cotenant.model.machine.zones import NodeZones
from cotenant.policy.overcommit.facts import ActivePod, Amount, NodeFacts
from cotenant.policy.overcommit.peak import PeakHistory
from cotenant.policy.overcommit.strategy import StrategyOrigin


@dataclass(frozen=True, slots=True)
class Computed:
    """The outcome of one computation. `state` is one of: lent, suggested, withdrawn, failed, unknown."""

    state: str
    reason: str
    amounts: tuple[Amount, ...] = ()  # as they would be written, after hysteresis
    failed: tuple[str, ...] = ()  # resources whose amount could not be computed: they stay as they are
    view: StrategyOrigin | None = None
    # what holds for so many hours, by short name
    holding: Mapping[str, Mapping[int, int]] = field(default_factory=dict)

    @property
    def wanted(self) -> dict[str, int]:
        """The amounts by short name."""
        return {amount.resource: amount.value for amount in self.amounts}


UNKNOWN = Computed("unknown", "not computed yet")


@dataclass(frozen=True, slots=True)
class SentSpec:
    """A spec that was written. A server that drops fields never shows it, so each further try waits twice as long."""

    spec: Mapping[str, object]
    at_s: float
    tries: int = 1

    def waits(self, now_s: float, confirm_s: float) -> bool:
        """Whether it is too early to write the same again."""
        return now_s - self.at_s < confirm_s * 2 ** min(self.tries - 1, 7)


ZoneAmounts = dict[str, tuple[Amount, ...]]  # by zone


@dataclass(slots=True)
class ZoneRecord:
    """What the manager keeps of the NUMA zones of one node. Mutable; owned by the engine."""

    seen: NodeZones
    computed: ZoneAmounts = field(default_factory=dict)
    written_s: float = nan  # by this process
    sent: Mapping[str, Mapping[str, int | None]] | None = None  # written, and not shown by the watch yet
    sent_s: float = nan


@dataclass(slots=True)
class NodeRecord:
    """Mutable; owned by the engine."""

    name: str
    node: ManagedNode | None = None
    pods: dict[str, ActivePod] = field(default_factory=dict)
    metric: NodeMetric | None = None
    updated_s: float = nan  # by this process's clock
    seen_s: float = nan  # when this process saw its first measurement; NaN once another has followed
    written_s: float = nan  # by this process
    sent: Mapping[str, int | None] | None = None  # written, and not shown by the watch yet
    sent_s: float = nan
    computed: Computed = UNKNOWN
    pool: str = ""  # whose rules it follows; "" = not computed yet
    suggested: Mapping[str, int] = field(default_factory=dict)  # by short name, where the pool may not lend
    history: dict[str, PeakHistory] = field(default_factory=dict)  # by resource
    hour: int = -1  # of the measurements that are being judged
    is_broken: bool = False  # whether use + lent exceeded the capacity within that hour
    specs: dict[str, Mapping[str, object]] = field(default_factory=dict)  # by kind: the specs as stored
    specs_sent: dict[str, SentSpec] = field(default_factory=dict)
    zones: ZoneRecord | None = None  # None = no NodeResourceTopology
    writes: int = 0
    timer_s: float = inf  # when the node is looked at again without an event

    def facts(self) -> NodeFacts:
        """What the formulas need. The node must be known."""
        assert self.node is not None
        metric = self.metric
        pods = metric.pods if metric is not None else None
        return NodeFacts(
            capacity=self.node.capacity,
            allocatable=self.node.allocatable,
            pods=tuple(self.pods.values()),
            annotated_reservation=self.node.reservation,
            usage=metric.use if metric is not None else None,
            system=(metric.system if metric is not None else None) or NO_USE,
            measured=pods or {},
            host_applications=metric.applications if metric is not None else (),
            prod_reclaimable=metric.prod_reclaimable if metric is not None else None,
        )

    @property
    def standing(self) -> Mapping[str, int]:
        """What is offered, on the node or as a suggestion."""
        return self.suggested or (self.node.lent if self.node is not None else {})

    @property
    def is_empty(self) -> bool:
        """Whether nothing is known: the record may be dropped."""
        return self.node is None and not self.pods and self.metric is None and not self.specs and self.zones is None

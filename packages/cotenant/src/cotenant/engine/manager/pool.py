"""One pool of nodes that lend by the same rules, as the ledger keeps it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import inf
from zlib import crc32

from cotenant.engine.manager.offered import NodeHour
from cotenant.engine.manager.record import NodeRecord
from cotenant.model.autonomy.autonomy import AutonomyRung
from cotenant.model.autonomy.pool_lending import LendingReceipt, LendingStatus, LendMode, PoolLending
from cotenant.model.traces.objective import ObjectiveStatus
from cotenant.policy.autonomy.lending import rung_of
from cotenant.policy.overcommit.batch import LOW
from cotenant.policy.overcommit.strategy import DEFAULTS, ColocationStrategy, batch_rules, merge


@dataclass(frozen=True, slots=True)
class LendLeave:
    """Whether a pool lends now. `by`: who allows it."""

    state: str
    rung: AutonomyRung
    why: str
    by: str = ""

    @property
    def lends(self) -> bool:
        """Whether amounts may stand on nodes."""
        return self.state == "lent"


@dataclass(slots=True)
class Pool:
    """Mutable; owned by the ledger."""

    name: str
    strategy: ColocationStrategy = DEFAULTS
    mode: LendMode | None = None  # None = lending is not limited here, nor judged
    stored: PoolLending | None = None
    status: LendingStatus = field(default_factory=LendingStatus)
    hours: dict[str, NodeHour] = field(default_factory=dict)  # in progress, by node
    sent: LendingStatus | None = None
    sent_s: float = -inf
    tries: int = 0
    has_begun: bool = False  # it lends, since a time at which that might be begun
    replayed: tuple[LendMode, tuple[LendingReceipt, ...], tuple[AutonomyRung, str]] | None = None

    def own(self) -> tuple[AutonomyRung, str]:
        """How far it may go by its mode and days, and why. The replay is kept until either is another."""
        assert self.mode is not None
        known, receipts = self.replayed, self.status.receipts
        if known is None or known[0] is not self.mode or known[1] is not receipts:
            known = self.replayed = (self.mode, receipts, rung_of(self.mode, receipts))
        return known[2]

    @property
    def risk(self) -> float:
        """The stated one, as a share."""
        return (self.strategy.peak_risk_percent or 1.0) / 100

    @property
    def id(self) -> str:
        """Of the rules as they would be approved now."""
        return f"{crc32(rules(self.strategy).encode()):08x}-{self.status.term}"


def rules(strategy: ColocationStrategy) -> str:
    """By what amounts are computed, in words."""
    full, batch = merge(DEFAULTS, strategy), batch_rules(strategy)
    words = []
    for name, policy, reclaim, limit in (
        ("cpu", batch.cpu_policy, batch.cpu_reclaim_pct, batch.cpu_limit_pct),
        ("memory", batch.memory_policy, batch.memory_reclaim_pct, batch.memory_limit_pct),
    ):
        found = f"{name} by {policy.value}"
        found += f" at {full.peak_risk_percent or 1:g} % risk" if policy.is_at_risk else f" up to {reclaim} %"
        words.append(found if limit is None else f"{found}, at most {limit} %")
    if full.mid_reclaim_mode == "static":
        words.append(f"mid {full.mid_static_cpu_reserved_percent}, {full.mid_static_memory_reserved_percent} %")
    elif full.mid_unallocated_percent:
        words.append(f"mid with {full.mid_unallocated_percent} % of what is not requested")
    return "; ".join(words)


def suffers(record: NodeRecord, status: ObjectiveStatus) -> bool:
    """Whether a replica of the objective's service runs beside batch pods on a node that lends."""
    if record.node is None or not any(record.node.lent.values()):
        return False
    namespaces = (status.service_namespace, status.key.partition("/")[0])
    pods = record.pods.values()
    return any(pod.priority_class in LOW for pod in pods) and any(
        pod.service == status.service and pod.key.partition("/")[0] in namespaces for pod in pods
    )


def lasting(status: LendingStatus) -> LendingStatus:
    """Without what changes with every measurement, but for whether anything is offered."""
    stands = status.suggestion
    calm = replace(stands, nodes=min(1, stands.nodes), cpu_m=0, memory_mib=0) if stands is not None else None
    return replace(status, open=(), suggestion=calm)

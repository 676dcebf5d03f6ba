"""CPU suppression: the allowance of best-effort work, and the cpuset or quota that enforces it.

Batch work may use what services leave, second by second, without filling the node so far that services wait. The
allowance of `allowance.py` from the current second's use, in one of two forms: a cpuset (whole logical CPUs, at least
two: coarse, but without throttling) or a CFS quota (fine). Shrinking is immediate; growing is limited to a tenth of the
node per step; changes of less than a hundredth are skipped.
Limits: the threshold is one figure for the node; the services' use in the next second is not predicted.

Source: Koordinator, koordlet's CPU suppression; the defaults are those of its NodeSLO. Use that belongs to no known pod
counts as system use.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from cotenant.model.cluster.qos import QoSClass
from cotenant.model.errors import InvalidInput
from cotenant.model.machine.counters import LogicalCpu
from cotenant.model.machine.node_decision import DecisionTerm, Reason
from cotenant.model.machine.node_state import NodeState
from cotenant.model.machine.use_targets import BEST_EFFORT_TARGET_PERCENT
from cotenant.policy.nodeqos.amounts import cpu_text
from cotenant.policy.nodeqos.cpu import choice
from cotenant.policy.nodeqos.cpu.allowance import allowance_m, next_cpu_count, next_quota_us, system_m

PERIOD_US = 100_000


class SuppressionForm(StrEnum):
    """How an allowance is enforced; the values are those of the NodeSLO."""

    CPUSET = "cpuset"
    QUOTA = "cfsQuota"


@dataclass(frozen=True, slots=True)
class SuppressConfig:
    """Koordinator's settings and constants. Raises `InvalidInput`."""

    enabled: bool = True
    threshold_percent: int = (
        BEST_EFFORT_TARGET_PERCENT  # of the node, best-effort work included: above it best-effort work is suppressed
    )
    min_percent: int | None = None  # of the node, always available to best-effort work; None = no floor
    form: SuppressionForm = SuppressionForm.CPUSET
    min_cpus: int = 2  # of a cpuset
    min_quota_us: int = 2000  # per period of 100 ms; in proportion for other periods
    period_us: int = PERIOD_US
    dead_band_ppm: int = 10_000  # of the node
    growth_ppm: int = 100_000  # of the node per step

    def __post_init__(self) -> None:
        if not 0 < self.threshold_percent <= 100:
            raise InvalidInput("cpuSuppressThresholdPercent", self.threshold_percent, "1 to 100")
        if self.min_percent is not None and not 0 <= self.min_percent <= 100:
            raise InvalidInput("cpuSuppressMinPercent", self.min_percent, "0 to 100, or unset")
        if self.min_cpus < 1:
            raise InvalidInput("min_cpus", self.min_cpus, "1 or more")
        if not 1000 <= self.period_us <= 1_000_000:
            raise InvalidInput("period_us", self.period_us, "1000 to 1000000 microseconds")
        if self.min_quota_us < 1000:
            raise InvalidInput("min_quota_us", self.min_quota_us, "1000 microseconds or more, the kernel's minimum")
        for name in ("dead_band_ppm", "growth_ppm"):
            if not 0 <= getattr(self, name) <= 1_000_000:
                raise InvalidInput(name, getattr(self, name), "0 to 1000000 millionths of the node")

    @property
    def floor_us(self) -> int:
        """The minimum quota in this configuration's period; never below the kernel's minimum, 1 ms."""
        return max(1000, self.min_quota_us * self.period_us // PERIOD_US)


@dataclass(frozen=True, slots=True)
class CpuAllowance:
    """The total CPU that best-effort work may use, and the calculation behind it."""

    cpu_m: int  # negative where services use more than the threshold and no floor is set
    reason: Reason


def allowance(state: NodeState, config: SuppressConfig) -> CpuAllowance | None:
    """This interval's allowance; None where the node's use is unknown (the first sample).

    Pods of unknown use are counted as system use, so that their CPU is never lent.
    """
    if state.host.cpu_m is None:
        return None
    services = sum(entry.use.cpu_m or 0 for entry in state.services)
    system = system_m(state.host.cpu_m, services + best_effort_use_m(state))
    capacity = state.host.capacity_cpu_m
    left = allowance_m(capacity, config.threshold_percent, services, system, state.reserved_cpu_m)
    taken = max(system, state.reserved_cpu_m)
    kept = "system" if system >= state.reserved_cpu_m else "reserved"
    share = capacity * config.threshold_percent // 100
    terms = [
        DecisionTerm("threshold", share, "mCPU"),
        DecisionTerm("services", -services, "mCPU"),
        DecisionTerm(kept, -taken, "mCPU"),
    ]
    text = (
        f"{cpu_text(state.host.cpus * 1000)} x {config.threshold_percent} % - {cpu_text(services)} services - "
        f"{cpu_text(taken)} {kept}"
    )
    granted = left
    if config.min_percent is not None and left < capacity * config.min_percent // 100:
        granted = capacity * config.min_percent // 100
        terms.append(DecisionTerm("raised to the floor", granted - left, "mCPU"))
        text += f" = {cpu_text(left)}, raised to the floor of {config.min_percent} %"
    return CpuAllowance(granted, Reason("cpu-suppress", f"budget {cpu_text(granted)} CPU = {text}", tuple(terms)))


def best_effort_use_m(state: NodeState) -> int:
    """CPU used by best-effort work, milli-CPU: the common group as a whole, and pods outside it."""
    common = state.best_effort.cpu_m if state.best_effort is not None else None
    used = common or 0
    for entry in state.best_effort_pods:
        inside = state.best_effort_group is not None and is_below(entry.pod.group, state.best_effort_group)
        if common is None or not inside:
            used += entry.use.cpu_m or 0
    return used


def is_below(group: str, root: str) -> bool:
    """Whether a group is `root` or one of its descendants."""
    return not root or group == root or group.startswith(root + "/")


def quota_us(current_us: int, allowed_m: int, capacity_m: int, config: SuppressConfig) -> int:
    """The quota to set for an allowance, microseconds per `config.period_us`; `current_us` -1 = none is set."""
    return next_quota_us(
        current_us, allowed_m, capacity_m, config.period_us, config.floor_us, config.dead_band_ppm, config.growth_ppm
    )


def cpuset(
    allowed_m: int,
    cpus: Sequence[LogicalCpu],
    current: Sequence[int],
    exclusive: Sequence[int],
    lent: Sequence[int],
    config: SuppressConfig,
) -> tuple[int, ...]:
    """The CPUs to set for an allowance, ascending; `current` where too few are available.

    `exclusive`: CPUs that best-effort work never uses; `lent`: CPUs of LSR pods.
    """
    count = next_cpu_count(len(current), allowed_m, len(cpus), config.min_cpus, config.growth_ppm)
    return choice.choose(count, config.min_cpus, cpus, exclusive, lent) or tuple(current)


def exclusive_cpus(state: NodeState) -> tuple[int, ...]:
    """CPUs that best-effort work never runs on: those of LSE pods, and reserved ones."""
    taken = set(state.reserved_cpus)
    for entry in state.pods:
        if entry.pod.qos in (QoSClass.LSE, QoSClass.SYSTEM):
            taken.update(entry.pod.own_cpus)
    return tuple(sorted(taken))


def lent_cpus(state: NodeState) -> tuple[int, ...]:
    """CPUs of LSR pods, which are lent while idle, and of other pods that required some."""
    kept = (QoSClass.LSE, QoSClass.SYSTEM)
    return tuple(sorted({cpu for entry in state.pods if entry.pod.qos not in kept for cpu in entry.pod.own_cpus}))


def recovered_cpus(state: NodeState) -> tuple[int, ...]:
    """The best-effort CPUs while suppression is off: all CPUs except those that others own exclusively."""
    taken = frozenset(exclusive_cpus(state))
    return tuple(sorted(cpu.cpu for cpu in state.cpus if cpu.cpu not in taken))

"""Eviction goals: the triggers, their thresholds, and the amounts to free.

A node runs out of memory, its CPU is nearly all in use, or more was requested than it still has. Koordinator's
triggers. Each has a threshold at which it fires and a lower mark down to which it frees; an `EvictionGoal` has
amounts and the currency in which they count: actual use, or requests.
Limits: whole percents, truncated like upstream. A trigger that is not configured does not fire.

No configuration can select production pods: the priority threshold is at most the upper end of the mid band.

Source: Koordinator, pkg/koordlet/qosmanager/plugins/{cpuevict,memoryevict} (behaviour and defaults).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from cotenant.model.cluster.qos import BANDS, PriorityClass
from cotenant.model.errors import InvalidInput
from cotenant.model.machine.node_decision import DecisionTerm, Reason
from cotenant.model.machine.node_state import NodeState
from cotenant.policy.nodeqos.percentages import check_percent
from cotenant.policy.nodeqos.wording import cpu, seconds, size

PRIORITY_MAX = BANDS[PriorityClass.MID][1]  # 7999: never production
RELEASE_BUFFER_PERCENT = 2  # the lower mark where none is given


class EvictionTrigger(StrEnum):
    """Eviction triggers. The values are those of the annotation `koordinator.sh/eviction-policy`."""

    CPU_SATISFACTION = "BECPUEvict"
    CPU_ALLOCATABLE = "CPUAllocatableEvict"
    CPU_USED = "CPUEvict"
    MEMORY_BEST_EFFORT = "BEMemoryEvict"
    MEMORY_ALLOCATABLE = "MemoryAllocatableEvict"
    MEMORY_USED = "MemoryEvict"
    MEMORY_PRESSURE = "MemoryPressureEvict"  # ours: best effort is stalled on memory

    @property
    def best_effort_only(self) -> bool:
        """Whether only best effort is evicted, all of it eligible; otherwise pods are evicted by priority, if they
        opted in.
        """
        return self in (
            EvictionTrigger.CPU_SATISFACTION,
            EvictionTrigger.MEMORY_BEST_EFFORT,
            EvictionTrigger.MEMORY_PRESSURE,
        )


class Currency(StrEnum):
    """What an amount counts: actual use, or requests against one of the node's pools."""

    USED = "used"
    REQUESTED_BATCH = "batch requests"
    REQUESTED_MID = "mid requests"
    REQUESTED = "requests"


POOL = {
    PriorityClass.BATCH: Currency.REQUESTED_BATCH,
    PriorityClass.FREE: Currency.REQUESTED_BATCH,
    PriorityClass.MID: Currency.REQUESTED_MID,
    PriorityClass.PROD: Currency.REQUESTED,
    PriorityClass.NONE: Currency.REQUESTED,
}


Pools = tuple[tuple[Currency, int], ...]


def cpu_pools(settings: Pools | None, state: NodeState) -> Pools | None:
    """The node's CPU pools, milli-CPU: from the settings, else from its Node object; None = unknown."""
    has = state.allocatable
    if settings is not None or has is None:
        return settings
    return (
        (Currency.REQUESTED_BATCH, has.batch_cpu_m),
        (Currency.REQUESTED_MID, has.mid_cpu_m),
        (Currency.REQUESTED, has.cpu_m),
    )


def memory_pools(settings: Pools | None, state: NodeState) -> Pools | None:
    """The node's memory pools, bytes, as `cpu_pools`."""
    has = state.allocatable
    if settings is not None or has is None:
        return settings
    return (
        (Currency.REQUESTED_BATCH, has.batch_memory_bytes),
        (Currency.REQUESTED_MID, has.mid_memory_bytes),
        (Currency.REQUESTED, has.memory_bytes),
    )


@dataclass(frozen=True, slots=True)
class EvictionGoal:
    """The amounts to free for one trigger; above 0, milli-CPU or bytes."""

    trigger: EvictionTrigger
    amounts: tuple[tuple[Currency, int], ...]
    reason: Reason
    priority_threshold: int = (
        PRIORITY_MAX  # pods up to this priority are eligible; unused by triggers for best effort only
    )


@dataclass(frozen=True, slots=True)
class BestEffortMemoryTrigger:
    """Node memory in use, percent of the total: at `threshold_percent` best effort is evicted until the lower mark is
    reached.

    `InvalidInput` unless 0 <= lower < threshold <= 100.
    """

    threshold_percent: int = 70
    lower_percent: int | None = None  # None = 2 below the threshold

    def __post_init__(self) -> None:
        _check_marks("best effort's memory", self.threshold_percent, self.lower_percent)


@dataclass(frozen=True, slots=True)
class UsedTrigger:
    """CPU or memory in use, percent of the total: at `threshold_percent` pods up to `priority_threshold` are evicted
    down to the lower mark.

    `InvalidInput` unless 0 <= lower < threshold <= 100 and the priority threshold is at most 7999.
    """

    threshold_percent: int
    priority_threshold: int
    lower_percent: int | None = None  # None = 2 below the threshold

    def __post_init__(self) -> None:
        _check_marks("used", self.threshold_percent, self.lower_percent)
        _check_priority(self.priority_threshold)


@dataclass(frozen=True, slots=True)
class AllocatableTrigger:
    """Requests against a pool (batch, mid), percent of its current size: above the threshold pods are evicted down to
    the lower mark.

    `InvalidInput` unless 0 <= lower < threshold and the priority threshold is at most 7999.
    """

    threshold_percent: int
    lower_percent: int
    priority_threshold: int

    def __post_init__(self) -> None:
        check_percent("allocatable threshold", self.threshold_percent, 1)
        check_percent("allocatable lower", self.lower_percent, 0)
        if self.lower_percent >= self.threshold_percent:
            raise InvalidInput(
                "allocatable lower percent", self.lower_percent, f"less than the threshold, {self.threshold_percent}"
            )
        _check_priority(self.priority_threshold)


def lower_mark(threshold_percent: int, lower_percent: int | None) -> int:
    """The mark down to which pods are evicted."""
    return threshold_percent - RELEASE_BUFFER_PERCENT if lower_percent is None else lower_percent


def used_release(threshold_percent: int, lower_percent: int | None, capacity: int, used: int) -> int:
    """The amount of use to free; 0 below the threshold. Same unit as `capacity`, which is above 0."""
    percent = used * 100 // capacity
    if percent < threshold_percent:
        return 0
    return capacity * (percent - lower_mark(threshold_percent, lower_percent)) // 100


def allocatable_release(threshold_percent: int, lower_percent: int, allocatable: int | None, requested: int) -> int:
    """The amount of requests to free; all of them where the pool is empty. 0 up to the threshold."""
    if not allocatable:
        return requested
    if requested * 100 <= threshold_percent * allocatable:
        return 0
    return (requested * 100 - lower_percent * allocatable) // 100


def used_goal(
    trigger: EvictionTrigger, marks: UsedTrigger | BestEffortMemoryTrigger, capacity: int, used: int, unit: str
) -> EvictionGoal | None:
    """The goal for the current use, None below the threshold. `unit`: `mCPU` or `bytes`."""
    amount = used_release(marks.threshold_percent, marks.lower_percent, capacity, used)
    if amount <= 0:
        return None
    percent, lower = used * 100 // capacity, lower_mark(marks.threshold_percent, marks.lower_percent)
    counted = capacity * percent // 100
    write = cpu if unit == "mCPU" else size
    text = (
        f"free {write(amount)} = {write(capacity)} x ({percent} % in use - {lower} %); threshold "
        f"{marks.threshold_percent} %"
    )
    terms = (
        DecisionTerm("in use, whole percents of capacity", counted, unit),
        DecisionTerm("lower mark", amount - counted, unit),
    )
    threshold = marks.priority_threshold if isinstance(marks, UsedTrigger) else PRIORITY_MAX
    return EvictionGoal(trigger, ((Currency.USED, amount),), Reason(f"evict:{trigger}", text, terms), threshold)


def allocatable_goal(
    trigger: EvictionTrigger,
    marks: AllocatableTrigger,
    allocatable: Iterable[tuple[Currency, int]],
    requested: Iterable[tuple[Currency, int]],
    unit: str,
) -> EvictionGoal | None:
    """The goal for requests against pools, None where every pool is within its threshold.

    `requested`: per pool the sum over pods up to the priority threshold. A pool missing in `allocatable` is empty.
    """
    pools = dict(allocatable)
    amounts: list[tuple[Currency, int]] = []
    terms: list[DecisionTerm] = []
    words: list[str] = []
    write = cpu if unit == "mCPU" else size
    for pool, asked in requested:
        has = pools.get(pool, 0)
        amount = allocatable_release(marks.threshold_percent, marks.lower_percent, has, asked)
        if amount > 0:
            amounts.append((pool, amount))
            terms += [
                DecisionTerm(pool, asked, unit),
                DecisionTerm(f"{marks.lower_percent} % of the pool", amount - asked, unit),
            ]
            words.append(f"{write(amount)} of {write(asked)} {pool} over {write(has)}")
    if not amounts:
        return None
    text = f"free {', '.join(words)}; threshold {marks.threshold_percent} %, goal {marks.lower_percent} %"
    return EvictionGoal(
        trigger, tuple(amounts), Reason(f"evict:{trigger}", text, tuple(terms)), marks.priority_threshold
    )


def judge_requests(
    trigger: EvictionTrigger,
    marks: AllocatableTrigger,
    pools: Iterable[tuple[Currency, int]] | None,
    requested: Iterable[tuple[Currency, int]],
    unit: str,
) -> EvictionGoal | Reason:
    """`allocatable_goal`, or the reason why there is none; with unknown pools (None) no pod is evicted."""
    if pools is None:
        return Reason(f"evict:{trigger}", "the node's lendable resources are not known")
    goal = allocatable_goal(trigger, marks, pools, requested, unit)
    return goal or Reason(f"evict:{trigger}", "requests are within the threshold of every pool")


def cooling_down(rule: str, evicted_at_us: int | None, at_us: int, cooldown_us: int) -> Reason | None:
    """Why nothing is evicted so soon after the last eviction; None once the cool-down has passed."""
    if evicted_at_us is None or at_us - evicted_at_us >= cooldown_us:
        return None
    return Reason(rule, f"cooling down for {seconds(cooldown_us - (at_us - evicted_at_us))} after the last eviction")


def _check_marks(field: str, threshold: int, lower: int | None) -> None:
    check_percent(f"{field} threshold", threshold, 0, 100)
    mark = lower_mark(threshold, lower)
    check_percent(f"{field} lower", mark, 0, 100)
    if mark >= threshold:
        raise InvalidInput(f"{field} lower percent", mark, f"less than the threshold, {threshold}")


def _check_priority(priority: object) -> None:
    if isinstance(priority, bool) or not isinstance(priority, int) or priority > PRIORITY_MAX:
        raise InvalidInput(
            "priority threshold", priority, f"an integer, at most {PRIORITY_MAX}", "production pods are never evicted"
        )

"""Evictions for lack of memory: node memory in use, by best effort or by priority, and requests beyond what the node
has left.

Memory in use cannot be taken back without harm, so a node that runs out must evict before the kernel's OOM killer
chooses. Koordinator's three triggers, merged into one list of victims, with a short cool-down after each eviction until
its effect shows (goals.py, victims.py).
Limits: current levels, no averages, since there is no time to wait. Stalls on memory below these marks are handled by
memory_pressure.py.

Source: Koordinator, pkg/koordlet/qosmanager/plugins/memoryevict (behaviour and defaults; its unit error for used memory
is not repeated).
"""

from __future__ import annotations

from dataclasses import dataclass

from cotenant.model.errors import InvalidInput
from cotenant.model.machine.node_decision import EvictPod, Reason
from cotenant.model.machine.node_state import GroupUse, NodeState
from cotenant.model.machine.verdict import PolicyVerdict
from cotenant.policy.nodeqos.eviction.goals import (
    AllocatableTrigger,
    BestEffortMemoryTrigger,
    Currency,
    EvictionGoal,
    EvictionTrigger,
    UsedTrigger,
    cooling_down,
    judge_requests,
    memory_pools,
    used_goal,
)
from cotenant.policy.nodeqos.eviction.leaving import NONE_LEAVING, PATIENCE_US, Leaving
from cotenant.policy.nodeqos.eviction.victims import (
    EvictionCandidate,
    VictimChoice,
    candidate,
    choose,
    not_named,
    requested_by_pool,
    shortfalls,
)
from cotenant.policy.nodeqos.wording import size

RULE = "evict-memory"


@dataclass(frozen=True, slots=True)
class MemoryEvictionConfig:
    """None = the trigger is off."""

    best_effort: BestEffortMemoryTrigger | None = None
    allocatable: AllocatableTrigger | None = None
    used: UsedTrigger | None = None
    pools_bytes: tuple[tuple[Currency, int], ...] | None = None  # the node's allocatable; None = from its Node object
    cooldown_us: int = 4_000_000
    patience_us: int = PATIENCE_US
    strict_order: bool = False  # see victims.py

    def __post_init__(self) -> None:
        for field in ("cooldown_us", "patience_us"):
            if getattr(self, field) < 0:
                raise InvalidInput(f"memory eviction {field}", getattr(self, field), "0 or more microseconds")


@dataclass(frozen=True, slots=True)
class MemoryEvictionMemory:
    """The time of the last eviction, and terminating pods."""

    evicted_at_us: int | None = None
    leaving: Leaving = NONE_LEAVING


def decide(
    state: NodeState, config: MemoryEvictionConfig, memory: MemoryEvictionMemory
) -> tuple[PolicyVerdict, MemoryEvictionMemory]:
    """The pods to evict for lack of memory, or why there are none."""
    memory = MemoryEvictionMemory(memory.evicted_at_us, memory.leaving.seen(state))
    if config.best_effort is None and config.allocatable is None and config.used is None:
        return PolicyVerdict((Reason(RULE, "no trigger is configured"),)), memory
    if (wait := cooling_down(RULE, memory.evicted_at_us, state.at_us, config.cooldown_us)) is not None:
        return PolicyVerdict((wait,)), memory
    candidates = [
        one
        for entry in state.pods
        if (one := candidate(entry.pod, entry.pod.memory_request_bytes, used_bytes(entry.use))) is not None
    ]
    goals, quiet = _goals(state, config, candidates)
    overdue = memory.leaving.overdue(state.at_us, config.patience_us)
    choice = choose(goals, candidates, config.strict_order, overdue)
    if choice.victims:
        memory = MemoryEvictionMemory(state.at_us, memory.leaving)
    return _verdict(goals, choice, [*quiet, *not_named(RULE, state.pods)]), memory


def used_bytes(use: GroupUse) -> int | None:
    """Memory that evicting the group frees: its working set, or its charged memory where only that is known."""
    return use.working_set_bytes if use.working_set_bytes is not None else use.memory_bytes


def _goals(
    state: NodeState, config: MemoryEvictionConfig, candidates: list[EvictionCandidate]
) -> tuple[list[EvictionGoal], list[Reason]]:
    goals: list[EvictionGoal] = []
    quiet: list[Reason] = []
    total, used = state.host.memory_total_bytes, state.host.memory_used_bytes
    measured = total > 0

    def by_use(trigger: EvictionTrigger, marks: UsedTrigger | BestEffortMemoryTrigger) -> None:
        goal = used_goal(trigger, marks, total, used, "bytes") if measured else None
        if goal is not None:
            goals.append(goal)
        elif measured:
            text = f"{size(used)} of {size(total)} in use, below {marks.threshold_percent} %"
            quiet.append(Reason(f"evict:{trigger}", text))
        else:
            quiet.append(Reason(f"evict:{trigger}", "the node's memory is not known"))

    if config.best_effort is not None:
        by_use(EvictionTrigger.MEMORY_BEST_EFFORT, config.best_effort)
    if config.allocatable is not None:
        pools = memory_pools(config.pools_bytes, state)
        asked = requested_by_pool(candidates, config.allocatable.priority_threshold)
        judged = judge_requests(EvictionTrigger.MEMORY_ALLOCATABLE, config.allocatable, pools, asked, "bytes")
        if isinstance(judged, EvictionGoal):
            goals.append(judged)
        else:
            quiet.append(judged)
    if config.used is not None:
        by_use(EvictionTrigger.MEMORY_USED, config.used)
    return goals, quiet


def _verdict(goals: list[EvictionGoal], choice: VictimChoice, quiet: list[Reason]) -> PolicyVerdict:
    reasons = [*(goal.reason for goal in goals), *quiet, *shortfalls(choice, "bytes")]
    evictions = tuple(
        EvictPod(one.uid, one.key, goal.reason, frees_memory_bytes=one.frees(Currency.USED))
        for one, goal in choice.victims
    )
    return PolicyVerdict(tuple(reasons), evictions=evictions)

"""Evictions for lack of CPU: best effort gets too little, requests exceed what the node has left, or the node's use
exceeds its threshold.

CPU can be taken back without eviction, so eviction is the last resort and must be based on a period, not on an instant.
Averages over a window of which a third must be covered by samples, a cool-down after every eviction, and the triggers'
goals merged into one list of victims (goals.py, satisfaction.py, victims.py).
Limits: a trigger acts only where it is configured; by default none is, as Koordinator ships them. The number of samples
is bounded.

Source: Koordinator, pkg/koordlet/qosmanager/plugins/cpuevict (behaviour and defaults).
"""

from __future__ import annotations

from dataclasses import dataclass

from cotenant.model.cpus.cpulist import parse_cpus
from cotenant.model.errors import InvalidInput
from cotenant.model.machine.knob import Knob, KnobTarget
from cotenant.model.machine.knob_values import parse_cpu_max
from cotenant.model.machine.node_decision import DecisionTerm, EvictPod, Reason
from cotenant.model.machine.node_pod import NodePodPhase
from cotenant.model.machine.node_state import NodeState
from cotenant.model.machine.verdict import PolicyVerdict
from cotenant.policy.nodeqos.eviction import satisfaction
from cotenant.policy.nodeqos.eviction.goals import (
    PRIORITY_MAX,
    AllocatableTrigger,
    Currency,
    EvictionGoal,
    EvictionTrigger,
    UsedTrigger,
    cooling_down,
    cpu_pools,
    judge_requests,
    used_goal,
)
from cotenant.policy.nodeqos.eviction.leaving import NONE_LEAVING, PATIENCE_US, Leaving
from cotenant.policy.nodeqos.eviction.satisfaction import Satisfaction, SatisfactionOf, SatisfactionTrigger
from cotenant.policy.nodeqos.eviction.victims import (
    EvictionCandidate,
    VictimChoice,
    candidate,
    choose,
    not_named,
    requested_by_pool,
    shortfalls,
)
from cotenant.policy.nodeqos.wording import cpu, seconds

RULE = "evict-cpu"
_SAMPLES_MAX = 600


@dataclass(frozen=True, slots=True)
class CpuEvictionConfig:
    """None = the trigger is off."""

    satisfaction: SatisfactionTrigger | None = None
    allocatable: AllocatableTrigger | None = None
    used: UsedTrigger | None = None
    pools_cpu_m: tuple[tuple[Currency, int], ...] | None = None  # the node's allocatable; None = from its Node object
    window_us: int = 60_000_000
    cooldown_us: int = 20_000_000
    patience_us: int = PATIENCE_US
    strict_order: bool = False  # see victims.py

    def __post_init__(self) -> None:
        for field in ("window_us", "cooldown_us", "patience_us"):
            if getattr(self, field) < 0:
                raise InvalidInput(f"CPU eviction {field}", getattr(self, field), "0 or more microseconds")


@dataclass(frozen=True, slots=True)
class CpuSample:
    """CPU at one tick, milli-CPU; None = unknown."""

    at_us: int
    period_us: int
    node_used_m: int | None
    best_effort: Satisfaction | None


@dataclass(frozen=True, slots=True)
class CpuEvictionMemory:
    """The window's samples, oldest first, and the last decision to evict."""

    samples: tuple[CpuSample, ...] = ()
    evicted_at_us: int | None = None
    leaving: Leaving = NONE_LEAVING


def decide(
    state: NodeState, config: CpuEvictionConfig, memory: CpuEvictionMemory
) -> tuple[PolicyVerdict, CpuEvictionMemory]:
    """The pods to evict for lack of CPU, or why there are none."""
    sample = _sample(state, config)
    since = state.at_us - config.window_us
    kept = tuple(old for old in memory.samples if since < old.at_us < state.at_us)
    # With alarms the sample is the last one, which is already in the window.
    memory = CpuEvictionMemory(
        (kept if sample is None or state.alarms else (*kept, sample))[-_SAMPLES_MAX:],
        memory.evicted_at_us,
        memory.leaving.seen(state),
    )
    if config.satisfaction is None and config.allocatable is None and config.used is None:
        return PolicyVerdict((Reason(RULE, "no trigger is configured"),)), memory
    if (wait := cooling_down(RULE, memory.evicted_at_us, state.at_us, config.cooldown_us)) is not None:
        return PolicyVerdict((wait,)), memory
    candidates = [
        one
        for entry in state.pods
        if (one := candidate(entry.pod, entry.pod.cpu_request_m, entry.use.cpu_m)) is not None
    ]
    goals, quiet = _goals(state, config, memory, candidates, sample)
    overdue = memory.leaving.overdue(state.at_us, config.patience_us)
    choice = choose(goals, candidates, config.strict_order, overdue)
    if choice.victims:
        memory = CpuEvictionMemory(memory.samples, state.at_us, memory.leaving)
    return _verdict(goals, choice, [*quiet, *not_named(RULE, state.pods)]), memory


def reads(state: NodeState) -> tuple[KnobTarget, ...]:
    """The knobs that `decide` reads."""
    group = state.best_effort_group
    return () if group is None else (KnobTarget(group, Knob.CPU_MAX), KnobTarget(group, Knob.CPUSET_CPUS))


def best_effort_limit(state: NodeState) -> int | None:
    """Milli-CPU that quota and cpuset allow best effort; the whole node where neither limits it. None without its
    group.
    """
    if state.best_effort_group is None:
        return None
    limit = state.host.capacity_cpu_m
    quota = state.knobs.get(KnobTarget(state.best_effort_group, Knob.CPU_MAX))
    if quota is not None and (quota_m := parse_cpu_max(quota).cpu_m) is not None:
        limit = min(limit, quota_m)
    cpus = state.knobs.get(KnobTarget(state.best_effort_group, Knob.CPUSET_CPUS))
    if cpus:
        limit = min(limit, 1000 * len(parse_cpus(cpus)))
    return limit


def _sample(state: NodeState, config: CpuEvictionConfig) -> CpuSample | None:
    """The node's sample; None before the second reading."""
    if state.interval_us <= 0:
        return None
    pods = [entry for entry in state.best_effort_pods if entry.pod.phase is not NodePodPhase.OVER]
    used = state.best_effort.cpu_m if state.best_effort is not None else None
    if used is None and all(entry.use.cpu_m is not None for entry in pods):
        used = sum(entry.use.cpu_m or 0 for entry in pods)
    if config.satisfaction is not None and config.satisfaction.measured_against is SatisfactionOf.ALLOCATABLE:
        pools = cpu_pools(config.pools_cpu_m, state)
        limit = None if pools is None else dict(pools).get(Currency.REQUESTED_BATCH, 0)
    else:
        limit = best_effort_limit(state)
    seen = None
    if used is not None and limit is not None:
        # A pod that is not named may be of another class: its request is none that best effort is owed.
        seen = Satisfaction(used, sum(entry.pod.cpu_request_m for entry in pods if entry.pod.is_named), limit)
    return CpuSample(state.at_us, state.interval_us, state.host.cpu_m, seen)


def _goals(
    state: NodeState,
    config: CpuEvictionConfig,
    memory: CpuEvictionMemory,
    candidates: list[EvictionCandidate],
    latest: CpuSample | None,
) -> tuple[list[EvictionGoal], list[Reason]]:
    goals: list[EvictionGoal] = []
    quiet: list[Reason] = []
    if config.satisfaction is not None:
        goal, why = _satisfaction_goal(config.satisfaction, config.window_us, memory, latest)
        goals += [goal] if goal is not None else []
        quiet += [Reason(f"evict:{EvictionTrigger.CPU_SATISFACTION}", why)] if goal is None else []
    if config.allocatable is not None:
        pools = cpu_pools(config.pools_cpu_m, state)
        asked = requested_by_pool(candidates, config.allocatable.priority_threshold)
        judged = judge_requests(EvictionTrigger.CPU_ALLOCATABLE, config.allocatable, pools, asked, "mCPU")
        if isinstance(judged, EvictionGoal):
            goals.append(judged)
        else:
            quiet.append(judged)
    if config.used is not None:
        rule = f"evict:{EvictionTrigger.CPU_USED}"
        known = [sample for sample in memory.samples if sample.node_used_m is not None]
        period = max((sample.period_us for sample in known), default=0)
        if not known or not satisfaction.trusted(len(known), config.window_us, period):
            quiet.append(Reason(rule, f"{len(known)} samples are too few for a window of {seconds(config.window_us)}"))
        else:
            mean = sum(sample.node_used_m or 0 for sample in known) // len(known)
            goal = used_goal(EvictionTrigger.CPU_USED, config.used, state.host.capacity_cpu_m, mean, "mCPU")
            goals += [goal] if goal is not None else []
            if goal is None:
                quiet.append(Reason(rule, f"{cpu(mean)} in use on average, below {config.used.threshold_percent} %"))
    return goals, quiet


def _satisfaction_goal(
    trigger: SatisfactionTrigger, window_us: int, memory: CpuEvictionMemory, latest: CpuSample | None
) -> tuple[EvictionGoal | None, str]:
    known = [(sample.period_us, sample.best_effort) for sample in memory.samples if sample.best_effort is not None]
    if not known or not satisfaction.trusted(len(known), window_us, max(period for period, _ in known)):
        return None, f"{len(known)} samples are too few for a window of {seconds(window_us)}"
    seen = [one for _, one in known]
    mean = Satisfaction(
        sum(one.used_cpu_m for one in seen) // len(seen),
        sum(one.request_cpu_m for one in seen) // len(seen),
        sum(one.limit_cpu_m for one in seen) // len(seen),
    )
    answer = satisfaction.release(trigger, mean, latest.best_effort if latest is not None else None)
    if answer.cpu_m <= 0:
        return None, answer.text
    amounts = ((Currency.REQUESTED_BATCH, answer.cpu_m),)
    terms = (DecisionTerm("requests to leave", answer.cpu_m, "mCPU"),)
    text = f"free {cpu(answer.cpu_m)} of requests: {answer.text}"
    return EvictionGoal(
        EvictionTrigger.CPU_SATISFACTION,
        amounts,
        Reason(f"evict:{EvictionTrigger.CPU_SATISFACTION}", text, terms),
        PRIORITY_MAX,
    ), ""


def _verdict(goals: list[EvictionGoal], choice: VictimChoice, quiet: list[Reason]) -> PolicyVerdict:
    reasons = [*(goal.reason for goal in goals), *quiet, *shortfalls(choice, "mCPU")]
    evictions = tuple(
        EvictPod(one.uid, one.key, goal.reason, frees_cpu_m=one.frees(goal.amounts[0][0]) or one.frees(Currency.USED))
        for one, goal in choice.victims
    )
    return PolicyVerdict(tuple(reasons), evictions=evictions)

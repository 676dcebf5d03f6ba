"""CPU burst: services may exceed their CPU limit for a while, and limits are scaled to the machine's speed.

A limit throttles a service at every short peak although its mean use is low and CPUs are idle. Unused quota may be kept
for the next peak (`cpu.max.burst`), and the quota of a throttled container is raised by a fifth per step, up to a
multiple of its limit, as long as its tokens last and the shared CPUs are not busy; then it is lowered by a fifth per
step.
Limits: the kernel accepts no burst above the quota (sched/core.c, tg_set_cfs_bandwidth), so the desired burst is capped
to it; a pod's quota follows its containers' where it has one. The policy returns values for parent and child; the order
of writing is the engine's.

Source: Koordinator, koordlet's CPU burst. Pods with own CPUs and best-effort pods are excluded; for best-effort pods
only the limit is scaled.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from cotenant.model.cluster.labels import QOS_CLASS
from cotenant.model.cluster.qos import QoSClass
from cotenant.model.errors import InvalidInput
from cotenant.model.machine.knob import Knob, KnobTarget, SetKnob
from cotenant.model.machine.knob_values import CpuMax, parse_cpu_max
from cotenant.model.machine.node_decision import DecisionTerm, Reason
from cotenant.model.machine.node_pod import NodeContainer, NodePod, NodePodPhase
from cotenant.model.machine.node_state import GroupUse, NodeState, PodUse
from cotenant.model.machine.verdict import PolicyVerdict
from cotenant.policy.nodeqos.amounts import cpu_text
from cotenant.policy.nodeqos.burst.config import ANNOTATION, BurstConfig, BurstPolicy, merged, read_annotation
from cotenant.policy.nodeqos.burst.normalise import REFERENCE_MILLI, scaled_quota_us
from cotenant.policy.nodeqos.burst.throttle_tokens import capacity_of, first, step
from cotenant.policy.nodeqos.cpu.allowance import UNLIMITED_US

COOLING_FROM_PCT = 90  # of the threshold
POOL_INTERVALS = 5  # averaged
POOL_US = 10_000_000  # ... over at most this


class CpuPoolState(StrEnum):
    """Load of the CPUs that services share."""

    IDLE = "idle"
    COOLING = "cooling"  # no quota is raised
    OVERLOAD = "overload"  # all quotas are lowered
    UNKNOWN = "unknown"


class QuotaStep(StrEnum):
    """Change of a container's quota."""

    UP = "up"
    DOWN = "down"
    STAY = "stay"
    RESET = "reset"  # back to the limit in one step


@dataclass(frozen=True, slots=True)
class Bucket:
    """One container's tokens, in thousandths."""

    key: str
    capacity: int
    tokens: int
    at_us: int


@dataclass(frozen=True, slots=True)
class BurstMemory:
    """Tokens of the current containers, the last desired quotas, and recent use of the shared CPUs."""

    buckets: tuple[Bucket, ...] = ()
    wanted: tuple[SetKnob, ...] = ()
    pool: tuple[tuple[int, int], ...] = ()  # interval in us, use in milli-CPU


@dataclass(frozen=True, slots=True)
class ContainerPlan:
    """The desired values of a container. `UNLIMITED_US` = no limit: it is left alone."""

    container: NodeContainer
    base_us: int  # its limit, scaled to the machine's speed
    quota_us: int
    burst_us: int  # as configured, before the kernel's cap
    move: QuotaStep
    bucket: Bucket | None = None


@dataclass(frozen=True, slots=True)
class PodPlan:
    """The desired values of a pod; quota `UNLIMITED_US` = none is set, and none will be."""

    pod: NodePod
    quota_us: int
    base_us: int
    burst_us: int
    containers: tuple[ContainerPlan, ...]
    why: str


def decide(state: NodeState, config: BurstConfig, memory: BurstMemory) -> tuple[PolicyVerdict, BurstMemory]:
    """Quotas and bursts that differ from the limits; all other knobs are restored."""
    pool, used = shared_use(state, config, memory)
    plans = [plan(entry, state, config, memory, pool) for entry in state.pods if _applies_to(entry, config)]
    wanted = [knob for pod_plan in plans for knob in _desired(pod_plan, state, config, pool)]
    reasons = [Reason("cpu-burst", f"load of the shared CPUs: {pool}")] if config.policy is not BurstPolicy.NONE else []
    reasons += [Reason("cpu-burst", f"{pod_plan.pod.key}: {pod_plan.why}") for pod_plan in plans if pod_plan.why]
    if not wanted:
        reasons.append(Reason("cpu-burst", "no quota differs from its limit"))
    buckets = tuple(part.bucket for pod_plan in plans for part in pod_plan.containers if part.bucket is not None)
    return PolicyVerdict(tuple(reasons), tuple(wanted)), BurstMemory(buckets, tuple(wanted), used)


def reads(state: NodeState) -> tuple[KnobTarget, ...]:
    """The knobs that `decide` reads: quotas of limited containers and of their pods."""
    groups: set[str] = set()
    for entry in state.pods:
        limited = [container.group for container in entry.pod.containers if container.cpu_limit_m > 0]
        groups.update(limited)
        if limited:
            groups.add(entry.pod.group)
    supported = Knob.CPU_MAX in state.supported
    return tuple(KnobTarget(group, Knob.CPU_MAX) for group in sorted(groups) if group) if supported else ()


def pool_state(total_m: int, used_m: int | None, threshold_percent: int) -> CpuPoolState:
    """Load of the shared CPUs; a pool without CPUs counts as overloaded."""
    if used_m is None:
        return CpuPoolState.UNKNOWN
    if total_m <= 0:
        return CpuPoolState.OVERLOAD
    # used / total against threshold and 0.9 x threshold, in ten-thousandths, without division
    if used_m * 10_000 >= threshold_percent * 100 * total_m:
        return CpuPoolState.OVERLOAD
    return (
        CpuPoolState.COOLING if used_m * 10_000 >= threshold_percent * COOLING_FROM_PCT * total_m else CpuPoolState.IDLE
    )


def shared_use(
    state: NodeState, config: BurstConfig, memory: BurstMemory
) -> tuple[CpuPoolState, tuple[tuple[int, int], ...]]:
    """Load of the shared CPUs over the last intervals, and the intervals to remember.

    Shared CPUs are those not requested by LSE or LSR pods; use of the system is included, use of best-effort pods is
    not.
    """
    total_m, used_m = state.host.capacity_cpu_m, state.host.cpu_m
    if total_m <= 0:  # the machine's CPUs are not known
        return CpuPoolState.UNKNOWN, memory.pool
    for entry in state.pods:
        if _pinned(entry.pod):
            total_m -= entry.pod.cpu_request_m
        if used_m is not None and (_pinned(entry.pod) or entry.pod.best_effort):
            used_m -= entry.use.cpu_m or 0
    if used_m is None:
        return CpuPoolState.UNKNOWN, memory.pool
    recent = (*memory.pool, (max(1, state.interval_us), used_m))[-POOL_INTERVALS:]
    while len(recent) > 1 and sum(interval for interval, _ in recent) > POOL_US:
        recent = recent[1:]
    mean_m = sum(interval * used for interval, used in recent) // sum(interval for interval, _ in recent)
    return pool_state(total_m, mean_m, config.pool_threshold_percent), recent


def static_burst_us(limit_m: int, config: BurstConfig) -> int:
    """Unused quota that a container with this limit may keep, microseconds; 0 without a limit or where the policy
    does not allow it.
    """
    if config.policy not in (BurstPolicy.STATIC, BurstPolicy.AUTO):
        return 0
    return limit_m * config.burst_percent * config.period_us // 100_000


def plan(entry: PodUse, state: NodeState, node: BurstConfig, memory: BurstMemory, pool: CpuPoolState) -> PodPlan:
    """The desired values of one pod and its containers."""
    why = ""
    config = node
    try:
        config = merged(node, read_annotation(entry.pod.annotations.get(ANNOTATION)))
    except InvalidInput as error:
        why = f"annotation ignored: {error}"
    uses = (
        entry.containers if len(entry.containers) == len(entry.pod.containers) else (None,) * len(entry.pod.containers)
    )
    parts = tuple(
        _container(entry.pod, container, use, state, config, memory, pool)
        for container, use in zip(entry.pod.containers, uses, strict=True)
    )
    current = _current_us(entry.pod.group, state, memory, config.period_us)
    limited = [part for part in parts if part.base_us != UNLIMITED_US]
    base = sum(part.base_us for part in limited) if len(limited) == len(parts) else UNLIMITED_US
    quota = UNLIMITED_US
    if current is not None and current != UNLIMITED_US:
        # With every container limited the kubelet keeps a pod's quota at their sum; otherwise the current quota moves
        # by the same amount.
        moved = sum(part.quota_us - _before(part, state, memory, config) for part in limited)
        quota = sum(part.quota_us for part in limited) if base != UNLIMITED_US else max(1000, current + moved)
    return PodPlan(entry.pod, quota, base, sum(part.burst_us for part in parts), parts, why)


def _container(
    pod: NodePod,
    container: NodeContainer,
    use: GroupUse | None,
    state: NodeState,
    config: BurstConfig,
    memory: BurstMemory,
    pool: CpuPoolState,
) -> ContainerPlan:
    if container.cpu_limit_m <= 0 or not container.group:
        return ContainerPlan(container, UNLIMITED_US, UNLIMITED_US, 0, QuotaStep.STAY)
    base_us = max(1000, scaled_quota_us(container.cpu_limit_m * config.period_us // 1000, config.ratio_milli))
    if pod.best_effort:
        return ContainerPlan(container, base_us, base_us, 0, QuotaStep.RESET)
    bucket, allowed = _tokens(pod, container, use, state, config, memory)
    move = _move(use, allowed, config, pool)
    current_us = _current_us(container.group, state, memory, config.period_us)
    return ContainerPlan(
        container,
        base_us,
        next_quota_us(base_us, base_us if current_us is None else current_us, move, config.quota_burst_percent),
        static_burst_us(container.cpu_limit_m, config),
        move,
        bucket,
    )


def next_quota_us(base_us: int, current_us: int, move: QuotaStep, highest_pct: int) -> int:
    """A container's quota after one step, between its limit and the configured maximum."""
    target = {
        QuotaStep.UP: current_us * 12 // 10,
        QuotaStep.DOWN: current_us * 8 // 10,
        QuotaStep.STAY: current_us,
        QuotaStep.RESET: base_us,
    }
    highest_us = base_us * max(100, highest_pct) // 100
    return max(base_us, min(target[move], highest_us))


def _move(use: GroupUse | None, allowed: bool, config: BurstConfig, pool: CpuPoolState) -> QuotaStep:
    if config.policy not in (BurstPolicy.QUOTA, BurstPolicy.AUTO):
        return QuotaStep.RESET
    if not allowed:
        return QuotaStep.DOWN
    move = QuotaStep.UP if use is not None and (use.throttled_ppm or 0) > 0 else QuotaStep.STAY
    if pool is CpuPoolState.OVERLOAD:
        return QuotaStep.DOWN
    if pool is not CpuPoolState.IDLE and move is QuotaStep.UP:
        return QuotaStep.STAY
    return move


def _tokens(
    pod: NodePod,
    container: NodeContainer,
    use: GroupUse | None,
    state: NodeState,
    config: BurstConfig,
    memory: BurstMemory,
) -> tuple[Bucket | None, bool]:
    """The container's bucket after this interval, and whether it may run above its limit. Unknown use counts as
    exactly the limit.
    """
    if config.quota_burst_period_s < 0:
        return None, True
    if config.quota_burst_percent < 100:
        return None, False
    key = f"{pod.uid}/{container.name}/{container.container_id}"
    capacity = capacity_of(config.quota_burst_period_s, config.quota_burst_percent)
    bucket = next((entry for entry in memory.buckets if entry.key == key and entry.capacity == capacity), None)
    if bucket is None:
        bucket = Bucket(key, capacity, first(capacity, key), state.at_us)
    used_m = use.cpu_m if use is not None and use.cpu_m is not None else container.cpu_limit_m
    elapsed_ms = max(0, state.at_us - bucket.at_us) // 1000
    tokens = step(bucket.tokens, capacity, used_m * 100 // container.cpu_limit_m, elapsed_ms)
    return Bucket(key, capacity, tokens, state.at_us), tokens > 0


def _applies_to(entry: PodUse, config: BurstConfig) -> bool:
    if entry.pod.phase is NodePodPhase.OVER or _pinned(entry.pod):
        return False
    if entry.pod.annotations.get(ANNOTATION) is None and not any(
        container.cpu_limit_m > 0 for container in entry.pod.containers
    ):
        return False  # nothing to raise
    return not entry.pod.best_effort or config.ratio_milli > REFERENCE_MILLI


def _pinned(pod: NodePod) -> bool:
    """Whether a pod has own CPUs. A Guaranteed pod is LSR by default but shares CPUs unless it is labelled LSR or
    owns some.
    """
    if pod.qos is QoSClass.LSE:
        return True
    return pod.qos is QoSClass.LSR and (bool(pod.own_cpus) or pod.labels.get(QOS_CLASS) == QoSClass.LSR.value)


def _current_us(group: str, state: NodeState, memory: BurstMemory, period_us: int) -> int | None:
    """The current quota, as read or as last desired, in `period_us`; None = unknown."""
    target = KnobTarget(group, Knob.CPU_MAX)
    text = state.knobs.get(target) or next((knob.value for knob in memory.wanted if knob.target == target), None)
    if text is None:
        return None
    standing = parse_cpu_max(text)
    return UNLIMITED_US if standing.quota_us is None else standing.quota_us * period_us // standing.period_us


def _before(part: ContainerPlan, state: NodeState, memory: BurstMemory, config: BurstConfig) -> int:
    current = _current_us(part.container.group, state, memory, config.period_us)
    return part.base_us if current is None or current == UNLIMITED_US else current


def _desired(pod_plan: PodPlan, state: NodeState, config: BurstConfig, pool: CpuPoolState) -> list[SetKnob]:
    desired: list[SetKnob] = []
    bounded_us = 0
    for part in pod_plan.containers:
        if part.base_us == UNLIMITED_US:
            continue
        unscaled_us = max(1000, part.container.cpu_limit_m * config.period_us // 1000)
        if part.quota_us != unscaled_us:
            reason = _reason(pod_plan.pod, part, unscaled_us, config, pool)
            desired += _quota(part.container.group, part.quota_us, config, state, reason)
        burst_us = min(part.burst_us, part.quota_us)
        bounded_us += burst_us
        desired += _burst(part.container.group, burst_us, part.burst_us, pod_plan.pod, state)
    if pod_plan.quota_us != UNLIMITED_US:
        changed = any(knob.target.knob is Knob.CPU_MAX for knob in desired)
        if changed:
            text = f"{pod_plan.pod.key}: the pod's quota follows its containers'"
            terms = tuple(
                DecisionTerm(p.container.name, p.quota_us, "us")
                for p in pod_plan.containers
                if p.base_us != UNLIMITED_US
            )
            desired = (
                _quota(pod_plan.pod.group, pod_plan.quota_us, config, state, Reason("cpu-burst", text, terms)) + desired
            )
        desired += _burst(
            pod_plan.pod.group, min(bounded_us, pod_plan.quota_us), pod_plan.burst_us, pod_plan.pod, state
        )
    return desired


def _quota(group: str, quota_us: int, config: BurstConfig, state: NodeState, reason: Reason) -> list[SetKnob]:
    if Knob.CPU_MAX not in state.supported or not group:
        return []
    return [SetKnob(KnobTarget(group, Knob.CPU_MAX), str(CpuMax(quota_us, config.period_us)), reason)]


def _burst(group: str, burst_us: int, asked_us: int, pod: NodePod, state: NodeState) -> list[SetKnob]:
    if burst_us <= 0 or Knob.CPU_BURST not in state.supported or not group:
        return []
    text = f"{pod.key}: may keep {burst_us} us of unused quota"
    if burst_us < asked_us:
        text += f" of the requested {asked_us} us: the kernel allows at most the quota"
    return [SetKnob(KnobTarget(group, Knob.CPU_BURST), str(burst_us), Reason("cpu-burst", text))]


def _reason(pod: NodePod, part: ContainerPlan, unscaled_us: int, config: BurstConfig, pool: CpuPoolState) -> Reason:
    quota_m = part.quota_us * 1000 // config.period_us
    terms = [DecisionTerm("limit", unscaled_us, "us")]
    notes = []
    if part.base_us != unscaled_us:
        terms.append(DecisionTerm("machine's speed", part.base_us - unscaled_us, "us"))
        notes.append(f"this machine is {cpu_text(config.ratio_milli)} x the reference")
    if part.quota_us != part.base_us:
        terms.append(DecisionTerm("burst", part.quota_us - part.base_us, "us"))
        notes.append(f"step {part.move}, load of the shared CPUs: {pool}")
    text = (
        f"{pod.key} {part.container.name}: quota {cpu_text(quota_m)} CPU for a limit of "
        f"{cpu_text(part.container.cpu_limit_m)}"
    )
    return Reason("cpu-burst", f"{text}: {'; '.join(notes)}", tuple(terms))

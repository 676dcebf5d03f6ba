"""CPU of best-effort work and the knobs that enforce it: allowance and guard, idle class, cpuset or quota.

Several rules limit the same work; on a kubelet's node it is in one group, elsewhere in many, and some machines lack
knobs. The budget is the smaller of allowance and ceiling. It is set as a quota or a cpuset on the common group, or
divided among the pods' groups where there is none; where a cpuset is too coarse for the guard, a quota is set besides.
Best-effort groups are in the idle class while there are pods to protect: the idle class and a quota shorten the wake-up
latency of services, weights do not.
Limits: the cpuset of descendants with their own CPU lists is set on the groups that `NodeState.knobs` shows with a list
(cgroup v1), parents before children; the order of writing is up to the engine.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from cotenant.model.cluster.qos import KubernetesQoS
from cotenant.model.cpus.cpulist import format_cpus, parse_cpus
from cotenant.model.kubelet.groups import Level, kind_of
from cotenant.model.kubelet.ruling import ruling
from cotenant.model.machine.knob import Knob, KnobTarget, SetKnob
from cotenant.model.machine.knob_values import CpuMax, parse_cpu_max
from cotenant.model.machine.node_decision import DecisionTerm, Reason
from cotenant.model.machine.node_pod import NodePod, NodePodPhase
from cotenant.model.machine.node_state import Alarm, NodeState, PodUse
from cotenant.model.machine.verdict import PolicyVerdict
from cotenant.policy.nodeqos.amounts import cpu_text
from cotenant.policy.nodeqos.cpu import startup_grace
from cotenant.policy.nodeqos.cpu.allowance import UNLIMITED_US
from cotenant.policy.nodeqos.cpu.division import GroupShare, divide
from cotenant.policy.nodeqos.cpu.suppression import (
    SuppressConfig,
    SuppressionForm,
    allowance,
    cpuset,
    exclusive_cpus,
    is_below,
    lent_cpus,
    quota_us,
    recovered_cpus,
)
from cotenant.policy.nodeqos.guard.config import GuardConfig
from cotenant.policy.nodeqos.guard.policy import Ceiling, GuardMemory, judge
from cotenant.policy.nodeqos.guard.track import GuardMode

MIN_QUOTA_US = 1000  # the kernel's minimum
_IDLE = Reason("idle-class", "best-effort work runs only when no service needs the CPU")


@dataclass(frozen=True, slots=True)
class BestEffortCpuConfig:
    """The two rules, and whether best-effort groups are put into the idle class."""

    suppress: SuppressConfig = field(default_factory=SuppressConfig)
    guard: GuardConfig = field(default_factory=GuardConfig)
    idle: bool = True
    grace: startup_grace.StartupGraceConfig = field(default_factory=startup_grace.StartupGraceConfig)


@dataclass(frozen=True, slots=True)
class BestEffortCpuMemory:
    """The guard's state, and the last desired values: used when a knob was not read, or an interval cannot be
    evaluated.
    """

    guard: GuardMemory = field(default_factory=GuardMemory)
    wanted: tuple[SetKnob, ...] = ()  # without the grace of starting pods
    grace: startup_grace.StartupGraceMemory = field(default_factory=startup_grace.StartupGraceMemory)
    binding: Reason | None = None  # what a quota in `wanted` comes from: the guard's reason, or the allowance's
    binding_us: int = 0  # since when that rule is the one that binds


@dataclass(frozen=True, slots=True)
class LimitHolder:
    """A group whose limits apply to best-effort work."""

    group: str
    share: GroupShare


def decide(
    state: NodeState, config: BestEffortCpuConfig, memory: BestEffortCpuMemory
) -> tuple[PolicyVerdict, BestEffortCpuMemory]:
    """The desired values for best-effort groups; alarms in the state cut the budget at once."""
    state = startup_grace.lowered(state, memory.grace)
    held = holders(state)
    idle = {knob.target.group: knob for knob in memory.wanted if knob.target.knob is Knob.CPU_IDLE}
    ceiling, guard = judge(
        state, config.guard, memory.guard, bool(held) and all(_yields(entry, idle) for entry in held)
    )
    reasons = [ceiling.reason]
    wanted: list[SetKnob] = []
    binding: Reason | None = None
    if not held:
        reasons.append(Reason("best-effort-cpu", "no best-effort work on this node"))
    else:
        wanted += _idle(held, ceiling, state, config, idle)
        granted = allowance(state, config.suppress) if config.suppress.enabled else None
        if config.suppress.enabled and granted is None:
            reasons.append(Reason("best-effort-cpu", "node use is not known yet: the current limits are kept"))
            groups = {holder.group for holder in held}.union(_below(state))
            wanted += [
                knob for knob in memory.wanted if knob.target.knob is not Knob.CPU_IDLE and knob.target.group in groups
            ]
            binding = memory.binding
        else:
            budget = _budget(granted.cpu_m, granted.reason, ceiling) if granted else _ceiling_only(ceiling, state)
            if granted:
                reasons.append(granted.reason)
            limits, binding = _limits(budget, held, state, config, memory, granted is not None, ceiling)
            reasons.append(limits[0].reason if limits else budget.without_limits(state))
            wanted += limits
    reasons += _by_label_only(state)
    is_cut = ceiling.mode in (GuardMode.CUT, GuardMode.DISABLED)
    final, graces, grace = startup_grace.raised(tuple(wanted), state, config.grace, memory.grace, is_cut)
    is_same = binding is not None and memory.binding is not None and binding.rule == memory.binding.rule
    since_us = memory.binding_us if is_same else state.at_us
    after = BestEffortCpuMemory(guard, tuple(wanted), grace, binding, since_us)
    return PolicyVerdict((*reasons, *graces), final), after


def _by_label_only(state: NodeState) -> Iterator[Reason]:
    """Why pods that call themselves services are limited with best-effort work."""
    found = [entry.pod.key for entry in state.pods if entry.is_unconfirmed]
    if found:
        more = f" and {len(found) - 1} others" if len(found) > 1 else ""
        text = (
            f"{found[0]}{more}: a service by its label only, which its owner writes, and it requests nothing: limited "
            "with best-effort work until its priority class (koord-prod) or a ServiceObjective confirms it"
        )
        yield Reason("label-only", text)


def pressed(
    state: NodeState, config: BestEffortCpuConfig, memory: BestEffortCpuMemory, alarm: Alarm
) -> tuple[PolicyVerdict, BestEffortCpuMemory]:
    """`decide` on the last state with an alarm raised since then."""
    later = max(state.at_us, alarm.at_us)
    return decide(replace(state, at_us=later, alarms=(*state.alarms, alarm)), config, memory)


def reads(state: NodeState) -> tuple[KnobTarget, ...]:
    """The knobs that `decide` reads: quota and CPU lists of the best-effort groups, and CPU lists below them."""
    targets = {KnobTarget(holder.group, knob) for holder in holders(state) for knob in (Knob.CPU_MAX, Knob.CPUSET_CPUS)}
    targets.update(KnobTarget(group, Knob.CPUSET_CPUS) for group in _below(state))
    return tuple(sorted(target for target in targets if target.knob in state.supported))


def holders(state: NodeState) -> tuple[LimitHolder, ...]:
    """The groups that contain all best-effort work: the common group, and pods outside it. Sorted by path."""
    common = state.best_effort_group or None  # the root itself cannot have a limit
    found: dict[str, GroupShare] = {}
    if common is not None:
        used = state.best_effort.cpu_m if state.best_effort is not None else None
        weight = sum(e.pod.cpu_request_m for e in state.best_effort_pods if is_below(e.pod.group, common))
        found[common] = GroupShare(used or 0, max(1, weight))
    for entry in state.best_effort_pods:
        inside = common is not None and is_below(entry.pod.group, common)
        if entry.pod.group and not inside and entry.pod.phase is not NodePodPhase.OVER:
            found.update(_shares(entry, state))
    return tuple(LimitHolder(group, found[group]) for group in sorted(found))


def _shares(entry: PodUse, state: NodeState) -> Iterator[tuple[str, GroupShare]]:
    """The groups that limit a pod: its own, or its containers' where the runtime could not start a container below
    a smaller quota (cgroup v1).
    """
    pod = entry.pod
    if not pod.containers or not ruling(KnobTarget(pod.group, Knob.CPU_MAX), state.kubelet).raises_only:
        yield pod.group, GroupShare(entry.use.cpu_m or 0, max(1, pod.cpu_request_m), _limit_m(pod))
        return
    for index, container in enumerate(pod.containers):
        used_m = entry.containers[index].cpu_m if index < len(entry.containers) else None
        if container.group:
            share = GroupShare(used_m or 0, max(1, container.cpu_request_m), container.cpu_limit_m or None)
            yield container.group, share


@dataclass(frozen=True, slots=True)
class _Budget:
    """An amount and the calculation behind it."""

    cpu_m: int
    text: str
    terms: tuple[DecisionTerm, ...]
    source: Reason | None = None  # the reason of the smaller of allowance and ceiling

    def becomes(self, set_m: int, form: str) -> Reason:
        """The reason for a total limit of `set_m`; the terms add up to it."""
        if set_m == self.cpu_m:
            return Reason("best-effort-cpu", f"{form}: {self.text}", self.terms)
        why = "raised to the minimum" if set_m > self.cpu_m else "limited by the growth step"
        text = f"{form}: {cpu_text(set_m)} CPU, {why}; {self.text}"
        return Reason("best-effort-cpu", text, (*self.terms, DecisionTerm(why, set_m - self.cpu_m, "mCPU")))

    def without_limits(self, state: NodeState) -> Reason:
        """The reason for setting no limit."""
        if self.cpu_m >= state.host.capacity_cpu_m:
            return Reason("best-effort-cpu", f"no limit: {self.text}", self.terms)
        return Reason("best-effort-cpu", f"this machine supports no knob that limits CPU: {self.text}", self.terms)


def _budget(allowed_m: int, reason: Reason, ceiling: Ceiling) -> _Budget:
    if ceiling.cpu_m >= allowed_m:
        return _Budget(allowed_m, reason.text, reason.terms, reason)
    text = f"budget {cpu_text(ceiling.cpu_m)} CPU, the guard's ceiling, below {reason.text.removeprefix('budget ')}"
    terms = (*reason.terms, DecisionTerm("guard", ceiling.cpu_m - allowed_m, "mCPU"))
    return _Budget(ceiling.cpu_m, text, terms, ceiling.reason)


def _ceiling_only(ceiling: Ceiling, state: NodeState) -> _Budget:
    capacity_m = state.host.capacity_cpu_m
    terms = (DecisionTerm("node", capacity_m, "mCPU"), DecisionTerm("guard", ceiling.cpu_m - capacity_m, "mCPU"))
    return _Budget(ceiling.cpu_m, f"budget {cpu_text(ceiling.cpu_m)} CPU, the guard's ceiling", terms, ceiling.reason)


def _limits(
    budget: _Budget,
    held: tuple[LimitHolder, ...],
    state: NodeState,
    config: BestEffortCpuConfig,
    memory: BestEffortCpuMemory,
    suppressing: bool,
    ceiling: Ceiling,
) -> tuple[list[SetKnob], Reason | None]:
    """Cpuset or quota, as configured and supported; the guard's ceiling always as a quota. With what a quota comes
    from.
    """
    wants_cpuset = suppressing and config.suppress.form is SuppressionForm.CPUSET
    can_cpuset = Knob.CPUSET_CPUS in state.supported and bool(state.cpus) and _may_narrow(held, state)
    can_quota = Knob.CPU_MAX in state.supported
    use_cpuset = can_cpuset and suppressing and (wants_cpuset or not can_quota)
    desired: list[SetKnob] = []
    source: Reason | None = None
    max_m = state.host.capacity_cpu_m
    if use_cpuset:
        chosen = _chosen(budget.cpu_m, held, state, config.suppress, memory)
        desired += _cpusets(chosen, budget, held, state, memory)
        max_m = len(chosen) * 1000
    if can_quota and suppressing and not use_cpuset:
        desired += _quotas(budget, held, state, config.suppress, memory)
        source = budget.source if budget.cpu_m < state.host.capacity_cpu_m else None
    elif can_quota and ceiling.cpu_m < max_m:
        # Also where the allowance is less: a list is of whole CPUs, at least two, and would let it pass.
        guard = budget if ceiling.cpu_m == budget.cpu_m else _ceiling_only(ceiling, state)
        desired += _quotas(guard, held, state, config.suppress, memory)
        source = ceiling.reason
    if not use_cpuset and can_cpuset and exclusive_cpus(state):  # a quota does not restrict which CPUs are used
        free = recovered_cpus(state)
        kept = _Budget(len(free) * 1000, f"all CPUs except those owned by other pods: {format_cpus(free)}", ())
        desired += _cpusets(free, kept, held, state, memory) if free else []
    return desired, source


def _may_narrow(held: tuple[LimitHolder, ...], state: NodeState) -> bool:
    """Whether the CPU lists of these groups are left to us: a kubelet's static CPU manager writes lists of its own
    below them.
    """
    rulings = [ruling(KnobTarget(holder.group, Knob.CPUSET_CPUS), state.kubelet) for holder in held]
    return not any(one.is_refused or one.raises_only for one in rulings)


def _idle(
    held: tuple[LimitHolder, ...],
    ceiling: Ceiling,
    state: NodeState,
    config: BestEffortCpuConfig,
    before: Mapping[str, SetKnob],
) -> list[SetKnob]:
    if not (config.idle and ceiling.protects and Knob.CPU_IDLE in state.supported):
        return []
    targets = [KnobTarget(holder.group, Knob.CPU_IDLE) for holder in held]
    return [
        before.get(target.group) or SetKnob(target, "1", _IDLE)
        for target in targets
        if not ruling(target, state.kubelet).is_refused
    ]


def _yields(holder: LimitHolder, idle: Mapping[str, SetKnob]) -> bool:
    """Whether the group gives way to every service: in the idle class, or with the least weight, which a kubelet
    keeps on its best-effort group.
    """
    kind = kind_of(holder.group)
    is_least = kind is not None and kind.level is Level.QOS and kind.qos is KubernetesQoS.BEST_EFFORT
    return is_least or holder.group in idle


def _quotas(
    budget: _Budget,
    held: tuple[LimitHolder, ...],
    state: NodeState,
    config: SuppressConfig,
    memory: BestEffortCpuMemory,
) -> list[SetKnob]:
    period_us = config.period_us
    current = [_current_quota_us(holder.group, state, memory, period_us) for holder in held]
    total_us = UNLIMITED_US if UNLIMITED_US in current else sum(current)
    next_us = quota_us(total_us, budget.cpu_m, state.host.capacity_cpu_m, config)
    # Shares are in microseconds per period, to avoid rounding losses.
    per_period = [
        GroupShare(
            holder.share.used_m * period_us // 1000,
            holder.share.weight,
            None if holder.share.limit_m is None else holder.share.limit_m * period_us // 1000,
        )
        for holder in held
    ]
    parts = divide(next_us, per_period, MIN_QUOTA_US)
    band_us = config.dead_band_ppm * state.host.capacity_cpu_m // 1_000_000 * period_us // 1000
    if (
        total_us != UNLIMITED_US
        and total_us <= next_us
        and all(abs(new - old) < band_us for new, old in zip(parts, current, strict=True))
    ):
        parts = tuple(current)
    reason = budget.becomes(sum(parts) * 1000 // period_us, "quota")
    return [
        SetKnob(KnobTarget(holder.group, Knob.CPU_MAX), str(CpuMax(part, period_us)), reason)
        for holder, part in zip(held, parts, strict=True)
    ]


def _chosen(
    budget_m: int,
    held: tuple[LimitHolder, ...],
    state: NodeState,
    config: SuppressConfig,
    memory: BestEffortCpuMemory,
) -> tuple[int, ...]:
    current: set[int] = set()
    given = [_given(holder, state) for holder in held]
    cpus = [cpu for cpu in state.cpus if any(cpu.cpu in group for group in given)]
    for holder in held:
        text = _standing(KnobTarget(holder.group, Knob.CPUSET_CPUS), state, memory)
        current.update(parse_cpus(text) if text else (cpu.cpu for cpu in state.cpus))
    return cpuset(budget_m, cpus, sorted(current), exclusive_cpus(state), lent_cpus(state), config)


def _cpusets(
    cpus: tuple[int, ...], budget: _Budget, held: tuple[LimitHolder, ...], state: NodeState, memory: BestEffortCpuMemory
) -> list[SetKnob]:
    text = format_cpus(cpus)
    mine = {holder.group: frozenset(cpus) & _given(holder, state) or _given(holder, state) for holder in held}
    reason = (
        budget.becomes(len(cpus) * 1000, f"cpuset {text}") if budget.terms else Reason("best-effort-cpu", budget.text)
    )
    own = [group for group in _below(state) if _standing(KnobTarget(group, Knob.CPUSET_CPUS), state, memory)]
    of_group = mine | {group: mine[above] for group in own for above in mine if is_below(group, above)}
    return [
        SetKnob(KnobTarget(group, Knob.CPUSET_CPUS), format_cpus(of_group.get(group, frozenset(cpus))), reason)
        for group in (*mine, *own)
    ]


def _given(holder: LimitHolder, state: NodeState) -> frozenset[int]:
    """The CPUs that a group may use by its owner: all, unless another writer has set a list. The group never gets
    others.
    """
    online = frozenset(cpu.cpu for cpu in state.cpus)
    text = state.owners.get(KnobTarget(holder.group, Knob.CPUSET_CPUS))
    return (online & frozenset(parse_cpus(text)) if text else online) or online


def _below(state: NodeState) -> tuple[str, ...]:
    """Groups of best-effort pods and containers below the holders, parents first."""
    held = {holder.group for holder in holders(state)}
    groups = {entry.pod.group for entry in state.best_effort_pods}
    groups |= {container.group for entry in state.best_effort_pods for container in entry.pod.containers}
    return tuple(sorted(group for group in groups - held if group))


def _standing(target: KnobTarget, state: NodeState, memory: BestEffortCpuMemory) -> str | None:
    """A knob's value: as read, else as last desired."""
    if target in state.knobs:
        return state.knobs[target]
    return next((knob.value for knob in memory.wanted if knob.target == target), None)


def _current_quota_us(group: str, state: NodeState, memory: BestEffortCpuMemory, period_us: int) -> int:
    text = _standing(KnobTarget(group, Knob.CPU_MAX), state, memory)
    standing = parse_cpu_max(text) if text else CpuMax(None)
    return UNLIMITED_US if standing.quota_us is None else standing.quota_us * period_us // standing.period_us


def _limit_m(pod: NodePod) -> int | None:
    """The sum of a pod's own CPU limits; None where a container has none."""
    limits = [container.cpu_limit_m for container in pod.containers]
    return sum(limits) if limits and all(limits) else None

"""A bounded grace for best-effort pods that start: a little more quota for their group, for a few seconds.

A container runtime does a container's start-up work in the container's own group, so under a tight quota that many
share a container took 14 s from Created to Started. While a best-effort pod is young, the quota of the group that holds
it is raised by a fixed amount, for two pods at most (for one while the guard cuts for a service), only while it is
tight, and at most until its kubelet says that its containers run, until the pod has used as much CPU as a start takes,
or until the group has taken so much more for it: a container that spins from its first instruction on never looks
started by its use, as it shares its quota with others like it. All of it is paid from two accounts, the pod's tenant's
and the node's: what was given is owed and is forgiven at a fixed rate, and an account that owes too much gives nothing.
So over any time T at most `burst + rate x T + one interval's worth` is given, whoever starts what, and a tenant that
starts a pod each second lives on its own account alone.
Limits: what is given is the group's, so busy pods in it share it; a container that is restarted in an old pod gets
none, nor does a pod that was there before the agent; pods that no source has named yet share one tenant's account; a
CPU set of at least two CPUs is never tight.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from cotenant.model.errors import InvalidInput
from cotenant.model.machine.knob import Knob, KnobTarget, SetKnob
from cotenant.model.machine.knob_values import CpuMax, parse_cpu_max
from cotenant.model.machine.node_decision import DecisionTerm, Reason
from cotenant.model.machine.node_pod import NodePod, NodePodPhase
from cotenant.model.machine.node_state import PPM, NodeState, PodUse
from cotenant.policy.nodeqos.amounts import cpu_text

RULE = "startup-grace"
_NODE = "\0"  # the account of the whole node; no tenant has this name
_MINUTE_US = 60_000_000
_LONGEST_PAID_US = 30_000_000  # longer than this no value stands without a decision: its lease has ended


@dataclass(frozen=True, slots=True)
class StartupGraceConfig:
    """How much, how long and how often. An account may owe `burst_us` of CPU time and is forgiven `minute_us` of it
    in a minute. Raises `InvalidInput`.
    """

    enabled: bool = True
    each_m: int = 200  # a starting pod, milli-CPU
    max_pods: int = 2  # at a time
    longest_us: int = 10_000_000  # a pod
    started_us: int = 1_000_000  # a pod that has used this much CPU time has started
    pod_us: int = 1_000_000  # and for one pod no more CPU time than this is taken
    tight_m: int = 1000  # a group's quota is raised up to this, milli-CPU
    burst_us: int = 4_000_000
    minute_us: int = 4_000_000
    tenant_burst_us: int = 2_000_000
    tenant_minute_us: int = 1_000_000

    def __post_init__(self) -> None:
        for name in ("each_m", "max_pods", "longest_us", "started_us", "pod_us", "tight_m"):
            if getattr(self, name) <= 0:
                raise InvalidInput(f"grace.{name}", getattr(self, name), "a number above 0")
        for name in ("burst_us", "minute_us", "tenant_burst_us", "tenant_minute_us"):
            if getattr(self, name) < 0:
                raise InvalidInput(f"grace.{name}", getattr(self, name), "0 or more microseconds")

    @property
    def max_m(self) -> int:
        """The most that is given at a time, milli-CPU."""
        return self.each_m * self.max_pods


@dataclass(frozen=True, slots=True)
class Start:
    """A young pod: when it was first seen, the CPU time that it has used since, and what its group has taken for it;
    with what is given for it now, milli-CPU.
    """

    uid: str
    since_us: int
    used_us: int = 0
    taken_us: int = 0
    given_m: int = 0


@dataclass(frozen=True, slots=True)
class Raised:
    """A quota that was raised: what was set, what it would have been, and how much of it each tenant is to pay,
    milli-CPU.
    """

    target: KnobTarget
    value: str
    without: str
    paid_by: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class StartupGraceMemory:
    """The pods of the last decision, those that start, what is raised, and what is owed (by tenant, CPU time)."""

    at_us: int | None = None
    known: frozenset[str] = frozenset()
    starting: tuple[Start, ...] = ()
    raised: tuple[Raised, ...] = ()
    owed: tuple[tuple[str, int], ...] = ()


def lowered(state: NodeState, memory: StartupGraceMemory) -> NodeState:
    """The state with each quota that was raised as it would be without: steps and dead bands are of the budget, not
    of the grace.
    """
    ours = {raised.target: raised.without for raised in memory.raised if state.knobs.get(raised.target) == raised.value}
    return replace(state, knobs={**state.knobs, **ours}) if ours else state


def raised(
    wanted: tuple[SetKnob, ...],
    state: NodeState,
    config: StartupGraceConfig,
    memory: StartupGraceMemory,
    pressed: bool = False,
) -> tuple[tuple[SetKnob, ...], tuple[Reason, ...], StartupGraceMemory]:
    """The wanted knobs with the quotas of starting pods raised, and why. The terms of a quota's reason still add up.

    `pressed`: the guard cuts best-effort work for a service now.
    """
    owed = _owed(state.at_us, config, memory)
    young = _young(state, config, memory) if config.enabled else ()
    entries = {entry.pod.uid: entry for entry in state.best_effort_pods}
    quotas = {knob.target.group: knob for knob in wanted if knob.target.knob is Knob.CPU_MAX}
    given: dict[str, list[tuple[str, int]]] = {}
    left_m = config.each_m if pressed else config.max_m
    unpaid = 0
    starting: list[Start] = []
    for start in young:
        starting.append(start)
        pod = entries[start.uid].pod
        group = _holder(pod, quotas)
        quota = None if group is None else parse_cpu_max(quotas[group].value).cpu_m
        if group is None or quota is None:
            continue
        before_m = sum(cpu_m for _, cpu_m in given.get(group, ()))
        extra_m = min(config.each_m, left_m, config.tight_m - quota - before_m)
        if extra_m <= 0:
            continue
        tenant = pod.tenant or pod.namespace
        if owed.get(_NODE, 0) >= config.burst_us or owed.get(tenant, 0) >= config.tenant_burst_us:
            unpaid += 1
            continue
        left_m -= extra_m
        starting[-1] = replace(start, given_m=extra_m)
        given.setdefault(group, []).append((tenant, extra_m))
    kept = {
        group: Raised(quotas[group].target, *_values(quotas[group], paid), tuple(paid)) for group, paid in given.items()
    }
    after = StartupGraceMemory(
        state.at_us,
        frozenset(entry.pod.uid for entry in state.pods),
        tuple(starting),
        tuple(kept[group] for group in sorted(kept)),
        tuple(sorted(owed.items())),
    )
    return _with_terms(wanted, kept, given), _reasons(given, unpaid), after


def _young(state: NodeState, config: StartupGraceConfig, memory: StartupGraceMemory) -> tuple[Start, ...]:
    """The pods that start now, oldest first; none at the first decision, when nothing is known of their age."""
    if memory.at_us is None:
        return ()
    passed_us = max(0, state.at_us - memory.at_us)
    before = {element.uid: element for element in memory.starting}
    shares = {raised.target.group: _taken_ppm(raised, state) for raised in memory.raised}
    found = []
    for entry in state.best_effort_pods:
        uid = entry.pod.uid
        if (
            entry.pod.phase is not NodePodPhase.RUNNING
            or not entry.pod.group
            or entry.pod.has_started
            or (uid in memory.known and uid not in before)
        ):
            continue
        start = before.get(uid, Start(uid, state.at_us))
        holder = _holder(entry.pod, shares)
        taken_us = 0 if holder is None else start.given_m * passed_us // 1000 * shares[holder] // PPM
        start = Start(uid, start.since_us, start.used_us + _used_us(entry, passed_us), start.taken_us + taken_us)
        is_spent = start.used_us >= config.started_us or start.taken_us >= config.pod_us
        if state.at_us - start.since_us < config.longest_us and not is_spent:
            found.append(start)
    return tuple(sorted(found, key=lambda element: (element.since_us, element.uid)))


def _taken_ppm(raised: Raised, state: NodeState) -> int:
    """The share of a raise that its group has used; all of it where its use is not known."""
    group = raised.target.group
    if group == state.best_effort_group:
        used_m = state.best_effort.cpu_m if state.best_effort is not None else None
    else:
        used_m = next((entry.use.cpu_m for entry in state.best_effort_pods if entry.pod.group == group), None)
    without_m, with_m = parse_cpu_max(raised.without).cpu_m or 0, parse_cpu_max(raised.value).cpu_m or 0
    if used_m is None or with_m <= without_m:
        return PPM
    return min(PPM, max(0, used_m - without_m) * PPM // (with_m - without_m))


def _used_us(entry: PodUse, passed_us: int) -> int:
    return (entry.use.cpu_m or 0) * passed_us // 1000


def _owed(now_us: int, config: StartupGraceConfig, memory: StartupGraceMemory) -> dict[str, int]:
    """What is owed now: what was given since the last decision is added, then a part is forgiven. Accounts that owe
    nothing are dropped.
    """
    owed = dict(memory.owed)
    passed_us = max(0, now_us - (now_us if memory.at_us is None else memory.at_us))
    for raised in memory.raised:
        for tenant, cpu_m in raised.paid_by:
            for account in (tenant, _NODE):
                owed[account] = owed.get(account, 0) + cpu_m * min(passed_us, _LONGEST_PAID_US) // 1000
    for account in owed:
        rate_us = config.minute_us if account == _NODE else config.tenant_minute_us
        owed[account] -= rate_us * passed_us // _MINUTE_US
    return {account: amount for account, amount in owed.items() if amount > 0}


def _holder(pod: NodePod, groups: Iterable[str]) -> str | None:
    """The group with a quota that holds the pod."""
    return next((group for group in groups if pod.group == group or pod.group.startswith(f"{group}/")), None)


def _values(knob: SetKnob, paid: Iterable[tuple[str, int]]) -> tuple[str, str]:
    """The raised value and the one without."""
    quota = parse_cpu_max(knob.value)
    extra_us = sum(cpu_m for _, cpu_m in paid) * quota.period_us // 1000
    return str(CpuMax((quota.quota_us or 0) + extra_us, quota.period_us)), knob.value


def _with_terms(
    wanted: tuple[SetKnob, ...], kept: dict[str, Raised], given: dict[str, list[tuple[str, int]]]
) -> tuple[SetKnob, ...]:
    """Quotas of several groups share one reason about their sum, so each gets the whole grace as a term."""
    if not kept:
        return wanted
    total_m = sum(cpu_m for paid in given.values() for _, cpu_m in paid)
    term, count = DecisionTerm("start-up grace", total_m, "mCPU"), sum(map(len, given.values()))
    found = []
    for knob in wanted:
        if knob.target.knob is Knob.CPU_MAX:
            text = f"{knob.reason.text}; {cpu_text(total_m)} CPU more while pods start ({count})"
            reason = Reason(knob.reason.rule, text, (*knob.reason.terms, term))
            one = kept.get(knob.target.group)
            knob = replace(knob, value=one.value if one else knob.value, reason=reason)
        found.append(knob)
    return tuple(found)


def _reasons(given: dict[str, list[tuple[str, int]]], unpaid: int) -> tuple[Reason, ...]:
    total_m = sum(cpu_m for paid in given.values() for _, cpu_m in paid)
    parts = [f"{cpu_text(total_m)} CPU more while pods start ({sum(map(len, given.values()))})"] if given else []
    if unpaid:
        parts.append(f"starting pods without a grace ({unpaid}): too many have started lately")
    return (Reason(RULE, "; ".join(parts), (DecisionTerm("start-up grace", total_m, "mCPU"),)),) if parts else ()

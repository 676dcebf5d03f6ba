"""Own CPUs on the node: pods with allocated CPUs are bound to them, and other services to the shared pool.

A scheduler's allocation is not enforced until a cpuset is set, and CPUs are exclusive only if no other pod runs on
them. The pod's group and its containers' groups get the CPUs of its annotation; other services get all CPUs that are
neither owned nor reserved (the shared pool), while any pod owns some. Both are restricted to what the ancestor groups
allow, as far as that was read, and to online CPUs; where nothing would remain, or two pods claim the same CPU, nothing
is set and the reason says so. A service whose list another writer has narrowed (the kubelet's static policy) is left
alone. A pod on CPUs of its own has no quota: its list is the limit already, and a quota of as many CPUs throttles
bursts. One that was resized in place to more than its CPUs, which no resize changes, runs on the shared ones too, as
the kubelet has granted, and below its quota. Best-effort work is handled by best_effort.py.
Limits: the list of a sandbox's group is not set; on cgroup v1 it keeps its pod's group as wide as before, while the
containers' lists are still set.

Source: Koordinator, koordlet's cpuset hook (cpuset, and the quota of bound pods) and its CPU shared pool.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from cotenant.model.cluster.qos import QoSClass
from cotenant.model.cpus.cpulist import format_cpus, parse_cpus
from cotenant.model.errors import InvalidInput
from cotenant.model.machine.knob import Knob, KnobTarget, SetKnob
from cotenant.model.machine.knob_values import CpuMax
from cotenant.model.machine.node_decision import DecisionTerm, Reason
from cotenant.model.machine.node_pod import NodePod, NodePodPhase
from cotenant.model.machine.node_state import NodeState
from cotenant.model.machine.verdict import PolicyVerdict

_RULE = "own-cpus"


@dataclass(frozen=True, slots=True)
class OwnCpusConfig:
    """`shared_pool`: whether services without own CPUs are kept off CPUs that others own. `lift_quota`: whether
    pods on own CPUs lose their quota.
    """

    shared_pool: bool = True
    lift_quota: bool = True


@dataclass(frozen=True, slots=True)
class OwnCpusMemory:
    """The last desired values: lists on these groups are ours."""

    wanted: tuple[SetKnob, ...] = ()


def decide(state: NodeState, config: OwnCpusConfig, memory: OwnCpusMemory) -> tuple[PolicyVerdict, OwnCpusMemory]:
    """The desired CPU sets of services' groups."""
    owners = [entry.pod for entry in state.pods if entry.pod.own_cpus and not entry.pod.best_effort]
    doubts = tuple(
        Reason(_RULE, f"{entry.pod.key} shares CPUs: {entry.pod.unbelieved}")
        for entry in state.pods
        if entry.pod.unbelieved
    )
    if not owners:
        return PolicyVerdict((*doubts, Reason(_RULE, "no pod has own CPUs"))), OwnCpusMemory()
    if state.kubelet.is_static:
        text = (
            f"the kubelet's static CPU manager gives CPUs on this node: {len(owners)} pods with own CPUs are left to it"
        )
        return PolicyVerdict((Reason(_RULE, text),)), OwnCpusMemory()
    if Knob.CPUSET_CPUS not in state.supported:
        why = Reason(_RULE, f"{len(owners)} pods have own CPUs, but this machine has no cpuset controller")
        return PolicyVerdict((why,)), OwnCpusMemory()
    online = frozenset(cpu.cpu for cpu in state.cpus)
    contested = _contested(owners)
    ours = {knob.target.group: knob.value for knob in memory.wanted}
    reasons = [*doubts]
    desired: list[SetKnob] = []
    taken = frozenset(cpu for pod in owners for cpu in pod.own_cpus)
    pool = online - taken - frozenset(state.reserved_cpus)
    for pod in owners:
        if contested & set(pod.own_cpus):
            claimed = format_cpus(contested & set(pod.own_cpus))
            reasons.append(Reason(_RULE, f"{pod.key} is not bound to its CPUs: another pod also claims {claimed}"))
            continue
        allowed = _allowed(pod.group, state, ours, online)
        cpus = frozenset(pod.own_cpus) & allowed
        if not cpus:
            text = f"{pod.key} has CPUs {format_cpus(pod.own_cpus)}, none of which is allowed on this node"
            reasons.append(Reason(_RULE, text))
            continue
        lost = len(pod.own_cpus) - len(cpus)
        text = f"{pod.key} has own CPUs {format_cpus(cpus)}"
        if lost:
            text += f"; {lost} more of its CPUs are not allowed on this node"
        shared = pool & allowed if pod.has_outgrown_own_cpus else frozenset()
        if shared:
            text += f", and runs on the shared {format_cpus(shared)} too: it was resized to more than its own"
        terms = (DecisionTerm("allocated", len(pod.own_cpus), "CPU"), DecisionTerm("not allowed", -lost, "CPU"))
        reason = Reason(_RULE, text, terms)
        listed = format_cpus(cpus | shared)
        desired += [SetKnob(KnobTarget(group, Knob.CPUSET_CPUS), listed, reason) for group in _groups(pod)]
        if config.lift_quota and Knob.CPU_MAX in state.supported:
            desired += _lifted(pod, len(cpus | shared))
        reasons.append(reason)
    if config.shared_pool:
        if pool:
            reason = Reason(_RULE, f"services without own CPUs share {format_cpus(pool)}")
            reasons.append(reason)
            desired += _shared(state, pool, ours, online, reason)
        else:
            reasons.append(Reason(_RULE, "no CPU is left to share: services without own CPUs are not restricted"))
    return PolicyVerdict(tuple(reasons), tuple(desired)), OwnCpusMemory(tuple(desired))


def reads(state: NodeState) -> tuple[KnobTarget, ...]:
    """The CPU lists of all services' groups and their ancestors, while any pod has own CPUs."""
    if not any(entry.pod.own_cpus for entry in state.pods):
        return ()
    groups = {group for entry in state.services for name in _groups(entry.pod) for group in (name, *_above(name))}
    return tuple(KnobTarget(group, Knob.CPUSET_CPUS) for group in sorted(groups))


def _lifted(pod: NodePod, cpus: int) -> list[SetKnob]:
    """No quota for the pod and its limited containers; none is lifted where the list allows more than the limits."""
    limits = [container.cpu_limit_m for container in pod.containers]
    if not any(limits) or cpus * 1000 > sum(limits):
        return []
    reason = Reason(_RULE, f"{pod.key} has {cpus} CPUs of its own and needs no quota besides")
    limited = [container.group for container in pod.containers if container.cpu_limit_m and container.group]
    return [
        SetKnob(KnobTarget(group, Knob.CPU_MAX), str(CpuMax(None)), reason)
        for group in dict.fromkeys((pod.group, *limited))
        if group
    ]


def _shared(
    state: NodeState, pool: frozenset[int], ours: dict[str, str], online: frozenset[int], reason: Reason
) -> list[SetKnob]:
    desired = []
    for entry in state.services:
        pod = entry.pod
        if (
            pod.own_cpus
            or not pod.group
            or pod.qos is QoSClass.SYSTEM
            or pod.host_application
            or pod.phase is NodePodPhase.OVER
        ):
            continue
        allowed = _allowed(pod.group, state, ours, online)
        for group in _groups(pod):
            target = KnobTarget(group, Knob.CPUSET_CPUS)
            standing = state.knobs.get(target)
            if standing is None and group not in ours:
                continue  # not read, or not available
            theirs = state.owners.get(target, "" if group in ours else standing)
            copied = any(ours.get(above) == theirs for above in _above(group))  # created below a list of ours
            if theirs and not copied and _cpus(theirs) < allowed:
                continue  # set by another writer
            if pool & allowed:
                desired.append(SetKnob(target, format_cpus(pool & allowed), reason))
    return desired


def _contested(owners: Iterable[NodePod]) -> frozenset[int]:
    seen: set[int] = set()
    twice: set[int] = set()
    for pod in owners:
        twice |= seen & set(pod.own_cpus)
        seen |= set(pod.own_cpus)
    return frozenset(twice)


def _groups(pod: NodePod) -> tuple[str, ...]:
    """The pod's group, then its containers'."""
    found = [pod.group, *(container.group for container in pod.containers)]
    return tuple(dict.fromkeys(group for group in found if group))


def _above(group: str) -> tuple[str, ...]:
    """The ancestors of a group, the nearest first; without the tree's root."""
    parts = group.split("/")
    return tuple("/".join(parts[:end]) for end in range(len(parts) - 1, 0, -1))


def _allowed(group: str, state: NodeState, ours: dict[str, str], online: frozenset[int]) -> frozenset[int]:
    """The CPUs that the ancestors of a group allow, as read; our own lists on them do not count."""
    allowed = online
    for above in _above(group):
        text = state.knobs.get(KnobTarget(above, Knob.CPUSET_CPUS))
        if text and above not in ours:
            allowed &= _cpus(text)
    return allowed


def _cpus(text: str) -> frozenset[int]:
    try:
        return frozenset(parse_cpus(text))
    except InvalidInput:
        return frozenset()

"""CPUs of one's own on the node: pods that were given CPUs run on those, and services without any on what is left.

Problem: a scheduler's word on a pod is no cpuset yet, and CPUs are one's own only if nobody else runs there. Choice: the pod's group and its
containers' get the CPUs of its annotation; the other services get all that is neither anybody's own nor reserved (the shared pool), as long
as anybody has some. Both are cut to what the groups above allow, as far as that was read, and to the CPUs that are online; where nothing would be
left, or two pods claim the same CPU, nothing is set and it is said. A service whose list somebody else has made narrower (the kubelet's static policy)
is left alone. Best-effort work is none of this policy's (best_effort_cpu.py). Limits: the list of a sandbox's group is not set; on cgroup v1 it keeps its
pod's group as wide as it was, and the containers' are set all the same.

Source: Koordinator, koordlet's cpuset hook and its CPU shared pool.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from cotenant.model.cluster.qos import QoSClass
from cotenant.model.cpus.cpulist import format_cpus, parse_cpus
from cotenant.model.errors import InvalidInput
from cotenant.model.machine.knob import Knob, SetKnob, Target
from cotenant.model.machine.node_decision import Reason, Term
from cotenant.model.machine.node_pod import NodePod, Phase
from cotenant.model.machine.node_state import NodeState
from cotenant.model.machine.verdict import Verdict

_RULE = "own-cpus"


@dataclass(frozen=True, slots=True)
class OwnCpusConfig:
    """`shared_pool`: whether services without CPUs of their own are kept off those of others."""

    shared_pool: bool = True


@dataclass(frozen=True, slots=True)
class OwnCpusMemory:
    """What was wanted last: lists that stand on these groups are ours."""

    wanted: tuple[SetKnob, ...] = ()


def decide(state: NodeState, config: OwnCpusConfig, memory: OwnCpusMemory) -> tuple[Verdict, OwnCpusMemory]:
    """The CPU sets that should stand on services' groups now."""
    owners = [entry.pod for entry in state.pods if entry.pod.own_cpus and not entry.pod.best_effort]
    if not owners:
        return Verdict((Reason(_RULE, "no pod has CPUs of its own"),)), OwnCpusMemory()
    if Knob.CPUSET_CPUS not in state.supported:
        why = Reason(_RULE, f"{len(owners)} pods have CPUs of their own, and this machine has no cpuset controller")
        return Verdict((why,)), OwnCpusMemory()
    online = frozenset(cpu.cpu for cpu in state.cpus)
    contested = _contested(owners)
    ours = {wish.target.group: wish.value for wish in memory.wanted}
    reasons: list[Reason] = []
    wishes: list[SetKnob] = []
    taken = frozenset(cpu for pod in owners for cpu in pod.own_cpus)
    for pod in owners:
        if contested & set(pod.own_cpus):
            claimed = format_cpus(contested & set(pod.own_cpus))
            reasons.append(Reason(_RULE, f"{pod.key} is not bound to its CPUs: another pod claims {claimed} too"))
            continue
        allowed = _allowed(pod.group, state, ours, online)
        cpus = frozenset(pod.own_cpus) & allowed
        if not cpus:
            told = f"{pod.key} was given CPUs {format_cpus(pod.own_cpus)}, of which it may use none here"
            reasons.append(Reason(_RULE, told))
            continue
        lost = len(pod.own_cpus) - len(cpus)
        text = f"{pod.key} has CPUs {format_cpus(cpus)} of its own"
        if lost:
            text += f"; {lost} more that it was given are not allowed here"
        terms = (Term("given", len(pod.own_cpus), "CPU"), Term("not allowed here", -lost, "CPU"))
        reason = Reason(_RULE, text, terms)
        wishes += [SetKnob(Target(group, Knob.CPUSET_CPUS), format_cpus(cpus), reason) for group in _groups(pod)]
        reasons.append(reason)
    if config.shared_pool:
        pool = online - taken - frozenset(state.reserved_cpus)
        if pool:
            reason = Reason(_RULE, f"services without CPUs of their own share {format_cpus(pool)}")
            reasons.append(reason)
            wishes += _shared(state, pool, ours, online, reason)
        else:
            reasons.append(Reason(_RULE, "no CPU is left to share: services without CPUs of their own run everywhere"))
    return Verdict(tuple(reasons), tuple(wishes)), OwnCpusMemory(tuple(wishes))


def reads(state: NodeState) -> tuple[Target, ...]:
    """The CPU lists of all services' groups and of the groups above them, while any pod has CPUs of its own."""
    if not any(entry.pod.own_cpus for entry in state.pods):
        return ()
    groups = {group for entry in state.services() for each in _groups(entry.pod) for group in (each, *_above(each))}
    return tuple(Target(group, Knob.CPUSET_CPUS) for group in sorted(groups))


def _shared(
    state: NodeState, pool: frozenset[int], ours: dict[str, str], online: frozenset[int], reason: Reason
) -> list[SetKnob]:
    wishes = []
    for entry in state.services():
        pod = entry.pod
        if (
            pod.own_cpus
            or not pod.group
            or pod.qos is QoSClass.SYSTEM
            or pod.host_application
            or pod.phase is Phase.OVER
        ):
            continue
        allowed = _allowed(pod.group, state, ours, online)
        for group in _groups(pod):
            target = Target(group, Knob.CPUSET_CPUS)
            standing = state.knobs.get(target)
            if standing is None and group not in ours:
                continue  # not read, or not to be had
            theirs = state.owners.get(target, "" if group in ours else standing)
            copied = any(ours.get(above) == theirs for above in _above(group))  # made below a list of ours
            if theirs and not copied and _cpus(theirs) < allowed:
                continue  # somebody else's choice
            if pool & allowed:
                wishes.append(SetKnob(target, format_cpus(pool & allowed), reason))
    return wishes


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
    """The groups above one, the nearest first; not the tree's root."""
    parts = group.split("/")
    return tuple("/".join(parts[:end]) for end in range(len(parts) - 1, 0, -1))


def _allowed(group: str, state: NodeState, ours: dict[str, str], online: frozenset[int]) -> frozenset[int]:
    """What the groups above let this one use, as read; lists of ours above it do not count against it."""
    allowed = online
    for above in _above(group):
        text = state.knobs.get(Target(above, Knob.CPUSET_CPUS))
        if text and above not in ours:
            allowed &= _cpus(text)
    return allowed


def _cpus(text: str) -> frozenset[int]:
    try:
        return frozenset(parse_cpus(text))
    except InvalidInput:
        return frozenset()

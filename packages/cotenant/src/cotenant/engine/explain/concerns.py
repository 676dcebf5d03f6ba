"""Which quota, gang, reservation or node rule applies to a pod, in sentences with figures.

A pod with feasible nodes may still wait for its quota or its gang, and each of them has its own accounts. Each plugin
and node rule of the registry describes its own state (`describe`); this file selects what applies to the pod, and
whether it holds the pod back.
Limits: no decision is made here; for a pod that holds CPUs or devices, they are listed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import isfinite

from cotenant.engine.explain.kueue import kueue_concern
from cotenant.engine.framework.pod_state import ASSIGNED, PodInfo, SchedulingState
from cotenant.engine.plugins.gangs.gang_view import GangView
from cotenant.engine.plugins.quotas.status import QuotaDescription
from cotenant.engine.registry import PluginRegistry
from cotenant.engine.state.learned_profiles import LearnedProfiles
from cotenant.model.cluster.demands import NO_HOLDINGS, Holdings
from cotenant.model.cluster.pod import Pod
from cotenant.model.cpus.cpulist import format_cpus
from cotenant.model.decisions.answers import Concern
from cotenant.model.machine.node_decision import DecisionTerm
from cotenant.model.resources import CPU_NAME, Amounts, format_amount
from cotenant.policy.overcommit.predicted_use import LENT

_MAX_RESERVATIONS = 1000  # searched for a pod
_MEMBERS_SHOWN = 8


def concerns(
    plugins: PluginRegistry, entry: PodInfo, pod: Pod, now_s: float, profiles: LearnedProfiles | None = None
) -> tuple[Concern, ...]:
    """What applies to the pod, concerns that hold it back first. `pod` may have other requests than the entry's pod.

    `profiles`: what was learned of applications, None where the policy does not use it.
    """
    found = [*_quota(plugins, entry, pod, now_s), *_gang(plugins, entry, now_s), *_reservation(plugins, entry, now_s)]
    found += [*_holdings(entry), *_relabelled(entry), *_load(plugins, entry)]
    if (disks := plugins.neighbours.describe(entry)) is not None:
        found.append(Concern("disk", entry.seen.pod.key, False, disks.sentence()))
    words, waits = plugins.extenders.standing(entry.seen.uid)
    if words:
        found.append(Concern("extender", entry.seen.pod.key, waits, words))
    ours = next((concern.name for concern in found if concern.kind == "quota"), "")
    if (queued := kueue_concern(entry, ours)) is not None:
        found.append(queued)
    if profiles is not None and entry.shape >= 0:
        found.append(Concern("profile", entry.seen.pod.owner, False, profiles.profile(entry.shape).words()))
    return tuple(sorted(found, key=lambda concern: not concern.holds))


def quota_concern(plugins: PluginRegistry, name: str) -> Concern | None:
    """A quota with every term of its runtime; None for an unknown name."""
    state = plugins.quotas.describe(name)
    return None if state is None else _quota_concern(state, {}, False)


def gang_concern(plugins: PluginRegistry, key: str, now_s: float) -> Concern | None:
    """A gang; None for an unknown name."""
    state = plugins.gangs.describe(key)
    return None if state is None else _gang_concern(state, bool(state.why), now_s)


# ---- quotas


def _quota(plugins: PluginRegistry, entry: PodInfo, pod: Pod, now_s: float) -> Iterator[Concern]:
    quotas = plugins.quotas
    name, because = quotas.quota_of(entry.seen.uid)
    state = quotas.describe(name) if name else None
    if state is None:
        return
    waits = entry.state not in ASSIGNED
    over = _over(state, pod.requests) if waits else {}
    kept = bool(state.kept_for) and waits and not quotas.is_kept_for(entry.seen.uid)
    concern = _quota_concern(state, over, bool(over) or kept)
    lines = (f"the pod belongs to it because {because}", *concern.lines) if because else concern.lines
    returned = quotas.returned_for(entry.seen.uid, now_s) if waits else ""
    lines = (returned, *lines) if returned else lines
    yield Concern("quota", name, concern.holds, concern.words, lines)


def quota_room(plugins: PluginRegistry, entry: PodInfo, together: int) -> Amounts:
    """What the pod's quota and its parents have left for each of so many pods, of the resources that they limit."""
    left: dict[str, int] = {}
    name = plugins.quotas.quota_of(entry.seen.uid)[0]
    seen: set[str] = set()
    while name and name not in seen:
        seen.add(name)
        state = plugins.quotas.describe(name)
        if state is None:
            break
        used = dict(state.used)
        limits = {share.terms.resource: (share.terms.runtime, share.terms.used) for share in state.shares} or {
            resource: (most, used.get(resource, 0)) for resource, most in state.maximum
        }
        for resource, (most, has) in limits.items():
            room = max(0, most - has) // together
            left[resource] = min(left.get(resource, room), room)
        name = state.parent
    return Amounts.of(left)


def _over(state: QuotaDescription, requests: Amounts) -> Mapping[str, int]:
    """By how much the pod would exceed the quota, by resource."""
    over = {}
    for share in state.shares:
        terms = share.terms
        amount = requests.get(terms.resource)
        if amount and terms.used + amount > terms.runtime:
            over[terms.resource] = terms.used + amount - terms.runtime
    if not state.shares:  # outside of quota trees only the maximum applies
        used = dict(state.used)
        for resource, most in state.maximum:
            amount = requests.get(resource)
            if amount and used.get(resource, 0) + amount > most:
                over[resource] = used.get(resource, 0) + amount - most
    return over


def _quota_concern(state: QuotaDescription, over: Mapping[str, int], holds: bool) -> Concern:
    if not state.is_used:
        return Concern("quota", state.name, False, f"it is not used: {'; '.join(state.problems)}")
    if over:
        short = ", ".join(f"{format_amount(name, amount)} {name}" for name, amount in over.items())
        words = f"it would be over by {short}"
    elif holds:
        words = f"what becomes free is kept for {state.kept_for}, which is more important"
    else:
        words = "; ".join(f"{format_amount(r, most)} {r} at most" for r, most in state.maximum) or "it has no maximum"
    words += f"; {state.seated} of its pods run, {state.waiting} wait"
    if state.lent:
        lent = ", ".join(f"{format_amount(name, amount)} {name}" for name, amount in state.lent)
        words += f"; {lent} count for other shards, which may use them"
    lines = [*state.problems]
    if state.parent:
        lines.append(f"parent {state.parent}" + (f", children {', '.join(state.children)}" if state.children else ""))
    for share in state.shares:
        lines.append(str(share.reason.text))
        terms = [f"{term.name} {_term(share.terms.resource, term)}" for term in share.reason.terms]
        lines.append("    " + ", ".join(terms))
    if state.kept_for:
        lines.append(f"what becomes free is kept for {state.kept_for}")
    return Concern("quota", state.name, holds, words, tuple(lines))


def _term(resource: str, term: DecisionTerm) -> str:
    return format_amount(resource, term.value) if term.unit else str(term.value)


# ---- gangs


def _gang(plugins: PluginRegistry, entry: PodInfo, now_s: float) -> Iterator[Concern]:
    gangs = plugins.gangs
    key = gangs.key_of(entry.seen.uid)
    state = gangs.describe(key) if key else None
    if state is not None:
        yield _gang_concern(
            state, bool(state.why) and (entry.state is SchedulingState.WAITING or entry.state not in ASSIGNED), now_s
        )


def _gang_concern(state: GangView, holds: bool, now_s: float) -> Concern:
    minimum = state.spec.min_available if state.spec is not None else 0
    words = state.why.removeprefix(f"gang {state.key}: ") or f"{state.placed} of at least {minimum} members are placed"
    lines = [*state.problems]
    if state.spec is not None:
        lines.append(
            f"{state.placed} placed, {state.holding} hold a node and wait, {state.waiting} have none; at least "
            f"{minimum}, "
            f"{state.spec.mode.value}"
        )
    others = [key for key in state.needs if key != state.key]
    if others:
        lines.append(f"it needs {', '.join(others)} too")
    if state.holding and isfinite(state.holds_until_s):
        lines.append(f"members that hold a node release it in {max(0.0, state.holds_until_s - now_s):.0f} s")
    if state.stands_back_for:
        lines.append(f"it waits until gang {state.stands_back_for} has been tried")
    if state.backs_off_until_s > now_s:
        lines.append(
            "it released its nodes incomplete, and takes nodes only all together for "
            f"{state.backs_off_until_s - now_s:.0f} s"
        )
    without = [
        member.pod for member in state.members if not member.node and member.state not in ("succeeded", "failed")
    ]
    if without:
        more = f" and {len(without) - _MEMBERS_SHOWN} more" if len(without) > _MEMBERS_SHOWN else ""
        lines.append(f"without a node: {', '.join(without[:_MEMBERS_SHOWN])}{more}")
    return Concern("gang", state.key, holds, words, tuple(lines))


# ---- other concerns


def _reservation(plugins: PluginRegistry, entry: PodInfo, now_s: float) -> Iterator[Concern]:
    reservations = plugins.reservations
    key = entry.seen.pod.key
    for name in reservations.names()[:_MAX_RESERVATIONS]:
        state = reservations.describe(name)
        if state is None or key not in (*state.owners, *state.waiting):
            continue
        what = "the pod uses it" if key in state.owners else "the pod may use it"
        node = f" on {state.node}" if state.node else ""
        ends = f", ends in {max(0.0, state.ends_s - now_s):.0f} s" if isfinite(state.ends_s) else ""
        why = (state.why,) if state.why else ()
        words = f"{what}{node}: {state.left} of {state.reserved} is left; {state.phase.value}{ends}"
        about = reservations.about(entry.seen.uid) if key in state.waiting else ()
        kept = (f"kept: {reserved}",) if (reserved := _by_number(state.holds)) else ()
        yield Concern("reservation", name, False, words, (*why, *kept, *about))


def _holdings(entry: PodInfo) -> Iterator[Concern]:
    holds = entry.seen.holds if entry.seen.holds != NO_HOLDINGS else entry.holds
    if holds.cpus is not None and holds.cpus.cpus:
        yield Concern("cpus", entry.node, False, f"exclusive CPUs {format_cpus(holds.cpus.cpus)}")
    if holds.devices:
        yield Concern("devices", entry.node, False, _by_number(Holdings(devices=holds.devices)))


def _relabelled(entry: PodInfo) -> Iterator[Concern]:
    for name in entry.seen.relabelled:
        stands = dict(entry.seen.settled).get(name)
        yield Concern(
            "changed",
            name,
            False,
            f"without effect since the pod was bound: {stands if stands else 'it has none'} counts",
        )


def _by_number(holds: Holdings) -> str:
    cpus = (f"CPUs {format_cpus(holds.cpus.cpus)}",) if holds.cpus is not None and holds.cpus.cpus else ()
    return "; ".join((*cpus, *(f"{device.type.value} {device.minor}: {device.amounts}" for device in holds.devices)))


def _load(plugins: PluginRegistry, entry: PodInfo) -> Iterator[Concern]:
    load = plugins.load_aware
    state = load.describe(entry.node) if load.is_on and entry.node else None
    if state is not None:
        yield Concern("load", entry.node, False, state.sentence())


def resized_beside_its_cpus(pod: Pod, holds: Holdings) -> str:
    """What to say of a pod with CPUs of its own that asks for another number by now; empty where it does not."""
    asked_m, own = pod.requests.get(CPU_NAME), () if holds.cpus is None else holds.cpus.cpus
    if not own or asked_m == 1000 * len(own):
        return ""
    asked = format_amount(CPU_NAME, asked_m)
    return (
        f"it asks for {asked} CPUs and keeps the {len(own)} of its own ({format_cpus(own)}): a resize in place gives "
        "and takes none; make another pod"
    )


def node_concerns(plugins: PluginRegistry, entry: PodInfo) -> tuple[Concern, ...]:
    """What concerns a pod on its node: neighbours on its GPUs that want the same, and what it needs of a card; a resize
    that waits; what is lent there, by whom, and which pods hold it; and what the pods there are predicted to use. The
    pod counts on its node.

    Pending changes must be written to the arrays.
    """
    use = plugins.predicted_use
    view = use.describe(entry.node) if use.is_on and entry.node else None
    beside = plugins.devices.beside(entry.number)
    found = [Concern("GPU neighbours", entry.node, False, "; ".join(beside))] if beside else []
    if resize := plugins.deferred_resizes.describe(entry):
        words = "its kubelet defers a resize in place: the node has no room for it"
        found.append(Concern("resize", entry.node, False, f"{words}; {resize}"))
    if need := plugins.devices.need_of(entry.number, entry.seen.pod):
        found.append(Concern("GPU need", entry.node, False, need))
    if held := resized_beside_its_cpus(entry.seen.pod, entry.holds):
        found.append(Concern("CPUs", entry.node, False, held))
    if view is None:
        return tuple(found)
    found += [
        Concern(
            "lent",
            resource,
            False,
            f"it holds {format_amount(resource, amount)}: {view.lent(resource)}",
            (view.lender(resource), *view.largest(resource)),
        )
        for resource, amount in entry.seen.pod.requests
        if resource in LENT
    ]
    own = use.describe_pod(entry.number)
    if own is not None:
        found.append(Concern("predicted use", entry.node, False, own.sentence(), (view.sentence(),)))
    return tuple(found)

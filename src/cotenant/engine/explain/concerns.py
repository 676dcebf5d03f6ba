"""Which quota, gang, reservation or keeper has a say about a pod, in sentences with figures.

Problem: a pod that every node would take may still wait for its quota or its gang, and each of them keeps its own books. Choice: each member of the
plugins is asked for what it tells of itself (`describe`), and this file says which of it is about the pod, and whether it holds the pod back. Members that the
plugins does not have are not asked. Limits: nothing is decided here; a pod that holds something of a node is told what.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import isfinite
from typing import Any

from cotenant.engine.framework.pod_state import ASSIGNED, PodInfo, State
from cotenant.engine.registry import PluginRegistry
from cotenant.model.cluster.demands import NO_HOLDINGS, Holdings
from cotenant.model.cluster.pod import Pod
from cotenant.model.cpus.cpulist import format_cpus
from cotenant.model.decisions.answers import Concern
from cotenant.model.resources import Amounts, format_amount

_MOST_RESERVATIONS = 1000  # looked through for a pod
_MEMBERS_SHOWN = 8


def concerns(plugins: PluginRegistry, entry: PodInfo, pod: Pod, now_s: float) -> tuple[Concern, ...]:
    """What the plugins's members say about the pod, those that hold it first. `pod` may ask for other amounts than it does."""
    found = [*_quota(plugins, entry, pod), *_gang(plugins, entry, now_s), *_reservation(plugins, entry, now_s)]
    found += [*_holdings(entry), *_load(plugins, entry)]
    return tuple(sorted(found, key=lambda each: not each.holds))


def quota_concern(plugins: PluginRegistry, name: str) -> Concern | None:
    """A quota by itself, every term of its runtime; None where there is none of this name."""
    told = _member(plugins, "quotas", name)
    return None if told is None else _told_quota(told, {}, False)


def gang_concern(plugins: PluginRegistry, key: str, now_s: float) -> Concern | None:
    """A gang by itself; None where there is none of this name."""
    told = _member(plugins, "gangs", key)
    return None if told is None else _told_gang(told, bool(told.why), now_s)


def _member(plugins: PluginRegistry, field: str, name: str) -> Any:
    member = getattr(plugins, field, None)
    return None if member is None else member.describe(name)


# ---- quotas


def _quota(plugins: PluginRegistry, entry: PodInfo, pod: Pod) -> Iterator[Concern]:
    quotas = getattr(plugins, "quotas", None)
    if quotas is None:
        return
    name, because = quotas.quota_of(entry.seen.uid)
    told = quotas.describe(name) if name else None
    if told is None:
        return
    waits = entry.state not in ASSIGNED
    over = _over(told, pod.requests) if waits else {}
    kept = bool(told.kept_for) and waits and not quotas.is_kept_for(entry.seen.uid)
    concern = _told_quota(told, over, bool(over) or kept)
    lines = (f"it is the pod's because {because}", *concern.lines) if because else concern.lines
    yield Concern("quota", name, concern.holds, concern.words, lines)


def _over(told: Any, asked: Amounts) -> Mapping[str, int]:
    """By how much the pod would be beyond the quota, by resource."""
    over = {}
    for share in told.shares:
        terms = share.terms
        amount = asked.get(terms.resource)
        if amount and terms.used + amount > terms.runtime:
            over[terms.resource] = terms.used + amount - terms.runtime
    if not told.shares:  # outside of trees the maximum alone limits
        used = dict(told.used)
        for resource, most in told.maximum:
            amount = asked.get(resource)
            if amount and used.get(resource, 0) + amount > most:
                over[resource] = used.get(resource, 0) + amount - most
    return over


def _told_quota(told: Any, over: Mapping[str, int], holds: bool) -> Concern:
    if not told.is_used:
        return Concern("quota", told.name, False, f"it is not used: {'; '.join(told.problems)}")
    if over:
        short = ", ".join(f"{format_amount(name, amount)} {name}" for name, amount in over.items())
        words = f"it would be over by {short}"
    elif holds:
        words = f"it keeps what comes free for {told.kept_for}, which is more important"
    else:
        words = "; ".join(f"{format_amount(r, most)} {r} at most" for r, most in told.maximum) or "it has no maximum"
    words += f"; {told.seated} of its pods run, {told.waiting} wait"
    lines = [*told.problems]
    if told.parent:
        lines.append(f"parent {told.parent}" + (f", children {', '.join(told.children)}" if told.children else ""))
    for share in told.shares:
        lines.append(str(share.reason.text))
        terms = [f"{term.name} {_term(share.terms.resource, term)}" for term in share.reason.terms]
        lines.append("    " + ", ".join(terms))
    if told.over_since_s is not None:
        lines.append("it uses more than its runtime: its least important pods are evicted after the delay")
    if told.kept_for:
        lines.append(f"what comes free is kept for {told.kept_for}")
    return Concern("quota", told.name, holds, words, tuple(lines))


def _term(resource: str, term: Any) -> str:
    return format_amount(resource, term.value) if term.unit else str(term.value)


# ---- gangs


def _gang(plugins: PluginRegistry, entry: PodInfo, now_s: float) -> Iterator[Concern]:
    gangs = getattr(plugins, "gangs", None)
    if gangs is None:
        return
    key = gangs.key_of(entry.seen.uid)
    told = gangs.describe(key) if key else None
    if told is not None:
        yield _told_gang(told, bool(told.why) and (entry.state is State.WAITING or entry.state not in ASSIGNED), now_s)


def _told_gang(told: Any, holds: bool, now_s: float) -> Concern:
    minimum = told.spec.min_available if told.spec is not None else 0
    words = told.why or f"{told.placed} of at least {minimum} members are placed"
    lines = [*told.problems]
    if told.spec is not None:
        lines.append(
            f"{told.placed} placed, {told.holding} hold a node and wait, {told.waiting} have none; {minimum} must be there, "
            f"{told.spec.mode.value}"
        )
    others = [key for key in told.needs if key != told.key]
    if others:
        lines.append(f"it needs {', '.join(others)} too")
    if told.holding and isfinite(told.holds_until_s):
        lines.append(f"those who hold a node give it back in {max(0.0, told.holds_until_s - now_s):.0f} s")
    if told.stands_back_for:
        lines.append(f"it lets {told.stands_back_for} go first")
    without = [each.pod for each in told.members if not each.node and each.state not in ("succeeded", "failed")]
    if without:
        more = f" and {len(without) - _MEMBERS_SHOWN} more" if len(without) > _MEMBERS_SHOWN else ""
        lines.append(f"without a node: {', '.join(without[:_MEMBERS_SHOWN])}{more}")
    return Concern("gang", told.key, holds, words, tuple(lines))


# ---- the rest


def _reservation(plugins: PluginRegistry, entry: PodInfo, now_s: float) -> Iterator[Concern]:
    reservations = getattr(plugins, "reservations", None)
    if reservations is None:
        return
    key = entry.seen.pod.key
    for name in reservations.names()[:_MOST_RESERVATIONS]:
        told = reservations.describe(name)
        if told is None or key not in (*told.owners, *told.waiting):
            continue
        what = "it draws from it" if key in told.owners else "it may draw from it"
        node = f" on {told.node}" if told.node else ""
        ends = f", ends in {max(0.0, told.ends_s - now_s):.0f} s" if isfinite(told.ends_s) else ""
        why = (told.why,) if told.why else ()
        words = f"{what}{node}: {told.left} of {told.reserved} is left; {told.phase.value}{ends}"
        about = reservations.about(entry.seen.uid) if key in told.waiting else ()
        kept = (f"kept: {told_of}",) if (told_of := _by_number(told.holds)) else ()
        yield Concern("reservation", name, False, words, (*why, *kept, *about))


def _holdings(entry: PodInfo) -> Iterator[Concern]:
    holds = entry.seen.holds if entry.seen.holds != NO_HOLDINGS else entry.holds
    if holds.cpus is not None and holds.cpus.cpus:
        yield Concern("cpus", entry.node, False, f"CPUs {format_cpus(holds.cpus.cpus)} are its own")
    if holds.devices:
        yield Concern("devices", entry.node, False, _by_number(Holdings(devices=holds.devices)))


def _by_number(holds: Holdings) -> str:
    cpus = (f"CPUs {format_cpus(holds.cpus.cpus)}",) if holds.cpus is not None and holds.cpus.cpus else ()
    return "; ".join((*cpus, *(f"{each.type.value} {each.minor}: {each.amounts}" for each in holds.devices)))


def _load(plugins: PluginRegistry, entry: PodInfo) -> Iterator[Concern]:
    load = getattr(plugins, "load_aware", None)
    told = load.describe(entry.node) if load is not None and load.is_on and entry.node else None
    if told is not None:
        yield Concern("load", entry.node, False, told.sentence())

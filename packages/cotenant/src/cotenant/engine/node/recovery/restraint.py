"""What other policies of this agent hold best-effort work at while a service suffers, and who is held by it.

The guard cuts all best-effort work within a second of the first late requests, mostly before an incident would open.
The trouble then ends without an action of the ladder, and would be told as no trouble at all, or as trouble without a
cause. Who was held, by whom, why and since when is read from each sample: quotas that the agent itself holds
(`NodeState.limits`), and the pods that used far more just before (`attribution/held.py`).
Limits: quotas, not CPU sets; who never ran before the limit stood is held, too, but has harmed nobody.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from cotenant.engine.node.recovery.facts import RecoveryFacts
from cotenant.engine.node.recovery.incident import Incident, Restraint
from cotenant.model.machine.knob import Knob, KnobTarget
from cotenant.model.machine.knob_values import parse_cpu_max
from cotenant.model.machine.node_state import BindingLimit, NodeState

_NAMED = 4
_CALLED = {"cpu-guard": "the guard", "cpu-suppress": "the budget of best-effort work"}  # by the rule that binds
_UNKNOWN = "another policy"


def standing(state: NodeState) -> Restraint | None:
    """The quotas of best-effort work that stand now, other than those of recovery's own leases; without who is held."""
    common = state.best_effort_group
    groups = [common] if common else sorted({entry.pod.group for entry in state.best_effort_pods} - {""})
    quotas = {group: _quota_m(state, group) for group in groups}
    limited = {group: cpu_m for group, cpu_m in quotas.items() if cpu_m is not None}
    if not limited or (not common and not state.limits):
        return None
    limit = next((state.limits[group] for group in limited if group in state.limits), None)
    by = _UNKNOWN if limit is None else called(limit)
    why, since_us = ("", state.at_us) if limit is None else (limit.reason.text, limit.since_us)
    return Restraint(by, why, since_us, sum(limited.values()))


def called(limit: BindingLimit) -> str:
    """Who limits, for people."""
    return _CALLED.get(limit.reason.rule, limit.policy)


def now_held(facts: RecoveryFacts) -> Restraint | None:
    """What stands now, with the best-effort work that it holds."""
    found = standing(facts.state)
    if found is None:
        return None
    if found.by == _UNKNOWN and not facts.history.samples[-1].held:
        return found
    sample = facts.history.samples[-1]
    keys = {entry.pod.uid: entry.pod.key for entry in facts.state.pods}

    def by_name(amounts: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
        used: dict[str, int] = {}
        for uid, cpu_m in amounts.items():
            name = sample.workloads.get(uid) or keys.get(uid, uid)
            used[name] = used.get(name, 0) + cpu_m
        return _largest(used)

    if not sample.held:
        least_m = facts.settings.attribution.min_suspect_cpu_m
        uses = {entry.pod.uid: entry.use.cpu_m or 0 for entry in facts.state.best_effort_pods}
        return replace(found, under=by_name({uid: cpu_m for uid, cpu_m in uses.items() if cpu_m >= least_m}))
    since_us = min(held.since_us for held in sample.held.values())
    return replace(found, since_us=since_us, held=by_name({uid: held.cpu_m for uid, held in sample.held.items()}))


def with_restraint(incident: Incident, facts: RecoveryFacts) -> Incident:
    """The incident with what holds best-effort work while its trouble lasts."""
    if not (facts.in_trouble(incident.victim) or facts.is_bad(incident.victim)):
        return incident
    found, before = now_held(facts), incident.restraint
    if found is None or (found.by == _UNKNOWN and incident.lease is not None):
        return incident
    is_first_known = before is not None and before.by == _UNKNOWN != found.by
    if before is None or is_first_known or (found.held and not before.held):
        return replace(incident, restraint=found)
    told = found if found.by != _UNKNOWN and found.cpu_m < before.cpu_m else before
    cpu_m = min(found.cpu_m, before.cpu_m)
    held, under = _joined(before.held, found.held), _joined(before.under, found.under)
    merged = replace(before, by=told.by, why=told.why, cpu_m=cpu_m, held=held, under=under)
    return replace(incident, restraint=merged)


def described(restraint: Restraint) -> str:
    """What is held, by whom and why, for people."""
    why = f": {restraint.why}" if restraint.why else ""
    what = f" and with it {restraint.who}" if restraint.who else ""
    return f"{restraint.by} holds all best-effort work at {restraint.cpu_m / 1000:g} CPU{what}{why}"


def described_after(restraint: Restraint, opened_us: int) -> str:
    """The same when it is over, or from afar: since when, and what it brought."""
    after_s = (restraint.since_us - opened_us) / 1e6
    since = f"from {after_s:.1f} s after" if after_s >= 0 else f"from {-after_s:.1f} s before"
    what = f" and with it {restraint.who}" if restraint.who else ""
    text = f"{restraint.by} held all best-effort work at {restraint.cpu_m / 1000:g} CPU{what}"
    return f"{text}, {since} the first bad sample: {restraint.why}" if restraint.why else text


def _quota_m(state: NodeState, group: str) -> int | None:
    value = state.knobs.get(KnobTarget(group, Knob.CPU_MAX))
    return None if value is None else parse_cpu_max(value).cpu_m


def _joined(before: Iterable[tuple[str, int]], now: Iterable[tuple[str, int]]) -> tuple[tuple[str, int], ...]:
    names = dict(before)
    for name, cpu_m in now:
        names[name] = max(cpu_m, names.get(name, 0))
    return _largest(names)


def _largest(used: dict[str, int]) -> tuple[tuple[str, int], ...]:
    return tuple(sorted(used.items(), key=lambda item: (-item[1], item[0]))[:_NAMED])

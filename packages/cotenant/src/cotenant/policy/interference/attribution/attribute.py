"""The cause of a service's trouble: the candidates in order with their confidence, and the pod that is named, if any.

Limiting a pod for trouble that the service has by itself costs work and helps no service. Causes that exclude every pod
are tested first: the service's own quota, and a service that it calls, unless the service's own waiting for a CPU names
a pod. Then the shares of all signals are averaged, weighted by how directly each measures cause, and the mean is the
confidence. A service that suffers at the same time without more demand is a fellow, and its activity explains nothing.
A pod is named only where its confidence and its lead over the second candidate are sufficient, and only if it became
more active when the trouble began, and was active in most of the bad samples, unless it ran on the CPU that the service
waited for while the service's own demand was as before. Otherwise no pod is named, and the cause says why. Where none
is named by itself, the pods of each best-effort workload are asked as one candidate (`workloads.py`).
Limits: two pods that are always active together are not told apart; the confidence is a share of evidence, not a
probability.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import pairwise

from cotenant.model.devices.card_sample import CardPath
from cotenant.model.machine.node_decision import DecisionTerm
from cotenant.model.machine.node_state import PPM, NodeState, PodUse
from cotenant.policy.interference.attribution.activity import ActivityMeasure, Own, mean_over_time
from cotenant.policy.interference.attribution.answer import Attribution, answer
from cotenant.policy.interference.attribution.bystanders import bystanders, without_activity
from cotenant.policy.interference.attribution.cards import ON_CARD
from cotenant.policy.interference.attribution.causes import (
    CandidateCause,
    TroubleCause,
    called,
    own_card,
    own_quota,
)
from cotenant.policy.interference.attribution.evidence import (
    SignalEvidence,
    Split,
    activity_of,
    by_blame,
    by_fit,
    highest_of,
    min_activity,
    rise_from,
    split,
    suspects,
)
from cotenant.policy.interference.attribution.samples import NodeSamples
from cotenant.policy.interference.attribution.settings import WEIGHTS, AttributionSettings, EvidenceSignal
from cotenant.policy.interference.attribution.workloads import by_workload, max_active, workloads_of

_WAITING = frozenset({EvidenceSignal.BLAME, EvidenceSignal.RUN_DELAY, EvidenceSignal.STALL})
_SLOWED = _WAITING | {EvidenceSignal.CPI}  # by a neighbour on the CPU
_OF_REQUESTS = (EvidenceSignal.LATENCY, EvidenceSignal.SELF_TIME)
_AS_WELL = 0.9  # of what explains the end of a trouble, what has to explain the whole


def attribute(
    history: NodeSamples, state: NodeState, victim: PodUse, settings: AttributionSettings, since_us: int | None = None
) -> Attribution | None:
    """The cause of a service's trouble from the window of samples; None where it has no bad sample. `since_us`: of its
    bad samples since an instant (0: of all) and of nothing else.
    """
    if since_us is not None:
        return _of_part(history, state, victim, settings, since_us)
    found = _whole_or_recent(history, state, victim, settings)
    if found is None or found.culprit is not None:
        return found
    # A service that hardly gets any CPU time answers few requests just then: who is named by its waiting is named.
    counted = history.without_small_windows(victim.pod.uid)
    told = None if counted.samples == history.samples else _of_part(counted, state, victim, settings, 0)
    return found if told is None or told.culprit is None else told


def _whole_or_recent(
    history: NodeSamples, state: NodeState, victim: PodUse, settings: AttributionSettings
) -> Attribution | None:
    """Of the whole trouble, or of its end where that names a pod, or another cause. What explains the end better than
    the whole leaves the beginning without a cause, which may go on: who came meanwhile is not named for it.
    """
    whole = _of_part(history, state, victim, settings, 0)
    if whole is None or whole.culprit is not None:
        return whole
    parts = split(history, victim.pod.uid, settings)
    assert parts is not None, "there was an answer"
    since_us = parts.bad[-1][0].at_us - settings.recent_us
    latest = sum(sample.at_us > since_us for sample, _ in parts.bad)
    if latest == len(parts.bad) or latest < settings.trouble_of:
        return whole
    recent = _of_part(history, state, victim, settings, since_us)
    assert recent is not None, "its last bad sample is among them"
    has_changed = TroubleCause.UNKNOWN not in (whole.cause, recent.cause) and whole.cause is not recent.cause
    is_named = recent.culprit is not None and _explained(whole) >= _AS_WELL * _explained(recent)
    return recent if is_named or (has_changed and recent.culprit is None) else whole


def _explained(found: Attribution) -> int:
    """What its candidates explain together, millionths."""
    return sum(candidate.confidence_ppm for candidate in found.candidates)


def _of_part(
    history: NodeSamples, state: NodeState, victim: PodUse, settings: AttributionSettings, since_us: int
) -> Attribution | None:
    parts = split(history, victim.pod.uid, settings, since_us)
    if parts is None:
        return None
    quota = own_quota(parts, settings)
    if quota is not None:
        return answer(parts, state, victim, quota, (quota,), quota.cause)
    failed = own_card(parts)
    if failed is not None:
        return answer(parts, state, victim, failed, (failed,), failed.cause)
    left_out = bystanders(history, parts, settings)
    if left_out:
        history = without_activity(history, left_out)
        parts = split(history, victim.pod.uid, settings, since_us)
        assert parts is not None, "the levels are the same"
    found = _found(history, parts, state, victim, settings, {})
    workloads = {} if found.culprit is not None else workloads_of(history)
    if not workloads:
        return found
    together = by_workload(history, workloads)
    parts_together = split(together, victim.pod.uid, settings, since_us)
    assert parts_together is not None, "the levels are the same"
    leaders = {}
    here = {entry.pod.uid for entry in state.best_effort_pods}
    for name in set(workloads.values()):
        members = frozenset(uid for uid, workload in workloads.items() if workload == name and uid in here)
        leaders[name] = max_active(parts, members)
    return _found(together, parts_together, state, victim, settings, leaders)


def _found(
    history: NodeSamples,
    parts: Split,
    state: NodeState,
    victim: PodUse,
    settings: AttributionSettings,
    leaders: Mapping[str, str],
) -> Attribution:
    """The answer by the evidence. `leaders`: a pod of each workload that is one candidate, by its name; "" where
    none is left.
    """
    keys = {entry.pod.uid: entry.pod.key for entry in state.pods}
    callee = called(parts, settings)
    # Where calls explain the latency, it shows nothing about the neighbours; waiting for a CPU still does, and a
    # service that is called may be on the same node.
    evidence = _evidence(history, parts, settings, set(_OF_REQUESTS) if callee is not None else set())
    owners = {uid: name for sample, _ in parts.bad for uid, name in sample.workloads.items()}
    candidates = _ranked(evidence, keys, leaders, owners, parts.full_paths(settings))
    if callee is not None and not (candidates and _is_culprit(parts, candidates, evidence, settings)):
        return answer(parts, state, victim, callee, (callee, *candidates), callee.cause)
    if not candidates:
        return answer(parts, state, victim, None, (), _cause_without_evidence(parts, settings))
    top = candidates[0]
    if top.cause is not TroubleCause.POD:
        is_sure = top.confidence_ppm >= settings.min_confidence_ppm
        return answer(parts, state, victim, top, candidates, top.cause if is_sure else TroubleCause.UNKNOWN)
    if not _is_culprit(parts, candidates, evidence, settings):
        return answer(parts, state, victim, top, candidates, TroubleCause.UNKNOWN)
    return answer(parts, state, victim, top, candidates, TroubleCause.POD)


def _is_culprit(
    parts: Split, candidates: tuple[CandidateCause, ...], evidence: list[SignalEvidence], settings: AttributionSettings
) -> bool:
    """Whether the first candidate is a pod, is certain, leads, and may be what has changed."""
    top = candidates[0]
    lead = top.confidence_ppm - (candidates[1].confidence_ppm if len(candidates) > 1 else 0)
    sure = top.confidence_ppm >= settings.min_confidence_ppm and lead >= settings.min_lead_ppm
    return top.cause is TroubleCause.POD and sure and _may_be_the_change(parts, top, evidence, settings)


def _evidence(
    history: NodeSamples, parts: Split, settings: AttributionSettings, left_out: set[EvidenceSignal]
) -> list[SignalEvidence]:
    found: dict[EvidenceSignal, SignalEvidence] = {}
    # What it waited for tells by which means others can have made its requests slow.
    for signal in sorted(settings.signals, key=_OF_REQUESTS.__contains__):
        if signal in left_out:
            continue
        if signal is EvidenceSignal.BLAME:
            shown = by_blame(parts, settings)
        else:
            threshold = history.threshold_ppm(parts.uid, signal, settings)
            shown = (
                None
                if threshold is None
                else by_fit(
                    parts,
                    signal,
                    rise_from(parts, signal, threshold, settings),
                    settings,
                    _means_of(signal, parts, found),
                )
            )
        if shown is not None:
            found[signal] = shown
    return [found[signal] for signal in settings.signals if signal in found]


def _means_of(
    signal: EvidenceSignal, parts: Split, found: Mapping[EvidenceSignal, SignalEvidence]
) -> tuple[ActivityMeasure, ...]:
    """By which means a neighbour can have raised a signal: none of the host's tells of waiting for a card."""
    means = _on_host(signal, parts, found)
    return (*means, *parts.card_means()) if signal in _OF_REQUESTS else means


def _on_host(
    signal: EvidenceSignal, parts: Split, found: Mapping[EvidenceSignal, SignalEvidence]
) -> tuple[ActivityMeasure, ...]:
    if signal is EvidenceSignal.IO_STALL:
        return (ActivityMeasure.DISK,)
    if signal is EvidenceSignal.CPI:
        return (ActivityMeasure.WORK,)
    if signal not in _OF_REQUESTS:
        return (ActivityMeasure.CPU,)
    on_cpu = _on_cpu(found)
    is_slowed = not _SLOWED.isdisjoint(found)
    if EvidenceSignal.IO_STALL in found:
        return (on_cpu, ActivityMeasure.DISK) if is_slowed else (ActivityMeasure.DISK,)
    last = parts.bad[-1][1].levels
    if is_slowed or EvidenceSignal.IO_STALL in last:
        return (on_cpu,)
    # The group's waiting for disks is not known (cgroup v1): they remain possible, and nothing else does where it is
    # known that it was not slowed on the CPU.
    return (ActivityMeasure.CPU, ActivityMeasure.DISK) if _SLOWED.isdisjoint(last) else (ActivityMeasure.DISK,)


def _on_cpu(found: Collection[EvidenceSignal]) -> ActivityMeasure:
    """By what neighbours on the CPU count: who waits for them waits for their time, who is slowed is so by their
    work.
    """
    return ActivityMeasure.WORK if EvidenceSignal.CPI in found and _WAITING.isdisjoint(found) else ActivityMeasure.CPU


def _ranked(
    evidence: list[SignalEvidence],
    keys: Mapping[str, str],
    leaders: Mapping[str, str],
    owners: Mapping[str, str],
    full: frozenset[CardPath],
) -> tuple[CandidateCause, ...]:
    """All candidates with evidence, by their weighted mean share; a signal without a share of a candidate counts as
    0.
    """
    total = sum(WEIGHTS[entry.signal] for entry in evidence)
    names = sorted({name for entry in evidence for name in entry.shares})
    candidates = []
    for name in names:
        share = sum(WEIGHTS[entry.signal] * entry.shares.get(name, 0.0) for entry in evidence) / total
        by_card = _path_of(name, share * total, evidence, full)
        by_disk = 2 * sum(WEIGHTS[entry.signal] * entry.by_disk.get(name, 0.0) for entry in evidence) > share * total
        terms = tuple(
            DecisionTerm(entry.signal.value, round(entry.shares.get(name, 0.0) * PPM), "ppm") for entry in evidence
        )
        if name == Own.LOAD:
            found = CandidateCause(TroubleCause.OWN_LOAD, "", "its own load", round(share * PPM), terms)
        elif name == Own.OUTSIDE:
            found = CandidateCause(TroubleCause.OUTSIDE, "", "work outside the pods", round(share * PPM), terms)
        elif name in leaders:
            uid = leaders[name]
            found = CandidateCause(
                TroubleCause.POD, uid, keys.get(uid, name), round(share * PPM), terms, name, by_disk, by_card
            )
        else:
            pod, owner = keys.get(name, name), owners.get(name, "")
            found = CandidateCause(TroubleCause.POD, name, pod, round(share * PPM), terms, "", by_disk, by_card, owner)
        if found.confidence_ppm:
            candidates.append(found)
    return tuple(sorted(candidates, key=lambda candidate: (-candidate.confidence_ppm, candidate.cause, candidate.uid)))


def _path_of(name: str, share: float, evidence: list[SignalEvidence], full: frozenset[CardPath]) -> str:
    """The path on a card that explains most of a candidate's share, where all of them explain the larger part. What a
    pod takes of multiprocessors and of memory rises and falls together: of these, the one that became full.
    """
    parts = {
        path: sum(WEIGHTS[entry.signal] * entry.by_card.get((name, path), 0.0) for entry in evidence)
        for path in CardPath
    }
    if 2 * sum(parts.values()) <= share:
        return ""
    largest = max(parts, key=lambda path: parts[path])
    of_card = sorted(full & {path for path, part in parts.items() if part > 0})
    return (of_card[0] if largest in ON_CARD and len(of_card) == 1 else largest).value


def _cause_without_evidence(parts: Split, settings: AttributionSettings) -> TroubleCause:
    growth = parts.growth_ppm()
    return TroubleCause.OWN_LOAD if growth is not None and growth >= settings.own_growth_ppm else TroubleCause.UNKNOWN


def _may_be_the_change(
    parts: Split, top: CandidateCause, evidence: list[SignalEvidence], settings: AttributionSettings
) -> bool:
    """Whether the pod became more active with the trouble, or ran instead of a service whose own demand was as
    before.
    """
    on_cpu = _on_cpu({entry.signal for entry in evidence})
    on_host = ActivityMeasure.DISK if top.by_disk else on_cpu
    suspect, means = top.identity, ActivityMeasure(top.by_card) if top.by_card else on_host
    blamed = any(
        entry.signal is EvidenceSignal.BLAME and entry.shares.get(suspect, 0.0) * PPM >= settings.min_confidence_ppm
        for entry in evidence
    )
    growth = parts.growth_ppm()
    if blamed and (growth is None or growth < settings.own_growth_ppm):
        return True
    if not parts.calm or suspect not in suspects(parts, settings, means):
        return False
    active = dict(zip((sample.at_us for sample, _ in parts.pairs), activity_of(parts, suspect, means), strict=True))
    before = mean_over_time(parts.calm, lambda sample: active[sample.at_us])
    during = mean_over_time(parts.bad, lambda sample: active[sample.at_us])
    if during - before < max(min_activity(settings, means), before * settings.min_rise_ppm / PPM):
        return False
    # The first latency of a trouble is of a window most of which was calm: what counts is whether it ran in it at all.
    highest = dict(zip(active, highest_of(parts, suspect, means), strict=True))
    absent = mean_over_time(parts.bad, lambda sample: float(highest[sample.at_us] < (before + during) / 2))
    if absent * PPM > settings.max_absent_ppm:
        return False
    is_active = [active[sample.at_us] >= (before + during) / 2 for sample, _ in parts.pairs]
    returned = sum(now != then for now, then in pairwise(is_active)) >= settings.min_switches
    if means.path is not None:
        # Only where a card became full with the trouble does a pod's part of it leave the service less.
        return returned or means.path in parts.full_paths(settings)
    if any(entry.signal in _SLOWED or entry.signal is EvidenceSignal.IO_STALL for entry in evidence):
        return True
    if top.by_disk and parts.disk_pressure_rise_ppm() >= settings.min_disk_pressure_ppm:
        return True
    last = parts.bad[-1][1].levels
    if not top.by_disk and EvidenceSignal.CPI in last and not _WAITING.isdisjoint(last):
        return False  # it neither waited longer nor ran slower
    # Latency alone: a pod that happened to start with the trouble is not told from its cause until both have come and
    # gone again.
    return returned

"""One step of an incident: act on the named culprit at the mildest permitted rung, prove the action, hold it, release
it, or back down.

An action on the wrong pod, or a useless one on the right pod, must end by itself, and a culprit that returns must not
be found anew each time. A pure function over the incident and the node's samples. After an action only samples that lie
wholly behind it count; their mean is compared with the level before. Recovered: the lease lasts on for its time.
Improved: the next rung. Not improved: the lease ends and the pod is cleared for this service; the mild rungs go on to
the next one where the same pod is still named. When the trouble returns after a
lease, the same rung is used again for twice as long, and the next one after some recurrences. Before each stronger rung
the cause is asked again, so a cause that was the service's own ends the action.
Limits: two actions for one service are never in force at once; where two services have the same culprit, each has its
own incident.

Source: proof by comparing before and during: Zhang et al., CPI2, EuroSys'13, section 5; the ladder:
docs/guide/recovery.md.
"""

from __future__ import annotations

from dataclasses import replace

from cotenant.engine.node.recovery.cards import clocks_of, is_mild, power_of, slices_of, threads_after, took_less
from cotenant.engine.node.recovery.facts import ClearedCulprit, RecoveryFacts
from cotenant.engine.node.recovery.incident import Incident, IncidentAction, Proof, TroubleReading
from cotenant.engine.node.recovery.restraint import described as described_restraint
from cotenant.engine.node.recovery.restraint import described_after, with_restraint
from cotenant.engine.node.recovery.rungs import (
    cap_m,
    described,
    disk_bps,
    limited_clients,
    longest_proof_us,
    next_rung,
    no_rung,
)
from cotenant.engine.node.recovery.stages import LEAVING, IncidentStage, RecoveryRung
from cotenant.model.machine.node_state import PPM
from cotenant.policy.interference.attribution.answer import Attribution
from cotenant.policy.interference.attribution.causes import TroubleCause
from cotenant.policy.interference.attribution.settings import EvidenceSignal


def step(incident: Incident, facts: RecoveryFacts) -> tuple[Incident, tuple[ClearedCulprit, ...]]:
    """The incident after one more sample, and the pods that are cleared by it."""
    if facts.entry(incident.victim) is None:
        return incident.to(IncidentStage.GONE, facts.now_us, f"{incident.name} left the node", lease=None), ()
    incident = with_restraint(_with_calm(incident, facts), facts)
    match incident.stage:
        case IncidentStage.SUSPECTED | IncidentStage.GUARDED:
            return _suspected(incident, facts), ()
        case IncidentStage.OWN:
            return _own(incident, facts), ()
        case IncidentStage.ACTING:
            return _acting(incident, facts)
        case IncidentStage.HOLDING:
            return _holding(incident, facts), ()
        case IncidentStage.RELEASED:
            return _released(incident, facts), ()
        case IncidentStage.EXHAUSTED:
            return _exhausted(incident, facts), ()
        case _:
            return incident, ()


def _with_calm(incident: Incident, facts: RecoveryFacts) -> Incident:
    """Note since when all samples are calm; forget it when the trouble is back."""
    single = incident.stage is IncidentStage.GUARDED and facts.is_bad(incident.victim)
    if single or facts.in_trouble(incident.victim):
        is_told = incident.stage is IncidentStage.GUARDED  # too early: the trouble was not over
        return replace(incident, calm_us=None, recovered_us=None if is_told else incident.recovered_us)
    if incident.calm_us is not None:
        return incident
    calm_us, settings = None, facts.settings.attribution
    signal = facts.history.deciding(incident.victim, settings)
    threshold = None if signal is None else facts.history.threshold_ppm(incident.victim, signal, settings)
    for sample, service in reversed(facts.history.of(incident.victim)):
        if signal is None or threshold is None or service.levels.get(signal, 0) > threshold:
            break
        # A window with too few requests to tell their latency does not make those before it good.
        if sample.at_us <= incident.opened_us or facts.history.exceeds(service, settings):
            break
        calm_us = sample.at_us
    return replace(incident, calm_us=calm_us)


def _is_over(incident: Incident, facts: RecoveryFacts) -> bool:
    return (
        incident.calm_us is not None
        and facts.now_us - max(incident.calm_us, incident.since_us) >= facts.settings.after_us
    )


def _suspected(incident: Incident, facts: RecoveryFacts) -> Incident:
    if _is_over(incident, facts):
        return _recovered(incident, facts, _ended(incident))
    incident = _guarded(incident, facts)
    in_trouble = facts.in_trouble(incident.victim)
    may_ask = in_trouble or (incident.stage is IncidentStage.GUARDED and facts.is_bad(incident.victim))
    if not may_ask or not facts.is_due(incident):
        return incident
    found = facts.cause(incident)
    incident = replace(incident, asked_us=facts.now_us)
    if found is None:
        return incident
    incident = replace(incident, attribution=found)
    if not in_trouble:
        return incident  # what holds is enough so far
    if found.culprit is None:
        if found.cause is TroubleCause.UNKNOWN:
            return incident
        return incident.to(IncidentStage.OWN, facts.now_us, f"no pod is named: {found.reason.text}")
    return _climb(incident, facts, found, None)


def _guarded(incident: Incident, facts: RecoveryFacts) -> Incident:
    """Told as guarded once another policy holds who ran, with what that brings."""
    restraint = incident.restraint
    if restraint is None or not restraint.held:
        return incident
    during = _reading(incident, facts, restraint.since_us + facts.settings.settle_us)
    if during is not None:
        restraint = replace(restraint, during=during)
    incident = replace(incident, restraint=restraint)
    if incident.stage is not IncidentStage.SUSPECTED:
        return _proven_guard(incident, facts)
    return incident.to(IncidentStage.GUARDED, facts.now_us, described_restraint(restraint))


def _proven_guard(incident: Incident, facts: RecoveryFacts) -> Incident:
    """Told as recovered by what proves an action: as many calm samples, measured wholly under what holds. Whether the
    trouble is over is watched for longer.
    """
    during = None if incident.restraint is None else incident.restraint.during
    proof = facts.settings.proof_samples
    if incident.calm_us is None or during is None or during.samples < proof:
        return incident
    calm = [sample for sample, _ in facts.history.of(incident.victim) if sample.at_us >= incident.calm_us]
    return _with_recovery(incident, facts) if len(calm) >= proof else incident


def _own(incident: Incident, facts: RecoveryFacts) -> Incident:
    if _is_over(incident, facts):
        return _recovered(incident, facts, _ended(incident))
    if not facts.in_trouble(incident.victim) or not facts.is_due(incident):
        return incident
    found = facts.cause(incident)
    incident = replace(incident, asked_us=facts.now_us)
    if found is None or found.culprit is None:
        return (
            incident if found is None or found.cause is TroubleCause.UNKNOWN else replace(incident, attribution=found)
        )
    return incident.to(
        IncidentStage.SUSPECTED,
        facts.now_us,
        f"a pod is named now: {found.reason.text}",
        attribution=found,
        asked_us=None,
    )


def _climb(
    incident: Incident,
    facts: RecoveryFacts,
    found: Attribution,
    above: RecoveryRung | None,
    again: RecoveryRung | None = None,
) -> Incident:
    """Take the next permitted rung above one, the same one `again`, or the first."""
    now, culprit = facts.now_us, found.culprit
    assert culprit is not None
    if held := facts.held(culprit.identity, incident.victim):
        return _waiting(incident, now, held)
    # The deciding signal may have changed since the opening, where the latency became silent: levels and threshold are
    # of one signal.
    incident = replace(incident, attribution=found, threshold_ppm=found.threshold_ppm)
    rung = next_rung(incident, facts, culprit.identity, above, again)
    if rung is None:
        text = no_rung(incident, facts, culprit.identity)
        return incident.to(IncidentStage.EXHAUSTED, now, f"{found.reason.text}; {text}", attribution=found, lease=None)
    limit_m = cap_m(incident, facts, culprit.identity, rung)
    lease = IncidentAction(
        rung,
        culprit.identity,
        culprit.name,
        now,
        now + longest_proof_us(rung, facts, culprit.identity),
        limit_m,
        workload=culprit.workload,
        card_power=power_of(incident, facts, culprit.identity, rung),
        card_clocks=clocks_of(incident, facts, culprit.identity, rung),
        card_slices=slices_of(incident, facts, culprit.identity, rung),
        threads_percent=threads_after(incident, facts, culprit.identity, rung),
        disk_bps=disk_bps(incident, facts, culprit.identity, rung),
    )
    # The earlier rung's lease ends as this one begins: both are compared with the level before either.
    earlier = incident.proofs[-1].before if above is not None and incident.proofs else None
    before = earlier or _reading(incident, facts, 0) or incident.before
    text = f"{found.reason.text}; {described(lease, incident.name)}"
    acted = incident.to(IncidentStage.ACTING, now, text, attribution=found, acted_on=found, lease=lease)
    return acted.with_proof(
        Proof(
            rung,
            culprit.name,
            now,
            before,
            workload=culprit.workload,
            cause=found.reason.text,
            confidence_ppm=culprit.confidence_ppm,
        )
    )


def _waiting(incident: Incident, now_us: int, why: str) -> Incident:
    """As it is, with the reason why nothing is begun, told once: what is in force stays, and is given back in time."""
    return incident.noting(now_us, f"nothing is begun: {why}")


def _reading(incident: Incident, facts: RecoveryFacts, from_us: int, whole: bool = True) -> TroubleReading | None:
    """The mean over samples that lie behind an instant, `whole` or by their end; before any action (0), over the
    bad ones by which the cause was found.
    """
    found, settings = incident.attribution, facts.settings.attribution
    signal = facts.history.deciding(incident.victim, settings) if found is None else found.signal
    levels, burns = [], []
    for sample, service in facts.history.of(incident.victim):
        if signal is None or signal not in service.levels:
            continue
        level = service.levels[signal]
        if from_us:
            latency = signal in (EvidenceSignal.LATENCY, EvidenceSignal.SELF_TIME)
            measured_from_us = sample.at_us - max(
                sample.length_us, service.age_us + service.window_us if latency else 0
            )
            if (measured_from_us if whole else sample.at_us - 1) < from_us:
                continue
        elif level <= incident.threshold_ppm or (found is not None and sample.at_us < found.since_us):
            continue
        levels.append(level)
        if service.burn_milli is not None:
            burns.append(service.burn_milli)
    if not levels:
        return None
    return TroubleReading(sum(levels) // len(levels), sum(burns) // len(burns) if burns else None, len(levels))


def _acting(incident: Incident, facts: RecoveryFacts) -> tuple[Incident, tuple[ClearedCulprit, ...]]:
    lease, now, settings = incident.lease, facts.now_us, facts.settings
    assert lease is not None
    is_here = bool(facts.members(lease.culprit))
    if not is_here and lease.left_us is None:
        if lease.rung not in LEAVING:
            return incident.to(IncidentStage.SUSPECTED, now, f"{lease.called} left the node", lease=None), ()
        lease = replace(lease, left_us=now, until_us=now + settings.settle_us + settings.proof_us)
        incident = replace(incident, lease=lease)
    if lease.rung in LEAVING and is_here:
        return _still_here(incident, lease, facts), ()
    began_us = lease.since_us if lease.left_us is None else lease.left_us
    during = _reading(incident, facts, began_us + settings.settle_us)
    if (during is None or during.samples < settings.proof_samples) and now < lease.until_us:
        return incident, ()
    return _proven(incident, lease, during, facts)


def _still_here(incident: Incident, lease: IncidentAction, facts: RecoveryFacts) -> Incident:
    """While an eviction or a move is waited for; the culprit has not left."""
    now, settings = facts.now_us, facts.settings
    if lease.group_m is None and _is_over(incident, facts):
        what = "the move" if lease.rung is RecoveryRung.MOVE else f"{lease.called} left"
        return incident.to(IncidentStage.RELEASED, now, f"the trouble ended before {what}", lease=None)
    if now < lease.until_us:
        return incident
    if lease.rung is RecoveryRung.EVICT:
        text = f"{lease.called} was not evicted within {(now - lease.since_us) // 1_000_000} s"
        found = incident.attribution
        if found is not None and next_rung(incident, facts, lease.culprit, lease.rung) is not None:
            return _climb(incident, facts, found, lease.rung)
    else:
        text = f"neither {lease.called} nor {incident.name} was moved within {settings.move_us // 1_000_000} s"
    return incident.to(IncidentStage.EXHAUSTED, now, text, lease=None)


def _proven(
    incident: Incident, lease: IncidentAction, during: TroubleReading | None, facts: RecoveryFacts
) -> tuple[Incident, tuple[ClearedCulprit, ...]]:
    """What follows from the proof of an action."""
    now, settings, proof = facts.now_us, facts.settings, incident.proofs[-1]
    before = proof.before.level_ppm
    recovered = during is not None and during.level_ppm <= incident.threshold_ppm
    improved = during is not None and (before - during.level_ppm) * PPM >= settings.helped_ppm * before
    less = took_less(incident, facts, lease)
    incident = incident.with_proof(replace(proof, during=during, helped=recovered or improved, took_less=less))
    shown = "no sample" if during is None else f"{during.level_ppm / PPM:.2f}"
    effect = f"{incident.name} went from {before / PPM:.2f} to {shown}"
    if recovered:
        incident = _with_recovery(incident, facts)
        if lease.rung in LEAVING and lease.threads_percent is None:
            return incident.to(IncidentStage.RELEASED, now, f"{effect}: recovered", lease=None), ()
        until = now + min(settings.longest_lease_us, settings.lease_us << min(16, incident.recurrences))
        stays = f"{lease.rung} is held" if lease.threads_percent is None else limited_clients(lease.threads_percent)
        text = f"{effect}: recovered; {stays} for {(until - now) // 1_000_000} s"
        return incident.to(IncidentStage.HOLDING, now, text, lease=replace(lease, until_us=until)), ()
    found = facts.cause(incident)
    if found is not None and found.cause not in (TroubleCause.POD, TroubleCause.UNKNOWN):
        text = f"{effect}; {lease.rung} ends: {found.reason.text}"
        return incident.to(IncidentStage.OWN, now, text, lease=None, attribution=found), ()
    above = next_rung(incident, facts, lease.culprit, lease.rung)
    if improved or (is_mild(lease, incident) and facts.names(found, lease.culprit)):
        again = found if facts.names(found, lease.culprit) else incident.attribution
        assert again is not None
        if above is not None:
            return _climb(incident, facts, again, lease.rung), ()
        if improved and lease.rung not in LEAVING:
            until = now + settings.lease_us
            text = (
                f"{effect}: improved, and no stronger action is permitted; {lease.rung} is held for "
                f"{settings.lease_us // 1_000_000} s"
            )
            return incident.to(IncidentStage.HOLDING, now, text, lease=replace(lease, until_us=until)), ()
    cleared = ClearedCulprit(lease.culprit, incident.victim, now + settings.cleared_us)
    text = f"{effect}: {lease.rung} did not help, it ends, and {lease.called} is cleared"
    return incident.to(IncidentStage.SUSPECTED, now, text, lease=None), (cleared,)


def _holding(incident: Incident, facts: RecoveryFacts) -> Incident:
    lease, now = incident.lease, facts.now_us
    assert lease is not None
    if lease.rung not in LEAVING and not facts.members(lease.culprit):
        return incident.to(IncidentStage.RELEASED, now, f"{lease.called} left the node", lease=None)
    if now >= lease.until_us:
        return incident.to(IncidentStage.RELEASED, now, f"the time of {lease.rung} is over: it is released", lease=None)
    if facts.in_trouble(incident.victim) and now - incident.since_us >= facts.settings.settle_us:
        found = incident.attribution
        if (
            found is not None
            and facts.names(found, lease.culprit)
            and next_rung(incident, facts, lease.culprit, lease.rung)
        ):
            return _climb(incident, facts, found, lease.rung)
    return incident


def _released(incident: Incident, facts: RecoveryFacts) -> Incident:
    now, proof = facts.now_us, incident.proofs[-1] if incident.proofs else None
    if proof is not None:
        after = _reading(incident, facts, incident.since_us)
        if after is None and facts.in_trouble(incident.victim):
            # It is back before one window lies wholly behind the release: the first bad samples since are the level
            # without the action.
            after = _reading(incident, facts, incident.since_us, whole=False)
        incident = incident.with_proof(replace(proof, after=after))
    if _is_over(incident, facts):
        return _recovered(incident, facts)
    if not facts.in_trouble(incident.victim):
        return incident
    found = facts.cause(incident)
    last = incident.attribution.culprit if incident.attribution is not None else None
    if found is None or proof is None or last is None or not facts.names(found, last.identity):
        return incident.to(
            IncidentStage.SUSPECTED, now, "the trouble is back, and the earlier cause is not found again"
        )
    if held := facts.held(last.identity, incident.victim):
        return _waiting(incident, now, held)
    recurrences = incident.recurrences + 1
    again = replace(incident, recurrences=recurrences)
    if recurrences >= facts.settings.recurrences and next_rung(again, facts, last.identity, proof.rung) is not None:
        return _climb(again, facts, found, proof.rung)
    return _climb(again, facts, found, None, proof.rung)


def _with_recovery(incident: Incident, facts: RecoveryFacts) -> Incident:
    if incident.recovered_us is not None:
        return incident
    return replace(incident, recovered_us=facts.now_us if incident.calm_us is None else incident.calm_us)


def _recovered(
    incident: Incident, facts: RecoveryFacts, text: str = "the service is calm without an action"
) -> Incident:
    incident = _with_recovery(incident, facts)
    after_us = incident.recovered_after_us or 0
    return incident.to(
        IncidentStage.RECOVERED, facts.now_us, f"{text}; it recovered {after_us / 1e6:.1f} s after the trouble began"
    )


def _ended(incident: Incident) -> str:
    if incident.proofs:
        return "the trouble ended when no action was in force any more"
    if incident.restraint is None:
        return "the trouble ended without an action"
    return f"the trouble ended while {described_after(incident.restraint, incident.opened_us)}"


def _exhausted(incident: Incident, facts: RecoveryFacts) -> Incident:
    if _is_over(incident, facts):
        return _recovered(incident, facts)
    if facts.now_us - incident.since_us >= facts.settings.cleared_us:
        return incident.to(IncidentStage.SUSPECTED, facts.now_us, "the cause is asked again")
    return incident

"""What incidents cost their victims and who caused it, for whoever books it.

An incident names a culprit, tries actions on it for minutes, and may clear it again; a report must say once what
stands. A pure reading of the incidents that are kept. For each culprit of an incident there is a verdict: `proven`
where limiting it helped, `cleared` where it did not or another cause was found, `attributed` where the incident ended
without a proof. While an action is measured there is none. The harm is the CPU that the victim requests, or uses where
it requests none, times the time from the first bad sample to the first calm, times the share of the level above the
threshold: a service at twice its threshold loses half.
Limits: recurrences of an incident are not counted again; a victim that left has no harm.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from cotenant.engine.node.recovery.incident import Incident
from cotenant.engine.node.recovery.policy import RecoveryMemory
from cotenant.engine.node.recovery.stages import ENDED, IncidentStage
from cotenant.model.machine.node_state import NodeState, PodUse
from cotenant.policy.credit.pricing import CauseVerdict
from cotenant.policy.interference.attribution.settings import EvidenceSignal

US_PER_HOUR = 3_600_000_000
BURNS_MILLI = 1000


@dataclass(frozen=True, slots=True)
class Harm:
    """One culprit of one incident. Pods are namespace/name, levels millionths, times microseconds of the agent's
    clock.
    """

    number: int  # of the incident
    culprit: str
    victim: str
    verdict: CauseVerdict
    confidence_ppm: int
    milli_core_hours: int
    lasted_us: int
    opened_us: int
    objective: str  # of the ServiceObjective, else ""
    objective_missed: bool
    signal: str
    level_ppm: int
    threshold_ppm: int


def harms(memory: RecoveryMemory, state: NodeState) -> tuple[Harm, ...]:
    """The verdicts that stand now, in the order of the incidents."""
    here = {entry.pod.uid: entry for entry in state.pods}
    found: list[Harm] = []
    for incident in (*memory.ended, *memory.incidents):
        if incident.stage is not IncidentStage.ACTING:
            found += _of(incident, here.get(incident.victim), state.at_us)
    return tuple(found)


def _of(incident: Incident, victim: PodUse | None, now_us: int) -> Iterable[Harm]:
    for culprit, verdict in _verdicts(incident).items():
        if victim is None and verdict is not CauseVerdict.CLEARED:
            continue
        found = incident.attribution
        until_us = next(number for number in (incident.recovered_us, incident.ended_us, now_us) if number is not None)
        lasted_us = max(0, until_us - incident.opened_us)
        yield Harm(
            number=incident.number,
            culprit=culprit,
            victim=incident.name,
            verdict=verdict,
            confidence_ppm=_confidence_ppm(incident, culprit),
            milli_core_hours=0 if victim is None else _lost(incident, victim, lasted_us),
            lasted_us=lasted_us,
            opened_us=incident.opened_us,
            objective=incident.objective,
            objective_missed=_misses(incident),
            signal=found.signal.value if found is not None else "",
            level_ppm=incident.before.level_ppm,
            threshold_ppm=incident.threshold_ppm,
        )


def _verdicts(incident: Incident) -> dict[str, CauseVerdict]:
    """By culprit. The last proof of each decides; a cause that is no pod clears all."""
    found: dict[str, CauseVerdict] = {}
    for proof in incident.proofs:
        if proof.helped is not None:
            found[proof.culprit] = CauseVerdict.PROVEN if proof.helped else CauseVerdict.CLEARED
    if incident.stage is IncidentStage.OWN:
        return dict.fromkeys(found, CauseVerdict.CLEARED)
    named = incident.attribution.culprit if incident.attribution is not None else None
    if incident.stage in ENDED and named is not None:
        found.setdefault(named.name, CauseVerdict.ATTRIBUTED)
    return found


def _confidence_ppm(incident: Incident, culprit: str) -> int:
    """With which it was acted on, the last time; of one that was only named, with which it was named."""
    for proof in reversed(incident.proofs):
        if proof.culprit == culprit:
            return proof.confidence_ppm
    found = incident.attribution
    named = found.culprit if found is not None else None
    return named.confidence_ppm if named is not None and named.name == culprit else 0


def _misses(incident: Incident) -> bool:
    """Whether the objective itself was missed: by its latency, or by a budget that burns."""
    if incident.objective_us is None:
        return False
    signal = incident.attribution.signal if incident.attribution is not None else None
    return (
        signal in (EvidenceSignal.LATENCY, EvidenceSignal.SELF_TIME) or (incident.before.burn_milli or 0) >= BURNS_MILLI
    )


def _lost(incident: Incident, victim: PodUse, lasted_us: int) -> int:
    cpu_m = victim.pod.cpu_request_m or victim.use.cpu_m or 0
    level, above = incident.before.level_ppm, incident.before.level_ppm - incident.threshold_ppm
    return cpu_m * lasted_us * above // (level * US_PER_HOUR) if above > 0 else 0

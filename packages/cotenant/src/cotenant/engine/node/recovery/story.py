"""The story of a service as one chain: objective, burn, victim replica, cause with its evidence, actions with their
proofs, recovery in seconds.

"what happened to my service, and what was done" must be answered from one place, while it happens and an hour later.
Made from the incidents that the policy keeps, open ones first; each link has its figures, and a sentence for people.
Limits: of this node's replicas only, and of the last incidents that are kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from cotenant.engine.node.recovery.incident import Incident, IncidentEvent, Proof, Restraint, TroubleReading
from cotenant.engine.node.recovery.policy import RecoveryMemory
from cotenant.engine.node.recovery.restraint import described_after, standing
from cotenant.engine.node.recovery.stages import IncidentStage
from cotenant.model.machine.node_pod import NodePod
from cotenant.model.machine.node_state import PPM, NodeState, PodUse, ServiceHealth
from cotenant.policy.interference.attribution.answer import Attribution
from cotenant.policy.interference.attribution.causes import CandidateCause, TroubleCause
from cotenant.policy.interference.attribution.settings import EvidenceSignal
from cotenant.policy.interference.series import job_of

_MIN_REQUEST_M = 2  # shares are at least 2, as kubelet's best-effort group has them


@dataclass(frozen=True, slots=True)
class Link:
    """One link of the chain."""

    link: str  # "objective", "burn", "victim", "cause", "evidence", "action", "later" or "recovery"
    text: str


@dataclass(frozen=True, slots=True)
class IncidentStory:
    """One incident of one replica. Times in microseconds of the agent's clock, levels in millionths, burn in
    thousandths. The cause is the one that was acted on last; `later` is what was found since, where it is another.
    """

    number: int
    stage: IncidentStage
    pod: str
    uid: str
    objective: str
    objective_us: int | None
    signal: str
    threshold_ppm: int
    before: TroubleReading
    cause: str
    culprit: str  # namespace/name; "" where no pod is named
    confidence_ppm: int
    candidates: tuple[CandidateCause, ...]
    proofs: tuple[Proof, ...]
    opened_us: int
    recovered_after_us: int | None
    ended_us: int | None
    chain: tuple[Link, ...]
    events: tuple[IncidentEvent, ...]
    workload: str = ""  # whose pods are all meant: `culprit` is the most active one; an older agent sends none
    later: str = ""
    owner: str = ""  # what made `culprit`, where it is meant alone
    restraint: Restraint | None = None  # of best-effort work, by another policy of the agent


@dataclass(frozen=True, slots=True)
class ServiceStory:
    """A service on one node. `text` is the same in sentences."""

    service: str
    node: str
    now_us: int
    enabled: bool  # whether the recovery policy runs
    replicas: tuple[str, ...]  # namespace/name of its pods on this node
    incidents: tuple[IncidentStory, ...]  # open ones first, then the newest
    text: tuple[str, ...]


def story(
    asked: str, node: str, state: NodeState | None, memory: RecoveryMemory | None, now_us: int
) -> ServiceStory | None:
    """The story of a workload or of one pod, by namespace/name; None where neither it nor an incident of it is
    known.
    """
    entries = (
        [] if state is None else [service for service in state.services if asked in (job_of(service), service.pod.key)]
    )
    known = () if memory is None else (*reversed(memory.incidents), *reversed(memory.ended))
    incidents = tuple(_of(incident) for incident in known if asked in (incident.service, incident.name))
    if not entries and not incidents:
        return None
    text = tuple(_sentences(asked, state, entries, incidents, memory, now_us))
    return ServiceStory(
        service=asked,
        node=node,
        now_us=now_us,
        enabled=memory is not None,
        replicas=tuple(entry.pod.key for entry in entries),
        incidents=incidents,
        text=text,
    )


def _of(incident: Incident) -> IncidentStory:
    found = incident.acted_on or incident.attribution
    return IncidentStory(
        number=incident.number,
        stage=incident.stage,
        pod=incident.name,
        uid=incident.victim,
        objective=incident.objective,
        objective_us=incident.objective_us,
        signal=found.signal.value if found is not None else "",
        threshold_ppm=incident.threshold_ppm,
        before=incident.before,
        cause=found.cause.value if found is not None else "unknown",
        culprit=found.culprit.name if found is not None and found.culprit is not None else "",
        workload=found.culprit.workload if found is not None and found.culprit is not None else "",
        confidence_ppm=found.culprit.confidence_ppm if found is not None and found.culprit is not None else 0,
        candidates=found.candidates if found is not None else (),
        proofs=incident.proofs,
        opened_us=incident.opened_us,
        recovered_after_us=incident.recovered_after_us,
        ended_us=incident.ended_us,
        chain=tuple(_chain(incident)),
        events=incident.events,
        later=_later(incident),
        owner=found.culprit.owner if found is not None and found.culprit is not None else "",
        restraint=incident.restraint,
    )


def _chain(incident: Incident) -> Iterable[Link]:
    yield Link("objective", _objective(incident.objective_us, incident.objective))
    yield Link("burn", _reading(incident.before, incident.threshold_ppm))
    yield Link("victim", f"{incident.name} ({incident.victim})")
    yield from _causes(incident)
    if not incident.proofs and (incident.restraint is None or not incident.restraint.held):
        held = "" if incident.restraint is None else f"; {described_after(incident.restraint, incident.opened_us)}"
        yield Link("action", f"none{held}")
    yield Link("recovery", _recovery(incident))


def _causes(incident: Incident) -> Iterable[Link]:
    """Each cause with the actions that were taken for it, then what was found since. A stronger action for the same
    culprit is of the same cause, with its latest figures.
    """
    found = incident.attribution
    if not incident.proofs:
        if found is None:
            yield Link("cause", "not known yet")
        else:
            yield from _cause(found.reason.text, found)
        yield from _restrained(incident)
        return
    yield from _restrained(incident)
    groups = [tuple(proofs) for _, proofs in groupby(incident.proofs, lambda proof: proof.called)]
    for proofs in groups:
        yield from _cause(proofs[-1].cause, incident.acted_on if proofs is groups[-1] else None)
        for proof in proofs:
            yield Link("action", _proof(proof))
    later = _later(incident)
    if later:
        yield Link("later", later)


def _restrained(incident: Incident) -> Iterable[Link]:
    """What another policy did before, or instead of, the ladder."""
    restraint = incident.restraint
    if restraint is None or not (restraint.held or incident.proofs):
        return  # without an action of the ladder's the link `action` says it
    before, during = incident.before, restraint.during
    outcome = f"before {_short(before)}, since {_short(during)}"
    yield Link("guard", f"{described_after(restraint, incident.opened_us)}; {outcome}")


def _cause(reason: str, found: Attribution | None) -> Iterable[Link]:
    yield Link("cause", reason.partition(": ")[2])
    for candidate in found.candidates[:4] if found is not None else ():
        shares = ", ".join(f"{term.name} {term.value / PPM:.2f}" for term in candidate.evidence)
        yield Link("evidence", f"{candidate.called}: confidence {candidate.confidence_ppm / PPM:.2f} ({shares})")


def _later(incident: Incident) -> str:
    """What was found after the last action where it is another cause, else ""."""
    found, acted_on = incident.attribution, incident.acted_on
    if found is None or acted_on is None or _same(found, acted_on):
        return ""
    if found.cause is TroubleCause.UNKNOWN:
        return "no other cause is found"  # its reason may still name who was cleared
    return found.reason.text.partition(": ")[2]


def _same(one: Attribution, other: Attribution) -> bool:
    culprits = [None if found.culprit is None else found.culprit.identity for found in (one, other)]
    return one.cause is other.cause and culprits[0] == culprits[1]


def _objective(objective_us: int | None, name: str) -> str:
    if objective_us is None:
        return "no latency objective: judged by its usual level"
    source = f"ServiceObjective {name}" if name else "as its pod says"
    return f"latency of at most {objective_us / 1000:g} ms ({source})"


def _reading(reading: TroubleReading, threshold_ppm: int) -> str:
    text = f"signal {reading.level_ppm / PPM:.2f}, threshold {threshold_ppm / PPM:.2f}"
    return text if reading.burn_milli is None else f"budget burns {reading.burn_milli / 1000:.1f} x, {text}"


def _short(reading: TroubleReading | None) -> str:
    if reading is None:
        return "not measured"
    burn = "" if reading.burn_milli is None else f" (burn {reading.burn_milli / 1000:.1f} x)"
    return f"{reading.level_ppm / PPM:.2f}{burn}"


def _proof(proof: Proof) -> str:
    outcome = "is being proven" if proof.helped is None else "helped" if proof.helped else "did not help"
    text = f"{proof.rung} for {proof.called} {outcome}: before {_short(proof.before)}, during {_short(proof.during)}"
    return text if proof.after is None else f"{text}, after {_short(proof.after)}"


def _recovery(incident: Incident) -> str:
    after_us = incident.recovered_after_us
    if after_us is None:
        return f"not yet ({incident.stage})"
    return f"after {after_us / 1e6:.1f} s" + ("" if incident.ended_us is not None else f" ({incident.stage})")


def _sentences(
    asked: str,
    state: NodeState | None,
    entries: Sequence[PodUse],
    incidents: Sequence[IncidentStory],
    memory: RecoveryMemory | None,
    now_us: int,
) -> Iterable[str]:
    replicas = ", ".join(entry.pod.key for entry in entries) or "none on this node now"
    yield f"service {asked}: replicas {replicas}"
    if memory is None:
        yield "the policy `recovery` is switched off on this node"
    for entry in entries:
        if entry.health is not None and entry.pod.objective_p99_us:
            yield f"{entry.pod.key}: {_health(entry.pod, entry)}"
            if memory is not None and not _tells_latency(entry, memory):
                yield f"{entry.pod.key}: {_without_latency(entry.health)}"
        for signal in entry.signals:
            if not signal.guard:
                yield (
                    f"{entry.pod.key}: ServiceObjective {signal.objective} is only observed, and nothing is done "
                    "for it: its protect.guard is off, or no sender of its spans has proven its namespace "
                    "(its condition Authenticated)"
                )
        if entry.is_unconfirmed:
            yield (
                f"{entry.pod.key}: it is a service by its label only, which its owner writes, and requests nothing: it "
                "bears the limits of best-effort work, and nobody is held for it, until its priority class or an "
                "objective that may act confirms it"
            )
        if has_least_weight(entry.pod):
            yield (
                f"{entry.pod.key}: it requests {entry.pod.cpu_request_m} mCPU, which is the least CPU weight, as "
                "best-effort work has it: while it wants more than its share, only a limit of others helps; "
                "request what it uses"
            )
    limited = None if state is None else standing(state)
    if limited is not None and limited.why:
        ago_s = max(0, now_us - limited.since_us) / 1e6
        yield (
            f"{limited.by} holds all best-effort work on this node at {limited.cpu_m / 1000:g} CPU now, for "
            f"{ago_s:.0f} s: {limited.why}"
        )
    if memory is not None and not incidents:
        yield "it has had no trouble since the agent started"
    for incident in incidents:
        ago = max(0, now_us - incident.opened_us) / 1e6
        yield f"incident {incident.number} ({incident.stage}), {ago:.0f} s ago"
        for link in incident.chain:
            yield f"  {link.link:<9} {link.text}"


def has_least_weight(pod: NodePod) -> bool:
    """Whether a pod's request of CPU gives it no more weight than a group without requests has."""
    return bool(pod.containers) and pod.cpu_request_m <= _MIN_REQUEST_M


def _health(pod: NodePod, entry: PodUse) -> str:
    assert entry.health is not None
    measured = entry.health.p99_us if entry.health.at_target_us is None else entry.health.at_target_us
    return (
        f"{measured / 1000:g} ms against {(pod.objective_p99_us or 0) / 1000:g} ms, "
        f"{entry.health.age_us / 1e6:.1f} s ago"
    )


def _tells_latency(entry: PodUse, memory: RecoveryMemory) -> bool:
    """Whether its latency was judged in the last sample."""
    last = memory.history.samples[-1].services.get(entry.pod.uid) if memory.history.samples else None
    return last is None or EvidenceSignal.LATENCY in last.levels


def _without_latency(health: ServiceHealth) -> str:
    return (
        f"its latency is not judged: {health.requests} requests in {health.window_us / 1e6:g} s, measured "
        f"{health.age_us / 1e6:.0f} s ago, are too few or too old to tell it; trouble and recovery are told by what it "
        "waits for a CPU or a disk alone"
    )

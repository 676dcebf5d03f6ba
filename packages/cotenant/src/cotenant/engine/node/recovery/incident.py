"""One incident: a service in trouble, from the first bad samples to its recovery, with what was done and what it
brought.

The story must be told later from the incident alone, and memory must not grow while a service flaps. A frozen value
with its stage, the attribution, the current lease, the proofs so far and the last events; proofs and events are
bounded.
Limits: a level is the deciding signal in millionths of the objective, or of the signal's unit where there is none.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from cotenant.engine.node.recovery.stages import IncidentStage, RecoveryRung, check
from cotenant.policy.interference.attribution.answer import Attribution

MAX_EVENTS = 48
MAX_PROOFS = 16


@dataclass(frozen=True, slots=True)
class TroubleReading:
    """The service's trouble in numbers: mean level and burn over some samples."""

    level_ppm: int
    burn_milli: int | None  # None where requests are not known
    samples: int = 1


@dataclass(frozen=True, slots=True)
class Proof:
    """What one action brought."""

    rung: RecoveryRung
    culprit: str  # namespace/name
    at_us: int  # of the action
    before: TroubleReading
    during: TroubleReading | None = None
    after: TroubleReading | None = None  # without the action
    helped: bool | None = None  # None while it is measured
    workload: str = ""  # where all its pods were meant: `culprit` is one of them
    cause: str = ""  # what it was done for, as text
    confidence_ppm: int = 0  # of that cause
    took_less: bool = False  # of a card, while it was held

    @property
    def called(self) -> str:
        """The culprit, for people."""
        return self.workload or self.culprit


@dataclass(frozen=True, slots=True)
class IncidentEvent:
    """One step of the story."""

    at_us: int
    stage: IncidentStage
    text: str


@dataclass(frozen=True, slots=True)
class IncidentAction:
    """The action in force."""

    rung: RecoveryRung
    culprit: str  # uid of the pod, or the workload whose pods are all meant
    culprit_name: str  # namespace/name of the pod, or of one of them
    since_us: int
    until_us: int
    group_m: int | None = None  # cap of the group, milli-CPU; None for an eviction
    left_us: int | None = None  # when an evicted culprit was gone
    workload: str = ""
    card_power: tuple[tuple[str, int], ...] = ()  # limits of the culprit's own cards: UUID, milliwatts
    card_clocks: tuple[tuple[str, int], ...] = ()  # locks of the culprit's own cards: UUID, MHz
    card_slices: tuple[str, ...] = ()  # cards of the service with a short time-slice
    threads_percent: int | None = None  # of each MPS client of offline work that starts from now on
    disk_bps: int | None = None  # limit of what it reads, and of what it writes, on all disks alike; bytes per second

    @property
    def called(self) -> str:
        """The culprit, for people."""
        return self.workload or self.culprit_name


@dataclass(frozen=True, slots=True)
class Restraint:
    """What another policy of this agent, the guard above all, held best-effort work at while a service suffered."""

    by: str  # "the guard", or the policy's name; "another policy" where it is not known
    why: str
    since_us: int
    cpu_m: int  # the least
    held: tuple[tuple[str, int], ...] = ()  # pods and workloads, and what they used before, the largest first
    during: TroubleReading | None = None  # the service's level while they are held
    under: tuple[tuple[str, int], ...] = ()  # where nobody was cut just before: who runs below the limit, and its use

    @property
    def who(self) -> str:
        """Who is held, for people."""
        parts = ((self.held, " before"), (() if self.held else self.under, ""))
        return ", ".join(f"{called} ({cpu_m / 1000:.2f} CPU{when})" for some, when in parts for called, cpu_m in some)


@dataclass(frozen=True, slots=True)
class Incident:
    """One service's incident."""

    number: int
    victim: str  # uid
    name: str  # namespace/name
    service: str  # namespace/name of the workload
    objective: str  # of the ServiceObjective, else ""
    objective_us: int | None
    opened_us: int
    stage: IncidentStage
    since_us: int
    before: TroubleReading  # at the opening
    threshold_ppm: int
    attribution: Attribution | None = None  # the last one, acted on or not
    acted_on: Attribution | None = None  # the one of the last action
    lease: IncidentAction | None = None
    asked_us: int | None = None  # when the cause was last asked
    recurrences: int = 0
    proofs: tuple[Proof, ...] = ()
    events: tuple[IncidentEvent, ...] = ()
    calm_us: int | None = None  # since when the service is no longer in trouble
    recovered_us: int | None = None  # the beginning of the first calm, under an action or without one
    ended_us: int | None = None
    restraint: Restraint | None = None  # of best-effort work, by another policy

    def to(self, stage: IncidentStage, now_us: int, text: str, **changes: object) -> Incident:
        """The incident in another stage, with an event. Raises `Permanent` for an illegal change."""
        check(self.stage, stage)
        events = (*self.events, IncidentEvent(now_us, stage, text))
        # The first event is the beginning of the story: it is kept.
        events = (events[0], *events[1:][-(MAX_EVENTS - 1) :])
        ended = now_us if stage in (IncidentStage.RECOVERED, IncidentStage.GONE) else None
        return replace(self, stage=stage, since_us=now_us, events=events, ended_us=ended, **changes)  # type: ignore[arg-type]

    def noting(self, now_us: int, text: str) -> Incident:
        """With an event of the same stage, told once."""
        if self.events and self.events[-1].text == text:
            return self
        events = (*self.events, IncidentEvent(now_us, self.stage, text))
        return replace(self, events=(events[0], *events[1:][-(MAX_EVENTS - 1) :]))

    def with_proof(self, proof: Proof) -> Incident:
        """With the last proof replaced where it is of the same action, else added."""
        same = bool(self.proofs) and self.proofs[-1].at_us == proof.at_us and self.proofs[-1].rung is proof.rung
        before = self.proofs[:-1] if same else self.proofs
        return replace(self, proofs=(*before, proof)[-MAX_PROOFS:])

    @property
    def recovered_after_us(self) -> int | None:
        """Time from the first bad sample to the first calm; None before it."""
        return None if self.recovered_us is None else max(0, self.recovered_us - self.opened_us)

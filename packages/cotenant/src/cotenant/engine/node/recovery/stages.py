"""The stages of an incident and the rungs of the ladder, with the legal changes between stages.

An incident is acted on for minutes while its cause, its victim and its culprit change; a state that must not follow
another has to be refused, not left to the order of conditions. One table; every change goes through `check`.
Limits: none.
"""

from __future__ import annotations

from enum import StrEnum

from cotenant.model.errors import Permanent
from cotenant.model.machine.replica_signal import MaxAction


class IncidentStage(StrEnum):
    """Stages of an incident."""

    SUSPECTED = "suspected"  # the service is in trouble; no pod is named yet
    GUARDED = "guarded"  # another policy holds the best-effort work that ran; no pod is named, or needs to be
    OWN = "own"  # the cause is no pod: no action
    ACTING = "acting"  # a rung's lease is held, and its proof is being measured
    HOLDING = "holding"  # the service recovered under the lease, which lasts on
    RELEASED = "released"  # the lease is over; the service is watched without it
    EXHAUSTED = "exhausted"  # no permitted rung is left
    RECOVERED = "recovered"  # over: the trouble has ended
    GONE = "gone"  # over: the service left the node


ENDED = frozenset({IncidentStage.RECOVERED, IncidentStage.GONE})
LEGAL: dict[IncidentStage, frozenset[IncidentStage]] = {
    IncidentStage.SUSPECTED: frozenset(
        {
            IncidentStage.GUARDED,
            IncidentStage.ACTING,
            IncidentStage.OWN,
            IncidentStage.EXHAUSTED,
            IncidentStage.RECOVERED,
            IncidentStage.GONE,
        }
    ),
    IncidentStage.GUARDED: frozenset(
        {IncidentStage.ACTING, IncidentStage.OWN, IncidentStage.EXHAUSTED, IncidentStage.RECOVERED, IncidentStage.GONE}
    ),
    IncidentStage.OWN: frozenset({IncidentStage.SUSPECTED, IncidentStage.RECOVERED, IncidentStage.GONE}),
    IncidentStage.ACTING: frozenset(
        {
            IncidentStage.ACTING,
            IncidentStage.HOLDING,
            IncidentStage.RELEASED,
            IncidentStage.SUSPECTED,
            IncidentStage.OWN,
            IncidentStage.EXHAUSTED,
            IncidentStage.GONE,
        }
    ),
    IncidentStage.HOLDING: frozenset({IncidentStage.ACTING, IncidentStage.RELEASED, IncidentStage.GONE}),
    IncidentStage.RELEASED: frozenset(
        {
            IncidentStage.ACTING,
            IncidentStage.SUSPECTED,
            IncidentStage.EXHAUSTED,
            IncidentStage.RECOVERED,
            IncidentStage.GONE,
        }
    ),
    IncidentStage.EXHAUSTED: frozenset({IncidentStage.SUSPECTED, IncidentStage.RECOVERED, IncidentStage.GONE}),
    IncidentStage.RECOVERED: frozenset(),
    IncidentStage.GONE: frozenset(),
}


def check(before: IncidentStage, after: IncidentStage) -> None:
    """Raise `Permanent` for an illegal change."""
    if after not in LEGAL[before]:
        raise Permanent(f"an incident cannot change from {before} to {after}")


class RecoveryRung(StrEnum):
    """The rungs of the ladder, the mildest first."""

    DISK = "disk"  # what the culprit reads and writes is limited to a share of it
    POWER = "power"  # the power of cards that are the culprit's alone is limited to a share of what they draw
    CLOCKS = "clocks"  # ... and their clocks to a share of what they run at; only where it is configured
    TIMESLICE = "timeslice"  # everybody on the service's card has it for a shorter turn; only where it is configured
    TIGHTEN = "tighten"  # all best-effort work is cut to a share of its use
    CAP = "cap"  # the culprit is capped to a share of its use
    IDLE = "idle"  # the culprit is in the kernel's idle class, with a small cap
    FREEZE = "freeze"  # the culprit's processes are suspended, and keep their memory; only where it is configured
    EVICT = "evict"
    MOVE = "move"  # the rebalancer is asked to move the culprit or the service, whichever costs less


_NEEDS = {
    RecoveryRung.DISK: MaxAction.CAP,
    RecoveryRung.POWER: MaxAction.CAP,
    RecoveryRung.CLOCKS: MaxAction.CAP,
    RecoveryRung.TIMESLICE: MaxAction.CAP,
    RecoveryRung.TIGHTEN: MaxAction.CAP,
    RecoveryRung.CAP: MaxAction.CAP,
    RecoveryRung.IDLE: MaxAction.IDLE,
    RecoveryRung.FREEZE: MaxAction.EVICT,
    RecoveryRung.EVICT: MaxAction.EVICT,
    RecoveryRung.MOVE: MaxAction.EVICT,  # either pod is evicted for it
}
# A culprit that these did not help against is not cleared while it is still named: the first leaves it its CPU, the
# second is not aimed at it, and a cap leaves it a burst of its quota in each period, at its own weight.
MILD = frozenset({RecoveryRung.DISK, RecoveryRung.TIGHTEN, RecoveryRung.CAP})
CONFIGURED = frozenset({RecoveryRung.CLOCKS, RecoveryRung.TIMESLICE, RecoveryRung.FREEZE})
USUAL = tuple(rung for rung in RecoveryRung if rung not in CONFIGURED)
LEAVING = frozenset({RecoveryRung.EVICT, RecoveryRung.MOVE})  # proven by the absence of the culprit


def permitted(rung: RecoveryRung, most: MaxAction) -> bool:
    """Whether an objective with this strongest action allows the rung."""
    return most.allows(_NEEDS[rung])

"""The state of one knob between the agent and its keeper: statuses, legal transitions, pending requests.

A knob that is requested, confirmed, refused and released at different times needs one record that cannot contradict
itself. One entry per knob with a status, changed along `LEGAL` only.
Limits: the rules of when to request and release are in `knob_tracker.py`.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from enum import StrEnum

from cotenant.model.machine.knob import GiveBack, KnobTarget, SetKnob
from cotenant.model.machine.node_decision import Reason


class KnobStatus(StrEnum):
    """The state of a knob between the agent and its keeper."""

    ASKED = "asked"  # hold requested, no answer yet
    HELD = "held"
    RETURNING = "returning"  # release requested
    REFUSED = "refused"  # backs off
    YIELDED = "yielded"  # another process wrote it; backs off
    GONE = "gone"  # its group does not exist or was recreated; backs off

    @property
    def is_backing_off(self) -> bool:
        """Whether nothing is held or requested."""
        return self in (KnobStatus.REFUSED, KnobStatus.YIELDED, KnobStatus.GONE)


# Legal transitions; `None` = the entry begins or ends.
LEGAL: dict[KnobStatus | None, frozenset[KnobStatus | None]] = {
    None: frozenset({KnobStatus.ASKED, KnobStatus.HELD}),
    KnobStatus.ASKED: frozenset(
        {
            KnobStatus.ASKED,
            KnobStatus.HELD,
            KnobStatus.RETURNING,
            KnobStatus.REFUSED,
            KnobStatus.YIELDED,
            KnobStatus.GONE,
            None,
        }
    ),
    KnobStatus.HELD: frozenset(
        {
            KnobStatus.ASKED,
            KnobStatus.HELD,
            KnobStatus.RETURNING,
            KnobStatus.REFUSED,
            KnobStatus.YIELDED,
            KnobStatus.GONE,
            None,
        }
    ),
    KnobStatus.RETURNING: frozenset({KnobStatus.ASKED, KnobStatus.RETURNING, None}),
    KnobStatus.REFUSED: frozenset({KnobStatus.ASKED, KnobStatus.RETURNING, None}),
    KnobStatus.YIELDED: frozenset({KnobStatus.ASKED, None}),
    KnobStatus.GONE: frozenset({KnobStatus.ASKED, None}),
}


@dataclass(frozen=True, slots=True)
class PendingRequest:
    """A request to the keeper that has not been answered."""

    hold: bool  # False: give back
    value: str
    ttl_us: int
    at_us: int


@dataclass(slots=True)
class KnobEntry:
    """One tracked knob."""

    target: KnobTarget
    status: KnobStatus
    value: str  # last requested
    policy: str
    reason: Reason
    since_us: int  # when this value was first requested
    expires_us: int  # when the keeper's lease will have expired, both of the last request and of what was confirmed
    renew_us: int
    overruled: tuple[tuple[str, str], ...] = ()
    pending: deque[PendingRequest] = field(default_factory=deque)  # oldest first; bounded, since each times out
    # Until when a value that the keeper confirmed, or may have accepted, is held: also where it refused a later one.
    held_until_us: int = 0
    backoff_us: int = 0  # the last back-off
    retry_at_us: int = 0
    detail: str = ""
    last_reported: str = ""  # the last back-off's cause as reported; the same is not reported again


@dataclass(frozen=True, slots=True)
class Changes:
    """Requests to send now. `new`: knobs that are held at another value or by another policy than before."""

    hold: tuple[SetKnob, ...]
    give_back: tuple[GiveBack, ...]
    new: tuple[KnobEntry, ...]
    released: tuple[tuple[KnobEntry, Reason], ...]

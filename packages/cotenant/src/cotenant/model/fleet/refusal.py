"""An error as it crosses the bus: its kind, and the field that is wrong where one is."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from cotenant.model.errors import CotenantError, InvalidInput, Permanent, Transient, Unsupported


class FleetRefusalKind(StrEnum):
    """What went wrong."""

    INVALID = "invalid"
    UNKNOWN = "unknown"  # no such guid, group or verb
    FORBIDDEN = "forbidden"
    DEADLINE = "deadline"
    FENCED = "fenced"
    TRANSIENT = "transient"
    PERMANENT = "permanent"
    UNSUPPORTED = "unsupported"


class NoSuchGuid(Permanent):
    """Nothing in the fleet has this guid."""


class NobodyAnswers(NoSuchGuid):
    """Nobody listens for this guid now: never there, or away."""


class FleetForbidden(Permanent):
    """The asker has no right to this."""


class Fenced(Permanent):
    """Another controller has taken this group over. `epoch`: the highest that the agent has seen of the group."""

    def __init__(self, message: str, epoch: int = 0) -> None:
        super().__init__(message)
        self.epoch = epoch


class Overdue(Transient):
    """Not done within its deadline; whether it was done at all is not known."""


@dataclass(frozen=True, slots=True)
class FleetRefusal:
    """One error of `model/errors.py` as a value."""

    kind: FleetRefusalKind
    message: str
    field: str = ""
    value: str = ""
    expected: str = ""
    hint: str = ""


def refusal_of(error: CotenantError) -> FleetRefusal:
    """The value of an error."""
    match error:
        case InvalidInput():
            return FleetRefusal(
                FleetRefusalKind.INVALID, str(error), error.field, str(error.value), error.expected, error.hint
            )
        case NoSuchGuid():
            return FleetRefusal(FleetRefusalKind.UNKNOWN, str(error))
        case FleetForbidden():
            return FleetRefusal(FleetRefusalKind.FORBIDDEN, str(error))
        case Fenced():
            return FleetRefusal(FleetRefusalKind.FENCED, str(error), value=str(error.epoch))
        case Overdue():
            return FleetRefusal(FleetRefusalKind.DEADLINE, str(error))
        case Transient():
            return FleetRefusal(FleetRefusalKind.TRANSIENT, str(error))
        case Unsupported():
            return FleetRefusal(FleetRefusalKind.UNSUPPORTED, str(error), error.feature, expected=error.needs)
    return FleetRefusal(FleetRefusalKind.PERMANENT, str(error))


def error_of(refusal: FleetRefusal) -> CotenantError:
    """The error of a value."""
    match refusal.kind:
        case FleetRefusalKind.INVALID:
            return InvalidInput(refusal.field, refusal.value, refusal.expected, refusal.hint)
        case FleetRefusalKind.UNKNOWN:
            return NoSuchGuid(refusal.message)
        case FleetRefusalKind.FORBIDDEN:
            return FleetForbidden(refusal.message)
        case FleetRefusalKind.FENCED:
            return Fenced(refusal.message, int(refusal.value) if refusal.value.isdecimal() else 0)
        case FleetRefusalKind.DEADLINE:
            return Overdue(refusal.message)
        case FleetRefusalKind.TRANSIENT:
            return Transient(refusal.message)
        case FleetRefusalKind.UNSUPPORTED:
            return Unsupported(refusal.field, refusal.expected)
    return Permanent(refusal.message)

"""An error as it crosses the bus: its kind, and the field that is wrong where one is."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from cotenant.model.errors import CotenantError, InvalidInput, Permanent, Transient, Unsupported


class Kind(StrEnum):
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


class Forbidden(Permanent):
    """The asker has no right to this."""


class Fenced(Permanent):
    """Another controller has taken this group over. `epoch`: the highest that the agent has seen of the group."""

    def __init__(self, message: str, epoch: int = 0) -> None:
        super().__init__(message)
        self.epoch = epoch


class Overdue(Transient):
    """Not done within its deadline; whether it was done at all is not known."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """One error of `model/errors.py` as a value."""

    kind: Kind
    message: str
    field: str = ""
    value: str = ""
    expected: str = ""
    hint: str = ""


def refusal_of(error: CotenantError) -> Refusal:
    """The value of an error."""
    match error:
        case InvalidInput():
            return Refusal(Kind.INVALID, str(error), error.field, str(error.value), error.expected, error.hint)
        case NoSuchGuid():
            return Refusal(Kind.UNKNOWN, str(error))
        case Forbidden():
            return Refusal(Kind.FORBIDDEN, str(error))
        case Fenced():
            return Refusal(Kind.FENCED, str(error), value=str(error.epoch))
        case Overdue():
            return Refusal(Kind.DEADLINE, str(error))
        case Transient():
            return Refusal(Kind.TRANSIENT, str(error))
        case Unsupported():
            return Refusal(Kind.UNSUPPORTED, str(error), error.feature, expected=error.needs)
    return Refusal(Kind.PERMANENT, str(error))


def error_of(refusal: Refusal) -> CotenantError:
    """The error of a value."""
    match refusal.kind:
        case Kind.INVALID:
            return InvalidInput(refusal.field, refusal.value, refusal.expected, refusal.hint)
        case Kind.UNKNOWN:
            return NoSuchGuid(refusal.message)
        case Kind.FORBIDDEN:
            return Forbidden(refusal.message)
        case Kind.FENCED:
            return Fenced(refusal.message, int(refusal.value) if refusal.value.isdecimal() else 0)
        case Kind.DEADLINE:
            return Overdue(refusal.message)
        case Kind.TRANSIENT:
            return Transient(refusal.message)
        case Kind.UNSUPPORTED:
            return Unsupported(refusal.field, refusal.expected)
    return Permanent(refusal.message)

"""The messages between agent and keeper over the socket.

The keeper reads what a process with fewer privileges sends it: half a message, a huge one, garbage. A four-byte length,
then one typed JSON message, decoded strictly and bounded before it is read; one reply per request, in order. The
descriptor of a pressure trigger comes with its reply as ancillary data.
Limits: one host, one version on both sides; they are installed together.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import TypeVar

import msgspec

from cotenant.model.errors import CotenantError, InvalidInput, Permanent, Transient, Unsupported
from cotenant.model.kubelet.facts import KubeletFacts
from cotenant.model.machine.knob import GiveBack, Knob, KnobLease, KnobTarget, LeaseAnswer, SetKnob, Vanished
from cotenant.model.machine.run_queue import Blame, GroupWaits, NoCulprit, RunQueueReading

LENGTH = struct.Struct(">I")
MAX_REQUEST_BYTES = 1 << 20
MAX_REPLY_BYTES = 16 << 20  # all leases at once
MAX_IN_ONE = 512  # knobs, requests or targets
MAX_GROUP = 4096  # characters of a name, PATH_MAX


class Hold(msgspec.Struct, tag_field="request", tag="hold", frozen=True):
    """Write and hold these knobs. Answered by `Answers`."""

    knobs: tuple[SetKnob, ...]


class End(msgspec.Struct, tag_field="request", tag="give back", frozen=True):
    """Restore these knobs. Answered by `Answers`."""

    requests: tuple[GiveBack, ...]


class ListLeases(msgspec.Struct, tag_field="request", tag="leases", frozen=True):
    """List all leases. Answered by `LeaseList`."""


class ReadKnobs(msgspec.Struct, tag_field="request", tag="read", frozen=True):
    """The canonical values of knobs that only root may read. Answered by `KnobValues`."""

    targets: tuple[KnobTarget, ...]


class OpenTrigger(msgspec.Struct, tag_field="request", tag="trigger", frozen=True):
    """Open a pressure trigger. Answered by `Granted`, with its descriptor. `group` None: the host."""

    group: str | None
    resource: str
    stall_us: int
    window_us: int
    full: bool = False


class DescribeKeeper(msgspec.Struct, tag_field="request", tag="describe", frozen=True):
    """What this keeper grants, and what it knows of the other writers. Answered by `Described`."""


class ReadWaits(msgspec.Struct, tag_field="request", tag="waits", frozen=True):
    """Who ran while these groups waited for a CPU, since they were first asked for. Answered by `Waited`."""

    groups: tuple[str, ...]


Request = Hold | End | ListLeases | ReadKnobs | OpenTrigger | DescribeKeeper | ReadWaits


class Answers(msgspec.Struct, tag_field="reply", tag="answers", frozen=True):
    """In the order of the request."""

    answers: tuple[LeaseAnswer, ...]


class LeaseList(msgspec.Struct, tag_field="reply", tag="leases", frozen=True):
    """All live leases."""

    leases: tuple[KnobLease, ...]


class KnobValues(msgspec.Struct, tag_field="reply", tag="values", frozen=True):
    """In the order of the request; None where it could not be read."""

    values: tuple[str | None, ...]


class Granted(msgspec.Struct, tag_field="reply", tag="trigger", frozen=True):
    """The window that the kernel accepted."""

    window_us: int


class Described(msgspec.Struct, tag_field="reply", tag="described", frozen=True):
    """The keeper's rules, as far as they concern groups, and the facts that it reads as root."""

    roots: tuple[str, ...]
    knobs: frozenset[Knob]
    raises_roots: bool
    longest_ttl_us: int
    facts: KubeletFacts
    lacks: tuple[str, ...] = ()  # capabilities that it would use
    waits: str = ""  # what it needs to say who ran while services waited; "" = it does


class Waited(msgspec.Struct, tag_field="reply", tag="waited", frozen=True):
    """A reading of the run-queue probe."""

    at_us: int
    groups: tuple[GroupWaits, ...]
    behind: tuple[tuple[str, str, int], ...]  # who waited, who ran, microseconds
    behind_nobody: tuple[tuple[str, NoCulprit, int], ...]
    unattributed_us: int = 0
    dropped: int = 0

    @classmethod
    def of(cls, reading: RunQueueReading) -> Waited:
        """Encode a reading."""
        behind = tuple((b.victim, b.culprit, b.ran_us) for b in reading.blame if not isinstance(b.culprit, NoCulprit))
        nobody = tuple((b.victim, b.culprit, b.ran_us) for b in reading.blame if isinstance(b.culprit, NoCulprit))
        return cls(reading.at_us, reading.groups, behind, nobody, reading.unattributed_us, reading.dropped)

    def reading(self) -> RunQueueReading:
        """Decode it."""
        blame = (*(Blame(*one) for one in self.behind), *(Blame(*one) for one in self.behind_nobody))
        return RunQueueReading(self.at_us, self.groups, blame, self.unattributed_us, self.dropped)


class RequestRefused(msgspec.Struct, tag_field="reply", tag="refused", frozen=True):
    """The whole request was refused. `kind`: the name of the error."""

    kind: str
    detail: str
    field: str = ""
    value: str = ""
    needs: str = ""


Reply = Answers | LeaseList | KnobValues | Granted | Described | Waited | RequestRefused

_T = TypeVar("_T")
_REQUEST: msgspec.json.Decoder[Request] = msgspec.json.Decoder(Request)
_REPLY: msgspec.json.Decoder[Reply] = msgspec.json.Decoder(Reply)


def frame(message: Request | Reply) -> bytes:
    """Encode a message with its length. Raises `InvalidInput` for a name that is not Unicode text."""
    try:
        data = msgspec.json.encode(message)
    except UnicodeEncodeError as error:
        raise InvalidInput("message", type(message).__name__, "names in UTF-8") from error
    return LENGTH.pack(len(data)) + data


def request(data: bytes) -> Request:
    """Decode a request. Raises `InvalidInput`."""
    message = _decode(data, _REQUEST)
    items = {Hold: "knobs", End: "requests", ReadKnobs: "targets", ReadWaits: "groups"}.get(type(message))
    if items is not None and len(getattr(message, items)) > MAX_IN_ONE:
        raise InvalidInput(items, len(getattr(message, items)), f"at most {MAX_IN_ONE} in one message")
    for group in _groups(message):
        if len(group) > MAX_GROUP:
            raise InvalidInput("group", len(group), f"at most {MAX_GROUP} characters")
    return message


def _groups(message: Request) -> Iterable[str]:
    match message:
        case Hold(knobs=knobs):
            return (knob.target.group for knob in knobs)
        case End(requests=requests):
            return (request.target.group for request in requests)
        case ReadKnobs(targets=targets):
            return (target.group for target in targets)
        case ReadWaits(groups=groups):
            return groups
        case _:
            return ()


def reply(data: bytes) -> Reply:
    """Decode a reply. Raises `InvalidInput`."""
    return _decode(data, _REPLY)


def _decode(data: bytes, decoder: msgspec.json.Decoder[_T]) -> _T:
    try:
        return decoder.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidInput("message", data[:40].decode("utf-8", "replace"), "a request or reply", str(error)) from error


def refusal(error: CotenantError) -> RequestRefused:
    """Encode an error as a reply."""
    if isinstance(error, InvalidInput):
        return RequestRefused("InvalidInput", error.expected, error.field, str(error.value)[:200], error.hint)
    if isinstance(error, Unsupported):
        return RequestRefused("Unsupported", str(error), error.feature, needs=error.needs)
    return RequestRefused(type(error).__name__, str(error))


def error_of(refused: RequestRefused) -> CotenantError:
    """Decode the error of a reply."""
    match refused.kind:
        case "InvalidInput":
            return InvalidInput(refused.field, refused.value, refused.detail, refused.needs)
        case "Unsupported":
            return Unsupported(refused.field, refused.needs)
        case "Vanished":
            return Vanished(refused.detail)
        case "Transient":
            return Transient(refused.detail)
        case _:
            return Permanent(refused.detail)

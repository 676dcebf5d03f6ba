"""Replica signals on the wire, from the trace process to agents, and what agents answer.

    agent -> trace process   POST /api/v1/signals    Subscription; the answer is a stream of lines, each a `SignalLine`
    agent -> trace process   POST /api/v1/actions    ActionTaken

A node must hear of its replicas within two seconds, and neither side may poll for everything. The agent opens one
connection and names its pods; the trace process sends a line of JSON when a replica's figures change, and at least once
a second, so silence means that the source is gone. A changed set of pods is a new connection.
Limits: no acknowledgement: the next line has the newest figures.
"""

from __future__ import annotations

from typing import Annotated, TypeVar

import msgspec

from cotenant.model.errors import InvalidInput
from cotenant.model.machine.replica_signal import MaxAction, ReplicaSignal

SIGNALS, ACTIONS = "/api/v1/signals", "/api/v1/actions"
MAX_PODS = 2_000
MAX_BYTES = 1 << 20
MAX_LINE_BYTES = 4 << 20
MAX_SIGNALS = 10_000  # of a line
MOVE_ACTION = "move"  # the node asks for a move of the replica or of the culprit
V = TypeVar("V", bound=msgspec.Struct)
Word = Annotated[str, msgspec.Meta(max_length=512)]
Count = Annotated[int, msgspec.Meta(ge=0, le=10**15)]


class SubscribedPod(msgspec.Struct, frozen=True, array_like=True):
    """A pod of the agent's node."""

    key: Word  # namespace/name
    uid: Word


class SignalSubscription(msgspec.Struct, frozen=True, rename="camel"):
    """What an agent asks for."""

    node: Word
    pods: Annotated[tuple[SubscribedPod, ...], msgspec.Meta(max_length=MAX_PODS)]


class WireSignal(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A `ReplicaSignal`; `pod` and `pod_uid` are those of the subscription."""

    objective: Word
    service: Word
    pod: Word
    pod_uid: Word
    threshold_us: Count | None
    budget_ppm: Count
    max_action: MaxAction
    guard: bool
    window_us: Count
    requests: Count
    bad: Count
    p99_us: Count
    at_target_us: Count
    age_us: Count = 0
    self_p99_us: Count | None = None


class SignalLine(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """One line of the stream. `withdrawn`: pairs of pod and objective that no longer belong together."""

    signals: Annotated[tuple[WireSignal, ...], msgspec.Meta(max_length=MAX_SIGNALS)] = ()
    withdrawn: Annotated[tuple[tuple[Word, Word], ...], msgspec.Meta(max_length=MAX_SIGNALS)] = ()


class ActionTaken(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """What a node did for an objective: the last action of its status."""

    objective: Word
    node: Word
    pod: Word  # the replica that burns
    action: Word  # cap, idle, evict, move, released
    text: Annotated[str, msgspec.Meta(max_length=2000)]
    at_s: Annotated[float, msgspec.Meta(ge=0, le=1e11)]  # Unix time
    culprit: Word = ""  # of a move: the pod that may move instead of the replica


_encoder = msgspec.json.Encoder()
_lines = msgspec.json.Decoder(SignalLine)
_subscriptions = msgspec.json.Decoder(SignalSubscription)
_actions = msgspec.json.Decoder(ActionTaken)


def encode_line(line: SignalLine) -> bytes:
    """A line with its end."""
    return _encoder.encode(line) + b"\n"


def encode(value: SignalSubscription | ActionTaken) -> bytes:
    """The body of a request."""
    return _encoder.encode(value)


def decode_line(line: bytes) -> SignalLine:
    """A line of the stream. Raises `InvalidInput`."""
    return _decoded(_lines, line, "signal line")


def decode_subscription(body: bytes) -> SignalSubscription:
    """What an agent asks for. Raises `InvalidInput`."""
    return _decoded(_subscriptions, body, "subscription")


def decode_action(body: bytes) -> ActionTaken:
    """What a node did. Raises `InvalidInput`."""
    return _decoded(_actions, body, "action")


def to_signal(wire: WireSignal) -> ReplicaSignal:
    """The model's value."""
    return ReplicaSignal(**{name: getattr(wire, name) for name in WireSignal.__struct_fields__})


def from_signal(signal: ReplicaSignal) -> WireSignal:
    """Its form on the wire."""
    return WireSignal(*(getattr(signal, name) for name in WireSignal.__struct_fields__))


def _decoded(decoder: msgspec.json.Decoder[V], body: bytes, what: str) -> V:
    try:
        return decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidInput(what, " ".join(str(error).split())[:200], "a JSON object of this form") from None

"""The decision record as an annotation of the pod: compact JSON of bounded size.

"why is it there" must be answered long after the scheduler forgot, and annotations cost memory in the API server, once
for each pod. One annotation, sent inside the Binding, so that it exists exactly where the bind does; a few hundred
bytes, never above `MAX_BYTES`: what does not fit is left out, the least important first.
Limits: scores are rounded to four digits.
"""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec

from cotenant.model.decisions.record import DecisionRecord

MAX_BYTES = 2048


class NodeScore(msgspec.Struct, frozen=True, array_like=True):
    """A node and its score."""

    node: str
    score: float


class Written(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """The annotation's value."""

    at: str  # RFC 3339
    policy: str
    nodes: int  # looked at
    score: float | None = None
    waited_seconds: float = 0.0
    attempts: int = 1
    rejected: dict[str, int] = {}  # "filter: reason" -> nodes
    next: tuple[NodeScore, ...] = ()  # the best of the others
    gang: str = ""  # namespace/name of the gang that it was placed with
    together: int = 0  # members that were given their nodes in the same step


_encoder = msgspec.json.Encoder()


def written(record: DecisionRecord, waited_s: float, attempts: int) -> str:
    """The annotation for a pod that was placed."""
    chosen = next((c.score for c in record.candidates if c.node == record.node), None)
    value = Written(
        at=datetime.fromtimestamp(record.at_s, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        policy=record.policy,
        nodes=record.nodes,
        score=None if chosen is None else _rounded(chosen),
        waited_seconds=round(max(0.0, waited_s), 3),
        attempts=attempts,
        rejected={f"{r.filter}: {r.reason}": r.nodes for r in record.rejections},
        next=tuple(NodeScore(c.node, _rounded(c.score)) for c in record.candidates if c.node != record.node),
        gang=record.gang,
        together=record.together,
    )
    encoded = _encoder.encode(value)
    if len(encoded) > MAX_BYTES:
        encoded = _encoder.encode(msgspec.structs.replace(value, next=()))
    if len(encoded) > MAX_BYTES:
        encoded = _encoder.encode(msgspec.structs.replace(value, next=(), rejected={}))
    return encoded.decode()


def read(text: str) -> Written | None:
    """The annotation's value; None where it is not one of ours."""
    try:
        return msgspec.json.decode(text, type=Written)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None


def _rounded(score: float) -> float:
    return float(f"{score:.4g}")

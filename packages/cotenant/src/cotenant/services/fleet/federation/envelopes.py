"""Signed messages: 64 bytes of Ed25519, then the JSON that is signed, with its kind before it.

The kind is part of what is signed, so an answer is never taken for a statement. A bus carries them and is not trusted:
who may publish on it can delay and drop, and cannot forge.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TypeVar

import msgspec

from cotenant.drivers.nats.contract import MAX_PAYLOAD
from cotenant.drivers.nats.keys import is_signed_by, signature
from cotenant.model.errors import InvalidInput

T = TypeVar("T")
_SIGNATURE = 64
STATEMENT_SUBJECT = "federation.statement"
VIEW_SUBJECT = "federation.view"


class EnvelopeKind(StrEnum):
    """What is signed."""

    STATEMENT = "statement"
    WEIGHTS = "weights"
    VIEW = "view"


def sealed(kind: EnvelopeKind, value: object, seed: str) -> bytes:
    """The message. Raises `InvalidInput` where it is larger than a bus carries."""
    body = msgspec.json.encode(value)
    if len(body) + _SIGNATURE > MAX_PAYLOAD:
        raise InvalidInput(f"size of a {kind}", len(body), f"at most {MAX_PAYLOAD - _SIGNATURE} bytes")
    return signature(seed, _signed(kind, body)) + body


def opened(kind: EnvelopeKind, data: bytes, form: type[T]) -> T:
    """What a message says, not verified yet. Raises `InvalidInput`."""
    try:
        return msgspec.json.decode(data[_SIGNATURE:], type=form)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidInput(kind, f"{len(data)} bytes", f"a {kind} of this version", str(error)[:200]) from error


def is_by(kind: EnvelopeKind, data: bytes, public: str) -> bool:
    """Whether the owner of the key signed this message as one of this kind."""
    return is_signed_by(public, _signed(kind, data[_SIGNATURE:]), data[:_SIGNATURE])


def _signed(kind: EnvelopeKind, body: bytes) -> bytes:
    return f"cotenant-federation/{kind}\0".encode() + body

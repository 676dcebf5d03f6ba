"""Continue tokens of paged lists.

A paged list must be one snapshot, although the server keeps no state per client. The token carries the resourceVersion
of the first page and the key after which the next page begins, as base64 JSON (opaque to clients, as Kubernetes
requires). A token with resourceVersion -1 continues from the key in the store's current state: the "inconsistent
continuation" that a 410 response offers.
Limits: not signed; a forged token can only name another key of the same list.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass

import msgspec

from cotenant.drivers.kube.manifests.errors import ApiError

INCONSISTENT = -1


class _Body(msgspec.Struct):
    v: str
    rv: int
    start: tuple[str, str]


@dataclass(frozen=True, slots=True)
class Token:
    """Continue after the key `after` = (namespace, name), at `resource_version`."""

    resource_version: int
    after: tuple[str, str]


def encode(token: Token) -> str:
    """Encode as an opaque text."""
    body = _Body("meta.k8s.io/v1", token.resource_version, token.after)
    return base64.urlsafe_b64encode(msgspec.json.encode(body)).decode().rstrip("=")


def decode(text: str) -> Token:
    """Decode a client's token. Raises ApiError 400 if it is malformed."""
    try:
        raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        body = msgspec.json.decode(raw, type=_Body)
    except (binascii.Error, msgspec.DecodeError, ValueError) as error:
        raise ApiError(400, "BadRequest", f"invalid continue token: continue key is not valid: {error}") from None
    if body.v != "meta.k8s.io/v1" or body.rv < INCONSISTENT:
        raise ApiError(
            400,
            "BadRequest",
            "invalid continue token: continue key is not valid: incorrect encoding (unsupported version)",
        )
    return Token(body.rv, body.start)

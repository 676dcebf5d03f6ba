"""Bearer tokens: the comparison, and tokens that are kept in files.

A token that cannot be changed without a restart is never changed, and a comparison that stops at the first difference
reveals how much of a guess was right. constant-time comparison; a token file is read again when it may have changed,
because mounted Secrets are replaced in place. A file that can no longer be read keeps the last token: refusing every
client would be worse.
Limits: one token for all clients, so a client that has it may claim to be any other; where that matters, use client
certificates.
"""

from __future__ import annotations

import hmac
import secrets
from contextlib import suppress
from pathlib import Path

from cotenant.model.errors import InvalidInput

REREAD_S = 10.0
SHORTEST = 16  # characters; shorter tokens can be guessed


def new_token() -> str:
    """256 random bits as text."""
    return secrets.token_urlsafe(32)


def is_bearer(authorization: bytes, token: bytes) -> bool:
    """Whether the value of an Authorization header carries this bearer token. Takes the same time for every wrong
    token of its length.
    """
    scheme, _, given = authorization.partition(b" ")
    return scheme.lower() == b"bearer" and hmac.compare_digest(given.strip(), token)


def read_token(path: Path, field: str = "token file") -> bytes:
    """The token in a file, without surrounding white space. `field` names the option. Raises `InvalidInput`."""
    try:
        token = path.read_bytes().strip()
    except OSError as error:
        raise InvalidInput(field, str(path), "a readable file with a bearer token", error.strerror or "") from error
    if len(token) < SHORTEST or not token.isascii() or any(byte <= 32 or byte == 127 for byte in token):
        raise InvalidInput(
            field,
            str(path),
            f"one line of at least {SHORTEST} printable characters",
            "openssl rand -hex 32 makes a token",
        )
    return token


class BearerToken:
    """The token of a file, read again while the server runs. Raises `InvalidInput` where the file has none at the
    start.
    """

    def __init__(self, path: Path, field: str = "token file") -> None:
        self._path = path
        self._field = field
        self._token = read_token(path, field)
        self._read_s = float("-inf")

    def accepts(self, authorization: bytes, now_s: float) -> bool:
        """Whether an Authorization header carries the token. `now_s` is any clock; it may jump."""
        if abs(now_s - self._read_s) >= REREAD_S:
            self._read_s = now_s
            with suppress(InvalidInput):
                self._token = read_token(self._path, self._field)
        return is_bearer(authorization, self._token)

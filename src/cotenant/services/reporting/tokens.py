"""The shared secret of those who report.

Problem: a report moves pods, so only agents may send one, and a secret that cannot be changed without a restart is never changed. Choice: a
bearer token in a file that is looked at again when it may have changed (mounted Secrets are replaced in place); comparison takes the same
time whatever was sent. Limits: one token for all agents, so an agent that has it may speak for any node; where that matters let agents
come with client certificates. A file that cannot be read any more keeps the last token, because locking all agents out would help nobody.
"""

from __future__ import annotations

import hmac
from contextlib import suppress
from pathlib import Path

from cotenant.model.errors import InvalidInput

LOOK_AGAIN_S = 10.0
SHORTEST = 16  # characters; shorter ones can be guessed


class ReportToken:
    """The token of a file. Raises `InvalidInput` where there is none at the start."""

    def __init__(self, path: Path, field: str = "report token file") -> None:
        self._path = path
        self._field = field
        self._token = read_token(path, field)
        self._looked_s = float("-inf")

    def accepts(self, authorization: bytes, now_s: float) -> bool:
        """Whether an Authorization header carries it. `now_s` is any clock; it may jump."""
        if abs(now_s - self._looked_s) >= LOOK_AGAIN_S:
            self._looked_s = now_s
            with suppress(InvalidInput):
                self._token = read_token(self._path, self._field)
        scheme, _, given = authorization.partition(b" ")
        return scheme.lower() == b"bearer" and hmac.compare_digest(given.strip(), self._token)


def read_token(path: Path, field: str = "report token file") -> bytes:
    """The token that a file has. Raises `InvalidInput`."""
    try:
        token = path.read_bytes().strip()
    except OSError as error:
        raise InvalidInput(field, str(path), "a readable file", error.strerror or "") from error
    if len(token) < SHORTEST or not token.isascii() or any(byte <= 32 or byte == 127 for byte in token):
        raise InvalidInput(field, str(path), f"one line of at least {SHORTEST} printable characters")
    return token

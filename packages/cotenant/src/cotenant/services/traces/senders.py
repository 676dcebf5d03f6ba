"""Who sends spans: which requests are taken, and which namespace their sender has proven to be of.

What a span says of itself is its sender's to write, and an objective that may have pods evicted must not burn, or be
diluted, by another tenant's spans. Sending has tokens of its own. One that all senders share proves nothing; a token of
a namespace (a file of its name in a folder), or of a service account of it, projected for `AUDIENCE` and reviewed by
the API server, proves the namespace; collectors that forward others' spans are named. Without any of these the token
for questions is also good for sending.
Limits: a proof is of a namespace, not of a service in it.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from cotenant.drivers.http.tokens import BearerToken, read_token
from cotenant.model.errors import InvalidInput
from cotenant.model.traces.spans import EVERYBODY

if TYPE_CHECKING:  # an HTTP client comes with it: only where there is a cluster
    from cotenant.services.reporting.identity import TokenReviews

AUDIENCE = "cotenant-spans"
REREAD_S = 10.0
ACCOUNT = "system:serviceaccount:"


class NamespaceTokens:
    """The tokens of a folder, a file for each namespace, read again while the process runs. Raises `InvalidInput`
    for one that is none.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._tokens = self._read()
        self._read_s = float("-inf")

    def namespace_of(self, authorization: bytes, now_s: float) -> str:
        """The namespace whose token the header carries; "" = none. `now_s` is any clock."""
        if abs(now_s - self._read_s) >= REREAD_S:
            self._read_s = now_s
            with suppress(InvalidInput):
                self._tokens = self._read()
        scheme, _, given = authorization.partition(b" ")
        if scheme.lower() != b"bearer":
            return ""
        found = [name for name, token in self._tokens.items() if hmac.compare_digest(given.strip(), token)]
        return found[0] if len(found) == 1 else ""

    def _read(self) -> dict[str, bytes]:
        try:
            files = sorted(path for path in self._folder.iterdir() if path.is_file() and not path.name.startswith("."))
        except OSError as error:
            raise InvalidInput("--sender-tokens", str(self._folder), "a folder", error.strerror or "") from None
        return {file.name: read_token(file, "--sender-tokens") for file in files}


@dataclass(slots=True)
class Senders:
    """Judges the Authorization headers of senders. `now` is any clock."""

    now: Callable[[], float]
    asking: BearerToken | None = None  # the token for questions
    shared: BearerToken | None = None
    by_namespace: NamespaceTokens | None = None
    reviews: TokenReviews | None = None
    is_open: bool = field(default=False)  # without any token everybody may send

    @property
    def are_apart(self) -> bool:
        """Whether sending has tokens of its own."""
        return self.shared is not None or self.by_namespace is not None or self.reviews is not None

    async def of(self, authorization: bytes) -> str | None:
        """The proven namespace, EVERYBODY for a collector, "" for a sender that proves nothing; None = refused.
        Raises `Transient` where the API server cannot be asked.
        """
        if not self.are_apart:
            return "" if self.asking is None or self.asking.accepts(authorization, self.now()) else None
        if self.by_namespace is not None and (found := self.by_namespace.namespace_of(authorization, self.now())):
            return found
        if self.shared is not None and self.shared.accepts(authorization, self.now()):
            return ""
        if self.reviews is not None and (found := await self.reviews.meaning_of(authorization)):
            return found
        return "" if self.is_open else None


def namespace_of(username: str | None, collectors: frozenset[str]) -> str:
    """The namespace of a service account's user name; EVERYBODY for one of the `collectors` (user names), "" for
    another user.
    """
    if username in collectors:
        return EVERYBODY
    if not username or not username.startswith(ACCOUNT):
        return ""
    return username.removeprefix(ACCOUNT).partition(":")[0]

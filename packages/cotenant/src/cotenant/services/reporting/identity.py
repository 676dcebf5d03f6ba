"""Which node a report's bearer token belongs to, by the API server's TokenReview.

With one shared token every node can report for every other. Agents send the token that the kubelet projects into their
pod, for an audience of its own (`AUDIENCE`), so that it is of no use at the API server. The API server says whose it
is; it must be the agents' service account, and its claim `authentication.kubernetes.io/node-name` is the only node that
it may report for. Answers are kept for a minute, refusals for ten seconds, by the token's digest, with a bound on their
number; equal questions under way are asked once, and a bounded number of different ones.
Limits: tokens carry the claim since Kubernetes 1.30; a token that is revoked is accepted for up to a minute.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from hashlib import sha256

from cotenant.drivers.kube.client.client import Client
from cotenant.drivers.kube.kinds.token_review import (
    NODE_OF_TOKEN,
    TOKEN_REVIEWS,
    TokenReview,
    TokenReviewSpec,
    TokenUser,
)
from cotenant.model.errors import CotenantError, Transient

AUDIENCE = "cotenant-reports"
ACCEPTED_S = 60.0
REFUSED_S = 10.0
MAX_KEPT = 40_000  # answers; a node's token is replaced about once an hour
MAX_UNDER_WAY = 16  # questions
LONGEST_TOKEN = 8 * 1024
_log = logging.getLogger(__name__)


class TokenReviews:
    """What tokens of an audience stand for. `meaning` gives it for the user of a good token, "" = nothing;
    `monotonic` gives seconds.
    """

    def __init__(
        self, client: Client, audience: str, meaning: Callable[[TokenUser], str], monotonic: Callable[[], float]
    ) -> None:
        self._client = client
        self._audience = audience
        self._meaning = meaning
        self._monotonic = monotonic
        self._kept: dict[bytes, tuple[float, str]] = {}  # digest -> until, node; in order of arrival
        self._asking: dict[bytes, asyncio.Task[str]] = {}

    async def meaning_of(self, authorization: bytes) -> str:
        """What an Authorization header stands for; "" = nothing. Raises `Transient` where the API server cannot be
        asked now.
        """
        scheme, _, given = authorization.partition(b" ")
        token = given.strip()
        if scheme.lower() != b"bearer" or not token or len(token) > LONGEST_TOKEN or not token.isascii():
            return ""
        key = sha256(token).digest()
        kept = self._kept.get(key)
        if kept is not None and self._monotonic() < kept[0]:
            return kept[1]
        asking = self._asking.get(key)
        if asking is None:
            if len(self._asking) >= MAX_UNDER_WAY:
                raise Transient("too many tokens are being reviewed", retry_after_s=1.0)
            asking = asyncio.create_task(self._ask(token.decode()), name="token review")
            self._asking[key] = asking
            asking.add_done_callback(lambda done: self._answered(key, done))
        return await asyncio.shield(asking)  # a client that goes away does not end it for the others

    async def _ask(self, token: str) -> str:
        question = TokenReview(spec=TokenReviewSpec(token=token, audiences=[self._audience]))
        try:
            status = (await self._client.create(TOKEN_REVIEWS, "", question)).status
        except CotenantError as error:
            _log.warning("a token cannot be reviewed: %s", error)
            raise Transient("the API server cannot review the token now", retry_after_s=5.0) from error
        user = status.user if status is not None and status.authenticated else None
        if status is None or user is None or self._audience not in (status.audiences or ()):
            return ""
        return self._meaning(user)

    def _answered(self, key: bytes, done: asyncio.Task[str]) -> None:
        self._asking.pop(key, None)
        if done.cancelled() or done.exception() is not None:
            return
        self._kept.pop(key, None)
        while len(self._kept) >= MAX_KEPT:
            self._kept.pop(next(iter(self._kept)))
        node = done.result()
        self._kept[key] = (self._monotonic() + (ACCEPTED_S if node else REFUSED_S), node)


class TokenNodes(TokenReviews):
    """The nodes of tokens. `user` is the only one whose tokens are accepted."""

    def __init__(self, client: Client, user: str, monotonic: Callable[[], float]) -> None:
        super().__init__(client, AUDIENCE, lambda found: _node(found) if found.username == user else "", monotonic)

    async def node_of(self, authorization: bytes) -> str:
        """The node that an Authorization header may report for; "" = none. Raises as `meaning_of`."""
        return await self.meaning_of(authorization)


def _node(user: TokenUser) -> str:
    names = (user.extra or {}).get(NODE_OF_TOKEN) or []
    return names[0] if len(names) == 1 else ""

"""Who may look: one-time links, the console's token, viewers' own Kubernetes tokens, and a proxy that knows its users.

    GET  /login?token=T   a one-time link: sets the session's cookie, and the link is used up
    POST /login           token=T in the form: the console's token, or a Kubernetes token where that is allowed
    Authorization: Bearer the console's token, for scripts
    X-Forwarded-User: ... or another header of a proxy that logs viewers in (OpenID Connect), from that proxy's address
    only

A page about a cluster shows what runs where, and a browser cannot send a header with its first request. A session is a
random cookie that scripts cannot read and that other sites' pages do not send (HttpOnly, SameSite=Strict). The one-time
token may be in a file, which is removed when it is used, so a parent process can hand one to its console without
showing it in the process list. With `TokenReviewer`, a viewer logs in with a token of the cluster, and must be
allowed to list nodes and pods in all namespaces: the page shows no less. That right is asked for again every
`REVIEW_S`, and parts of the page about other kinds (`RIGHTS`) need the right to list those.
Terminals, changes and approvals, which are switched on apart, need the right of each verb; all else is read-only.
Limits: sessions end after `SESSION_S`, and at a restart unless a file keeps them (kept_sessions.py); who logs in
without a token of the cluster may do what the console may.
"""

from __future__ import annotations

import hmac
import secrets
from base64 import urlsafe_b64decode
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path

import msgspec

from cotenant.drivers.http.messages import Scope, header
from cotenant.drivers.http.tokens import BearerToken, new_token, read_token
from cotenant.drivers.kube.client.access import Access
from cotenant.drivers.kube.client.client import Client
from cotenant.drivers.kube.client.credentials import Credential, FixedCredential
from cotenant.drivers.kube.client.errors import Unavailable
from cotenant.drivers.kube.kinds.custom.autonomy import AUTONOMIES
from cotenant.drivers.kube.kinds.custom.control_zone import CONTROL_ZONES
from cotenant.drivers.kube.kinds.custom.migration_job import MIGRATION_JOBS
from cotenant.drivers.kube.kinds.custom.pool_lending import POOL_LENDINGS
from cotenant.drivers.kube.kinds.custom.right_sizing import RIGHT_SIZINGS
from cotenant.drivers.kube.kinds.custom.workload_profile import WORKLOAD_PROFILES
from cotenant.model.errors import CotenantError, InvalidInput
from cotenant.services.console.kept_sessions import KeptSessions
from cotenant.services.console.proxy_login import ProxyLogin

COOKIE = b"cotenant_console"
SESSION_S = 12 * 3600.0
REVIEW_S = 300.0
MAX_SESSIONS = 10_000
_REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"

Review = Callable[[str], Awaitable[bool]]
MayList = Callable[[str, "Right"], Awaitable[bool]]


@dataclass(frozen=True, slots=True)
class Right:
    """To do something with a kind in all namespaces, usually to list it."""

    group: str
    resource: str
    verb: str = "list"
    subresource: str = ""

    @property
    def attributes(self) -> dict[str, str]:
        """As an access review has them."""
        named = (
            ("verb", self.verb),
            ("resource", self.resource),
            ("group", self.group),
            ("subresource", self.subresource),
        )
        return {name: value for name, value in named if value}

    @property
    def words(self) -> str:
        """`VERB RESOURCE`, for a person."""
        verb = "do everything to" if self.verb == "*" else self.verb
        resource = "all kinds" if self.resource == "*" else self.resource
        return f"{verb} {resource}" + (f"/{self.subresource}" if self.subresource else "")


_MOVES = Right(MIGRATION_JOBS.group, MIGRATION_JOBS.plural)
_LENDING = Right(POOL_LENDINGS.group, POOL_LENDINGS.plural)
# What a viewer's own token must be allowed to do beside listing nodes and pods, by the part of the page.
RIGHTS: dict[str, tuple[Right, ...]] = {
    "moves": (_MOVES,),
    "timeline": (_MOVES,),
    "lending": (_LENDING,),
    "autonomy": (
        _MOVES,
        _LENDING,
        Right(RIGHT_SIZINGS.group, RIGHT_SIZINGS.plural),
        Right(AUTONOMIES.group, AUTONOMIES.plural),
    ),
    "profiles": (Right(WORKLOAD_PROFILES.group, WORKLOAD_PROFILES.plural),),
    "zones": (Right(CONTROL_ZONES.group, CONTROL_ZONES.plural),),
    "releases": (Right("", "secrets"),),  # of releases, whose records are Secrets
    "vms": (Right("kubevirt.io", "virtualmachines"),),
    "logs": (Right("", "pods", "get", "log"),),
    "terminal": (Right("", "pods", "create", "exec"),),
}


@dataclass(slots=True)
class ViewerSession:
    """One viewer's browser. `kubernetes_token` is empty where the console's own token was given."""

    ends_s: float
    kubernetes_token: str = ""
    reviewed_s: float = 0.0
    is_ended: bool = False
    viewer: str = ""  # who, as far as it is known
    rights: dict[Right, tuple[bool, float]] = field(default_factory=dict)  # what was answered, and when


class OneTimeToken:
    """A token that is accepted once: of a file, which is then removed, or made here."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self.token = "" if path is not None else new_token()

    def withdraw(self) -> None:
        """Accept none, where it was made here: nobody may be shown it."""
        self.token = ""

    def use(self, given: str) -> bool:
        """Whether this is the token; it is used up by that."""
        expected = self.token
        if self._path is not None:
            with suppress(InvalidInput):
                expected = read_token(self._path).decode()
        if not expected or not hmac.compare_digest(given.encode(), expected.encode()):
            return False
        self.token = ""
        if self._path is not None:
            self._path.unlink(missing_ok=True)
        return True


class Sessions:
    """Every viewer's session, and how one begins."""

    def __init__(
        self,
        now: Callable[[], float],
        *,
        link: OneTimeToken,
        token: BearerToken | None = None,
        review: Review | None = None,
        may_list: MayList | None = None,
        proxy: ProxyLogin | None = None,
        is_secure: bool = False,
        kept: KeptSessions | None = None,
        max_sessions: int = MAX_SESSIONS,
    ) -> None:
        """`review` says whether a Kubernetes token may see the cluster, `may_list` whether it may see a kind; None
        = such tokens are not accepted. `is_secure`: the server has TLS. `kept`: sessions outlive the process.
        """
        self._may_list, self._proxy = may_list, proxy
        self._now, self._link, self._token, self._review, self._is_secure = now, link, token, review, is_secure
        self._kept, self._max_sessions = kept, max_sessions
        self._by_id: dict[str, ViewerSession] = {}  # by the digest of the cookie
        if kept is not None:
            self._by_id = {key: ViewerSession(ends_s) for key, ends_s in kept.read().items() if now() < ends_s}

    @property
    def takes_kubernetes_tokens(self) -> bool:
        """Whether a viewer may log in with a token of the cluster."""
        return self._review is not None

    async def find(self, scope: Scope) -> ViewerSession | None:
        """The session of a request; None where it has none, or its right has ended."""
        authorization = header(scope, b"authorization")
        now_s = self._now()
        if authorization:
            accepted = self._token is not None and self._token.accepts(authorization, now_s)
            return ViewerSession(now_s + SESSION_S, reviewed_s=now_s, viewer="console token") if accepted else None
        if self._proxy is not None and self._proxy.admits(scope):
            return ViewerSession(now_s + SESSION_S, reviewed_s=now_s, viewer=self._proxy.viewer(scope))
        key = _cookie(header(scope, b"cookie"))
        session = self._by_id.get(key)
        if session is None:
            return None
        if now_s >= session.ends_s or session.is_ended:
            self._end(key)
            return None
        if session.kubernetes_token and now_s - session.reviewed_s >= REVIEW_S:
            session.reviewed_s = now_s
            if not await self._may(session.kubernetes_token, otherwise=True):
                self._end(key)
                return None
        return session

    def follow(self, given: str) -> bytes | None:
        """The cookie for a one-time link; None where it is wrong or was used."""
        return self._begin(viewer="console link") if self._link.use(given) else None

    async def log_in(self, given: str) -> bytes | None:
        """The cookie for a token of the form; None where it is not accepted."""
        given = given.strip()
        if not given or not given.isprintable() or not given.isascii():
            return None
        if self._token is not None and self._token.accepts(b"Bearer " + given.encode(), self._now()):
            return self._begin(viewer="console token")
        if self._link.use(given):
            return self._begin(viewer="console link")
        if self._review is not None and await self._may(given, otherwise=False):
            return self._begin(given, _subject(given))
        return None

    def log_out(self, scope: Scope) -> bytes:
        """End the request's session; the cookie that removes it."""
        self._end(_cookie(header(scope, b"cookie")))
        return COOKIE + b"=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict"

    def is_open(self, session: ViewerSession) -> bool:
        """Whether a session that was found still holds, for answers that last."""
        return not session.is_ended and self._now() < session.ends_s

    async def may_list(self, session: ViewerSession, right: Right) -> bool:
        """Whether the viewer has a right. Sessions that no Kubernetes token began see what the console sees."""
        if not session.kubernetes_token or self._may_list is None:
            return True
        now_s = self._now()
        allowed, asked_s = session.rights.get(right, (False, -REVIEW_S))
        if now_s - asked_s >= REVIEW_S:
            try:
                allowed = await self._may_list(session.kubernetes_token, right)
            except Unavailable:  # the server's outage takes no right away, and gives none
                pass
            except CotenantError:
                allowed = False
            session.rights[right] = (allowed, now_s)
        return allowed

    async def _may(self, token: str, *, otherwise: bool) -> bool:
        assert self._review is not None
        try:
            return await self._review(token)
        except Unavailable:  # the server's outage must not end sessions
            return otherwise
        except CotenantError:
            return False

    def _begin(self, kubernetes_token: str = "", viewer: str = "") -> bytes:
        now_s = self._now()
        for key in [key for key, session in self._by_id.items() if now_s >= session.ends_s]:
            self._end(key)
        while len(self._by_id) >= self._max_sessions:
            self._end(next(iter(self._by_id)))
        key = secrets.token_urlsafe(32)
        self._by_id[_digest(key)] = ViewerSession(now_s + SESSION_S, kubernetes_token, now_s, viewer=viewer)
        self._keep()
        secure = b"; Secure" if self._is_secure else b""
        return b"%s=%s; Path=/; Max-Age=%d; HttpOnly; SameSite=Strict%s" % (COOKIE, key.encode(), SESSION_S, secure)

    def _end(self, key: str) -> None:
        session = self._by_id.pop(key, None)
        if session is not None:
            session.is_ended = True
            self._keep()

    def _keep(self) -> None:
        if self._kept is not None:
            self._kept.write(
                {key: session.ends_s for key, session in self._by_id.items() if not session.kubernetes_token}
            )


class TokenReviewer:
    """Asks the API server whether a token may list nodes and pods everywhere."""

    def __init__(self, access: Access) -> None:
        self._access = access

    async def __call__(self, token: str) -> bool:
        """Raises `CotenantError` where the server does not answer or refuses the token."""
        return await self._may_list(token, Right("", "nodes"), Right("", "pods"))

    async def may_list(self, token: str, right: Right) -> bool:
        """Whether it may list another kind. Raises as a call does."""
        return await self._may_list(token, right)

    async def _may_list(self, token: str, *rights: Right) -> bool:
        access = replace(self._access, credentials=FixedCredential(Credential(f"Bearer {token}")), headers=())
        async with Client(
            access, qps=10.0, burst=4, in_flight=2, timeout_s=10.0, user_agent="cotenant-console"
        ) as client:
            for right in rights:
                body = {
                    "apiVersion": "authorization.k8s.io/v1",
                    "kind": "SelfSubjectAccessReview",
                    "spec": {"resourceAttributes": right.attributes},
                }
                found = msgspec.json.decode(await client.request("POST", _REVIEWS, body))
                if (found.get("status") or {}).get("allowed") is not True:
                    return False
        return True


def _subject(token: str) -> str:
    """Whose token this is, by its own word, which the API server has believed; for records."""
    parts = token.split(".")
    if len(parts) == 3:
        with suppress(ValueError, RecursionError):
            found = msgspec.json.decode(urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
            if isinstance(found, dict) and isinstance(found.get("sub"), str):
                return str(found["sub"])[:200]
    return "kubernetes token"


def _digest(key: str) -> str:
    return sha256(key.encode()).hexdigest()


def _cookie(text: bytes) -> str:
    """The digest of the session's cookie; empty where there is none."""
    for part in text.split(b";"):
        name, _, value = part.strip().partition(b"=")
        if name == COOKIE:
            return _digest(value.decode("latin-1"))
    return ""

"""The console's HTTP side: the page, log-in, the snapshot, live changes, and questions.

    GET  /                       the page (and /assets: its script and style)
    GET  /login                  and POST /login, POST /logout: access.py
    GET  /api/machines           the machine map as binary, with an ETag
    GET  /api/machines/at/UNIX   the same as it was
    GET  /api/events             live changes (live.py)
         /api/terminal/...       terminals into containers, where they are switched on (hosts/terminals.py)
    POST /api/releases/..., vms  changes, where they are switched on (applications/changing.py)
    POST /api/autonomy           approvals, undos and freezes, where they are switched on (acting/allowing.py)
    GET  /api/...                questions.py
    GET  /healthz, /readyz, /metrics

Names, labels and reasons are written by whoever may create a pod, and end in a page with an administrator's session.
The page makes text nodes only, and the browser is told to run nothing but our script: a Content-Security-Policy without
inline script or style, no framing, no sniffing. Everything except the log-in, its style and health needs a session.
Limits: static files are read once, at the start.
"""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from urllib.parse import parse_qs

from cotenant.drivers.http.messages import (
    TEXT,
    BodyRefused,
    Disconnected,
    HttpAnswer,
    Receive,
    Scope,
    Send,
    header,
    read_body,
    send_answer,
)
from cotenant.drivers.http.pages import HealthPages
from cotenant.services.console.access import RIGHTS, Sessions, ViewerSession
from cotenant.services.console.asker import Asker, Posts
from cotenant.services.console.history import SnapshotHistory
from cotenant.services.console.hosts.terminals import TERMINAL, Seat, Terminals
from cotenant.services.console.live import Live
from cotenant.services.console.questions import API, Questions, wrong

HTML = b"text/html; charset=utf-8"
BINARY = b"application/octet-stream"
POLICY = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    b"base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
SECURITY = (
    (b"content-security-policy", POLICY),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
_TYPES = {
    "html": HTML,
    "js": b"text/javascript; charset=utf-8",
    "css": b"text/css; charset=utf-8",
    "svg": b"image/svg+xml",
}
_OPEN = frozenset({"/login", "/assets/login.css", "/assets/login.js", "/assets/icon.svg"})
_NO_STORE = ((b"cache-control", b"no-store"),)
_FORM_BYTES = 16 << 10


@dataclass(frozen=True, slots=True)
class Static:
    """A file of the page."""

    body: bytes
    packed: bytes
    content_type: bytes
    tag: bytes


def page_files() -> Mapping[str, Static]:
    """The built page by path."""
    found = {}
    page = files("cotenant.services.console").joinpath("page")
    for traversable in (*page.iterdir(), *page.joinpath("assets").iterdir()):
        kind = traversable.name.rpartition(".")[2]
        if kind in _TYPES:
            body = traversable.read_bytes()
            tag = b'"%s"' % hashlib.sha256(body).hexdigest()[:20].encode()
            path = {"index.html": "/", "login.html": "/login"}.get(traversable.name, f"/assets/{traversable.name}")
            found[path] = Static(body, gzip.compress(body, 9, mtime=0), _TYPES[kind], tag)
    return found


class ConsoleApp:
    """The ASGI application."""

    def __init__(
        self,
        sessions: Sessions,
        live: Live,
        history: SnapshotHistory,
        questions: Questions,
        health: HealthPages,
        terminals: Terminals,
        posts: Sequence[Posts],
    ) -> None:
        self._sessions, self._live, self._history, self._questions = sessions, live, history, questions
        self._health, self._terminals, self._posts = health, terminals, posts
        self._files = page_files()
        self._packed: tuple[str, bytes] = ("", b"")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        path, method = scope["path"], scope["method"]
        answer = self._health.answer(method, path)
        if answer is None and path in ("/login", "/logout") and method == "POST":
            answer = await self._form(scope, receive, path)
            if answer is None:
                return
        elif answer is None and method not in ("GET", "HEAD") and not self._is_sent(method, path):
            answer = HttpAnswer(405, b"only GET: the console changes nothing\n", TEXT, ((b"allow", b"GET, HEAD"),))
        elif answer is None and path in _OPEN:
            answer = await self._log_in_page(scope) if path == "/login" else self._file(scope, path)
        elif answer is None:
            session = await self._sessions.find(scope)
            if session is None:
                answer = self._refusal(path)
            elif path == "/api/events" and method == "GET":
                position = header(scope, b"last-event-id").decode("latin-1") or _field(scope, "since")
                await self._live.stream(position, receive, send, lambda: self._sessions.is_open(session))
                return
            elif (taker := self._taker(method, path)) is not None:
                answer = await self._permitted(session, path)
                answer = answer or await taker.answer(scope, receive, self._asker(session))
                if answer is None:
                    return
            elif path.startswith(TERMINAL):
                answer = await self._permitted(session, path)
                if answer is None:
                    answer = await self._terminals.answer(scope, receive, send, self._seat(session, path))
                if answer is None:
                    return
            else:
                answer = await self._permitted(session, path) or await self._admitted(scope, path)
        await send_answer(send, HttpAnswer(answer.status, answer.body, answer.content_type, (*answer.more, *SECURITY)))

    async def _permitted(self, session: ViewerSession, path: str) -> HttpAnswer | None:
        """A refusal where the viewer's own Kubernetes token may not list what this part of the page shows."""
        needed = RIGHTS.get(path.removeprefix(API).partition("/")[0], ()) if path.startswith(API) else ()
        for right in needed:
            if not await self._sessions.may_list(session, right):
                return wrong(403, f"your token may not {right.words} in all namespaces", "cluster")
        return None

    def _is_sent(self, method: str, path: str) -> bool:
        return path.startswith(TERMINAL) or self._taker(method, path) is not None

    def _taker(self, method: str, path: str) -> Posts | None:
        return next((posts for posts in self._posts if posts.takes(method, path)), None)

    def _asker(self, session: ViewerSession) -> Asker:
        return Asker(session.viewer or "console", lambda right: self._sessions.may_list(session, right))

    def _seat(self, session: ViewerSession, path: str) -> Seat:
        async def may_stay() -> bool:
            return self._sessions.is_open(session) and await self._permitted(session, path) is None

        return Seat(session.viewer or "console", may_stay)

    async def _admitted(self, scope: Scope, path: str) -> HttpAnswer:
        if path == "/api/machines":
            return self._machines(scope)
        if path.startswith("/api/machines/at/"):
            return self._past(scope, path.rpartition("/")[2])
        if path.startswith(API):
            found = await self._questions.answer(path, scope["query_string"].decode("latin-1"))
            return HttpAnswer(found.status, found.body, found.content_type, (*found.more, *_NO_STORE))
        return self._file(scope, path)

    def _machines(self, scope: Scope) -> HttpAnswer:
        tag = f'"{self._live.tag}"'.encode()
        more = ((b"etag", tag), (b"cache-control", b"private, no-cache"), (b"vary", b"accept-encoding"))
        if tag in header(scope, b"if-none-match"):
            return HttpAnswer(304, b"", BINARY, more)
        body = self._live.snapshot()
        if not _takes_gzip(scope):
            return HttpAnswer(200, body, BINARY, more)
        if self._packed[0] != self._live.tag:
            self._packed = (self._live.tag, gzip.compress(body, 1, mtime=0))
        return HttpAnswer(200, self._packed[1], BINARY, (*more, (b"content-encoding", b"gzip")))

    def _past(self, scope: Scope, text: str) -> HttpAnswer:
        try:
            found = self._history.at(float(text))
        except ValueError:
            return wrong(400, f"{text}: expected Unix seconds", "console")
        if found is None:
            return wrong(404, "nothing has been kept yet", "console")
        if _takes_gzip(scope):
            return HttpAnswer(200, gzip.compress(found, 1), BINARY, (*_NO_STORE, (b"content-encoding", b"gzip")))
        return HttpAnswer(200, found, BINARY, _NO_STORE)

    def _file(self, scope: Scope, path: str) -> HttpAnswer:
        found = self._files.get(path)
        if found is None:
            return HttpAnswer(404, b"there is no such page\n", TEXT)
        more = ((b"etag", found.tag), (b"cache-control", b"no-cache"), (b"vary", b"accept-encoding"))
        if found.tag in header(scope, b"if-none-match"):
            return HttpAnswer(304, b"", found.content_type, more)
        if _takes_gzip(scope):
            return HttpAnswer(200, found.packed, found.content_type, (*more, (b"content-encoding", b"gzip")))
        return HttpAnswer(200, found.body, found.content_type, more)

    def _refusal(self, path: str) -> HttpAnswer:
        if path.startswith(API):
            return wrong(401, "log in first", "console")
        return HttpAnswer(303, b"", TEXT, ((b"location", b"/login"), *_NO_STORE))

    async def _log_in_page(self, scope: Scope) -> HttpAnswer:
        token = _field(scope, "token")
        if token:
            cookie = self._sessions.follow(token)
            if cookie is None and await self._sessions.find(scope) is not None:
                return _entered()  # who is logged in follows the printed link again
            return _entered(cookie) if cookie is not None else _failed(b"used")
        return self._file(scope, "/login")

    async def _form(self, scope: Scope, receive: Receive, path: str) -> HttpAnswer | None:
        try:
            body = await read_body(scope, receive, _FORM_BYTES)
        except BodyRefused as refused:
            return refused.answer
        except Disconnected:
            return None
        site = header(scope, b"sec-fetch-site")
        if site not in (b"", b"same-origin", b"none"):
            return HttpAnswer(403, b"this form was sent by another site\n", TEXT)
        if path == "/logout":
            return HttpAnswer(
                303, b"", TEXT, ((b"location", b"/login"), (b"set-cookie", self._sessions.log_out(scope)), *_NO_STORE)
            )
        try:
            given = parse_qs(body.decode(), max_num_fields=4).get("token", [""])[0]
        except ValueError:
            given = ""
        cookie = await self._sessions.log_in(given)
        return _entered(cookie) if cookie is not None else _failed(b"refused")


def _entered(cookie: bytes = b"") -> HttpAnswer:
    cookies = ((b"set-cookie", cookie),) if cookie else ()
    return HttpAnswer(303, b"", TEXT, ((b"location", b"/"), *cookies, *_NO_STORE))


def _failed(how: bytes) -> HttpAnswer:
    return HttpAnswer(303, b"", TEXT, ((b"location", b"/login?" + how), *_NO_STORE))


def _field(scope: Scope, name: str) -> str:
    try:
        return parse_qs(scope["query_string"].decode(), max_num_fields=8).get(name, [""])[0]
    except ValueError:
        return ""


def _takes_gzip(scope: Scope) -> bool:
    return b"gzip" in header(scope, b"accept-encoding")

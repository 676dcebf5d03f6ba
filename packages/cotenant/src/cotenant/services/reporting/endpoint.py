"""`POST /metrics/report`: the endpoint of node reports.

Reports come from many agents, some outdated, broken or of another cluster, and the response alone must say what the
sender must change. An ASGI application of its own that any of our servers mounts at the path, over a store that the
server's placement reads.

    204  taken                                  401  no token, or not the one
    200  a newer report of the node is known    413  more than 64 KiB        429  as many nodes report as are kept
    400  not a JSON object                      415  not JSON by its type    408  the body does not arrive
    404  not a node of this cluster             503  the nodes are not listed yet, or the token cannot be reviewed now
    403  the token is another node's
    422  a field is wrong: {"error": "...", "field": "..."} on one line

Limits: one report a request. Senders are trusted by one token for all, or each for its own node (`TokenNodes`); with
neither every sender is trusted: the server decides whether that is acceptable.
Source: founding document, "sidecar-agent" and metrics loop.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum

import msgspec

from cotenant.drivers.http.messages import (
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
from cotenant.drivers.http.tokens import BearerToken
from cotenant.engine.state.reports import NodeReports
from cotenant.model.cluster.report import NodeReport
from cotenant.model.errors import InvalidInput, Transient
from cotenant.services.reporting import payload
from cotenant.services.reporting.identity import TokenNodes

PATH = "/metrics/report"


class ReportOutcome(StrEnum):
    """The outcome of a report; a label of the metric that counts them."""

    TAKEN = "taken"
    OLDER = "older"
    MALFORMED = "malformed"
    INVALID = "invalid"
    UNAUTHORIZED = "unauthorized"
    FORBIDDEN = "forbidden"  # with another node's token
    FULL = "full"
    UNKNOWN = "unknown"  # not a node of the cluster
    REFUSED = "refused"  # too large, too slow, wrong method or type


class _ErrorBody(msgspec.Struct, frozen=True):
    error: str
    field: str | None = None


class ReportEndpoint:
    """The ASGI application. `counts` has a number for every outcome."""

    def __init__(
        self,
        reports: NodeReports,
        clock: Callable[[], float],
        token: BearerToken | None = None,
        taken: Callable[[NodeReport], None] | None = None,
        knows: Callable[[str], bool | None] | None = None,
        nodes: TokenNodes | None = None,
    ) -> None:
        """`clock` gives Unix seconds; `taken` is called with every report that entered the store, as stored.

        `knows`: whether a name is a node of the cluster, None while the nodes are not listed; without it every name is
        accepted.
        `nodes`: a token is accepted for its own node only, and `token` is not looked at.
        """
        self._reports = reports
        self._clock = clock
        self._token = token
        self._taken = taken
        self._knows = knows
        self._nodes = nodes
        self.counts = dict.fromkeys(ReportOutcome, 0)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            raise ValueError(f"an HTTP endpoint was asked for {scope['type']}")
        try:
            outcome, answer = await self._answer(scope, receive)
        except BodyRefused as refused:
            outcome, answer = ReportOutcome.REFUSED, refused.answer
        except Disconnected:
            self.counts[ReportOutcome.REFUSED] += 1
            return
        self.counts[outcome] += 1
        await send_answer(send, answer)

    async def _answer(self, scope: Scope, receive: Receive) -> tuple[ReportOutcome, HttpAnswer]:
        if scope["method"] != "POST":
            return ReportOutcome.REFUSED, _error(405, "only POST", more=((b"allow", b"POST"),))
        now_s = self._clock()
        authorization, sender = header(scope, b"authorization"), None
        if self._nodes is not None:
            try:
                sender = await self._nodes.node_of(authorization)
            except Transient as error:
                return ReportOutcome.REFUSED, _error(503, str(error), more=(_retry_after(error),))
            if not sender:
                return _unauthorized("a bearer token of a node's agent is needed")
        elif self._token is not None and not self._token.accepts(authorization, now_s):
            return _unauthorized("a bearer token that this server knows is needed")
        kind = header(scope, b"content-type").partition(b";")[0].strip().lower()
        if kind not in (b"", b"application/json"):
            return ReportOutcome.REFUSED, _error(415, "Content-Type must be application/json")
        return self.take(await read_body(scope, receive, payload.MAX_BYTES), now_s, sender)

    def take(self, body: bytes, now_s: float, sender: str | None = None) -> tuple[ReportOutcome, HttpAnswer]:
        """Store a report from its JSON; returns the outcome and the answer. Never raises for bad content.

        `sender`: the only node that it may be of; None = any.
        """
        try:
            report = payload.read(body)
            if sender is not None and report.node != sender:
                return ReportOutcome.FORBIDDEN, _error(403, f"the token is that of node {sender!r}", "node_name")
            known = True if self._knows is None else self._knows(report.node)
            if known is None:
                retry = (b"retry-after", b"5")
                return ReportOutcome.REFUSED, _error(503, "the nodes of the cluster are not listed yet", more=(retry,))
            if not known:
                return ReportOutcome.UNKNOWN, _error(404, f"{report.node!r} is not a node of this cluster", "node_name")
            entered = self._reports.accept(report, now_s)
        except InvalidInput as error:
            if error.field == payload.WHOLE:
                return ReportOutcome.MALFORMED, _error(400, str(error))
            return ReportOutcome.INVALID, _error(422, str(error), error.field)
        except Transient as error:
            return ReportOutcome.FULL, _error(429, str(error), more=(_retry_after(error),))
        if not entered:
            return ReportOutcome.OLDER, _error(200, "not taken: a newer report of this node is known", "timestamp")
        if self._taken is not None:
            self._taken(self._reports.fresh(report.node, now_s) or report)
        return ReportOutcome.TAKEN, HttpAnswer(204)


def _retry_after(error: Transient) -> tuple[bytes, bytes]:
    return b"retry-after", b"%d" % max(1, round(error.retry_after_s))


def _unauthorized(why: str) -> tuple[ReportOutcome, HttpAnswer]:
    return ReportOutcome.UNAUTHORIZED, HttpAnswer(401, _error(401, why).body, more=((b"www-authenticate", b"Bearer"),))


def _error(status: int, error: str, field: str | None = None, more: tuple[tuple[bytes, bytes], ...] = ()) -> HttpAnswer:
    body = msgspec.json.encode(_ErrorBody(" ".join(error.split()), field)) + b"\n"
    return HttpAnswer(status, body, more=more)

"""The webhook's HTTP side: reviews by POST at the reviewer's paths, and health.

    POST /mutate-pod ...                    AdmissionReview v1 in and out (reviewer.py)
    GET  /healthz /livez /readyz /metrics   200 while it runs; 200 once it can judge; Prometheus text

What goes wrong here must not look like a verdict. A body that is no review is 400, a failure of ours or of the API
server 500: both are failed calls to an API server, and the webhook's failurePolicy decides. So is a review before the
first lists have arrived, since it would miss profiles. They are counted and logged. A write of a status is let through
instead, whatever policy a configuration has, and what was ignored in it is logged once.
Limits: one review at a time.
"""

from __future__ import annotations

import logging
from time import perf_counter

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
from cotenant.model.errors import InvalidInput
from cotenant.services.reviewing.review import ReviewOutcome, ReviewRequest, read_review, write_review
from cotenant.services.reviewing.reviewer import Reviewer
from cotenant.services.webhook.metrics import WebhookMetrics

_MAX_SAID = 1024
_log = logging.getLogger(__name__)


class WebhookApp:
    """The ASGI application."""

    def __init__(self, reviewer: Reviewer, metrics: WebhookMetrics, health: HealthPages) -> None:
        self._reviewer = reviewer
        self._paths = frozenset(reviewer.paths)
        self._metrics = metrics
        self._health = health
        self._said: set[str] = set()  # what was ignored in writes of a status

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        path = scope["path"]
        if path in self._paths:
            try:
                answer = await self._review(path, scope, receive)
            except BodyRefused as refused:
                answer = refused.answer
            except Disconnected:
                return
        else:
            found = self._health.answer(scope["method"], path, scope["query_string"])
            answer = found or HttpAnswer(404, b"not found\n", TEXT)
        await send_answer(send, answer)

    async def _review(self, path: str, scope: Scope, receive: Receive) -> HttpAnswer:
        if scope["method"] != "POST":
            return HttpAnswer(405, b"only POST\n", TEXT, ((b"allow", b"POST"),))
        kind = header(scope, b"content-type").partition(b";")[0].strip().lower()
        if kind not in (b"", b"application/json"):
            return HttpAnswer(415, b"expected application/json\n", TEXT)
        body = await read_body(scope, receive)
        wrong, is_status = self._health.unready(), path in self._reviewer.status_paths
        if wrong and not is_status:
            self._metrics.reviewed(path, "unready", 0.0)
            return HttpAnswer(503, f"not ready: {wrong}\n".encode(), TEXT)
        begun_s = perf_counter()
        try:
            request = read_review(body)
            outcome = await (self._status(path, request) if is_status else self._reviewer.review(path, request))
            answer = HttpAnswer(200, write_review(request.uid, outcome))
            self._metrics.reviewed(path, _verdict(outcome), perf_counter() - begun_s)
        except InvalidInput as error:
            self._metrics.reviewed(path, "malformed", perf_counter() - begun_s)
            return HttpAnswer(400, f"{error}\n".encode(), TEXT)
        except Exception as error:  # outermost handler: the next review must be answered
            _log.exception("%s failed", path)
            self._metrics.reviewed(path, "failed", perf_counter() - begun_s)
            return HttpAnswer(500, f"cotenant webhook failed: {type(error).__name__}: {error}\n".encode(), TEXT)
        return answer

    async def _status(self, path: str, request: ReviewRequest) -> ReviewOutcome:
        """The answer to a write of a status, which is let through as it is where it cannot be judged."""
        try:
            outcome = await self._reviewer.review(path, request)
        except Exception as error:  # a refused status would leave a dead node Ready
            _log.exception("%s failed", path)
            outcome = ReviewOutcome(warnings=(f"cotenant webhook failed: {type(error).__name__}: {error}",))
        for text in outcome.warnings:
            if text not in self._said:
                if len(self._said) >= _MAX_SAID:
                    self._said.clear()
                self._said.add(text)
                _log.warning("%s", text)
        return outcome


def _verdict(outcome: ReviewOutcome) -> str:
    if not outcome.is_allowed:
        return "refused"
    return "patched" if outcome.patch else "allowed"

"""Health, readiness and metrics pages that the processes have in common.

    GET /healthz, /livez    200 "ok", or 503 and what is wrong
    GET /readyz             the same for readiness; 200 "ok; ..." names what a person should know
    GET /...?verbose        a line for each check
    GET /metrics            Prometheus text

Limits: the API server has health pages of its own, in the form of kube-apiserver's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from cotenant.drivers.http.messages import TEXT, HttpAnswer

EXPOSITION = b"text/plain; version=0.0.4; charset=utf-8"
HEALTH_PATHS = frozenset({"/healthz", "/livez", "/readyz", "/metrics"})


def no_fault() -> str:
    """The check of a process that is healthy as long as it answers."""
    return ""


@dataclass(frozen=True, slots=True)
class HealthPages:
    """`unhealthy` and `unready` return what is wrong, empty if nothing is; `metrics` returns the text exposition.
    `remark`: what `/readyz` says beside "ok".
    """

    metrics: Callable[[], bytes]
    unhealthy: Callable[[], str] = no_fault
    unready: Callable[[], str] = no_fault
    remark: Callable[[], str] = no_fault

    def answer(self, method: str, path: str, query: bytes = b"") -> HttpAnswer | None:
        """The answer to a request for one of `HEALTH_PATHS`; None for any other path."""
        if path not in HEALTH_PATHS:
            return None
        if method not in ("GET", "HEAD"):
            return HttpAnswer(405, b"only GET\n", TEXT, ((b"allow", b"GET, HEAD"),))
        if path == "/metrics":
            return HttpAnswer(200, self.metrics(), EXPOSITION)
        wrong = self.unready() if path == "/readyz" else self.unhealthy()
        if query.startswith(b"verbose"):
            return self._verbose(path.strip("/"), wrong)
        if wrong:
            return HttpAnswer(503, f"{wrong}\n".encode(), TEXT)
        remark = self.remark() if path == "/readyz" else ""
        return HttpAnswer(200, f"ok; {remark}\n".encode() if remark else b"ok\n", TEXT)

    def _verbose(self, name: str, wrong: str) -> HttpAnswer:
        remark = self.remark() if name == "readyz" else ""
        lines = [f"[-]{name} failed: {wrong}" if wrong else f"[+]{name} ok"]
        if remark:
            lines.append(f"[!]{remark}")
        lines.append(f"{name} check {'failed' if wrong else 'passed'}")
        return HttpAnswer(503 if wrong else 200, "".join(f"{line}\n" for line in lines).encode(), TEXT)

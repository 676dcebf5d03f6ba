"""Health, version and metrics.

The server is live while its event loop runs and ready once its owner says so; metrics are few and have kube-apiserver's
names where the meaning is the same.
Source: Kubernetes API health endpoints; Kubernetes metrics reference.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping
from typing import Any

from cotenant import __version__
from cotenant.drivers.kube.manifests.errors import Manifest

MAJOR, MINOR = "1", "34"
_CHECKS = ("ping", "storage")


def version() -> Manifest:
    """The /version document: the Kubernetes release whose API this follows, marked as another implementation."""
    machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    return {
        "major": MAJOR,
        "minor": MINOR,
        "gitVersion": f"v{MAJOR}.{MINOR}.0+cotenant.{__version__}",
        "gitCommit": "",
        "gitTreeState": "",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": f"python{platform.python_version()}",
        "platform": f"{platform.system().lower()}/{machine}",
    }


class HealthApi:
    """Answers /healthz, /livez and /readyz."""

    def __init__(self, storage: Callable[[], str] = lambda: "") -> None:
        """`storage`: why writes cannot be stored; empty while they can."""
        self.is_ready = True
        self._storage = storage

    def answer(self, path: str, is_verbose: bool) -> tuple[int, bytes] | None:
        """The status code and text of a health path; None for an unknown check."""
        name, _, check = path.strip("/").partition("/")
        if check and check not in _CHECKS:
            return None
        failed = {} if name == "livez" else self._failed()
        if check:
            failed = {one: why for one, why in failed.items() if one == check}
        if not failed and not is_verbose:
            return 200, b"ok"
        lines = [f"[-]{one} failed: {failed[one]}" if one in failed else f"[+]{one} ok" for one in _CHECKS]
        lines += [f"[-]{one} failed: {why}" for one, why in failed.items() if one not in _CHECKS]
        lines += [f"{name} check {'failed' if failed else 'passed'}", ""]
        return 500 if failed else 200, "\n".join(lines).encode()

    def _failed(self) -> dict[str, str]:
        """What is wrong, by check."""
        found = {"storage": self._storage()} if self._storage() else {}
        return found if self.is_ready else {**found, "shutdown": "the server is stopping"}


class ApiServerMetrics:
    """Counts requests. Each server has its own registry."""

    def __init__(self, watches: Callable[[], int]) -> None:
        import prometheus_client

        from cotenant.drivers.metrics.registry import MetricsRegistry

        self.registry = MetricsRegistry()
        self._requests = prometheus_client.Counter(
            "apiserver_request",
            "Requests by verb, resource and code",
            ["verb", "resource", "code"],
            registry=self.registry,
        )
        self._seconds = prometheus_client.Histogram(
            "apiserver_request_duration_seconds",
            "Seconds from the request's head to the end of its answer, watches excluded",
            ["verb"],
            buckets=(0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30),
            registry=self.registry,
        )
        self._failures = prometheus_client.Counter(
            "apiserver_internal_errors", "Requests that ended in an error of this server", registry=self.registry
        )
        open_watches = prometheus_client.Gauge("apiserver_longrunning_requests", "Open watches", registry=self.registry)
        open_watches.set_function(watches)
        self._counted: dict[tuple[str, str, int], Any] = {}
        self._timed: Manifest = {}

    def observe(self, verb: str, resource: str, code: int, seconds: float) -> None:
        """Count a finished request."""
        counted = self._counted.get((verb, resource, code))
        if counted is None:
            counted = self._counted[(verb, resource, code)] = self._requests.labels(verb, resource, str(code))
        counted.inc()
        if verb != "watch":
            timed = self._timed.get(verb)
            if timed is None:
                timed = self._timed[verb] = self._seconds.labels(verb)
            timed.observe(seconds)

    def read_ignored_webhooks(self, counts: Callable[[], Mapping[tuple[str, str], int]]) -> None:
        """Add the calls of webhooks that failed and were ignored, by (webhook, admit or validating)."""
        from prometheus_client.core import GaugeMetricFamily

        self.registry.read(
            GaugeMetricFamily,  # a counter would be exported with the suffix _total, which kube-apiserver's lacks
            "apiserver_admission_webhook_fail_open_count",
            "Calls of admission webhooks that failed and were ignored, by webhook and type",
            ("name", "type"),
            lambda: ((labels, float(count)) for labels, count in counts().items()),
        )

    def failure(self) -> None:
        """Count an internal error."""
        self._failures.inc()

    def text(self) -> bytes:
        """The metrics in exposition format."""
        return self.registry.page()

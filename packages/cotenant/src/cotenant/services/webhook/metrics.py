"""The webhook's metrics.

A webhook that is slow or refuses too much is first noticed by others. Reviews by path and verdict, their duration, and
what the certificates and the injection stand at, read at a scrape.
Limits: calls that never arrived are counted by the API server (`apiserver_admission_webhook_fail_open_count`), not
here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from prometheus_client import Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from cotenant.drivers.metrics.registry import MetricsRegistry
from cotenant.services.reviewing.facts import WebhookFacts

_BUCKETS = (0.0001, 0.0002, 0.0003, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.05, 0.25, 1.0, 5.0)


class WebhookMetrics:
    """Adds the webhook's metrics to a registry. `expires_s`: Unix time at which the certificate in use ends, 0 =
    unknown.
    """

    def __init__(
        self,
        registry: MetricsRegistry,
        facts: WebhookFacts,
        unusable: Callable[[], dict[str, int]],
        expires_s: Callable[[], float],
        injections: Callable[[], dict[str, int]],
    ) -> None:
        self.registry = registry
        self.reviews: dict[tuple[str, str], int] = {}
        self._seconds = Histogram(
            "cotenant_webhook_review_seconds",
            "From the last byte of a review to its answer.",
            ["path"],
            buckets=_BUCKETS,
            registry=registry,
        )
        registry.read(
            CounterMetricFamily,
            "cotenant_webhook_reviews",
            "Reviews by path and verdict: allowed, patched, refused, malformed, unready, failed.",
            ("path", "verdict"),
            lambda: ((labels, count) for labels, count in self.reviews.items()),
        )
        registry.read(
            GaugeMetricFamily,
            "cotenant_webhook_profiles",
            "Colocation profiles in use.",
            (),
            lambda: [((), float(len(facts.profiles)))],
        )
        registry.read(
            CounterMetricFamily,
            "cotenant_webhook_unusable_objects",
            "Objects that could not be read, by kind; they are not used.",
            ("kind",),
            lambda: _by(unusable()),
        )
        registry.read(
            GaugeMetricFamily,
            "cotenant_webhook_certificate_expiry_seconds",
            "Unix time at which the serving certificate ends; 0 where it is not known.",
            (),
            lambda: [((), expires_s())],
        )
        registry.read(
            CounterMetricFamily,
            "cotenant_webhook_injections",
            "Writes of the CA bundle into webhook configurations, by result.",
            ("result",),
            lambda: _by(injections()),
        )

    def reviewed(self, path: str, verdict: str, took_s: float) -> None:
        """Count a review."""
        key = (path, verdict)
        self.reviews[key] = self.reviews.get(key, 0) + 1
        self._seconds.labels(path).observe(took_s)


def _by(counts: dict[str, int]) -> Iterable[tuple[tuple[str, ...], float]]:
    return (((name,), float(count)) for name, count in counts.items())

"""Families of samples in Prometheus' units; a sample that is not known (None) is left out, never 0."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from cotenant.model.machine.node_state import PPM

Sample = tuple[tuple[str, ...], float | None]


def gauge(name: str, help_: str, labels: tuple[str, ...], samples: Iterable[Sample]) -> Metric:
    """A gauge of these samples."""
    return _filled(GaugeMetricFamily(name, help_, labels=labels), samples)


def counter(name: str, help_: str, labels: tuple[str, ...], samples: Iterable[Sample]) -> Metric:
    """A counter of these samples."""
    return _filled(CounterMetricFamily(name, help_, labels=labels), samples)


def _filled(family: GaugeMetricFamily | CounterMetricFamily, samples: Iterable[Sample]) -> Metric:
    for labels, value in samples:
        if value is not None:
            family.add_metric(labels, value)
    return family


def ratio(value: int | None) -> float | None:
    """Parts per million as a ratio."""
    return None if value is None else value / PPM


def cores(value: int | None) -> float | None:
    """Milli-CPU as cores."""
    return None if value is None else value / 1000


def seconds(value: int | None) -> float | None:
    """Microseconds as seconds."""
    return None if value is None else value / 1e6

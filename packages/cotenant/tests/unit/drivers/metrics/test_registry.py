"""Every registry has the process's own metrics and no `_created` series."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator

import pytest
from prometheus_client import Counter, Histogram
from prometheus_client.core import CounterMetricFamily, Metric
from tests.fakes.servers.extender_forms import Known

from cotenant.drivers.metrics.registry import MetricsRegistry
from cotenant.services.extender.metrics import ExtenderMetrics as ExtenderMetrics
from cotenant.services.scheduler.metrics import SchedulerMetrics as SchedulerMetrics
from cotenant_local.apiserver.http.health import ApiServerMetrics as ApiServerMetrics


def extender() -> bytes:
    known = Known()
    return ExtenderMetrics(known.extender.tally, known.mirror, {}, lambda: 0).page()


@pytest.mark.parametrize(
    "page",
    [SchedulerMetrics("p").page, extender, ApiServerMetrics(lambda: 0).text],
    ids=["scheduler", "extender", "api server"],
)
def test_every_process_has_process_metrics_and_no_created_series(page: Callable[[], bytes]) -> None:
    text = page().decode()
    for name in (
        "process_cpu_seconds_total",
        "process_resident_memory_bytes",
        "process_open_fds",
        "python_info",
        "cotenant_python_blocks",
    ):
        assert f"\n{name}" in text
    assert not [line for line in text.splitlines() if "_created" in line.partition("{")[0].partition(" ")[0]]


def test_counters_and_histograms_have_no_created_series() -> None:
    registry = MetricsRegistry()
    Counter("asked", "Questions", registry=registry).inc()
    Histogram("took_seconds", "Time", registry=registry).observe(1.0)
    text = registry.page().decode()
    assert "asked_total 1.0" in text
    assert "took_seconds_count 1.0" in text
    assert "_created" not in text


def test_a_value_that_is_read_is_as_of_the_scrape() -> None:
    registry, counts = MetricsRegistry(), {"a": 1}
    registry.read(
        CounterMetricFamily, "things", "Things", ("kind",), lambda: (((kind,), n) for kind, n in counts.items())
    )
    assert 'things_total{kind="a"} 1.0' in registry.page().decode()
    counts["a"] = 7
    assert 'things_total{kind="a"} 7.0' in registry.page().decode()


def test_what_is_large_is_read_beside_the_event_loop_and_the_rest_in_it() -> None:
    threads: dict[str, int] = {}

    def read(name: str) -> Iterator[Metric]:
        threads[name] = threading.get_ident()
        yield CounterMetricFamily(name, "Read.", value=1)

    registry = MetricsRegistry()
    registry.read(CounterMetricFamily, "small", "Read.", (), lambda: [((), len(list(read("small"))))])
    text = asyncio.run(registry.page_beside(read("large"))).decode()
    assert "\nsmall_total 1.0\n" in text
    assert text.endswith("\nlarge_total 1.0\n")
    assert threads["small"] == threading.get_ident() != threads["large"]

"""The one set-up of a metrics registry: process metrics included, no `_created` series.

Each process had its own registry, some without `process_*`, some with a `_created` series beside every counter and
histogram, which doubles their number. `MetricsRegistry` is made the same way everywhere; values that another part keeps
are read when a scrape asks for them (`read`), so that counting costs nothing between scrapes.
Limits: `disable_created_metrics` is a setting of the whole interpreter.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from itertools import chain

from prometheus_client import CollectorRegistry, disable_created_metrics, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector

from cotenant.drivers.metrics.heap import HeapCollector

Sample = tuple[tuple[str, ...], float]
Family = type[CounterMetricFamily] | type[GaugeMetricFamily]


class MetricsRegistry(CollectorRegistry):
    """A registry with `process_*`, `python_info` and what of the memory is in use; pass it as `registry=` to
    metrics of the Prometheus client.
    """

    def __init__(self) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]
        super().__init__()
        ProcessCollector(registry=self)
        PlatformCollector(registry=self)
        self.register(HeapCollector())

    def read(
        self, family: Family, name: str, help_: str, labels: tuple[str, ...], samples: Callable[[], Iterable[Sample]]
    ) -> None:
        """Add a metric whose samples (label values, value) are asked for at each scrape."""
        self.register(_Read(family, name, help_, labels, samples))

    def page(self, more: Iterable[Metric] = ()) -> bytes:
        """The text exposition, with `more` at its end."""
        return bytes(generate_latest(_Families(chain(self.collect(), more))))

    async def page_beside(self, more: Iterable[Metric]) -> bytes:
        """The same, of a large page: registered metrics are read at once; `more` is read, and the text made, in a
        thread beside the event loop.
        """
        found = _Families(chain(tuple(self.collect()), more))
        return bytes(await asyncio.to_thread(generate_latest, found))


class _Families:
    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        """Once."""
        return self._families


class _Read:
    """Collects samples that another part keeps."""

    def __init__(
        self, family: Family, name: str, help_: str, labels: tuple[str, ...], samples: Callable[[], Iterable[Sample]]
    ) -> None:
        self._family, self._name, self._help, self._labels, self._samples = family, name, help_, labels, samples

    def collect(self) -> Iterator[Metric]:
        """The values now."""
        family = self._family(self._name, self._help, labels=self._labels)
        for labels, value in self._samples():
            family.add_metric(labels, value)
        yield family

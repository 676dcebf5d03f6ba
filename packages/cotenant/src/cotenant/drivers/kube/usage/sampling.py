"""A short history from metrics.k8s.io, where there is no Prometheus: each pod and node at every tick of a watch.

metrics-server answers with its last scrape, so two ticks may meet the same sample: it counts once, by its own time
stamp, and the second tick is unknown. Memory is the working set. A tick that fails is named and the watch goes on; an
API that is not served, or may not be read, ends it.
Limits: minutes, so it knows no day, no week and no peak of either, and says so in its source.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from math import isfinite

import msgspec
import numpy as np

from cotenant.drivers.kube.client.errors import Forbidden, NotFound
from cotenant.drivers.kube.kinds.kind import Quantities
from cotenant.model.assess.history import AssessedHistory, ClusterHistory, Float32, PodHistory, no_history
from cotenant.model.errors import InvalidInput, Permanent, Transient
from cotenant.model.quantities import parse_quantity
from cotenant.model.resources import CPU_NAME, MEMORY_NAME

PATH = "/apis/metrics.k8s.io/v1beta1/"
_NANO_OF_MILLI, _NANO_OF_MIB = 1e6, 1e9 * 2**20

Ask = Callable[[str], Awaitable[bytes]]  # a GET of the API server
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class SamplingPeriod:
    """How long, and how often."""

    lasts_s: float = 600.0
    period_s: float = 30.0
    by_container: bool = False  # names of pods become NAMESPACE/POD/CONTAINER

    def __post_init__(self) -> None:
        if not (isfinite(self.lasts_s) and 0 < self.period_s <= self.lasts_s <= 86_400):
            raise InvalidInput("--watch", self.lasts_s, f"{self.period_s:g} s to a day")

    @property
    def ticks(self) -> int:
        """Samples of each series."""
        return int(self.lasts_s // self.period_s)


class _Meta(msgspec.Struct):
    name: str = ""
    namespace: str = ""


class _Container(msgspec.Struct):
    name: str = ""
    usage: Quantities = None


class _Item(msgspec.Struct):
    metadata: _Meta = msgspec.field(default_factory=_Meta)
    timestamp: str = ""
    usage: Quantities = None
    containers: list[_Container] = []


class _Items(msgspec.Struct):
    items: list[_Item] = []


class _Rows:
    """Series that grow as names come."""

    def __init__(self, ticks: int) -> None:
        self._ticks = ticks
        self._values: dict[str, Float32] = {}  # [CPU and memory, ticks]
        self._last: dict[str, str] = {}  # time stamp

    def put(self, tick: int, items: list[_Item]) -> str:
        """Take in an answer; returns what could not be read of it."""
        fault = ""
        for item in items:
            name = f"{item.metadata.namespace}/{item.metadata.name}" if item.metadata.namespace else item.metadata.name
            if not item.metadata.name or (item.timestamp and self._last.get(name) == item.timestamp):
                continue
            try:
                usages = [item.usage] if item.usage else [container.usage for container in item.containers]
                cpu_m = sum(_nano(usage, CPU_NAME) for usage in usages) / _NANO_OF_MILLI
                memory_mib = sum(_nano(usage, MEMORY_NAME) for usage in usages) / _NANO_OF_MIB
            except InvalidInput as error:
                fault = f"{name}: {error}"
                continue
            if name not in self._values:
                self._values[name] = np.full((2, self._ticks), np.nan, np.float32)
            self._values[name][:, tick] = cpu_m, memory_mib
            self._last[name] = item.timestamp
        return fault

    def history(self, start_s: float, step_s: float, source: str) -> AssessedHistory:
        """The series, in order of their names."""
        names = tuple(sorted(self._values))
        both = np.array([self._values[name] for name in names], np.float32).reshape(len(names), 2, self._ticks)
        return AssessedHistory(start_s, step_s, names, both[:, 0].copy(), both[:, 1].copy(), source)


async def sample_use(
    ask: Ask,
    watch: SamplingPeriod,
    *,
    now: Callable[[], float],
    sleep: Callable[[float], Awaitable[None]],
    progress: Progress = lambda what, done, of: None,
) -> ClusterHistory:
    """Sample for the whole watch. Without a single answer the history is empty and its source says why."""
    pods, nodes = _Rows(watch.ticks), _Rows(watch.ticks)
    faults: list[str] = []
    start_s = now()
    answered = 0
    for tick in range(watch.ticks):
        wait_s = start_s + tick * watch.period_s - now()
        if tick and wait_s > 0:
            await sleep(wait_s)
        try:
            for what, rows in (("pods", pods), ("nodes", nodes)):
                items = msgspec.json.decode(await ask(PATH + what), type=_Items).items
                if fault := rows.put(tick, _by_container(items) if watch.by_container and what == "pods" else items):
                    faults.append(f"use of {what}: {fault}")
            answered += 1
        except (Forbidden, NotFound) as error:
            faults.append(f"metrics.k8s.io: {error}")
            break
        except (Transient, Permanent, msgspec.DecodeError) as error:
            faults.append(f"metrics.k8s.io: {error}")
        progress("use by metrics.k8s.io", tick + 1, watch.ticks)
    said = tuple(dict.fromkeys(faults))
    if not answered:
        nothing = no_history("No use was measured, so all figures are by requests.", start_s, watch.period_s)
        return ClusterHistory(nothing.pods, nothing.nodes, said)
    source = (
        f"Use by metrics.k8s.io, sampled every {watch.period_s:g} s for {watch.lasts_s / 60:g} minutes: nothing is "
        "known of other hours and days, so there is no daily peak, no back-test and no amount at a stated risk."
    )
    use = pods.history(start_s, watch.period_s, source)
    unknown = np.full(len(use.names), np.nan, np.float32)
    nowhere = ("",) * len(use.names)
    return ClusterHistory(
        PodHistory(use, nowhere, nowhere, unknown, unknown), nodes.history(start_s, watch.period_s, source), said
    )


def _by_container(items: list[_Item]) -> list[_Item]:
    return [
        _Item(_Meta(f"{item.metadata.name}/{found.name}", item.metadata.namespace), item.timestamp, found.usage)
        for item in items
        for found in item.containers
    ]


def _nano(usage: Quantities, resource: str) -> int:
    return parse_quantity((usage or {}).get(resource, 0), resource).nano

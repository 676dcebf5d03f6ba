"""What nodes and pods use now, and which services miss their objective.

A cluster has NodeMetrics where Koordinator's or our agent runs, metrics-server nearly everywhere, and the founding
reports at our scheduler; a console must work with any of them. NodeMetrics are watched and win; the resource metrics
API is polled while fewer than half of the nodes have a NodeMetric; the scheduler's last reports say how many of a
node's services miss their objective, and a node's use where nothing else does. What a NodeMetric said is shown for
`FRESH_S`, or three of its intervals where that is longer; then the node counts as not measured, and viewers are told.
Limits: a pod's latency is known from NodeMetrics of our agent only; a NodeMetric's age is by the clocks of its agent
and of this machine.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping
from math import isnan
from time import time

import msgspec

from cotenant.drivers.kube.client.client import Client
from cotenant.drivers.kube.client.errors import Forbidden, NotFound, Unavailable
from cotenant.drivers.kube.kinds.kind import Quantities
from cotenant.model.counted import counted
from cotenant.model.errors import CotenantError, InvalidInput
from cotenant.model.machine.node_metric import NodeMetric, Use
from cotenant.model.quantities import parse_quantity
from cotenant.model.resources import CPU_NAME, MEMORY_NAME
from cotenant.services.console.fleet import MeasuredFleet
from cotenant.services.console.sources import SCHEDULER, USE, ConsoleSources
from cotenant.services.console.upstream import Unanswered, Upstream

METRICS = "/apis/metrics.k8s.io/v1beta1/"
FRESH_S = 180.0  # a report that is older says nothing about now
ABSENT_S = 60.0  # between two looks for an API that is not served
_log = logging.getLogger(__name__)


class _Meta(msgspec.Struct, frozen=True):
    name: str = ""
    namespace: str = ""


class _Usage(msgspec.Struct, frozen=True):
    usage: Quantities = None


class _Item(msgspec.Struct, frozen=True):
    metadata: _Meta = _Meta()
    usage: Quantities = None
    containers: tuple[_Usage, ...] = ()


class _Items(msgspec.Struct, frozen=True):
    items: tuple[_Item, ...] = ()


class FleetMeasurements:
    """Keeps a fleet's measurements up to date; `run` it."""

    def __init__(
        self,
        fleet: MeasuredFleet,
        client: Client,
        scheduler: Upstream,
        sources: ConsoleSources,
        changed: Callable[[], None],
        period_s: float,
        latencies: Callable[[Mapping[str, float]], None] = lambda latencies_ms: None,
        now: Callable[[], float] = time,
    ) -> None:
        """`latencies` is called with each pod's p99 in milliseconds as a node reports it; `now` gives Unix seconds."""
        self._now = now
        self._latencies = latencies
        self._fleet, self._client, self._scheduler, self._sources = fleet, client, scheduler, sources
        self._changed, self._period_s = changed, period_s
        self._by_metric: dict[str, float] = {}  # nodes with a NodeMetric, and until when it says something about now
        self._old: set[str] = set()  # those whose NodeMetric was not renewed in time

    def metric_seen(self, metric: NodeMetric) -> None:
        """A NodeMetric was written."""
        if metric.use is None:
            return
        age_s = 0.0 if isnan(metric.age_s) else metric.age_s
        self._by_metric[metric.node] = self._now() - age_s + max(FRESH_S, 3.0 * metric.interval_s)
        if self._by_metric[metric.node] <= self._now():
            return
        self._old.discard(metric.node)
        measured = metric.pods or {}
        pods = {key: measured_pod.use for key, measured_pod in measured.items()}
        latencies = {key: measured_pod.signals.latency_p99_ms for key, measured_pod in measured.items()}
        self._fleet.measured({metric.node: metric.use}, pods, latencies)
        self._latencies({key: latency for key, latency in latencies.items() if latency is not None})
        if not self._old:
            self._sources.ok(USE)

    def metric_gone(self, node: str) -> None:
        """A NodeMetric was deleted."""
        self._by_metric.pop(node, None)
        self._old.discard(node)

    def forget_old(self) -> None:
        """Forget what NodeMetrics said that were not renewed in time; nodes that are not ready are known to be
        silent.
        """
        now_s, nodes = self._now(), self._fleet.nodes
        old = {name for name, until_s in self._by_metric.items() if until_s <= now_s and name in nodes}
        if more := old - self._old:
            self._fleet.unmeasured(more)
            self._changed()
        self._old = old

    def _old_words(self) -> str:
        """What is wrong with NodeMetrics; empty where nothing is."""
        nodes = self._fleet.nodes
        silent = sum(name in nodes and nodes[name].node.ready for name in self._old)
        all_nodes = counted(len(nodes), "node")
        return f"the NodeMetrics of {silent} of {all_nodes} were not renewed in time" if silent else ""

    def _say(self, why: str) -> None:
        if why:
            self._sources.failed(USE, why)
        else:
            self._sources.ok(USE)

    async def run(self) -> None:
        """Ask again and again, until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._repeat(self.read_use))
            group.create_task(self._repeat(self.read_reports))

    async def read_use(self) -> bool:
        """Read the resource metrics API once; whether it is served."""
        self.forget_old()
        fresh = self._by_metric.keys() - self._old
        if 2 * len(fresh) >= len(self._fleet.nodes) > 0:
            self._say(self._old_words())
            return True
        try:
            nodes = await self._list("nodes")
            pods = await self._list("pods")
        except (NotFound, Forbidden):
            if not fresh:
                self._say(self._old_words() or "the cluster has neither NodeMetrics nor metrics-server")
            return False
        except Unavailable as error:
            if not self._sources.is_ok("cluster"):
                return True
            self._sources.failed(USE, str(error))
            return True
        except CotenantError as error:
            self._sources.failed(USE, str(error))
            return True
        self._fleet.measured(
            {node.metadata.name: use for node in nodes if node.metadata.name not in fresh for use in _use(node)},
            {f"{pod.metadata.namespace}/{pod.metadata.name}": use for pod in pods for use in _use(pod)},
        )
        self._sources.ok(USE)
        self._changed()
        return True

    async def read_reports(self) -> bool:
        """Read the scheduler's last reports once; whether it answered."""
        try:
            body = await self._scheduler.get("/debug/reports")
            reports = msgspec.json.decode(body, type=dict[str, dict[str, float | None]])
        except Unanswered as error:
            self._sources.failed(SCHEDULER, error.why)
            return False
        except (msgspec.DecodeError, msgspec.ValidationError):
            self._sources.failed(SCHEDULER, "its answer cannot be read: it is of another version")
            return False
        if remark := await self._remark():
            self._sources.failed(SCHEDULER, remark)
        else:
            self._sources.ok(SCHEDULER)
        fresh = {name: report for name, report in reports.items() if (report.get("ageS") or 0.0) <= FRESH_S}
        shares = {name: entry.get("violation") or 0.0 for name, entry in fresh.items()}
        self._fleet.missing({name: shares.get(name, 0.0) for name in self._fleet.nodes})
        if not self._sources.is_ok(USE):
            self._fleet.measured(dict(self._reported(fresh)), {})
        self._changed()
        return True

    async def _remark(self) -> str:
        """What the scheduler says of itself beside "ok": that it does not lead."""
        try:
            return (await self._scheduler.get("/readyz")).decode(errors="replace").strip().partition("; ")[2]
        except Unanswered:
            return ""

    def _reported(self, reports: Mapping[str, Mapping[str, float | None]]) -> Iterator[tuple[str, Use]]:
        for name, report in reports.items():
            row = self._fleet.nodes.get(name)
            cpu, memory = report.get("cpuUsed"), report.get("memoryUsed")
            is_known = name in self._by_metric and name not in self._old
            if row is not None and cpu is not None and memory is not None and not is_known:
                of = row.node.allocatable
                yield name, Use(round(cpu * of.get(CPU_NAME)), round(memory * of.get(MEMORY_NAME)))

    async def _list(self, plural: str) -> tuple[_Item, ...]:
        return msgspec.json.decode(await self._client.request("GET", METRICS + plural), type=_Items).items

    async def _repeat(self, ask: Callable[[], object]) -> None:
        while True:
            is_served = await ask()  # type: ignore[misc]
            await asyncio.sleep(self._period_s if is_served else min(ABSENT_S, 5 * self._period_s))


def _use(item: _Item) -> Iterator[Use]:
    """The use of one node or pod; nothing where it cannot be read."""
    cpu = memory = 0
    measured = [usage for usage in (item.usage, *(container.usage for container in item.containers)) if usage]
    if not measured:
        return
    try:
        for usage in measured:
            cpu += parse_quantity(usage.get(CPU_NAME, 0), CPU_NAME).nano // 1_000_000
            memory += parse_quantity(usage.get(MEMORY_NAME, 0), MEMORY_NAME).value()
    except InvalidInput as error:
        _log.debug("use of %s is not read: %s", item.metadata.name, error)
        return
    yield Use(cpu, memory)

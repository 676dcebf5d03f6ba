"""A cluster's use over days from Prometheus.

Which names and labels this store has is asked first (layouts.py); then pods' CPU and memory, nodes' own, and from
kube-state-metrics where each pod ran, what owns it and what it requests, for pods that are gone as well. What one of
these cannot give is a sentence in the answer, and the rest goes on. Times are the server's: its clock is asked.

Limits: a pod is known by its namespace and name, so one that was made again under its name goes on as the same; it
counts on the node where it was seen last. Requests are the latest within the range. A rate needs two samples, so a
window is at least two and a half scrapes long, and a pod that lived for less is not seen.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from math import ceil

import numpy as np

from cotenant.drivers.prometheus import layouts
from cotenant.drivers.prometheus.answers import samples_of
from cotenant.drivers.prometheus.client import PrometheusClient
from cotenant.drivers.prometheus.layouts import NodeLayout, PodLayout
from cotenant.drivers.prometheus.meters import DAY_S, read_meters
from cotenant.drivers.prometheus.pod_states import NO_STATES, PodStates, read_states
from cotenant.drivers.prometheus.ranges import NameOf, PartStore, RangeRead, RangeSteps, read_span
from cotenant.model.assess.history import AssessedHistory, ClusterHistory, Float32, PodHistory, no_history
from cotenant.model.errors import InvalidInput, Permanent, Transient

MIB = 2.0**20
MAX_SKEW_S = 30.0
_MAX_TIME_S = 1e11
STEPS_S = (60, 300, 600, 900, 1800, 3600)

Progress = Callable[[str, int, int], None]  # what is read, parts done, parts in all


@dataclass(frozen=True, slots=True)
class HistoryRequest:
    """What to read. `matchers` narrow every query, such as to one cluster of a store of many."""

    days: float = 7.0
    step_s: int = 300
    matchers: Mapping[str, str] = field(default_factory=dict)
    max_values: int = 110_000_000  # of one resource: 440 MB; the step is lengthened beyond
    by_container: bool = False  # names become NAMESPACE/POD/CONTAINER where the store has containers

    def __post_init__(self) -> None:
        if not 0 < self.days <= 400:
            raise InvalidInput("--days", self.days, "above 0, 400 at most")
        if self.step_s not in STEPS_S:
            raise InvalidInput("--step", self.step_s, f"one of {', '.join(map(str, STEPS_S))} seconds")


async def read_history(
    client: PrometheusClient,
    request: HistoryRequest,
    now_s: float,
    *,
    store: PartStore | None = None,
    progress: Progress = lambda what, done, of: None,
) -> ClusterHistory:
    """Read all of it. `now_s` is this machine's clock. Raises `Transient` or `Permanent` only where the server does
    not answer at all.
    """
    server_now_s = await _server_now(client)
    faults = _skew(server_now_s, now_s)
    only = request.matchers
    asker = _Asker(client, faults)
    await asker.name_clusters(only)
    pods = await asker.pods(only, server_now_s)
    if pods is None:
        source = "Prometheus has no use of pods under any known name, so all figures are by requests."
        return _with_faults(no_history(source, server_now_s, float(request.step_s)), faults)
    layout, series, scrape_s = pods
    step_s = _step(request, series)
    if step_s != request.step_s:
        faults.append(f"{series} pods: a step of {step_s} s instead of {request.step_s} s keeps this within memory")
    end_s = server_now_s // step_s * step_s
    steps = ceil(request.days * 86_400 / step_s)
    span = RangeSteps(end_s - (steps - 1) * step_s, float(step_s), steps)
    window_s = max(step_s, ceil(2.5 * scrape_s))

    async def ask(what: str, expression: str, label: NameOf, count: int, scale: float) -> RangeRead:
        return await read_span(
            client,
            what,
            expression,
            span,
            label,
            expected_series=count,
            scale=scale,
            server_now_s=server_now_s,
            store=store,
            report=lambda done, of: progress(what, done, of),
        )

    by_container = request.by_container and bool(layout.container)

    def pod_name(labels: dict[str, str]) -> str:
        pod = f"{labels.get(layout.namespace, '')}/{labels.get(layout.pod, '')}"
        return f"{pod}/{labels.get(layout.container, '')}" if by_container else pod

    of_pods = (by(layout, only, window_s, by_container=by_container) for by in (layouts.pod_cpu, layouts.pod_memory))
    cpu = await ask("CPU of pods", next(of_pods), pod_name, series, 1000.0)
    memory = await ask("memory of pods", next(of_pods), pod_name, series, 1 / MIB)
    states = await asker.states(only, span, lambda done, of: progress("pods' places and requests", done, of))
    nodes = await asker.nodes(only, server_now_s)
    node_reads: tuple[RangeRead, RangeRead] | None = None
    if nodes is not None:
        node_layout, node_count = nodes
        addresses = await asker.addresses(only) if node_layout.label == "instance" else {}

        def node_name(labels: dict[str, str]) -> str:
            found = labels.get(node_layout.label, "")
            if node_layout.label != "instance":
                return found
            host = found.rpartition(":")[0].strip("[]") or found  # without the port of what was scraped
            return addresses.get(host, host)

        of_cpu, of_memory = (by(node_layout, only, window_s) for by in (layouts.node_cpu, layouts.node_memory))
        node_reads = (
            await ask("CPU of nodes", of_cpu, node_name, node_count, 1000.0),
            await ask("memory of nodes", of_memory, node_name, node_count, 1 / MIB),
        )
    for read in (cpu, memory, *(node_reads or ())):
        faults += read.faults
    found = _assembled(layout, nodes[0] if nodes else None, span, cpu, memory, node_reads, states, scrape_s, faults)
    whole_days = max(1, int((end_s - found.pods.use.start_s) // DAY_S))
    meters, more = await read_meters(
        client, only, end_s, whole_days, lambda done, of: progress("cards and energy", done, of)
    )
    return replace(found, meters=meters, faults=(*found.faults, *more))


async def _server_now(client: PrometheusClient) -> float:
    _, _, values = samples_of((await client.query("vector(time())")).series)
    if len(values) != 1 or not 0 < values[0] < _MAX_TIME_S:
        raise Permanent("this is no Prometheus: it does not tell its time")
    return float(values[0])


def _assembled(
    layout: PodLayout,
    node_layout: NodeLayout | None,
    span: RangeSteps,
    cpu: RangeRead,
    memory: RangeRead,
    nodes: tuple[RangeRead, RangeRead] | None,
    states: PodStates,
    scrape_s: float,
    faults: list[str],
) -> ClusterHistory:
    names, cpu_m, memory_mib = _aligned(cpu, memory)
    first = _first_known(cpu_m, memory_mib)
    known_days = (span.steps - first) * span.step_s / 86_400
    asked_days = span.steps * span.step_s / 86_400
    start_s = span.start_s + first * span.step_s
    source = (
        f"Use by Prometheus ({layout.name}, scraped every {scrape_s:g} s): means over {span.step_s:g} s of "
        f"{known_days:.3g} days, so nothing is known of bursts within a step"
    )
    if known_days < 0.95 * asked_days:
        source += f", and {asked_days - known_days:.3g} of the {asked_days:.3g} days asked for are not in the store"
    use = AssessedHistory(start_s, span.step_s, names, cpu_m[:, first:], memory_mib[:, first:], source + ".")
    keys = ["/".join(name.split("/", 2)[:2]) for name in names]  # of pods, where names are of their containers
    pods = PodHistory(
        use,
        tuple(states.node.get(key, "") for key in keys),
        tuple(states.workload.get(key, "") for key in keys),
        np.array([states.cpu_request_m.get(key, np.nan) for key in keys], np.float32),
        np.array([states.memory_request_mib.get(key, np.nan) for key in keys], np.float32),
    )
    if nodes is not None and node_layout is not None:
        node_names, node_cpu, node_memory = _aligned(*nodes)
        said = f"Whole machines by Prometheus ({node_layout.name})."
        of_nodes = AssessedHistory(start_s, span.step_s, node_names, node_cpu[:, first:], node_memory[:, first:], said)
    else:
        of_nodes = pods.by_node()
        faults.append("use of whole nodes is not in the store: a node's is the sum of its pods, without the system's")
    return ClusterHistory(pods, of_nodes, tuple(faults))


class _Asker:
    """Questions whose failure is a fault, not an end."""

    def __init__(self, client: PrometheusClient, faults: list[str]) -> None:
        self._client = client
        self._faults = faults

    async def number(self, expression: str, at_s: float | None = None) -> float:
        """A number, 0 where there is none."""
        try:
            _, _, values = samples_of((await self._client.query(expression, at_s)).series)
        except (Transient, Permanent) as error:
            self._fault(str(error))
            return 0.0
        return float(values[0]) if len(values) and values[0] >= 0 else 0.0

    async def labels(self, expression: str) -> list[dict[str, str]]:
        """The labels of all series, none where they cannot be had."""
        try:
            return [dict(series.metric) for series in (await self._client.query(expression)).series]
        except (Transient, Permanent) as error:
            self._fault(str(error))
            return []

    async def name_clusters(self, only: Mapping[str, str]) -> None:
        """Say so where a store holds several clusters and none was named."""
        found = await self.labels(layouts.clusters_present(only))
        names = sorted({labels.get("cluster", "") for labels in found})
        if len(names) > 1:
            shown = ", ".join(name or "(none)" for name in names[:5])
            self._fault(f"the store holds several clusters ({shown}), which count as one here: name one as a matcher")

    async def pods(self, only: Mapping[str, str], now_s: float) -> tuple[PodLayout, int, float] | None:
        """The first layout that has series now or an hour ago, their number, and the time between scrapes."""
        for layout in layouts.POD_LAYOUTS:
            found = await self._first_of(layouts.pods_present(layout, only), now_s)
            if found is not None:
                count, at_s = found
                present = layouts.scrapes_present(layout, only)
                # the last ten minutes have fewer where scraping ended within them
                samples = max([await self.number(present, end_s) for end_s in (at_s, at_s - 600.0)])
                return layout, count, _rounded(600.0 / samples if samples else 60.0)
        return None

    async def nodes(self, only: Mapping[str, str], now_s: float) -> tuple[NodeLayout, int] | None:
        """The first layout that has nodes."""
        for layout in layouts.NODE_LAYOUTS:
            found = await self._first_of(layouts.nodes_present(layout, only), now_s)
            if found is not None:
                return layout, found[0]
        return None

    async def addresses(self, only: Mapping[str, str]) -> dict[str, str]:
        """Nodes by their internal addresses."""
        found = await self.labels(layouts.node_addresses(only))
        return {labels["internal_ip"]: labels["node"] for labels in found if {"internal_ip", "node"} <= labels.keys()}

    async def states(self, only: Mapping[str, str], span: RangeSteps, report: Callable[[int, int], None]) -> PodStates:
        """What kube-state-metrics knows of pods."""
        for layout in layouts.STATE_LAYOUTS:
            if await self._first_of(layouts.state_present(layout, only), span.end_s):
                states = await read_states(self._client, layout, only, span.start_s, span.end_s, report)
                self._faults += states.faults
                return states
        self._fault("kube-state-metrics has no pods here: nodes, owners and requests of pods that are gone are unknown")
        return NO_STATES

    async def _first_of(self, expression: str, now_s: float) -> tuple[int, float] | None:
        """A count now or an hour ago, where scraping has stopped, and its time; None where it is 0 at both."""
        for at_s in (now_s, now_s - 3600.0):
            count = int(await self.number(expression, at_s))
            if count:
                return count, at_s
        return None

    def _fault(self, text: str) -> None:
        if text not in self._faults:
            self._faults.append(text)


def _step(request: HistoryRequest, series: int) -> int:
    for step_s in STEPS_S:
        if step_s >= request.step_s and series * request.days * 86_400 / step_s <= request.max_values:
            return step_s
    return STEPS_S[-1]


def _rounded(scrape_s: float) -> float:
    """The usual interval that a count of ten minutes stands for."""
    return min((5.0, 10.0, 15.0, 20.0, 30.0, 60.0, 120.0, 300.0), key=lambda usual: abs(usual - scrape_s))


def _skew(server_now_s: float, now_s: float) -> list[str]:
    ahead_s = server_now_s - now_s
    if abs(ahead_s) <= MAX_SKEW_S:
        return []
    way = "ahead of" if ahead_s > 0 else "behind"
    return [f"Prometheus' clock is {abs(ahead_s):.0f} s {way} this machine's: its times are used"]


def _aligned(cpu: RangeRead, memory: RangeRead) -> tuple[tuple[str, ...], Float32, Float32]:
    """Both resources with the names of either, in one order; without a copy where they have the same."""
    names, of_cpu = cpu.named()
    other, of_memory = memory.named()
    if names == other:
        return names, of_cpu, of_memory
    row = {name: i for i, name in enumerate(names)}
    both = (*names, *(name for name in other if name not in row))
    steps = of_cpu.shape[1]
    whole = np.concatenate([of_cpu, np.full((len(both) - len(names), steps), np.nan, np.float32)])
    at = {name: i for i, name in enumerate(other)}
    moved = np.full((len(both), steps), np.nan, np.float32)
    held = [(i, at[name]) for i, name in enumerate(both) if name in at]
    if held:
        moved[[i for i, _ in held]] = of_memory[[j for _, j in held]]
    return both, whole, moved


def _first_known(cpu_m: Float32, memory_mib: Float32) -> int:
    known = np.zeros(cpu_m.shape[1], np.bool_)
    for values in (cpu_m, memory_mib):
        for begin in range(0, len(values), 4096):
            known |= ~np.isnan(values[begin : begin + 4096]).all(axis=0)
    return int(known.argmax()) if known.any() else 0


def _with_faults(history: ClusterHistory, faults: list[str]) -> ClusterHistory:
    return replace(history, faults=tuple(faults))

"""Cards' use from NVIDIA's DCGM exporter and energy from Kepler, a few instant queries a day of the history.

A card's mean is the sum of its samples over their number, so a card that was handed from pod to pod, each with a series
of its own, is weighed by time; its p99 is the highest of its series'. Of Kepler's zones `package` and `dram` do not
overlap; `core` and `uncore` are parts of `package`.
Limits: a MIG slice counts as a part of its card, whose use is the slices' mean; joules are a model's where a machine
has no meter, which Kepler does not say in its metrics.
Sources: DCGM exporter's default counters; Kepler's metrics of 0.7 (containers) and 0.10 (pods).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from cotenant.drivers.prometheus.answers import samples_of
from cotenant.drivers.prometheus.client import PrometheusClient
from cotenant.drivers.prometheus.layouts import matchers
from cotenant.model.assess.meters import CardUse, CardUses, Energy, Meters
from cotenant.model.errors import Permanent, Transient

DAY_S = 86_400.0
_CARD = "UUID,gpu,Hostname,node,kubernetes_node"
_PODS = (("exported_namespace", "exported_pod"), ("namespace", "pod"))
_BUSY = (("DCGM_FI_DEV_GPU_UTIL", 1.0), ("DCGM_FI_PROF_GR_ENGINE_ACTIVE", 100.0))  # factor to percent
_ZONES = 'zone=~"package.*|dram.*"'
Report = Callable[[int, int], None]  # queries done, in all


class _Joules(NamedTuple):
    """Where a pod's and the nodes' energy is."""

    name: str
    pods: str
    namespace: str
    pod: str
    parts: str  # labels that tell a pod's series apart
    nodes: tuple[str, ...]  # the first that is there
    zones: str = ""


_JOULES = (
    _Joules(
        "Kepler's pods", "kepler_pod_cpu_joules_total", "pod_namespace", "pod_name", "pod_id,state,zone",
        ("kepler_node_cpu_joules_total",), _ZONES,
    ),
    _Joules(
        "Kepler's containers", "kepler_container_joules_total", "container_namespace", "pod_name",
        "container_id,container_name,mode", ("kepler_node_platform_joules_total", "kepler_node_package_joules_total"),
    ),
)  # fmt: skip


async def read_meters(
    client: PrometheusClient, only: Mapping[str, str], end_s: float, days: int, report: Report = lambda done, of: None
) -> tuple[Meters, tuple[str, ...]]:
    """Both meters over days before `end_s`, and what could not be read. Raises nothing that a server can cause."""
    asker = _Asker(client, end_s, days, report)
    return Meters(await asker.cards(only), await asker.energy(only)), tuple(dict.fromkeys(asker.faults))


class _Asker:
    def __init__(self, client: PrometheusClient, end_s: float, days: int, report: Report) -> None:
        self._client, self._report = client, report
        self._ends = [end_s - DAY_S * (days - 1 - day) for day in range(days)]
        self._done = 0
        self.faults: list[str] = []

    async def cards(self, only: Mapping[str, str]) -> CardUses:
        """The first metric that has cards."""
        for metric, factor in _BUSY:
            series = f"{metric}{matchers(only)}"
            if not await self._values(f"count({series}) or count(last_over_time({series}[1d]))", self._ends[-1]):
                continue
            whole = f"{series}[1d]"
            mean = f"sum by ({_CARD}) (sum_over_time({whole})) / sum by ({_CARD}) (count_over_time({whole}))"
            p99 = f"max by ({_CARD}) (quantile_over_time(0.99, {whole}))"
            means, tails = await self._by_day(mean, _card), await self._by_day(p99, _card)
            memory = await self._memory(only)
            holders, names_pods = await self._holders(series)
            found = tuple(
                CardUse(
                    node, card, tuple(factor * v for v in means[node, card]),
                    tuple(factor * v for v in tails.get((node, card), [np.nan] * len(self._ends))),
                    memory.get((node, card)), holders.get((node, card), ""),
                )
                for node, card in sorted(means)
            )  # fmt: skip
            return CardUses(found, f"{metric} of DCGM, by the day", "", names_pods)
        return CardUses(why="the store has no metric of NVIDIA's DCGM exporter (DCGM_FI_DEV_GPU_UTIL)")

    async def _memory(self, only: Mapping[str, str]) -> dict[tuple[str, str], float]:
        used, free = (f"DCGM_FI_DEV_FB_{part}{matchers(only)}" for part in ("USED", "FREE"))
        share = f"100 * max by ({_CARD}) ({used}) / (max by ({_CARD}) ({used}) + max by ({_CARD}) ({free}))"
        found = await self._by_day(f"max_over_time(({share})[1d:5m])", _card)
        return {card: float(np.nanmax(values)) for card, values in found.items() if not np.isnan(values).all()}

    async def _holders(self, series: str) -> tuple[dict[tuple[str, str], str], bool]:
        """The pod that has each card now, or had it an hour ago where scraping has stopped."""
        labels = ",".join((_CARD, *(label for pair in _PODS for label in pair)))
        found: dict[tuple[str, str], str] = {}
        names_pods = False
        query, end_s = f"group by ({labels}) ({series})", self._ends[-1]
        for metric, _ in await self._values(query, end_s) or await self._values(query, end_s - 3600.0):
            # a scraper's own labels say which exporter was asked, unless it was told to leave the exporter's alone
            namespace, pod = next((pair for pair in _PODS if metric.get(pair[1])), ("", ""))
            name = metric.get(pod, "")
            if name and "dcgm" not in name:
                names_pods = True
                found[_card(metric)] = f"{metric.get(namespace, '')}/{name}"
        return found, names_pods

    async def energy(self, only: Mapping[str, str]) -> Energy:
        """The first layout that has pods."""
        for layout in _JOULES:
            named = f'{layout.pod}!=""'
            series = f"{layout.pods}{matchers(only, named, layout.zones)}"
            if not await self._values(f"count(last_over_time({series}[1d]))", self._ends[-1]):
                continue
            by = f"{layout.namespace},{layout.pod}"
            query = f"sum by ({by}) (max by ({by},{layout.parts}) (increase({series}[1d])))"

            def name(labels: Mapping[str, str], layout: _Joules = layout) -> tuple[str, str]:
                return labels.get(layout.namespace, ""), labels.get(layout.pod, "")

            pods = await self._by_day(query, name)
            nodes = [np.nan] * len(self._ends)
            metric = ""
            for metric in layout.nodes:
                zones = f"{metric}{matchers(only, layout.zones)}"
                by_day = await self._by_day(f"sum(max without (job,pod,container) (increase({zones}[1d])))", _one)
                if by_day:
                    nodes = next(iter(by_day.values()))
                    break
            found = tuple((f"{namespace}/{pod}", tuple(values)) for (namespace, pod), values in sorted(pods.items()))
            return Energy(found, tuple(nodes), f"{layout.pods} and {metric}, by the day", "")
        return Energy(why="the store has none of Kepler's metrics (kepler_pod_cpu_joules_total and older names)")

    async def _by_day(
        self, query: str, name: Callable[[Mapping[str, str]], tuple[str, str]]
    ) -> dict[tuple[str, str], list[float]]:
        found: dict[tuple[str, str], list[float]] = {}
        for day, end_s in enumerate(self._ends):
            for labels, value in await self._values(query, end_s):
                row = found.setdefault(name(labels), [np.nan] * len(self._ends))
                row[day] = float(np.fmax(row[day], value))
            self._done += 1
            self._report(self._done, max(self._done, 6 * len(self._ends)))
        return found

    async def _values(self, query: str, at_s: float) -> Sequence[tuple[Mapping[str, str], float]]:
        try:
            answer = await self._client.query(query, at_s)
            counts, _, values = samples_of(answer.series)
            if (counts != 1).any():
                raise Permanent("this is no instant answer of Prometheus")
        except (Transient, Permanent) as error:
            self.faults.append(f"cards and energy: {error}")
            return ()
        self.faults += [f"cards and energy: {fault}" for fault in answer.faults]
        return [
            (series.metric, value)
            for series, value in zip(answer.series, values.tolist(), strict=True)
            if np.isfinite(value) and value >= 0
        ]


def _card(labels: Mapping[str, str]) -> tuple[str, str]:
    node = next((labels[name] for name in ("node", "kubernetes_node", "Hostname") if labels.get(name)), "")
    return node, labels.get("UUID") or labels.get("gpu", "")


def _one(labels: Mapping[str, str]) -> tuple[str, str]:
    return "", ""

"""Where pods ran, what owns them and what they request, from kube-state-metrics, for pods that are gone as well.

A Deployment's pods are owned by ReplicaSets, a CronJob's by Jobs: the chain is followed by what kube-state-metrics says
of these, and where they are gone from there too, by the names that their controllers give.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from cotenant.drivers.prometheus import layouts
from cotenant.drivers.prometheus.answers import PrometheusSeries, samples_of
from cotenant.drivers.prometheus.client import PrometheusClient
from cotenant.drivers.prometheus.layouts import StateLayout
from cotenant.model.errors import Permanent, Transient

WINDOW_S = 12 * 3600  # of one question
_HASH = re.compile(r"-[bcdfghjklmnpqrstvwxz2456789]{6,10}$")  # of a pod template, as Deployments make it
_TIME = re.compile(r"-\d{8,11}$")  # as CronJobs name Jobs
_MIB = 2.0**20
_OWNED = (("kube_replicaset_owner", "ReplicaSet", "replicaset"), ("kube_job_owner", "Job", "job_name"))


@dataclass(frozen=True, slots=True)
class PodStates:
    """By NAMESPACE/POD."""

    node: Mapping[str, str] = field(default_factory=dict)
    workload: Mapping[str, str] = field(default_factory=dict)
    cpu_request_m: Mapping[str, float] = field(default_factory=dict)
    memory_request_mib: Mapping[str, float] = field(default_factory=dict)
    faults: tuple[str, ...] = ()


NO_STATES = PodStates()


def workload_of(namespace: str, pod: str, kind: str, name: str, owner: Mapping[tuple[str, str, str], str]) -> str:
    """NAMESPACE/KIND/NAME of what a pod belongs to in the end. `owner`: kind and name, as KIND/NAME, of what owns a
    ReplicaSet or Job, by namespace, kind and name.
    """
    if kind in ("", "<none>", "Node") or not name:
        return f"{namespace}/Pod/{pod}"
    above = owner.get((namespace, kind, name), "")
    if above:
        return f"{namespace}/{above}"
    if kind == "ReplicaSet" and _HASH.search(name):
        return f"{namespace}/Deployment/{_HASH.sub('', name)}"
    if kind == "Job" and _TIME.search(name):
        return f"{namespace}/CronJob/{_TIME.sub('', name)}"
    return f"{namespace}/{kind}/{name}"


async def read_states(
    client: PrometheusClient,
    layout: StateLayout,
    only: Mapping[str, str],
    start_s: float,
    end_s: float,
    report: Callable[[int, int], None] = lambda done, of: None,
) -> PodStates:
    """Ask for each window of the range, oldest first, so that what is later counts."""
    faults: list[str] = []
    places: dict[str, tuple[str, str, str]] = {}  # node, kind, name
    owner: dict[tuple[str, str, str], str] = {}
    cpu: dict[str, float] = {}
    memory: dict[str, float] = {}

    async def ask(what: str, expression: str, at_s: float) -> list[tuple[PrometheusSeries, float]]:
        try:
            answer = await client.query(expression, at_s)
            found = list(zip(answer.series, _amounts(answer.series), strict=True))
        except (Transient, Permanent) as error:
            faults.append(f"{what}: {error}")
            return []
        faults.extend(f"{what}: {fault}" for fault in answer.faults)
        return found

    ends = _ends(start_s, end_s)
    by_resource = True
    for i, at_s in enumerate(ends):
        for series, _ in await ask("pods' places", layouts.pod_places(layout, only, WINDOW_S), at_s):
            node, kind, name = (
                series.metric.get(label, "") for label in ("node", "created_by_kind", "created_by_name")
            )
            before = places.get(_key(series, layout), ("", "", ""))
            places[_key(series, layout)] = (node or before[0], kind or before[1], name or before[2])
        for metric, kind, label in (
            ("kube_replicaset_owner", "ReplicaSet", "replicaset"),
            ("kube_job_owner", "Job", "job_name"),
        ):
            for series, _ in await ask(f"owners of {kind}s", layouts.owners(metric, label, only, WINDOW_S), at_s):
                _own(owner, series.metric, kind, label)
        whole, old_cpu, old_memory = layouts.pod_requests(layout, only, WINDOW_S)
        found = await ask("pods' requests", whole, at_s) if by_resource else []
        if not found and by_resource and not cpu:
            by_resource = False  # an old version has a metric a resource
        for series, amount in found:
            if series.metric.get("resource") == "cpu":
                cpu[_key(series, layout)] = 1000.0 * amount
            else:
                memory[_key(series, layout)] = amount / _MIB
        if not by_resource:
            for amounts, expression, scale in ((cpu, old_cpu, 1000.0), (memory, old_memory, 1 / _MIB)):
                for series, amount in await ask("pods' requests", expression, at_s):
                    amounts[_key(series, layout)] = scale * amount
        report(i + 1, len(ends))
    return PodStates(
        {pod: node for pod, (node, _, _) in places.items() if node},
        {pod: _workload(pod, kind, name, owner) for pod, (_, kind, name) in places.items()},
        cpu,
        memory,
        tuple(dict.fromkeys(faults)),
    )


def _workload(pod: str, kind: str, name: str, owner: Mapping[tuple[str, str, str], str]) -> str:
    namespace, _, own_name = pod.partition("/")
    return workload_of(namespace, own_name, kind, name, owner)


def _ends(start_s: float, end_s: float) -> list[float]:
    """The ends of the windows, the last at `end_s`."""
    count = max(1, -int(-(end_s - start_s) // WINDOW_S))
    return [end_s - (count - 1 - i) * WINDOW_S for i in range(count)]


def _amounts(found: list[PrometheusSeries]) -> list[float]:
    """The one value of each series of an instant answer."""
    counts, _, values = samples_of(found)
    if (counts != 1).any():
        raise Permanent("this is no instant answer of Prometheus")
    return values.tolist()


def _key(series: PrometheusSeries, layout: StateLayout) -> str:
    return f"{series.metric.get(layout.namespace, '')}/{series.metric.get(layout.pod, '')}"


def _own(owner: dict[tuple[str, str, str], str], metric: Mapping[str, str], kind: str, label: str) -> None:
    above, name = metric.get("owner_kind", ""), metric.get("owner_name", "")
    if above not in ("", "<none>") and name:
        namespace = metric.get("exported_namespace") or metric.get("namespace", "")
        owner[namespace, kind, metric.get(label, "")] = f"{above}/{name}"

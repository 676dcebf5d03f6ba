"""A shop whose checkout is hurt by a neighbour: what `cotenant up --workload colocation` submits beside the workload,
so that the whole loop can be watched within a minute and a half.

A newcomer sees services, quotas and objectives only where somebody has written them, and sees a recovery only where
something goes wrong. Ordinary manifests that a user could have written. The Deployment `shop/checkout` has a
ServiceObjective. The Job `research/reindex-N` asks to run beside it (pod affinity: its data is there), requests half a
core and uses ten, and presses on caches more than its estimate says. What follows is up to the world's law of
contention, the trace process, the node's agent and the scheduler; nothing here names a culprit or lifts a limit.
Limits: the annotation `cotenant.io/simulated` is what only simulated nodes read; the job's durations are in real time
at every speed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

import msgspec

from cotenant.drivers.kube.kinds.custom.service_objective import SERVICE_OBJECTIVES
from cotenant.drivers.kube.kinds.custom.workload_profile import WORKLOAD_PROFILES
from cotenant.drivers.kube.manifests.errors import ApiError, Manifest
from cotenant.model.cluster.annotations import ESTIMATE, OBJECTIVE_P99_MS, SIMULATED, TENANT
from cotenant.model.cluster.labels import HOSTNAME, PRIORITY_CLASS, QOS_CLASS
from cotenant.model.cluster.qos import PriorityClass, QoSClass
from cotenant.model.groups.quota import NAMESPACES
from cotenant_local.apiserver.contract import RequestTarget, WriteOptions
from cotenant_local.apiserver.verbs.api import Api
from cotenant_local.workloads.script import IMAGE

SHOP, RESEARCH, CHECKOUT, REINDEX = "shop", "research", "checkout", "reindex"
REPLICAS = 3
OBJECTIVE_MS = 80.0
# Real time: after the checkout runs, between two jobs, and of a job that runs alone and without a limit.
FIRST_S, EVERY_S, LASTS_S = 30.0, 240.0, 75.0
_encode = msgspec.json.Encoder().encode
_OPTIONS = WriteOptions(validation="Strict", manager="cotenant-workload")
_CHECKOUT = {
    "service": f"{SHOP}/{CHECKOUT}",
    "workers": 4,
    "peak_erlangs": 1.7,
    "replicas": REPLICAS,
    "service_time_s": 0.01,
    "swing": 0.1,
    "sensitivity": 0.6,
    "pressure": 0.1,
    "use_memory_bytes": 2 << 30,
}


def objects(cores: int, memory_bytes: int, services: Sequence[Manifest]) -> tuple[tuple[str, str, str, Manifest], ...]:
    """Group, plural, namespace and manifest of everything but the jobs, in order. `cores`, `memory_bytes`: of all
    nodes; `services`: Deployments of the workload.
    """
    found: list[tuple[str, str, str, Manifest]] = [
        ("", "namespaces", "", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        for name in (SHOP, RESEARCH)
    ]
    namespaces = {SHOP: 0.15, RESEARCH: 0.1} | {service["metadata"]["namespace"]: 0.7 for service in services[:1]}
    for name, share in namespaces.items():
        found.append(("scheduling.sigs.k8s.io", "elasticquotas", SHOP, _quota(name, share, cores, memory_bytes)))
    found.append(("apps", "deployments", SHOP, checkout()))
    found.append((SERVICE_OBJECTIVES.group, SERVICE_OBJECTIVES.plural, SHOP, _objective(SHOP, CHECKOUT, OBJECTIVE_MS)))
    found.append((WORKLOAD_PROFILES.group, WORKLOAD_PROFILES.plural, SHOP, _profile(SHOP, CHECKOUT)))
    for service in services:
        meta, annotations = service["metadata"], service["spec"]["template"]["metadata"]["annotations"]
        namespace, name = meta["namespace"], meta["name"]
        below_ms = float(annotations[OBJECTIVE_P99_MS])
        found.append(
            (SERVICE_OBJECTIVES.group, SERVICE_OBJECTIVES.plural, namespace, _objective(namespace, name, below_ms))
        )
        found.append((WORKLOAD_PROFILES.group, WORKLOAD_PROFILES.plural, namespace, _profile(namespace, name)))
    return tuple(found)


def checkout() -> Manifest:
    """The service, its replicas on different nodes."""
    labels = {"app": CHECKOUT}
    spread = {
        "maxSkew": 1,
        "topologyKey": HOSTNAME,
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": labels},
    }
    annotations = {TENANT: SHOP, OBJECTIVE_P99_MS: f"{OBJECTIVE_MS:g}", SIMULATED: _json(_CHECKOUT)}
    spec = _pod_spec({"requests": {"cpu": "4", "memory": "4Gi"}}, PriorityClass.PROD, "Always")
    metadata = {"labels": {**labels, **_classes(QoSClass.LS, PriorityClass.PROD)}, "annotations": annotations}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": CHECKOUT, "namespace": SHOP, "labels": labels},
        "spec": {
            "replicas": REPLICAS,
            "selector": {"matchLabels": labels},
            "template": {"metadata": metadata, "spec": {**spec, "topologySpreadConstraints": [spread]}},
        },
    }


def reindex(number: int, speed: float) -> Manifest:
    """The job that presses on its neighbours more than it says. `speed`: simulated seconds a second."""
    truth = {"use_cores": 10.0, "use_memory_bytes": 2 << 30, "pressure": 2.6, "duration_s": LASTS_S * speed}
    estimate = {"use_cpu_cores": 0.5, "use_memory_bytes": 2 << 30, "pressure": 0.1, "sensitivity": 0.1}
    beside = {
        "labelSelector": {"matchLabels": {"app": CHECKOUT}},
        "namespaces": [SHOP],
        "topologyKey": HOSTNAME,
    }
    spec = _pod_spec({"requests": {"cpu": "500m", "memory": "2Gi"}}, PriorityClass.BATCH, "Never")
    spec["affinity"] = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [beside]}}
    metadata = {
        "labels": {"app": REINDEX, **_classes(QoSClass.BE, PriorityClass.BATCH)},
        "annotations": {TENANT: RESEARCH, ESTIMATE: _json(estimate), SIMULATED: _json(truth)},
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": f"{REINDEX}-{number}", "namespace": RESEARCH, "labels": {"app": REINDEX}},
        "spec": {"backoffLimit": 10, "ttlSecondsAfterFinished": 120, "template": {"metadata": metadata, "spec": spec}},
    }


class Shop:
    """Submits it all; `start` and `stop`. `has_checkout`: whether every replica runs."""

    def __init__(
        self,
        api: Api,
        cores: int,
        memory_bytes: int,
        services: Sequence[Manifest],
        speed: float,
        has_checkout: Callable[[], bool],
    ) -> None:
        self._api, self._speed, self._has_checkout = api, speed, has_checkout
        self._objects = objects(cores, memory_bytes, services)
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Create everything, and begin to submit jobs."""
        for group, plural, namespace, manifest in self._objects:
            await self._create(group, plural, namespace, manifest)
        self._task = asyncio.create_task(self._run(), name="a neighbour that hurts")

    async def stop(self) -> None:
        """Submit no more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait((self._task,))

    async def _run(self) -> None:
        while not self._has_checkout():
            await asyncio.sleep(1.0)
        await asyncio.sleep(FIRST_S)
        number = 0
        while True:
            number += 1
            await self._create("batch", "jobs", RESEARCH, reindex(number, self._speed))
            await asyncio.sleep(EVERY_S)

    async def _create(self, group: str, plural: str, namespace: str, manifest: Manifest) -> None:
        with suppress(ApiError):  # it is there from an earlier run
            await self._api.create(
                RequestTarget(self._api.target(group, plural).resource, namespace), dict(manifest), _OPTIONS
            )


def _quota(name: str, share: float, cores: int, memory_bytes: int) -> Manifest:
    gib = memory_bytes >> 30
    return {
        "apiVersion": "scheduling.sigs.k8s.io/v1alpha1",
        "kind": "ElasticQuota",
        "metadata": {"name": name, "namespace": SHOP, "annotations": {NAMESPACES: _json([name])}},
        "spec": {
            "min": {"cpu": str(int(cores * share)), "memory": f"{int(gib * share)}Gi"},
            "max": {"cpu": str(cores), "memory": f"{gib}Gi"},
        },
    }


def _objective(namespace: str, service: str, below_ms: float) -> Manifest:
    return {
        "apiVersion": SERVICE_OBJECTIVES.api_version,
        "kind": SERVICE_OBJECTIVES.name,
        "metadata": {"name": service, "namespace": namespace},
        "spec": {
            "service": {"name": service},
            "indicator": {"latency": {"below": f"{round(below_ms * 1000)}us"}},
            "target": "99",
        },
    }


def _profile(namespace: str, workload: str) -> Manifest:
    return {
        "apiVersion": WORKLOAD_PROFILES.api_version,
        "kind": WORKLOAD_PROFILES.name,
        "metadata": {"name": workload, "namespace": namespace},
        "spec": {"workload": {"kind": "Deployment", "name": workload}},
    }


def _pod_spec(resources: Manifest, kind: PriorityClass, restart: str) -> dict[str, object]:
    return {
        "schedulerName": "cotenant",
        "priorityClassName": kind.label,
        "restartPolicy": restart,
        "terminationGracePeriodSeconds": 5,
        "containers": [{"name": "main", "image": IMAGE, "resources": resources}],
    }


def _classes(qos: QoSClass, kind: PriorityClass) -> Mapping[str, str]:
    return {QOS_CLASS: qos.value, PRIORITY_CLASS: kind.label}


def _json(value: object) -> str:
    return _encode(value).decode()

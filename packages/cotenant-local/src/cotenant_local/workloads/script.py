"""A lab workload as manifests with arrival times: services as Deployments, stages of batch jobs as Jobs.

The lab's generator gives arrays for a world that it owns; a cluster needs manifests that an ordinary user could have
written. A pure translation. What a scheduler may know (noisy estimates, objectives, deadlines) goes into the
annotations that it reads; the true behaviour goes into the annotation that only simulated nodes read. Priorities and
classes are Koordinator's.
Limits: all pods of a stage are identical (their mean), so the lab's stragglers are not reproduced; a stage that is
evicted starts again as Kubernetes Jobs do, without the lab's hold. With `is_lent`, jobs request what a manager lends
(batch-cpu, batch-memory) instead of cpu and memory.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import isfinite

import msgspec
import numpy as np

from cotenant.drivers.kube.manifests.errors import Manifest
from cotenant.model.cluster.annotations import (
    DEADLINE,
    ESTIMATE,
    GROUP,
    GROUP_LIMIT,
    OBJECTIVE_P99_MS,
    SIMULATED,
    TENANT,
)
from cotenant.model.cluster.labels import PRIORITY_CLASS, QOS_CLASS
from cotenant.model.cluster.qos import PriorityClass, QoSClass
from cotenant.model.errors import InvalidInput
from cotenant.model.quantities import format_bytes, format_milli
from cotenant.model.resources import BATCH_CPU, BATCH_MEMORY
from cotenant_lab.workloads.colocation import generate
from cotenant_lab.world.config import WorldConfig
from cotenant_lab.world.offer import Offer
from cotenant_lab.world.truth import Truth
from cotenant_local.controllers.views.core import stamp
from cotenant_local.nodes.behaviour import SimulatedBehaviour
from cotenant_local.nodes.fleet import NodeSize

LOADS = {"founding": 0.77, "colocation": 0.85}  # share of the cluster's CPU, as in the lab's scenarios of these names
PODS_PER_CORE = 80 / 96  # 20,000 pods on 249 nodes of 96 cores
IMAGE = "cotenant.io/simulated:1"
DAY_S = 21_600.0  # the lab's day
TTL_S = 60  # real seconds for which a finished Job is kept
_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class BatchStage:
    """One stage of a batch job, submitted when the previous one has completed."""

    name: str
    pods: int
    cpu_milli: int
    memory_bytes: int
    tenant: str
    truth: SimulatedBehaviour
    estimate: Manifest  # fields of model.pod.Estimate; duration in simulated seconds


@dataclass(frozen=True, slots=True)
class BatchJob:
    """A chain of stages. Times are simulated seconds after the start of the day."""

    arrival_s: float
    deadline_s: float
    stages: tuple[BatchStage, ...]


@dataclass(frozen=True, slots=True)
class Script:
    """The manifests to submit, and their arrival times."""

    name: str
    namespace: str
    services: tuple[Manifest, ...]
    jobs: tuple[BatchJob, ...]  # by arrival

    @property
    def replicas(self) -> int:
        """The number of replicas of all services."""
        return sum(int(s["spec"]["replicas"]) for s in self.services)


def names() -> tuple[str, ...]:
    """The names of the available workloads."""
    return tuple(LOADS)


def world_config(nodes: int, shape: NodeSize) -> WorldConfig:
    """The lab's configuration of a cluster of this size."""
    return WorldConfig(
        nodes=nodes,
        node_cores=shape.cores,
        node_memory_bytes=shape.memory_bytes,
        pair_cores=shape.cores / 2.0,
        pods=max(1, round(nodes * shape.cores * PODS_PER_CORE)),
        horizon_s=DAY_S,
        replica_cores=(2, 4, 8, 16) if shape.cores >= 32 else (1, 2, 4, 8) if shape.cores >= 16 else (1, 1, 2, 2),
        width=(1, 2, 4, 8, 16, 32)
        if shape.cores >= 64
        else (1, 2, 4, 8, 8, 8)
        if shape.cores >= 16
        else (1, 1, 2, 2, 2, 2),
        failures=False,  # nodes fail only on request
    )


def script(
    workload: str,
    nodes: int,
    shape: NodeSize,
    seed: int,
    load: float | None = None,
    scheduler: str = "cotenant",
    day: int = 0,
) -> Script:
    """The workload of one day for a cluster of this size; equal arguments give equal scripts.

    Services depend on the seed alone, so that later days bring new batch work for the same services. Raises
    `InvalidInput` for an unknown workload and for a load that cannot be generated for this cluster.
    """
    if workload not in LOADS:
        raise InvalidInput("workload", workload, "one of " + ", ".join(LOADS))
    chosen = LOADS[workload] if load is None else load
    config = world_config(nodes, shape)
    truth, offer = _generate(config, seed + 7919 * day, chosen)
    services: tuple[Manifest, ...] = ()
    if day == 0:
        kinds = np.flatnonzero(offer.is_service)
        services = tuple(_service(truth, offer, int(k), workload, scheduler) for k in kinds)
    jobs = sorted(_jobs(truth, offer, day), key=lambda j: j.arrival_s)
    return Script(workload, workload, services, tuple(jobs))


def _generate(config: WorldConfig, seed: int, load: float) -> tuple[Truth, Offer]:
    """Generate the workload; a small cluster may need more pods than PODS_PER_CORE gives to reach the load."""
    last: InvalidInput | None = None
    for factor in (1.0, 1.5, 2.5, 4.0):
        try:
            return generate(replace(config, pods=round(config.pods * factor)), seed, load)
        except InvalidInput as error:
            last = error
    assert last is not None
    raise last


def _service(truth: Truth, offer: Offer, k: int, namespace: str, scheduler: str) -> Manifest:
    first = int(offer.first_pod[k])
    row = int(truth.service[first])
    name = f"service-{row:03d}"
    time_s, objective = float(truth.service_time_s[row]), float(truth.service_objective[row])
    simulated = SimulatedBehaviour(
        use_memory_bytes=int(truth.use_memory_bytes[first]),
        sensitivity=_rounded(truth.sensitivity[first]),
        pressure=_rounded(truth.pressure[first]),
        service=f"{namespace}/{name}",
        workers=int(truth.service_cores[row]),
        peak_erlangs=_rounded(truth.service_peak[row]),
        replicas=int(offer.pods[k]),
        service_time_s=_rounded(time_s),
        swing=_rounded(truth.service_swing[row]),
        phase=_rounded(truth.service_phase[row]),
    )
    annotations = {
        TENANT: _tenant(int(offer.tenant[k])),
        OBJECTIVE_P99_MS: f"{objective * time_s * 1000.0:.4g}",
        ESTIMATE: _json(_estimate(offer, k)),
        GROUP: name,
        GROUP_LIMIT: str(int(offer.group_limit[k]) or 1),
        SIMULATED: _json(_without_defaults(simulated)),
    }
    labels = {"app": name}
    pod = {
        "metadata": {"labels": {**labels, **_classes(QoSClass.LS, PriorityClass.PROD)}, "annotations": annotations},
        "spec": _pod_spec(
            _requests(int(offer.cpu_milli[k]), int(offer.memory_bytes[k])), PriorityClass.PROD, scheduler, "Always"
        ),
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {"replicas": int(offer.pods[k]), "selector": {"matchLabels": labels}, "template": pod},
    }


def _jobs(truth: Truth, offer: Offer, day: int) -> list[BatchJob]:
    out = []
    for j in range(len(offer.arrival_s)):
        first = int(offer.first_shape[j])
        stages = tuple(
            _stage(truth, offer, first + level, f"job-{day}-{j:04d}-stage-{level}")
            for level in range(int(offer.levels[j]))
        )
        out.append(BatchJob(float(offer.arrival_s[j]), float(offer.deadline_s[j]), stages))
    return out


def _stage(truth: Truth, offer: Offer, k: int, name: str) -> BatchStage:
    pods = slice(int(offer.first_pod[k]), int(offer.first_pod[k] + offer.pods[k]))
    simulated = SimulatedBehaviour(
        use_cores=_rounded(truth.use_cores[pods].mean()),
        use_memory_bytes=int(truth.use_memory_bytes[pods].mean()),
        sensitivity=_rounded(truth.sensitivity[pods].mean()),
        pressure=_rounded(truth.pressure[pods].mean()),
        duration_s=_rounded(truth.duration_s[pods].mean()),
    )
    return BatchStage(
        name=name,
        pods=int(offer.pods[k]),
        cpu_milli=int(offer.cpu_milli[k]),
        memory_bytes=int(offer.memory_bytes[k]),
        tenant=_tenant(int(offer.tenant[k])),
        truth=simulated,
        estimate=_estimate(offer, k),
    )


def job_manifest(
    stage: BatchStage, namespace: str, scheduler: str, deadline_at_s: float, speed: float, is_lent: bool = False
) -> Manifest:
    """A stage as a Job. `deadline_at_s`: Unix time; the estimated duration is converted to real seconds."""
    estimate = dict(stage.estimate)
    if "duration_s" in estimate:
        estimate["duration_s"] = _rounded(estimate["duration_s"] / speed)
    annotations = {
        TENANT: stage.tenant,
        ESTIMATE: _json(estimate),
        DEADLINE: stamp(deadline_at_s),
        SIMULATED: _json(_without_defaults(stage.truth)),
    }
    labels = {"app": stage.name, **_classes(QoSClass.BE, PriorityClass.BATCH)}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": stage.name, "namespace": namespace, "labels": {"app": stage.name}},
        "spec": {
            "parallelism": stage.pods,
            "completions": stage.pods,
            "backoffLimit": 1000,  # evictions must not fail the job
            "ttlSecondsAfterFinished": TTL_S,
            "template": {
                "metadata": {"labels": labels, "annotations": annotations},
                "spec": _pod_spec(
                    _lent(stage) if is_lent else _requests(stage.cpu_milli, stage.memory_bytes),
                    PriorityClass.BATCH,
                    scheduler,
                    "Never",
                ),
            },
        },
    }


def priority_classes() -> tuple[Manifest, ...]:
    """The PriorityClass objects that the pods reference."""
    return tuple(
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": kind.label},
            "value": kind.default_priority,
            "description": description,
        }
        for kind, description in (
            (PriorityClass.PROD, "latency-critical services"),
            (PriorityClass.BATCH, "best-effort work"),
        )
    )


def _requests(cpu_milli: int, memory_bytes: int) -> Manifest:
    return {"requests": {"cpu": format_milli(cpu_milli), "memory": format_bytes(memory_bytes)}}


def _lent(stage: BatchStage) -> Manifest:
    """Kubernetes wants requests equal to limits for resources of this kind."""
    amounts = {BATCH_CPU: str(stage.cpu_milli), BATCH_MEMORY: str(stage.memory_bytes)}
    return {"requests": amounts, "limits": amounts}


def _pod_spec(resources: Manifest, kind: PriorityClass, scheduler: str, restart: str) -> Manifest:
    return {
        "schedulerName": scheduler,
        "priorityClassName": kind.label,
        "restartPolicy": restart,
        "terminationGracePeriodSeconds": 5,
        "containers": [{"name": "main", "image": IMAGE, "resources": resources}],
    }


def _classes(qos: QoSClass, kind: PriorityClass) -> Manifest:
    return {QOS_CLASS: qos.value, PRIORITY_CLASS: kind.label}


def _estimate(offer: Offer, k: int) -> Manifest:
    """The fields of model.pod.Estimate; infinite values are left out, because JSON cannot represent them."""
    is_service = bool(offer.is_service[k])
    fields = {
        "use_cpu_cores": _rounded(offer.est_use_cores[k]),
        "use_memory_bytes": int(offer.est_use_memory_bytes[k]),
        "sensitivity": _rounded(offer.est_sensitivity[k]),
        "pressure": _rounded(offer.est_pressure[k]),
        "allowance": _rounded(max(0.0, float(offer.est_tolerance[k]) - 1.0)) if is_service else 1.0,
        "duration_s": _rounded(offer.est_duration_s[k]),
    }
    return {k: v for k, v in fields.items() if isfinite(v)}


def _without_defaults(simulated: SimulatedBehaviour) -> Manifest:
    out: Manifest = {}
    for name in SimulatedBehaviour.__struct_fields__:
        value = getattr(simulated, name)
        if value != getattr(_DEFAULTS, name) and (not isinstance(value, float) or isfinite(value)):
            out[name] = value
    return out


_DEFAULTS = SimulatedBehaviour()


def _json(value: Manifest) -> str:
    return _encode(value).decode()


def _rounded(value: float) -> float:
    """Round to five significant digits, more than these values' precision."""
    return float(f"{float(value):.5g}")


def _tenant(number: int) -> str:
    return f"tenant-{number:02d}"

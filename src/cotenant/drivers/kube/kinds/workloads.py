"""The controllers of pods whose number of replicas a rebalancer reads: ReplicaSet, StatefulSet, ReplicationController, Job.

Limits: the replicas of a ReplicaSet are its own, not those of its Deployment, so during a rollout they are fewer, which errs on the safe side. Custom controllers are not read.
Source: Kubernetes API reference, v1.36.
"""

from __future__ import annotations

from cotenant.drivers.kube.kinds.kind import ApiStruct, Int32, Kind
from cotenant.drivers.kube.kinds.parts import ObjectMeta

_USUAL = 1  # where neither replicas nor parallelism is written


class WorkloadSpec(ApiStruct, frozen=True):
    """Its number of pods at a time; a Job's also in all."""

    replicas: Int32 | None = None
    parallelism: Int32 | None = None
    completions: Int32 | None = None


class JobStatus(ApiStruct, frozen=True):
    """A Job's pods that run, and those that have succeeded."""

    active: Int32 = 0
    succeeded: Int32 = 0


class WorkloadObject(ApiStruct, frozen=True):
    """A controller of pods."""

    metadata: ObjectMeta = ObjectMeta()
    spec: WorkloadSpec | None = None
    status: JobStatus | None = None  # other controllers have other fields


REPLICA_SETS = Kind("ReplicaSet", "apps", "v1", "replicasets", True, WorkloadObject)
STATEFUL_SETS = Kind("StatefulSet", "apps", "v1", "statefulsets", True, WorkloadObject)
REPLICATION_CONTROLLERS = Kind("ReplicationController", "", "v1", "replicationcontrollers", True, WorkloadObject)
JOBS = Kind("Job", "batch", "v1", "jobs", True, WorkloadObject)


def replicas_of(obj: WorkloadObject) -> int:
    """How many pods it wants at a time: of a Job no more than are left to complete. Without `completions`, a Job starts none once one has succeeded."""
    spec, status = obj.spec or WorkloadSpec(), obj.status or JobStatus()
    if spec.replicas is not None:
        return spec.replicas
    wanted = _USUAL if spec.parallelism is None else spec.parallelism
    if spec.completions is not None:
        return max(0, min(wanted, spec.completions - status.succeeded))
    return min(wanted, status.active) if status.succeeded else wanted

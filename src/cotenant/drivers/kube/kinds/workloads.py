"""The controllers of pods whose number of replicas a rebalancer reads: ReplicaSet, StatefulSet, ReplicationController, Job.

Limits: the replicas of a ReplicaSet are its own, not those of its Deployment, so during a rollout they are fewer, which errs on the safe side. Custom controllers are not read.
Source: Kubernetes API reference, v1.36.
"""

from __future__ import annotations

from cotenant.drivers.kube.kinds.kind import ApiStruct, Int32, Kind
from cotenant.drivers.kube.kinds.parts import ObjectMeta

_USUAL = 1  # where neither replicas nor parallelism is written


class WorkloadSpec(ApiStruct, frozen=True):
    """Its number of pods at a time."""

    replicas: Int32 | None = None
    parallelism: Int32 | None = None


class WorkloadObject(ApiStruct, frozen=True):
    """A controller of pods."""

    metadata: ObjectMeta = ObjectMeta()
    spec: WorkloadSpec | None = None


REPLICA_SETS = Kind("ReplicaSet", "apps", "v1", "replicasets", True, WorkloadObject)
STATEFUL_SETS = Kind("StatefulSet", "apps", "v1", "statefulsets", True, WorkloadObject)
REPLICATION_CONTROLLERS = Kind("ReplicationController", "", "v1", "replicationcontrollers", True, WorkloadObject)
JOBS = Kind("Job", "batch", "v1", "jobs", True, WorkloadObject)


def replicas_of(obj: WorkloadObject) -> int:
    """How many pods it wants at a time."""
    spec = obj.spec or WorkloadSpec()
    wanted = spec.replicas if spec.replicas is not None else spec.parallelism
    return _USUAL if wanted is None else wanted

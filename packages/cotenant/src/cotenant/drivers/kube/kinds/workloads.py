"""The controllers of pods whose number of replicas a rebalancer reads: ReplicaSet, StatefulSet, ReplicationController,
Job.

A Job near its end wants fewer pods than its parallelism; those that have succeeded must not look as if they were
lacking. Its status says how many are left to do.
Limits: until the Job's controller has counted a pod that has just ended, one more is expected, and the replicas of a
ReplicaSet are its own, not those of its Deployment, so during a rollout they are fewer; both err on the safe side.
Custom controllers are not read.
Source: Kubernetes API reference, v1.36.
"""

from __future__ import annotations

from cotenant.drivers.kube.kinds.kind import ApiStruct, Int32, Kind
from cotenant.drivers.kube.kinds.parts import ObjectMeta
from cotenant.model.whole_number import whole_number

_USUAL = 1  # where neither replicas nor parallelism is written


class WorkloadSpec(ApiStruct, frozen=True):
    """Its number of pods at a time."""

    replicas: Int32 | None = None
    parallelism: Int32 | None = None
    completions: Int32 | None = None


class WorkloadStatus(ApiStruct, frozen=True):
    """What of a Job is done."""

    active: Int32 | None = None
    succeeded: Int32 | None = None
    failed_indexes: str | None = None  # such as "1,3-5": those that are not tried again


class WorkloadObject(ApiStruct, frozen=True):
    """A controller of pods."""

    metadata: ObjectMeta = ObjectMeta()
    spec: WorkloadSpec | None = None
    status: WorkloadStatus | None = None


REPLICA_SETS = Kind("ReplicaSet", "apps", "v1", "replicasets", True, WorkloadObject)
DAEMON_SETS = Kind("DaemonSet", "apps", "v1", "daemonsets", True, WorkloadObject)  # for their deletion
STATEFUL_SETS = Kind("StatefulSet", "apps", "v1", "statefulsets", True, WorkloadObject)
REPLICATION_CONTROLLERS = Kind("ReplicationController", "", "v1", "replicationcontrollers", True, WorkloadObject)
JOBS = Kind("Job", "batch", "v1", "jobs", True, WorkloadObject)


def replicas_of(obj: WorkloadObject) -> int:
    """How many pods it wants at a time; of a Job no more than it still has to complete."""
    spec, status = obj.spec or WorkloadSpec(), obj.status or WorkloadStatus()
    if spec.replicas is not None:
        return spec.replicas
    wanted = _USUAL if spec.parallelism is None else spec.parallelism
    succeeded = status.succeeded or 0
    if spec.completions is not None:
        return max(0, min(wanted, spec.completions - succeeded - _indexes(status.failed_indexes or "")))
    if succeeded:  # of a work queue: what runs ends, and nothing is created again
        return min(wanted, status.active or 0)
    return wanted


def _indexes(text: str) -> int:
    """How many indexes a list such as "1,3-5" names; parts that are no ranges are skipped."""
    named = 0
    for part in text.split(","):
        first, _, last = part.partition("-")
        low, high = whole_number(first), whole_number(last or first)
        if low is not None and high is not None:
            named += max(0, high - low + 1)
    return named

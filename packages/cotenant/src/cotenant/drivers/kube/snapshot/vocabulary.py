"""Words of a copy that a replacement of names keeps, because they are the field's and not the user's.

Keeping is by list: a text that is not here, and is no amount or time where one belongs, is replaced.
"""

from __future__ import annotations

import re

from cotenant.model.cluster import annotations as names
from cotenant.model.groups import gang, kueue

DOMAINS = frozenset(
    {
        "apps.kubernetes.io",
        "batch.kubernetes.io",
        "kubernetes.io",
        "node.kubernetes.io",
        "resource.kubernetes.io",
        "storageclass.kubernetes.io",
        "topology.kubernetes.io",
        "volume.kubernetes.io",
        "controller.kubernetes.io",
        "kueue.x-k8s.io",
        "scheduling.x-k8s.io",
        "pod-group.scheduling.sigs.k8s.io",
        "koordinator.sh",
        "cotenant.io",
        "nvidia.com",
        "amd.com",
    }
)  # of keys; those of *.koordinator.sh besides
RESOURCES = re.compile(
    r"(limits\.|requests\.)?(cpu|memory|pods|storage|ephemeral-storage|hugepages-[0-9A-Za-z]+|bandwidth)"
    r"|count/pods|requests\.nvidia\.com/gpu"
)
QUANTITY = re.compile(r"[+-]?[0-9]{1,30}(\.[0-9]{0,30})?([numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]{1,3})?")
DURATION = re.compile(r"([0-9]{1,12}(\.[0-9]{1,9})?(ms|us|ns|h|m|s))+")
TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]{5,20}(Z|[+-][0-9]{2}:[0-9]{2})")

AMOUNTS = frozenset(
    {"available", "allocatable", "capacity", "value", "quantity", "shareCapacity", "min", "max", "step", "default"}
)  # fields of one amount
TIMES = frozenset({"ttl", "window"})  # fields of a duration
KEYS = frozenset({"key", "topologyKey", "matchLabelKeys", "mismatchLabelKeys"})  # fields that name a label
LABELS = frozenset({"labels", "matchLabels", "nodeSelector"})  # mappings of names; other mappings are of amounts
NAMES_IN_ANNOTATIONS = frozenset(
    {
        names.TENANT,
        names.GROUP,
        names.EXPECTED_ROOM,
        names.EXTENDED_SPEC,
        gang.NAME,
        gang.GROUPS,
        kueue.WORKLOAD,
        "volume.kubernetes.io/selected-node",
    }
)  # annotations in which a number may be a name
SEMANTIC_LABELS = frozenset({"kubernetes.io/arch", "kubernetes.io/os"})

_WORDS = """
    Running Pending Succeeded Failed Unknown Available Active Terminating Bound Released Lost
    True False true false Ready PodScheduled Initialized ContainersReady DisruptionTarget Unschedulable SchedulingGated
    PodReadyToStartContainers PodResizePending PodResizeInProgress MemoryPressure DiskPressure PIDPressure
    NetworkUnavailable Exists DoesNotExist Equal In NotIn Gt Lt NoSchedule PreferNoSchedule NoExecute
    DoNotSchedule ScheduleAnyway Honor Ignore TCP UDP SCTP Always Never OnFailure PreemptLowerPriority
    Guaranteed Burstable BestEffort LSE LSR LS BE SYSTEM koord-prod koord-mid koord-batch koord-free
    prod mid batch free koordinator-root-quota koordinator-system-quota koordinator-default-quota
    system-cluster-critical system-node-critical default-scheduler cotenant cotenant-gang koord-scheduler
    Strict NonStrict only-waiting waiting-and-running once-satisfied Single All
    metadata.name spec.nodeName gpu rdma fpga Aligned Restricted Default
    ReadWriteOnce ReadOnlyMany ReadWriteMany ReadWriteOncePod Filesystem Block Immediate WaitForFirstConsumer
    Delete Retain Recycle kubernetes.io/no-provisioner ExactCount FirstFound
    amd64 arm64 s390x ppc64le linux windows InternalIP ExternalIP Hostname
    Pod Node ReplicaSet Deployment StatefulSet DaemonSet Job CronJob ReplicationController PodGroup Workload
    PersistentVolumeClaim PersistentVolume StorageClass ElasticQuota Reservation Device NodeMetric
    NodeResourceTopology ResourceClaim ResourceSlice DeviceClass ServiceObjective WorkloadProfile CloneSet JobSet
    PyTorchJob MPIJob RayCluster RayJob SparkApplication LeaderWorkerSet VirtualMachineInstance TrainJob Rollout
    BroadcastJob VirtualMachine
    v1 apps/v1 batch/v1 policy/v1 node-0 node-1 node-2 node-3 node-4 node-5 node-6 node-7
    SingleNUMANode Restricted BestEffort None percentage default reserved
"""
WORDS = frozenset(_WORDS.split())

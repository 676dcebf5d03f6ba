"""What Koordinator's users write, and what becomes of it here: plugins, labels and annotations, by name.

One table for each kind of name, with the page of the guide that has the rest. A name under Koordinator's domains that
no table has is reported as unknown, never left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class MigrationVerdict(StrEnum):
    """What becomes of something."""

    SUPPORTED = "supported"
    DIFFERS = "differs"
    NOT_SUPPORTED = "not supported"
    UNKNOWN = "unknown"  # to this version: look it up before anything is moved


@dataclass(frozen=True, slots=True)
class KnownName:
    """What becomes of a name."""

    verdict: MigrationVerdict
    guide: str  # a page of docs/guide
    words: str = ""


S, D, N = MigrationVerdict.SUPPORTED, MigrationVerdict.DIFFERS, MigrationVerdict.NOT_SUPPORTED

PLUGINS = {
    "Coscheduling": KnownName(D, "gangs.md", "gangs are placed in one step instead of member by member"),
    "ElasticQuota": KnownName(S, "quota.md"),
    "LoadAwareScheduling": KnownName(S, "load-aware.md"),
    "NodeNUMAResource": KnownName(S, "cpus.md"),
    "DeviceShare": KnownName(S, "devices.md"),
    "Reservation": KnownName(D, "reservations.md", "see What differs there"),
    "BatchResourceFit": KnownName(S, "manager.md", "batch and mid requests fit like others, and by predicted use"),
    "DefaultPreBind": KnownName(S, "explain.md", "one write with the bind"),
    "NodeResourcesFitPlus": KnownName(N, "scheduler-config.md", "no such score"),
    "ScarceResourceAvoidance": KnownName(N, "scheduler-config.md", "no such score"),
    "SchedulingHint": KnownName(N, "scheduler-config.md", "no such plugin"),
}

CONFIG_KEYS = {  # of slo-controller-config, besides those that the manager reads
    "colocation-config": KnownName(D, "migrate-koordinator.md", "see What the processes do otherwise there"),
    "resource-threshold-config": KnownName(S, "agent.md"),
    "resource-qos-config": KnownName(D, "agent.md", "without core scheduling and group identity"),
    "cpu-burst-config": KnownName(S, "agent.md"),
    "system-config": KnownName(D, "agent.md", "kernel settings of the whole node are not written"),
    "host-application-config": KnownName(S, "manager.md"),
    "cpu-normalization-config": KnownName(S, "manager.md"),
    "resource-amplification-config": KnownName(S, "manager.md"),
}

KINDS = {  # API group, kind
    ("config.koordinator.sh", "ClusterColocationProfile"): KnownName(D, "webhook.md", "see Where it differs there"),
    ("scheduling.sigs.k8s.io", "ElasticQuota"): KnownName(S, "quota.md"),
    ("scheduling.x-k8s.io", "ElasticQuota"): KnownName(S, "quota.md"),
    ("quota.koordinator.sh", "ElasticQuotaProfile"): KnownName(S, "manager.md"),
    ("scheduling.sigs.k8s.io", "PodGroup"): KnownName(S, "gangs.md"),
    ("scheduling.x-k8s.io", "PodGroup"): KnownName(S, "gangs.md"),
    ("scheduling.koordinator.sh", "Reservation"): KnownName(D, "reservations.md", "see What differs there"),
    ("scheduling.koordinator.sh", "PodMigrationJob"): KnownName(S, "rebalancer.md"),
    ("scheduling.koordinator.sh", "Device"): KnownName(S, "devices.md"),
    ("scheduling.koordinator.sh", "ClusterNetworkTopology"): KnownName(D, "gangs.md", "only the one named default"),
    ("scheduling.koordinator.sh", "ScheduleExplanation"): KnownName(
        N, "explain.md", "cotenant explain answers instead"
    ),
    ("slo.koordinator.sh", "NodeSLO"): KnownName(S, "manager.md", "the manager writes them anew, from the ConfigMap"),
    ("slo.koordinator.sh", "NodeMetric"): KnownName(S, "manager.md"),
    ("analysis.koordinator.sh", "Recommendation"): KnownName(N, "README.md", "no sizes are recommended"),
}

_GANG, _QUOTA, _SCHEDULING, _INTERNAL = "gang.scheduling.", "quota.scheduling.", "scheduling.", "internal.scheduling."
_NOT_ENFORCED = KnownName(N, "agent.md", "the agent writes no such setting")
_NOT_READ = KnownName(N, "scheduler-config.md", "koord-scheduler's own note; not read")
_OBJECT = "only Reservation objects reserve"
_HOLDING = KnownName(
    S, "cpus.md", "what koord-scheduler has given stays; it is not sealed: run without --seal meanwhile"
)
_NAMES: tuple[tuple[str, str, KnownName], ...] = (  # prefix before koordinator.sh/, names, what becomes of them
    ("", "qosClass priority-class priority", KnownName(S, "webhook.md")),
    ("", "memoryQOS blkioQOS cpuBurst", KnownName(S, "agent.md")),
    ("", "eviction-priority eviction-policy eviction-enabled", KnownName(S, "recovery.md")),
    ("", "evict-trigger evict-reason evict-policy", KnownName(S, "rebalancer.md")),
    ("", "gpu-isolation-provider", KnownName(D, "devices.md", "nodes name what enforces shares")),
    (_GANG, "name min-available total-number waiting-time mode groups match-policy", KnownName(S, "gangs.md")),
    (_GANG, "network-topology-spec", KnownName(D, "gangs.md", "podCountMultiple is not considered")),
    (_GANG, "network-topology-index timeout", KnownName(N, "gangs.md", "not considered")),
    (
        _QUOTA,
        "is-parent parent allow-lent-resource tree-id is-root ignore-default-tree allow-force-update name preemptible "
        "shared-weight namespaces total-resource admission runtime request child-request allocated guaranteed profile "
        "resource-keys unschedulable-resource",
        KnownName(S, "quota.md"),
    ),
    (_SCHEDULING, "resource-spec numa-topology-spec", KnownName(S, "cpus.md")),
    (_SCHEDULING, "resource-status device-allocated reservation-allocated", _HOLDING),
    (
        _SCHEDULING,
        "gpu-partition-spec gpu-partitions device-joint-allocate device-allocate-hint",
        KnownName(S, "devices.md"),
    ),
    (
        _SCHEDULING,
        "reservation-affinity reservation-restricted-options exact-match-reservation pre-allocation-required "
        "reservation-ignored reservation-order reserve-pod",
        KnownName(D, "reservations.md", "see What differs there"),
    ),
    (_SCHEDULING, "eviction-cost soft-eviction", KnownName(S, "rebalancer.md")),
    (_SCHEDULING, "usage-thresholds", KnownName(S, "load-aware.md")),
    ("pod.", "is-pre-allocatable pre-allocatable-priority", KnownName(S, "reservations.md")),
    (
        "node.",
        "reservation network-bandwidth cpu-normalization-ratio colocation-strategy thirdPartyAllocations "
        "system-qos-resource resource-amplification-ratio raw-allocatable mid-static-memory-reserved-ratio "
        "mid-static-cpu-reserved-ratio memory-reclaim-ratio cpu-reclaim-ratio cpu-normalization-enabled cpu-basic-info "
        "extended-resource-spec",
        KnownName(S, "manager.md"),
    ),
    (
        "node.",
        "pod-cpu-allocs numa-topology-policy numa-allocate-strategy cpu-topology cpu-shared-pools cpu-bind-policy",
        KnownName(S, "cpus.md"),
    ),
    ("node.", "gpu-vendor gpu-partition-policy gpu-model gpu-driver-version", KnownName(S, "devices.md")),
    ("kubelet.", "cpu-manager-policy", KnownName(S, "cpus.md")),
    ("config.", "skip-update-resources", KnownName(S, "webhook.md")),
    ("", "core-sched-group-id core-sched-policy cpuQOS networkQOS oom-score-adj oom-score-adj-spec", _NOT_ENFORCED),
    (
        _QUOTA,
        "non-preemptible-request non-preemptible-used",
        KnownName(N, "quota.md", "a status that is not written here"),
    ),
    (_QUOTA, "max-strict-check-resource-keys", KnownName(N, "quota.md", "every resource of the maximum is checked")),
    (
        _SCHEDULING,
        "load-estimated-scaling-factors load-estimated-seconds-after-pod-scheduled "
        "load-estimated-seconds-after-initialized",
        KnownName(N, "load-aware.md", "estimates are the scheduler's, for all pods alike"),
    ),
    (
        _SCHEDULING,
        "preemption-policy disable-preemptible",
        KnownName(N, "quota.md", "spec.preemptionPolicy and the quota's label preemptible count"),
    ),
    (_SCHEDULING, "network-topology-selector", KnownName(N, "gangs.md", "not considered")),
    (_SCHEDULING, "bind-gang-group-id bind-gang-member-count", KnownName(N, "gangs.md", "not written")),
    (
        _SCHEDULING,
        "operating-mode reservation-owners reservation-current-owner",
        KnownName(N, "reservations.md", _OBJECT),
    ),
    (_SCHEDULING, "scheduler-name", KnownName(N, "scheduler-config.md", "spec.schedulerName counts")),
    (
        _SCHEDULING,
        "questioned-object-key topology-key-to-explain",
        KnownName(N, "explain.md", "cotenant explain answers"),
    ),
    (_SCHEDULING, "gpu-minors", KnownName(N, "devices.md", "the allocation's annotation counts")),
    (_SCHEDULING, "scheduling-hint bind-timestamp", _NOT_READ),
    (
        _INTERNAL,
        "scheduling-hint original-scheduler-name bind-gang-group-id bind-gang-member-count nvidia-driver-versions",
        _NOT_READ,
    ),
    (
        "pod.",
        "mutating-update replace-resources skip-enhanced-validation",
        KnownName(N, "webhook.md", "not considered"),
    ),
    ("config.", "controller-managed", KnownName(N, "webhook.md", "not considered")),
    ("node.", "originExtendedAllocatable", KnownName(N, "manager.md", "the manager keeps no such copy")),
    ("node.", "enable-numa-reservation be-cpu-shared-pools", KnownName(N, "cpus.md", "not considered")),
    ("node.", "secondary-device-well-planned", KnownName(N, "devices.md", "not considered")),
    ("node.", "resctrl", KnownName(N, "agent.md", "what the class has is set, not what a pod asks for")),
)
DOMAIN = "koordinator.sh"
LABELS = {f"{prefix}{DOMAIN}/{name}": known for prefix, names, known in _NAMES for name in names.split()}

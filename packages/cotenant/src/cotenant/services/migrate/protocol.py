"""What Koordinator's users write, and what becomes of it here: plugins, labels and annotations, by name.

One table for each kind of name, with the page of the guide that has the rest. A name under Koordinator's domains that
no table has is reported as unknown, never left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    """What becomes of something."""

    SUPPORTED = "supported"
    DIFFERS = "differs"
    NOT_SUPPORTED = "not supported"
    UNKNOWN = "unknown"  # to this version: look it up before anything is moved


@dataclass(frozen=True, slots=True)
class Known:
    """What becomes of a name."""

    verdict: Verdict
    guide: str  # a page of docs/guide
    words: str = ""


S, D, N = Verdict.SUPPORTED, Verdict.DIFFERS, Verdict.NOT_SUPPORTED

PLUGINS = {
    "Coscheduling": Known(D, "gangs.md", "gangs are placed in one step instead of member by member"),
    "ElasticQuota": Known(S, "quota.md"),
    "LoadAwareScheduling": Known(S, "load-aware.md"),
    "NodeNUMAResource": Known(S, "cpus.md"),
    "DeviceShare": Known(S, "devices.md"),
    "Reservation": Known(D, "reservations.md", "see What differs there"),
    "BatchResourceFit": Known(S, "manager.md", "batch and mid requests fit like others, and by predicted use"),
    "DefaultPreBind": Known(S, "explain.md", "one write with the bind"),
    "NodeResourcesFitPlus": Known(N, "scheduler-config.md", "no such score"),
    "ScarceResourceAvoidance": Known(N, "scheduler-config.md", "no such score"),
    "SchedulingHint": Known(N, "scheduler-config.md", "no such plugin"),
}

CONFIG_KEYS = {  # of slo-controller-config, besides those that the manager reads
    "colocation-config": Known(D, "manager.md", "the same amounts; see Differences from upstream there"),
    "resource-threshold-config": Known(S, "agent.md"),
    "resource-qos-config": Known(D, "agent.md", "without core scheduling and group identity"),
    "cpu-burst-config": Known(S, "agent.md"),
    "system-config": Known(D, "agent.md", "kernel settings of the whole node are not written"),
    "host-application-config": Known(S, "manager.md"),
    "cpu-normalization-config": Known(S, "manager.md"),
    "resource-amplification-config": Known(S, "manager.md"),
}

KINDS = {  # API group, kind
    ("config.koordinator.sh", "ClusterColocationProfile"): Known(D, "webhook.md", "see Where it differs there"),
    ("scheduling.sigs.k8s.io", "ElasticQuota"): Known(S, "quota.md"),
    ("scheduling.x-k8s.io", "ElasticQuota"): Known(S, "quota.md"),
    ("quota.koordinator.sh", "ElasticQuotaProfile"): Known(S, "manager.md"),
    ("scheduling.sigs.k8s.io", "PodGroup"): Known(S, "gangs.md"),
    ("scheduling.x-k8s.io", "PodGroup"): Known(S, "gangs.md"),
    ("scheduling.koordinator.sh", "Reservation"): Known(D, "reservations.md", "see What differs there"),
    ("scheduling.koordinator.sh", "PodMigrationJob"): Known(S, "rebalancer.md"),
    ("scheduling.koordinator.sh", "Device"): Known(S, "devices.md"),
    ("scheduling.koordinator.sh", "ClusterNetworkTopology"): Known(D, "gangs.md", "only the one named default"),
    ("scheduling.koordinator.sh", "ScheduleExplanation"): Known(N, "explain.md", "cotenant explain answers instead"),
    ("slo.koordinator.sh", "NodeSLO"): Known(S, "manager.md", "the manager writes them anew, from the ConfigMap"),
    ("slo.koordinator.sh", "NodeMetric"): Known(S, "manager.md"),
    ("analysis.koordinator.sh", "Recommendation"): Known(N, "README.md", "no sizes are recommended"),
}

_GANG, _QUOTA, _SCHEDULING = "gang.scheduling.", "quota.scheduling.", "scheduling."
_HOLDING = Known(S, "cpus.md", "what koord-scheduler has given stays; it is not sealed: run without --seal meanwhile")
_NAMES: tuple[tuple[str, str, Known], ...] = (  # prefix before koordinator.sh/, names, what becomes of them
    ("", "qosClass priority-class priority", Known(S, "webhook.md")),
    ("", "memoryQOS blkioQOS cpuBurst", Known(S, "agent.md")),
    ("", "eviction-priority eviction-policy eviction-enabled", Known(S, "recovery.md")),
    ("", "evict-trigger evict-reason evict-policy", Known(S, "rebalancer.md")),
    ("", "gpu-isolation-provider", Known(N, "devices.md", "no runtime here isolates parts of a GPU")),
    (_GANG, "name min-available total-number waiting-time mode groups match-policy", Known(S, "gangs.md")),
    (_GANG, "network-topology-spec", Known(D, "gangs.md", "podCountMultiple is not considered")),
    (_GANG, "network-topology-index timeout", Known(N, "gangs.md", "not considered")),
    (
        _QUOTA,
        "is-parent parent allow-lent-resource tree-id is-root ignore-default-tree allow-force-update name preemptible "
        "shared-weight namespaces total-resource admission runtime request child-request allocated guaranteed profile "
        "resource-keys unschedulable-resource",
        Known(S, "quota.md"),
    ),
    (_SCHEDULING, "resource-spec numa-topology-spec", Known(S, "cpus.md")),
    (_SCHEDULING, "resource-status device-allocated reservation-allocated", _HOLDING),
    (
        _SCHEDULING,
        "gpu-partition-spec gpu-partitions device-joint-allocate device-allocate-hint",
        Known(S, "devices.md"),
    ),
    (
        _SCHEDULING,
        "reservation-affinity reservation-restricted-options exact-match-reservation pre-allocation-required "
        "reservation-ignored reservation-order reserve-pod",
        Known(D, "reservations.md", "see What differs there"),
    ),
    (_SCHEDULING, "eviction-cost soft-eviction", Known(S, "rebalancer.md")),
    (_SCHEDULING, "usage-thresholds", Known(S, "load-aware.md")),
    ("pod.", "is-pre-allocatable pre-allocatable-priority", Known(S, "reservations.md")),
    (
        "node.",
        "reservation network-bandwidth cpu-normalization-ratio colocation-strategy third-party-allocations "
        "system-qos-resource resource-amplification-ratio raw-allocatable mid-static-memory-reserved-ratio "
        "mid-static-cpu-reserved-ratio memory-reclaim-ratio cpu-reclaim-ratio cpu-normalization-enabled cpu-basic-info "
        "extended-resource-spec",
        Known(S, "manager.md"),
    ),
    (
        "node.",
        "pod-cpu-allocs numa-topology-policy numa-allocate-strategy cpu-topology cpu-shared-pools cpu-bind-policy",
        Known(S, "cpus.md"),
    ),
    ("node.", "gpu-vendor gpu-partition-policy gpu-model gpu-driver-version", Known(S, "devices.md")),
    ("kubelet.", "cpu-manager-policy", Known(S, "cpus.md")),
    ("config.", "skip-update-resources", Known(S, "webhook.md")),
)
DOMAIN = "koordinator.sh"
LABELS = {f"{prefix}{DOMAIN}/{name}": known for prefix, names, known in _NAMES for name in names.split()}

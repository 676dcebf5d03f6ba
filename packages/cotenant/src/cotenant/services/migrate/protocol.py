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
    "colocation-config": Known(D, "migrate-koordinator.md", "see What the processes do otherwise there"),
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

_GANG, _QUOTA, _SCHEDULING, _INTERNAL = "gang.scheduling.", "quota.scheduling.", "scheduling.", "internal.scheduling."
_NOT_ENFORCED = Known(N, "agent.md", "the agent writes no such setting")
_NOT_READ = Known(N, "scheduler-config.md", "koord-scheduler's own note; not read")
_OBJECT = "only Reservation objects reserve"
_HOLDING = Known(S, "cpus.md", "what koord-scheduler has given stays; it is not sealed: run without --seal meanwhile")
_NAMES: tuple[tuple[str, str, Known], ...] = (  # prefix before koordinator.sh/, names, what becomes of them
    ("", "qosClass priority-class priority", Known(S, "webhook.md")),
    ("", "memoryQOS blkioQOS cpuBurst", Known(S, "agent.md")),
    ("", "eviction-priority eviction-policy eviction-enabled", Known(S, "recovery.md")),
    ("", "evict-trigger evict-reason evict-policy", Known(S, "rebalancer.md")),
    ("", "gpu-isolation-provider", Known(D, "devices.md", "nodes name what enforces shares")),
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
        "reservation network-bandwidth cpu-normalization-ratio colocation-strategy thirdPartyAllocations "
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
    ("", "core-sched-group-id core-sched-policy cpuQOS networkQOS oom-score-adj oom-score-adj-spec", _NOT_ENFORCED),
    (_QUOTA, "non-preemptible-request non-preemptible-used", Known(N, "quota.md", "a status that is not written here")),
    (_QUOTA, "max-strict-check-resource-keys", Known(N, "quota.md", "every resource of the maximum is checked")),
    (
        _SCHEDULING,
        "load-estimated-scaling-factors load-estimated-seconds-after-pod-scheduled "
        "load-estimated-seconds-after-initialized",
        Known(N, "load-aware.md", "estimates are the scheduler's, for all pods alike"),
    ),
    (
        _SCHEDULING,
        "preemption-policy disable-preemptible",
        Known(N, "quota.md", "spec.preemptionPolicy and the quota's label preemptible count"),
    ),
    (_SCHEDULING, "network-topology-selector", Known(N, "gangs.md", "not considered")),
    (_SCHEDULING, "bind-gang-group-id bind-gang-member-count", Known(N, "gangs.md", "not written")),
    (_SCHEDULING, "operating-mode reservation-owners reservation-current-owner", Known(N, "reservations.md", _OBJECT)),
    (_SCHEDULING, "scheduler-name", Known(N, "scheduler-config.md", "spec.schedulerName counts")),
    (_SCHEDULING, "questioned-object-key topology-key-to-explain", Known(N, "explain.md", "cotenant explain answers")),
    (_SCHEDULING, "gpu-minors", Known(N, "devices.md", "the allocation's annotation counts")),
    (_SCHEDULING, "scheduling-hint bind-timestamp", _NOT_READ),
    (
        _INTERNAL,
        "scheduling-hint original-scheduler-name bind-gang-group-id bind-gang-member-count nvidia-driver-versions",
        _NOT_READ,
    ),
    ("pod.", "mutating-update replace-resources skip-enhanced-validation", Known(N, "webhook.md", "not considered")),
    ("config.", "controller-managed", Known(N, "webhook.md", "not considered")),
    ("node.", "originExtendedAllocatable", Known(N, "manager.md", "the manager keeps no such copy")),
    ("node.", "enable-numa-reservation be-cpu-shared-pools", Known(N, "cpus.md", "not considered")),
    ("node.", "secondary-device-well-planned", Known(N, "devices.md", "not considered")),
    ("node.", "resctrl", Known(N, "agent.md", "what the class has is set, not what a pod asks for")),
)
DOMAIN = "koordinator.sh"
LABELS = {f"{prefix}{DOMAIN}/{name}": known for prefix, names, known in _NAMES for name in names.split()}

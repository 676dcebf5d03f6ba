"""The printer columns of the built-in kinds.

Users read clusters through these columns, and scripts parse them. One tuple per kind, computed from the plain object
with the texts that Kubernetes prints; kinds without an entry get NAME and CREATED AT, as upstream.
Source: the Tables that a v1.36 kube-apiserver returns for each kind, and the behaviour of `kubectl get` documented for
pods.
"""

from __future__ import annotations

from cotenant_local.apiserver.columns import claims, cluster, workloads
from cotenant_local.apiserver.columns.autoscalers import AUTOSCALER
from cotenant_local.apiserver.columns.formatting import CREATED_AT, NAME
from cotenant_local.apiserver.columns.pods import POD
from cotenant_local.apiserver.contract import PrinterColumn

DEFAULT: tuple[PrinterColumn, ...] = (NAME, CREATED_AT)

_COLUMNS: dict[tuple[str, str], tuple[PrinterColumn, ...]] = {
    ("", "Pod"): POD,
    ("", "ConfigMap"): cluster.CONFIG_MAP,
    ("", "Endpoints"): cluster.ENDPOINTS,
    ("", "Event"): cluster.EVENT,
    ("", "Namespace"): cluster.NAMESPACE,
    ("", "Node"): cluster.NODE,
    ("", "PersistentVolume"): cluster.VOLUME,
    ("", "PersistentVolumeClaim"): cluster.CLAIM,
    ("", "Secret"): cluster.SECRET,
    ("", "Service"): cluster.SERVICE,
    ("", "ServiceAccount"): cluster.SERVICE_ACCOUNT,
    ("apps", "ControllerRevision"): workloads.CONTROLLER_REVISION,
    ("apps", "DaemonSet"): workloads.DAEMON_SET,
    ("apps", "Deployment"): workloads.DEPLOYMENT,
    ("apps", "ReplicaSet"): workloads.REPLICA_SET,
    ("apps", "StatefulSet"): workloads.STATEFUL_SET,
    ("batch", "Job"): workloads.JOB,
    ("batch", "CronJob"): workloads.CRON_JOB,
    ("autoscaling", "HorizontalPodAutoscaler"): AUTOSCALER,
    ("networking.k8s.io", "Ingress"): cluster.INGRESS,
    ("networking.k8s.io", "IngressClass"): cluster.INGRESS_CLASS,
    ("policy", "PodDisruptionBudget"): workloads.DISRUPTION_BUDGET,
    ("coordination.k8s.io", "Lease"): cluster.LEASE,
    ("scheduling.k8s.io", "PriorityClass"): cluster.PRIORITY_CLASS,
    ("storage.k8s.io", "StorageClass"): cluster.STORAGE_CLASS,
    ("storage.k8s.io", "CSINode"): cluster.CSI_NODE,
    ("storage.k8s.io", "VolumeAttachment"): cluster.VOLUME_ATTACHMENT,
    ("resource.k8s.io", "DeviceClass"): claims.NAMED,
    ("resource.k8s.io", "DeviceTaintRule"): claims.TAINT_RULE,
    ("resource.k8s.io", "ResourceClaim"): claims.CLAIM,
    ("resource.k8s.io", "ResourceClaimTemplate"): claims.NAMED,
    ("resource.k8s.io", "ResourceSlice"): claims.SLICE,
    ("discovery.k8s.io", "EndpointSlice"): cluster.ENDPOINT_SLICE,
    ("events.k8s.io", "Event"): cluster.EVENT,
    ("admissionregistration.k8s.io", "MutatingWebhookConfiguration"): cluster.WEBHOOKS,
    ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"): cluster.WEBHOOKS,
}


def columns_of(group: str, kind: str) -> tuple[PrinterColumn, ...]:
    """The columns of a built-in kind; empty if it has no entry."""
    return _COLUMNS.get((group, kind), ())

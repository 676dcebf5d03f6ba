"""The built-in resources: URL, names for kubectl, verbs, subresources, selectable fields, and behaviour.

Discovery, kubectl and controllers must find the same resources as in a real cluster. One table. Only kinds with
behaviour are listed: those that nothing here enforces or works on (ReplicationControllers) are left
out, so that a client learns immediately that they are not served. The exceptions are what every chart brings:
network policies, ingresses, roles and admission policies are stored and not enforced, since there is one user and no
network.
Source: Kubernetes API reference and `kubectl api-resources` of v1.36.
"""

from __future__ import annotations

from cotenant.drivers.kube.manifests.errors import Manifest
from cotenant_local.apiserver.contract import Resource, ResourceScope
from cotenant_local.apiserver.kinds.behaviour import KindBehaviour, SpecBehaviour
from cotenant_local.apiserver.kinds.claims import (
    ResourceClaimBehaviour,
    SliceBehaviour,
    TaintRuleBehaviour,
    TemplateBehaviour,
)
from cotenant_local.apiserver.kinds.data import DataBehaviour, RevisionBehaviour, SecretBehaviour
from cotenant_local.apiserver.kinds.events import EventBehaviour
from cotenant_local.apiserver.kinds.ingresses import IngressBehaviour, IngressClassBehaviour
from cotenant_local.apiserver.kinds.namespaces import NamespaceBehaviour
from cotenant_local.apiserver.kinds.nodes import NodeBehaviour
from cotenant_local.apiserver.kinds.pods.pod import PodBehaviour
from cotenant_local.apiserver.kinds.priority import SYSTEM, PriorityClassBehaviour
from cotenant_local.apiserver.kinds.rows import ALL, CREATE, Fields, field, fields_at, resource, with_default
from cotenant_local.apiserver.kinds.services import ServiceBehaviour
from cotenant_local.apiserver.kinds.volumes import VolumeBehaviour, VolumeClaimBehaviour
from cotenant_local.apiserver.kinds.workload_groups import PodGroupBehaviour, WorkloadObjectBehaviour
from cotenant_local.apiserver.kinds.workloads import JobBehaviour, StatefulSetBehaviour, WorkloadBehaviour

_POD_FIELDS: Fields = {
    **fields_at(
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "status.phase",
        "status.podIP",
        "status.nominatedNodeName",
    ),
    **with_default("spec.hostNetwork", "false"),
}
_EVENT_FIELDS: Fields = {
    **fields_at(
        "involvedObject.kind",
        "involvedObject.namespace",
        "involvedObject.name",
        "involvedObject.uid",
        "involvedObject.apiVersion",
        "involvedObject.resourceVersion",
        "involvedObject.fieldPath",
        "reason",
        "reportingComponent",
        "type",
    ),
    "source": lambda obj: field("source.component")(obj) or field("reportingComponent")(obj),
}


_CLUSTER = ResourceScope.CLUSTER
_CATEGORY_ALL = ("all",)

BUILT_IN: tuple[Resource, ...] = (
    resource("", "Binding", "bindings", verbs=CREATE),
    resource("", "ConfigMap", "configmaps", short=("cm",)),
    resource("", "Endpoints", "endpoints", short=("ep",)),
    resource("", "Event", "events", short=("ev",), fields=_EVENT_FIELDS),
    resource(
        "",
        "Namespace",
        "namespaces",
        _CLUSTER,
        short=("ns",),
        sub=("finalize", "status"),
        fields=fields_at("status.phase"),
        verbs=ALL - {"deletecollection"},
    ),
    resource(
        "",
        "Node",
        "nodes",
        _CLUSTER,
        short=("no",),
        sub=("status",),
        fields=with_default("spec.unschedulable", "false"),
    ),
    resource("", "LimitRange", "limitranges", short=("limits",)),
    resource("", "PersistentVolumeClaim", "persistentvolumeclaims", short=("pvc",), sub=("status",)),
    resource("", "PersistentVolume", "persistentvolumes", _CLUSTER, short=("pv",), sub=("status",)),
    resource(
        "",
        "Pod",
        "pods",
        short=("po",),
        categories=_CATEGORY_ALL,
        fields=_POD_FIELDS,
        sub=("binding", "eviction", "ephemeralcontainers", "resize", "status"),
    ),
    resource("", "ResourceQuota", "resourcequotas", short=("quota",), sub=("status",)),
    resource("", "Secret", "secrets", fields=fields_at("type")),
    resource("", "ServiceAccount", "serviceaccounts", short=("sa",)),
    resource(
        "",
        "Service",
        "services",
        short=("svc",),
        categories=_CATEGORY_ALL,
        sub=("status",),
        fields=fields_at("spec.clusterIP", "spec.type"),
    ),
    resource("apps", "ControllerRevision", "controllerrevisions"),
    resource("apps", "DaemonSet", "daemonsets", short=("ds",), categories=_CATEGORY_ALL, sub=("status",)),
    resource("apps", "Deployment", "deployments", short=("deploy",), categories=_CATEGORY_ALL, sub=("scale", "status")),
    resource(
        "apps",
        "ReplicaSet",
        "replicasets",
        short=("rs",),
        categories=_CATEGORY_ALL,
        sub=("scale", "status"),
        fields=fields_at("status.replicas"),
    ),
    resource("apps", "StatefulSet", "statefulsets", short=("sts",), categories=_CATEGORY_ALL, sub=("scale", "status")),
    resource("batch", "Job", "jobs", categories=_CATEGORY_ALL, sub=("status",), fields=fields_at("status.successful")),
    resource("batch", "CronJob", "cronjobs", short=("cj",), categories=_CATEGORY_ALL, sub=("status",)),
    resource(
        "autoscaling",
        "HorizontalPodAutoscaler",
        "horizontalpodautoscalers",
        version="v2",
        short=("hpa",),
        categories=_CATEGORY_ALL,
        sub=("status",),
    ),
    resource("policy", "PodDisruptionBudget", "poddisruptionbudgets", short=("pdb",), sub=("status",)),
    resource("coordination.k8s.io", "Lease", "leases"),
    resource("scheduling.k8s.io", "PriorityClass", "priorityclasses", _CLUSTER, short=("pc",)),
    resource("storage.k8s.io", "StorageClass", "storageclasses", _CLUSTER, short=("sc",)),
    resource("storage.k8s.io", "CSINode", "csinodes", _CLUSTER),
    resource("storage.k8s.io", "VolumeAttachment", "volumeattachments", _CLUSTER, sub=("status",)),
    resource("events.k8s.io", "Event", "events", short=("ev",), stored_as=("", "events")),
    resource("discovery.k8s.io", "EndpointSlice", "endpointslices"),
    resource(
        "apiextensions.k8s.io",
        "CustomResourceDefinition",
        "customresourcedefinitions",
        _CLUSTER,
        short=("crd", "crds"),
        categories=("api-extensions",),
        sub=("status",),
    ),
    resource(
        "admissionregistration.k8s.io",
        "MutatingWebhookConfiguration",
        "mutatingwebhookconfigurations",
        _CLUSTER,
        categories=("api-extensions",),
    ),
    resource(
        "admissionregistration.k8s.io",
        "ValidatingWebhookConfiguration",
        "validatingwebhookconfigurations",
        _CLUSTER,
        categories=("api-extensions",),
    ),
    resource(
        "admissionregistration.k8s.io",
        "ValidatingAdmissionPolicy",
        "validatingadmissionpolicies",
        _CLUSTER,
        categories=("api-extensions",),
        sub=("status",),
    ),
    resource(
        "admissionregistration.k8s.io",
        "ValidatingAdmissionPolicyBinding",
        "validatingadmissionpolicybindings",
        _CLUSTER,
        categories=("api-extensions",),
    ),
    resource("networking.k8s.io", "NetworkPolicy", "networkpolicies", short=("netpol",)),
    resource("networking.k8s.io", "Ingress", "ingresses", short=("ing",), sub=("status",)),
    resource("networking.k8s.io", "IngressClass", "ingressclasses", _CLUSTER),
    resource("rbac.authorization.k8s.io", "ClusterRole", "clusterroles", _CLUSTER),
    resource("rbac.authorization.k8s.io", "ClusterRoleBinding", "clusterrolebindings", _CLUSTER),
    resource("rbac.authorization.k8s.io", "Role", "roles"),
    resource("rbac.authorization.k8s.io", "RoleBinding", "rolebindings"),
    resource("authentication.k8s.io", "SelfSubjectReview", "selfsubjectreviews", _CLUSTER, verbs=CREATE),
    resource("authorization.k8s.io", "SelfSubjectAccessReview", "selfsubjectaccessreviews", _CLUSTER, verbs=CREATE),
    resource("authorization.k8s.io", "SelfSubjectRulesReview", "selfsubjectrulesreviews", _CLUSTER, verbs=CREATE),
)

_SCHEDULING = "scheduling.k8s.io"
WORKLOAD_API: tuple[Resource, ...] = (
    resource(_SCHEDULING, "Workload", "workloads", version="v1beta1"),
    resource(_SCHEDULING, "Workload", "workloads", version="v1alpha3"),
    resource(_SCHEDULING, "PodGroup", "podgroups", version="v1beta1", sub=("status",)),
    resource(_SCHEDULING, "PodGroup", "podgroups", version="v1alpha3", sub=("status",)),
    resource(_SCHEDULING, "CompositePodGroup", "compositepodgroups", version="v1alpha3", sub=("status",)),
)
"""As Kubernetes 1.37 has it with all versions switched on."""
EVICTION_API: tuple[Resource, ...] = (
    resource("lifecycle.k8s.io", "EvictionRequest", "evictionrequests", version="v1alpha1", sub=("status",)),
    resource("lifecycle.k8s.io", "Eviction", "evictions", version="v1alpha1", sub=("status",)),
)
"""As Kubernetes 1.37 has it where it is switched on."""
WORKLOAD_API_OF_1_36: tuple[Resource, ...] = (
    resource(_SCHEDULING, "Workload", "workloads", version="v1alpha2"),
    resource(_SCHEDULING, "PodGroup", "podgroups", version="v1alpha2", sub=("status",)),
)
"""Not served unless they are added to the registry: a server has them beside the others only while it is upgraded."""


_RESOURCE = "resource.k8s.io"


def _device_kinds(version: str) -> tuple[Resource, ...]:
    return (
        resource(_RESOURCE, "DeviceClass", "deviceclasses", _CLUSTER, version=version),
        resource(_RESOURCE, "ResourceClaim", "resourceclaims", version=version, sub=("status",)),
        resource(_RESOURCE, "ResourceClaimTemplate", "resourceclaimtemplates", version=version),
        resource(
            _RESOURCE,
            "ResourceSlice",
            "resourceslices",
            _CLUSTER,
            version=version,
            fields=fields_at("spec.nodeName", "spec.driver"),
        ),
    )


DEVICE_API: tuple[Resource, ...] = (
    *_device_kinds("v1"),
    *_device_kinds("v1beta2"),
    *_device_kinds("v1beta1"),
    resource(_RESOURCE, "DeviceTaintRule", "devicetaintrules", _CLUSTER, version="v1beta2", sub=("status",)),
)
"""As Kubernetes 1.36 has it, without what is alpha there."""


def behaviours(*, taints_new_nodes: bool = True) -> dict[tuple[str, str], KindBehaviour]:
    """The behaviour of each built-in kind, by storage; a kind not listed is stored as written, without generation."""
    replica_status: Manifest = {"replicas": 0}
    daemon_status = dict.fromkeys(
        ("currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady"), 0
    )
    budget_status = dict.fromkeys(("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"), 0)
    workload, counted = WorkloadBehaviour({}), KindBehaviour(has_generation=True, needs_version=True)
    return {
        ("", "configmaps"): DataBehaviour(),
        ("", "secrets"): SecretBehaviour(),
        ("", "endpoints"): KindBehaviour(may_create_on_update=True),
        ("", "events"): EventBehaviour(),
        ("", "namespaces"): NamespaceBehaviour(),
        ("", "nodes"): NodeBehaviour(taints_new=taints_new_nodes),
        ("", "persistentvolumeclaims"): VolumeClaimBehaviour(),
        ("", "persistentvolumes"): VolumeBehaviour(),
        ("", "pods"): PodBehaviour(),
        ("", "resourcequotas"): SpecBehaviour({}, has_generation=False),
        ("", "services"): ServiceBehaviour(),
        ("apps", "controllerrevisions"): RevisionBehaviour(),
        ("apps", "daemonsets"): WorkloadBehaviour(daemon_status),
        ("apps", "deployments"): workload,
        ("apps", "replicasets"): WorkloadBehaviour(replica_status),
        ("apps", "statefulsets"): StatefulSetBehaviour({"replicas": 0, "availableReplicas": 0}),
        ("batch", "jobs"): JobBehaviour(),
        ("batch", "cronjobs"): SpecBehaviour({}, needs_version=True),
        ("autoscaling", "horizontalpodautoscalers"): SpecBehaviour(
            {"currentMetrics": None, "desiredReplicas": 0}, has_generation=False
        ),
        ("policy", "poddisruptionbudgets"): SpecBehaviour(budget_status, needs_version=True),
        ("coordination.k8s.io", "leases"): KindBehaviour(needs_version=True, may_create_on_update=True),
        ("scheduling.k8s.io", "priorityclasses"): PriorityClassBehaviour(),
        (_SCHEDULING, "workloads"): WorkloadObjectBehaviour(),
        (_SCHEDULING, "podgroups"): PodGroupBehaviour(),
        (_SCHEDULING, "compositepodgroups"): PodGroupBehaviour(),
        (_RESOURCE, "resourceclaims"): ResourceClaimBehaviour({}),
        (_RESOURCE, "resourceclaimtemplates"): TemplateBehaviour(),
        (_RESOURCE, "deviceclasses"): KindBehaviour(has_generation=True),
        (_RESOURCE, "resourceslices"): SliceBehaviour(),
        (_RESOURCE, "devicetaintrules"): TaintRuleBehaviour({}),
        ("lifecycle.k8s.io", "evictionrequests"): SpecBehaviour(needs_version=True),
        ("lifecycle.k8s.io", "evictions"): SpecBehaviour(needs_version=True),
        ("storage.k8s.io", "csinodes"): KindBehaviour(needs_version=True),
        ("storage.k8s.io", "volumeattachments"): KindBehaviour(has_status=True, needs_version=True),
        ("discovery.k8s.io", "endpointslices"): KindBehaviour(has_generation=True),
        ("apiextensions.k8s.io", "customresourcedefinitions"): SpecBehaviour(needs_version=True),
        ("admissionregistration.k8s.io", "mutatingwebhookconfigurations"): counted,
        ("admissionregistration.k8s.io", "validatingwebhookconfigurations"): counted,
        ("admissionregistration.k8s.io", "validatingadmissionpolicies"): KindBehaviour(
            has_status=True, has_generation=True
        ),
        ("admissionregistration.k8s.io", "validatingadmissionpolicybindings"): counted,
        ("networking.k8s.io", "networkpolicies"): KindBehaviour(has_generation=True),
        ("networking.k8s.io", "ingresses"): IngressBehaviour(),
        ("networking.k8s.io", "ingressclasses"): IngressClassBehaviour(has_generation=True),
    }


_SYSTEM_NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")


def default_objects() -> list[tuple[tuple[str, str], Manifest]]:
    """The default objects of every cluster: (storage, object)."""
    found: list[tuple[tuple[str, str], Manifest]] = [
        (("", "namespaces"), {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        for name in _SYSTEM_NAMESPACES
    ]
    for name, value in SYSTEM.items():
        found.append(
            (
                ("scheduling.k8s.io", "priorityclasses"),
                {
                    "apiVersion": "scheduling.k8s.io/v1",
                    "kind": "PriorityClass",
                    "metadata": {"name": name},
                    "value": value,
                    "globalDefault": False,
                    "preemptionPolicy": "PreemptLowerPriority",
                    "description": "Used for system critical pods that must run in the cluster, "
                    + ("but can be moved to another node if necessary." if "cluster" in name else "on their node."),
                },
            )
        )
    found.append(
        (
            ("", "services"),
            {
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": {
                    "name": "kubernetes",
                    "namespace": "default",
                    "labels": {"component": "apiserver", "provider": "kubernetes"},
                },
                "spec": {
                    "type": "ClusterIP",
                    "clusterIP": "10.96.0.1",
                    "clusterIPs": ["10.96.0.1"],
                    "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": 6443}],
                    "sessionAffinity": "None",
                    "ipFamilies": ["IPv4"],
                    "ipFamilyPolicy": "SingleStack",
                    "internalTrafficPolicy": "Cluster",
                },
            },
        )
    )
    return found

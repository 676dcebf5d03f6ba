"""Defaults and rules of the other built-in kinds."""

from __future__ import annotations

from typing import Any

import pytest

from cotenant.drivers.kube.manifests.errors import Manifest
from cotenant_local.apiserver.schema.builtin import BuiltinSchema, builtin_schema

TEMPLATE: Manifest = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
KINDS = {
    "Deployment": "apps",
    "StatefulSet": "apps",
    "DaemonSet": "apps",
    "ReplicaSet": "apps",
    "Job": "batch",
    "PodDisruptionBudget": "policy",
    "StorageClass": "storage.k8s.io",
    "PriorityClass": "scheduling.k8s.io",
    "Lease": "coordination.k8s.io",
    "MutatingWebhookConfiguration": "admissionregistration.k8s.io",
}


def schema(kind: str) -> BuiltinSchema:
    return builtin_schema(KINDS.get(kind, ""), "v1", kind)


def defaulted(kind: str, obj: Manifest) -> Any:
    schema(kind).prune(obj)
    schema(kind).default(obj)
    return obj


def messages(kind: str, obj: Manifest, old: Manifest | None = None) -> list[str]:
    found = schema(kind).validate(defaulted(kind, obj), old)
    return [f"{cause.field}: {cause.message}" for cause in found]


def workload(**spec: Any) -> Manifest:
    import copy

    return {
        "metadata": {"name": "x"},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": copy.deepcopy(TEMPLATE), **spec},
    }


def test_deployment_defaults() -> None:
    spec = defaulted("Deployment", workload())["spec"]
    assert spec["replicas"] == 1
    assert spec["strategy"] == {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"}}
    assert (spec["revisionHistoryLimit"], spec["progressDeadlineSeconds"]) == (10, 600)
    assert spec["template"]["spec"]["restartPolicy"] == "Always"
    assert "enableServiceLinks" not in spec["template"]["spec"]  # a template is not a pod


def test_templates_keep_limits_without_requests() -> None:
    obj = workload()
    obj["spec"]["template"]["spec"]["containers"][0]["resources"] = {"limits": {"cpu": "1"}}
    assert defaulted("Deployment", obj)["spec"]["template"]["spec"]["containers"][0]["resources"] == {
        "limits": {"cpu": "1"}
    }


def test_the_other_workloads() -> None:
    stateful = defaulted("StatefulSet", workload(volumeClaimTemplates=[{"metadata": {"name": "v"}}]))["spec"]
    assert (stateful["podManagementPolicy"], stateful["updateStrategy"]) == (
        "OrderedReady",
        {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
    )
    assert stateful["persistentVolumeClaimRetentionPolicy"] == {"whenDeleted": "Retain", "whenScaled": "Retain"}
    assert stateful["volumeClaimTemplates"][0]["spec"] == {"volumeMode": "Filesystem"}
    daemon = defaulted("DaemonSet", workload())["spec"]
    assert daemon["updateStrategy"]["rollingUpdate"] == {"maxUnavailable": 1, "maxSurge": 0}
    job = defaulted("Job", workload())["spec"]
    assert {key: job[key] for key in ("completions", "parallelism", "backoffLimit", "completionMode", "suspend")} == {
        "completions": 1,
        "parallelism": 1,
        "backoffLimit": 6,
        "completionMode": "NonIndexed",
        "suspend": False,
    }
    assert "completions" not in defaulted("Job", workload(parallelism=3))["spec"]


def test_claim_templates_of_a_stateful_set_can_be_mounted() -> None:
    claim = {
        "metadata": {"name": "v"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    obj = workload(volumeClaimTemplates=[claim])
    obj["spec"]["template"]["spec"]["containers"][0]["volumeMounts"] = [{"name": "v", "mountPath": "/v"}]
    assert messages("StatefulSet", obj) == []


@pytest.mark.parametrize(
    ("kind", "spec", "words"),
    [
        ("Deployment", {"replicas": -1}, "spec.replicas: Invalid value: -1: must be greater than or equal to 0"),
        (
            "Deployment",
            {"strategy": {"type": "Recreate", "rollingUpdate": {}}},
            "spec.strategy.rollingUpdate: Forbidden: may not be specified when strategy `type` is 'Recreate'",
        ),
        (
            "Deployment",
            {"strategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}}},
            "spec.strategy.rollingUpdate.maxUnavailable: Invalid value: 0: may not be 0 when `maxSurge` is 0",
        ),
        (
            "Deployment",
            {"strategy": {"rollingUpdate": {"maxSurge": "many"}}},
            "spec.strategy.rollingUpdate.maxSurge: Invalid value",
        ),
        (
            "Deployment",
            {"progressDeadlineSeconds": 5, "minReadySeconds": 5},
            "spec.progressDeadlineSeconds: Invalid value: 5: must be greater than minReadySeconds",
        ),
        (
            "ReplicaSet",
            {"template": {**TEMPLATE, "spec": {**TEMPLATE["spec"], "restartPolicy": "Never"}}},
            'spec.template.spec.restartPolicy: Unsupported value: "Never": supported values: "Always"',
        ),
        ("StatefulSet", {"podManagementPolicy": "Wild"}, "spec.podManagementPolicy: Unsupported value"),
        (
            "DaemonSet",
            {"updateStrategy": {"rollingUpdate": {"maxUnavailable": 0}}},
            "spec.updateStrategy.rollingUpdate.maxUnavailable: Required value: cannot be 0 when maxSurge is 0",
        ),
        (
            "Job",
            {"completionMode": "Indexed", "parallelism": 2},
            "spec.completions: Required value: when completion mode is Indexed",
        ),
        ("Job", {"backoffLimit": -1}, "spec.backoffLimit: Invalid value: -1"),
    ],
)
def test_invalid_workloads_are_refused(kind: str, spec: Manifest, words: str) -> None:
    found = messages(kind, workload(**spec))
    assert any(name.startswith(words) for name in found), found


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"minAvailable": 1, "maxUnavailable": 1}, "minAvailable and maxUnavailable cannot be both set"),
        ({"minAvailable": "120%"}, 'spec.minAvailable: Invalid value: "120%": must not be greater than 100%'),
        ({"minAvailable": -1}, "spec.minAvailable: Invalid value: -1: must be greater than or equal to 0"),
        (
            {"selector": {"matchExpressions": [{"key": "a", "operator": "In"}]}},
            "must be specified when `operator` is 'In' or 'NotIn'",
        ),
    ],
)
def test_invalid_budgets_are_refused(spec: Manifest, words: str) -> None:
    found = messages("PodDisruptionBudget", {"spec": spec})
    assert any(words in name for name in found), found


def test_a_service() -> None:
    spec = defaulted("Service", {"spec": {"ports": [{"port": 80}]}})["spec"]
    assert spec["ports"] == [{"port": 80, "protocol": "TCP", "targetPort": 80}]
    assert (spec["type"], spec["sessionAffinity"], spec["internalTrafficPolicy"]) == ("ClusterIP", "None", "Cluster")
    assert messages("Service", {"spec": {}}) == ["spec.ports: Required value"]
    assert messages("Service", {"spec": {"clusterIP": "None"}}) == []
    assert "spec.ports[0].name: Required value" in messages(
        "Service", {"spec": {"ports": [{"port": 1}, {"port": 2, "name": "b"}]}}
    )
    assert messages("Service", {"spec": {"type": "ExternalName"}}) == ["spec.externalName: Required value"]


def test_a_secret_stores_text_as_data() -> None:
    assert defaulted("Secret", {"stringData": {"a": "text"}, "data": {"b": "Yg=="}}) == {
        "type": "Opaque",
        "data": {"a": "dGV4dA==", "b": "Yg=="},
    }
    assert messages("Secret", {"type": "kubernetes.io/tls", "data": {"tls.crt": "YQ=="}}) == [
        "data[tls.key]: Required value"
    ]
    old = {"type": "Opaque", "immutable": True, "data": {"a": "YQ=="}}
    assert messages("Secret", {"type": "Opaque", "immutable": True, "data": {"a": "Yg=="}}, old) == [
        "data: Forbidden: field is immutable when `immutable` is set"
    ]


def test_a_config_map() -> None:
    assert messages("ConfigMap", {"data": {"a.txt": "x"}, "binaryData": {"b": "YQ=="}}) == []
    assert messages("ConfigMap", {"data": {"a/b": "x"}})[0].startswith(
        'data[a/b]: Invalid value: "a/b": a valid config key'
    )
    assert messages("ConfigMap", {"data": {"a": "x"}, "binaryData": {"a": "YQ=="}})[0].startswith(
        "data[a]: Invalid value"
    )
    assert messages("ConfigMap", {"data": {"a": "x" * 1_100_000}})[0].endswith(
        "Too long: may not be more than 1048576 bytes"
    )


def test_volumes_claims_and_classes() -> None:
    volume = {"spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/x"}}}
    assert messages("PersistentVolume", volume) == []
    assert volume["spec"]["persistentVolumeReclaimPolicy"] == "Retain"
    local = {"spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "local": {"path": "/x"}}}
    assert messages("PersistentVolume", local) == [
        "spec.nodeAffinity: Required value: Local volume requires node affinity"
    ]
    assert messages("PersistentVolumeClaim", {"spec": {}}) == [
        "spec.accessModes: Required value: at least 1 access mode is required",
        "spec.resources[storage]: Required value",
    ]
    storage = {"provisioner": "example.com/x"}
    assert messages("StorageClass", storage) == []
    assert storage == {"provisioner": "example.com/x", "reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"}
    assert messages("StorageClass", {"provisioner": "example.com/y"}, storage) == [
        "provisioner: Forbidden: updates to provisioner are forbidden."
    ]


def test_nodes() -> None:
    node = defaulted("Node", {"status": {"capacity": {"cpu": 4}}})
    assert node["status"]["allocatable"] == {"cpu": "4"}
    taint = {"key": "k", "effect": "NoSchedule"}
    found = messages("Node", {"spec": {"taints": [taint, taint]}})
    assert len(found) == 1
    assert "taints must be unique by key and effect pair" in found[0]
    assert messages("Node", {"spec": {"taints": [{"key": "k", "effect": "Never"}]}})[0].startswith(
        "spec.taints[0].effect: Unsupported"
    )


def test_priority_classes_leases_and_events() -> None:
    assert defaulted("PriorityClass", {}) == {"preemptionPolicy": "PreemptLowerPriority", "value": 0}
    assert messages("PriorityClass", {"preemptionPolicy": "Sometimes"})[0].startswith(
        "preemptionPolicy: Unsupported value"
    )
    assert messages("Lease", {"spec": {"leaseDurationSeconds": 0}}) == [
        "spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0"
    ]
    event = {"metadata": {"namespace": "a"}, "involvedObject": {"namespace": "b"}}
    assert messages("Event", event) == ['involvedObject.namespace: Invalid value: "b": does not match event.namespace']
    assert (
        messages("Event", {"metadata": {"namespace": "default"}, "involvedObject": {"kind": "Node", "name": "n"}}) == []
    )


def hook(**fields: Any) -> Manifest:
    return {
        "webhooks": [
            {
                "name": "a.example.com",
                "clientConfig": {"url": "https://127.0.0.1:1/"},
                "admissionReviewVersions": ["v1"],
                "sideEffects": "None",
                "rules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}],
                **fields,
            }
        ]
    }


def test_webhook_defaults() -> None:
    obj = defaulted("MutatingWebhookConfiguration", hook())
    (one,) = obj["webhooks"]
    assert {key: one[key] for key in ("failurePolicy", "matchPolicy", "timeoutSeconds", "reinvocationPolicy")} == {
        "failurePolicy": "Fail",
        "matchPolicy": "Equivalent",
        "timeoutSeconds": 10,
        "reinvocationPolicy": "Never",
    }
    assert (one["namespaceSelector"], one["objectSelector"], one["rules"][0]["scope"]) == ({}, {}, "*")
    assert one["rules"][0]["apiGroups"] == [""]
    assert messages("MutatingWebhookConfiguration", hook()) == []


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"name": "short"}, "should be a domain with at least three segments separated by dots"),
        ({"sideEffects": None}, "webhooks[0].sideEffects: Required value: must specify one of None, NoneOnDryRun"),
        ({"timeoutSeconds": 31}, "the timeout value must be between 1 and 30 seconds"),
        ({"clientConfig": {}}, "webhooks[0].clientConfig: Required value: exactly one of url or service is required"),
        ({"clientConfig": {"url": "http://x/"}}, "'https' is the only allowed URL scheme"),
        ({"admissionReviewVersions": ["v9"]}, "must include at least one of v1, v1beta1"),
        ({"failurePolicy": "Shrug"}, "webhooks[0].failurePolicy: Unsupported value"),
    ],
)
def test_invalid_webhooks_are_refused(fields: Manifest, words: str) -> None:
    found = messages("MutatingWebhookConfiguration", hook(**fields))
    assert any(words in name for name in found), found

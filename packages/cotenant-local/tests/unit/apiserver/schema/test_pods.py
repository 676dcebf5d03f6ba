"""Pods: the defaults and validation messages of a real server."""

from __future__ import annotations

from typing import Any

import pytest

from cotenant.drivers.kube.manifests.errors import Manifest
from cotenant_local.apiserver.schema.builtin import builtin_schema

POD = builtin_schema("", "v1", "Pod")


def pod(container: Manifest | None = None, **spec: Any) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "x"},
        "spec": {"containers": [{"name": "c", "image": "i", **(container or {})}], **spec},
    }


def defaulted(obj: Manifest) -> Manifest:
    POD.prune(obj)
    POD.default(obj)
    return obj


def messages(obj: Manifest) -> list[str]:
    return [f"{cause.field}: {cause.message}" for cause in POD.validate(defaulted(obj), None)]


def test_defaults_of_a_minimal_pod() -> None:
    assert defaulted(pod())["spec"] == {
        "containers": [
            {
                "name": "c",
                "image": "i",
                "imagePullPolicy": "Always",
                "terminationMessagePath": "/dev/termination-log",
                "terminationMessagePolicy": "File",
                "resources": {},
            }
        ],
        "restartPolicy": "Always",
        "dnsPolicy": "ClusterFirst",
        "terminationGracePeriodSeconds": 30,
        "schedulerName": "default-scheduler",
        "securityContext": {},
        "enableServiceLinks": True,
    }


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("i", "Always"),
        ("i:latest", "Always"),
        ("host:5000/i", "Always"),
        ("host:5000/i:1.2", "IfNotPresent"),
        ("i@sha256:abc", "IfNotPresent"),
    ],
)
def test_the_pull_policy_follows_the_tag(image: str, policy: str) -> None:
    assert defaulted(pod({"image": image}))["spec"]["containers"][0]["imagePullPolicy"] == policy


def test_defaults_of_requests_ports_and_probes() -> None:
    container = defaulted(
        pod(
            {
                "resources": {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m"}},
                "ports": [{"containerPort": 80}],
                "livenessProbe": {"httpGet": {"port": 80}},
                "env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
            }
        )
    )["spec"]["containers"][0]
    assert container["resources"]["requests"] == {"cpu": "500m", "memory": "1Gi"}
    assert container["ports"] == [{"containerPort": 80, "protocol": "TCP"}]
    assert container["livenessProbe"] == {
        "httpGet": {"port": 80, "path": "/", "scheme": "HTTP"},
        "timeoutSeconds": 1,
        "periodSeconds": 10,
        "successThreshold": 1,
        "failureThreshold": 3,
    }
    assert container["env"][0]["valueFrom"]["fieldRef"]["apiVersion"] == "v1"


def test_host_network_defaults_host_ports() -> None:
    obj = defaulted(pod({"ports": [{"containerPort": 80}]}, hostNetwork=True))
    assert obj["spec"]["containers"][0]["ports"][0]["hostPort"] == 80


def test_defaults_of_volumes() -> None:
    volumes = [{"name": "a"}, {"name": "b", "configMap": {"name": "m"}}, {"name": "c", "hostPath": {"path": "/x"}}]
    assert defaulted(pod(volumes=volumes))["spec"]["volumes"] == [
        {"name": "a", "emptyDir": {}},
        {"name": "b", "configMap": {"name": "m", "defaultMode": 420}},
        {"name": "c", "hostPath": {"path": "/x", "type": ""}},
    ]


def test_both_service_account_fields_are_set() -> None:
    spec = defaulted(pod(serviceAccountName="robot"))["spec"]
    assert spec["serviceAccount"] == "robot"


C = "spec.containers[0]"


@pytest.mark.parametrize(
    ("container", "words"),
    [
        ({"image": ""}, f"{C}.image: Required value"),
        ({"name": ""}, f"{C}.name: Required value"),
        ({"name": "A_b"}, f'{C}.name: Invalid value: "A_b": a lowercase RFC 1123 label must consist of'),
        (
            {"imagePullPolicy": "Maybe"},
            f'{C}.imagePullPolicy: Unsupported value: "Maybe": supported values: "Always", "IfNotPresent", "Never"',
        ),
        ({"ports": [{"containerPort": 0}]}, f"{C}.ports[0].containerPort: Required value"),
        (
            {"ports": [{"containerPort": 70000}]},
            f"{C}.ports[0].containerPort: Invalid value: 70000: must be between 1 and 65535, inclusive",
        ),
        (
            {"ports": [{"containerPort": 1, "protocol": "X"}]},
            f'{C}.ports[0].protocol: Unsupported value: "X": supported values: "SCTP", "TCP", "UDP"',
        ),
        (
            {"ports": [{"containerPort": 1, "name": "123"}]},
            f'{C}.ports[0].name: Invalid value: "123": must contain at least one letter (a-z)',
        ),
        (
            {"ports": [{"containerPort": 1, "hostPort": 9}, {"containerPort": 2, "hostPort": 9}]},
            f'{C}.ports[1].hostPort: Duplicate value: "TCP//9"',
        ),
        ({"env": [{"name": ""}]}, f"{C}.env[0].name: Required value"),
        (
            {"env": [{"name": "A", "value": "b", "valueFrom": {"fieldRef": {"fieldPath": "x"}}}]},
            f'{C}.env[0].valueFrom: Invalid value: "": may not be specified when `value` is not empty',
        ),
        (
            {"resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}},
            f'{C}.resources.requests: Invalid value: "2": must be less than or equal to cpu limit of 1',
        ),
        (
            {"resources": {"requests": {"cpu": "-1"}}},
            f'{C}.resources.requests[cpu]: Invalid value: "-1": must be greater than or equal to 0',
        ),
        (
            {"resources": {"requests": {"gpus": "1"}}},
            f'{C}.resources.requests: Invalid value: "gpus": must be a standard resource type or fully qualified',
        ),
        (
            {"resources": {"limits": {"nvidia.com/gpu": "500m"}}},
            f'{C}.resources.limits[nvidia.com/gpu]: Invalid value: "500m": must be an integer',
        ),
        (
            {"resources": {"requests": {"nvidia.com/gpu": "1"}}},
            f"{C}.resources.limits: Required value: Limit must be set for non overcommitable resources",
        ),
        ({"volumeMounts": [{"name": "v", "mountPath": "/x"}]}, f'{C}.volumeMounts[0].name: Not found: "v"'),
        ({"livenessProbe": {"periodSeconds": 1}}, f"{C}.livenessProbe: Required value: must specify a handler type"),
        (
            {"livenessProbe": {"exec": {}, "successThreshold": 2}},
            f"{C}.livenessProbe.successThreshold: Invalid value: 2: must be 1",
        ),
        ({"restartPolicy": "Always"}, f"{C}.restartPolicy: Forbidden: may not be set for non-init containers"),
    ],
)
def test_invalid_containers_are_refused(container: Manifest, words: str) -> None:
    found = messages(pod(container))
    assert any(name.startswith(words) for name in found), found


TERM = "requiredDuringSchedulingIgnoredDuringExecution"


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"containers": []}, "spec.containers: Required value"),
        ({"containers": [{"name": "c", "image": "i"}] * 2}, 'spec.containers[1].name: Duplicate value: "c"'),
        ({"initContainers": [{"name": "c", "image": "i"}]}, 'spec.initContainers[0].name: Duplicate value: "c"'),
        (
            {"initContainers": [{"name": "j", "image": "i", "readinessProbe": {"exec": {}}}]},
            "spec.initContainers[0].readinessProbe: Forbidden: may not be set for init containers without "
            "restartPolicy=Always",
        ),
        (
            {"restartPolicy": "Perhaps"},
            'spec.restartPolicy: Unsupported value: "Perhaps": supported values: "Always", "Never", "OnFailure"',
        ),
        (
            {"terminationGracePeriodSeconds": -1},
            "spec.terminationGracePeriodSeconds: Invalid value: -1: must be greater than or equal to 0",
        ),
        (
            {"activeDeadlineSeconds": 0},
            "spec.activeDeadlineSeconds: Invalid value: 0: must be between 1 and 2147483647, inclusive",
        ),
        ({"nodeSelector": {"a b": "c"}}, 'spec.nodeSelector: Invalid value: "a b": name part must consist of'),
        (
            {"tolerations": [{"operator": "Equal"}]},
            'spec.tolerations[0].operator: Invalid value: "Equal": operator must be Exists when `key` is empty',
        ),
        (
            {"tolerations": [{"key": "k", "operator": "Exists", "tolerationSeconds": 1}]},
            "spec.tolerations[0].effect: Invalid value: \"\": effect must be 'NoExecute' when `tolerationSeconds` is "
            "set",
        ),
        (
            {"topologySpreadConstraints": [{"maxSkew": 0, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule"}]},
            "spec.topologySpreadConstraints[0].maxSkew: Invalid value: 0: must be greater than zero",
        ),
        (
            {
                "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule"}]
                * 2
            },
            'spec.topologySpreadConstraints[1].{topologyKey, whenUnsatisfiable}: Duplicate value: "{z, DoNotSchedule}"',
        ),
        (
            {"affinity": {"nodeAffinity": {TERM: {"nodeSelectorTerms": []}}}},
            f"spec.affinity.nodeAffinity.{TERM}.nodeSelectorTerms: Required value: must have at least one node "
            "selector term",
        ),
        (
            {
                "affinity": {
                    "nodeAffinity": {
                        TERM: {"nodeSelectorTerms": [{"matchExpressions": [{"key": "k", "operator": "Gt"}]}]}
                    }
                }
            },
            f"spec.affinity.nodeAffinity.{TERM}.nodeSelectorTerms[0].matchExpressions[0].values: Required value: must "
            "be specified single",
        ),
        (
            {"affinity": {"podAntiAffinity": {TERM: [{"topologyKey": ""}]}}},
            f"spec.affinity.podAntiAffinity.{TERM}[0].topologyKey: Required value: can not be empty",
        ),
        (
            {"volumes": [{"name": "v", "emptyDir": {}, "hostPath": {"path": "/"}}]},
            "spec.volumes[0].hostPath: Forbidden: may not specify more than 1",
        ),
        (
            {"volumes": [{"name": "v", "persistentVolumeClaim": {}}]},
            "spec.volumes[0].persistentVolumeClaim.claimName: Required value",
        ),
        ({"schedulingGates": [{"name": "g"}, {"name": "g"}]}, 'spec.schedulingGates[1].name: Duplicate value: "g"'),
        ({"overhead": {"cpu": "-1"}}, 'spec.overhead.limits[cpu]: Invalid value: "-1"'),
    ],
)
def test_invalid_specs_are_refused(spec: Manifest, words: str) -> None:
    found = messages(pod(**spec))
    assert any(name.startswith(words) for name in found), found


def test_a_restartable_init_container_may_have_probes() -> None:
    sidecar = {"name": "s", "image": "i", "restartPolicy": "Always", "startupProbe": {"exec": {"command": ["true"]}}}
    assert messages(pod(initContainers=[sidecar])) == []


def test_all_scheduling_directives_are_accepted() -> None:
    selector = {"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "c", "operator": "In", "values": ["d"]}]}
    term = {"labelSelector": selector, "topologyKey": "kubernetes.io/hostname"}
    requirement = [{"key": "n", "operator": "Gt", "values": ["3"]}, {"key": "e", "operator": "Exists"}]
    preferred = "preferredDuringSchedulingIgnoredDuringExecution"
    assert (
        messages(
            pod(
                affinity={
                    "nodeAffinity": {
                        TERM: {"nodeSelectorTerms": [{"matchExpressions": requirement}]},
                        preferred: [{"weight": 1, "preference": {"matchExpressions": requirement}}],
                    },
                    "podAffinity": {TERM: [term], preferred: [{"weight": 100, "podAffinityTerm": term}]},
                },
                tolerations=[{"operator": "Exists"}, {"key": "k", "value": "v", "effect": "NoSchedule"}],
                topologySpreadConstraints=[
                    {
                        "maxSkew": 1,
                        "topologyKey": "zone",
                        "whenUnsatisfiable": "DoNotSchedule",
                        "minDomains": 2,
                        "labelSelector": selector,
                    }
                ],
                schedulingGates=[{"name": "example.com/gate"}],
            )
        )
        == []
    )


@pytest.mark.parametrize(
    ("requests", "limits", "refused"),
    [
        ({"kubernetes.io/batch-cpu": "1000"}, {"kubernetes.io/batch-cpu": "2000"}, ""),
        ({"kubernetes.io/batch-memory": "0.1Gi"}, {"kubernetes.io/batch-memory": "0.1Gi"}, ""),
        ({"kubernetes.io/batch-cpu": "1000"}, {}, ""),
        ({"kubernetes.io/batch-cpu": "2000"}, {"kubernetes.io/batch-cpu": "1000"}, "must be less than or equal to"),
        ({"x.kubernetes.io/y": "1"}, {"x.kubernetes.io/y": "2"}, ""),
        ({"koordinator.sh/gpu-core": "50"}, {"koordinator.sh/gpu-core": "100"}, "must be equal to"),
        ({"nvidia.com/gpu": "0.5"}, {"nvidia.com/gpu": "0.5"}, "must be an integer"),
        ({"nvidia.com/gpu": "1"}, {}, "Limit must be set"),
        ({"hugepages-2Mi": "2Mi"}, {"hugepages-2Mi": "4Mi"}, "must be equal to"),
    ],
)
def test_names_of_kubernetes_own_may_be_overcommitted_and_divided(
    requests: Manifest, limits: Manifest, refused: str
) -> None:
    found = messages(pod({"name": "c", "image": "i", "resources": {"requests": requests, "limits": limits}}))
    assert any(refused in name for name in found) if refused else found == []

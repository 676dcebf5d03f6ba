"""Charts in the shape of much used public ones, written for this test: Helm itself installs each on a local
cluster, and everything in it becomes ready. What they bring, by kind, is what those bring.

Left out, since it is not served: APIServices. Needs helm.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.conftest import Dead
from tests.e2e.running import Client, Up, run
from tests.fakes.waiting import patience
from tests.unit.deploy.chart import helm_only

pytestmark = [pytest.mark.slow, helm_only]
Object = dict[str, Any]
RELEASE, NAMESPACE = "{{ .Release.Name }}", "{{ .Release.Namespace }}"
LABELS = {"app.kubernetes.io/instance": RELEASE}


def named(kind: str, suffix: str = "", api: str = "v1", **fields: Any) -> Object:
    metadata = {"name": RELEASE + suffix, "labels": LABELS, **fields.pop("metadata", {})}
    return {"apiVersion": api, "kind": kind, "metadata": metadata, **fields}


def pod(part: str, **more: Any) -> Object:
    container = {
        "name": part,
        "image": f"registry.example/{part}:1",
        "ports": [{"name": "http", "containerPort": 8080}],
        "resources": {"requests": {"cpu": "50m", "memory": "32Mi"}, "limits": {"memory": "64Mi"}},
        "readinessProbe": {"httpGet": {"path": "/ready", "port": "http"}},
        "securityContext": {"runAsNonRoot": True, "capabilities": {"drop": ["ALL"]}},
    }
    spec = {"schedulerName": "cotenant", "serviceAccountName": RELEASE, "containers": [container], **more}
    return {"metadata": {"labels": {**LABELS, "part": part}}, "spec": spec}


def workload(kind: str, part: str, template: Object | None = None, **spec: Any) -> Object:
    selector = {"matchLabels": {**LABELS, "part": part}}
    return named(kind, f"-{part}", "apps/v1", spec={"selector": selector, "template": template or pod(part), **spec})


def service(part: str, **spec: Any) -> Object:
    ports = [{"name": "http", "port": 80, "targetPort": "http"}]
    return named("Service", f"-{part}", spec={"selector": {**LABELS, "part": part}, "ports": ports, **spec})


def stateful(part: str, replicas: int, **spec: Any) -> list[Object]:
    claim = {
        "metadata": {"name": "data"},
        "spec": {
            "storageClassName": "charts",
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }
    extra = {"replicas": replicas, "serviceName": f"{RELEASE}-{part}", "volumeClaimTemplates": [claim], **spec}
    budget = {"maxUnavailable": 1, "selector": {"matchLabels": {**LABELS, "part": part}}}
    return [
        service(part, clusterIP="None"),
        workload("StatefulSet", part, **extra),
        named("PodDisruptionBudget", f"-{part}", "policy/v1", spec=budget),
    ]


def policy() -> Object:
    allowed = {"podSelector": {"matchLabels": LABELS}, "ingress": [{"ports": [{"port": 8080}]}]}
    return named("NetworkPolicy", "", "networking.k8s.io/v1", spec={**allowed, "policyTypes": ["Ingress"]})


def ingress(part: str) -> Object:
    backend = {"service": {"name": f"{RELEASE}-{part}", "port": {"name": "http"}}}
    rule = {
        "host": f"{RELEASE}.example.org",
        "http": {"paths": [{"path": "/", "pathType": "Prefix", "backend": backend}]},
    }
    return named("Ingress", "", "networking.k8s.io/v1", spec={"rules": [rule]})


def rights(verbs: list[str], *resources: str) -> list[Object]:
    api, group = "rbac.authorization.k8s.io/v1", "rbac.authorization.k8s.io"
    subject = {"kind": "ServiceAccount", "name": RELEASE, "namespace": NAMESPACE}
    rules = [{"apiGroups": [""], "resources": list(resources), "verbs": verbs}]
    return [
        named("ClusterRole", "", api, rules=rules),
        named(
            "ClusterRoleBinding", "", api,
            roleRef={"apiGroup": group, "kind": "ClusterRole", "name": RELEASE}, subjects=[subject],
        ),
        named("Role", "", api, rules=[{"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["*"]}]),
        named(
            "RoleBinding", "", api,
            roleRef={"apiGroup": group, "kind": "Role", "name": RELEASE}, subjects=[subject],
        ),
    ]  # fmt: skip


def webhook(kind: str) -> Object:
    """A webhook that is never asked: its service is not reachable from here."""
    hook = {
        "name": "hook.example.org",
        "clientConfig": {"service": {"name": RELEASE, "namespace": NAMESPACE, "path": "/check"}},
        "rules": [
            {"apiGroups": ["none.example.org"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["x"]}
        ],
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
    }
    return named(kind, "", "admissionregistration.k8s.io/v1", webhooks=[hook])


def definition(kind: str, scope: str = "Namespaced") -> Object:
    plural, group = f"{kind.lower()}s", f"{RELEASE}.example.org"
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema, "subresources": {"status": {}}}
    made = named("CustomResourceDefinition", "", "apiextensions.k8s.io/v1")
    made["metadata"]["name"] = f"{plural}.{group}"
    names = {"plural": plural, "singular": kind.lower(), "kind": kind, "listKind": f"{kind}List"}
    made["spec"] = {"group": group, "scope": scope, "names": names, "versions": [version]}
    return made


def hooked(made: Object, when: str) -> Object:
    made["metadata"]["annotations"] = {"helm.sh/hook": when, "helm.sh/hook-delete-policy": "before-hook-creation"}
    return made


def settings() -> list[Object]:
    return [named("ConfigMap", data={"a.conf": "on"}), named("Secret", stringData={"password": "secret"})]


def ingress_class() -> Object:
    return named("IngressClass", "", "networking.k8s.io/v1", spec={"controller": "example.org/ingress"})


def bounds() -> list[Object]:
    hard = {"pods": "20", "requests.cpu": "2", "count/configmaps": "50"}
    limit = {"type": "Container", "defaultRequest": {"cpu": "50m"}, "max": {"cpu": "1"}}
    return [named("ResourceQuota", spec={"hard": hard}), named("LimitRange", spec={"limits": [limit]})]


def scaler(part: str) -> Object:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": f"{RELEASE}-{part}"}
    use = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}
    spec = {"scaleTargetRef": target, "maxReplicas": 3, "metrics": [{"type": "Resource", "resource": use}]}
    return named("HorizontalPodAutoscaler", f"-{part}", "autoscaling/v2", spec=spec)


def claim(part: str) -> Object:
    size = {"requests": {"storage": "1Gi"}}
    spec = {"storageClassName": "charts", "accessModes": ["ReadWriteOnce"], "resources": size}
    return named("PersistentVolumeClaim", f"-{part}", spec=spec)


def keeping(part: str) -> Object:
    """A pod with a claim of the chart's."""
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": f"{RELEASE}-{part}"}}
    return pod(part, volumes=[volume])


def backup() -> Object:
    template = pod("backup", restartPolicy="OnFailure")
    spec = {"schedule": "0 3 * * *", "jobTemplate": {"spec": {"template": template}}}
    return named("CronJob", "-backup", "batch/v1", spec=spec)


CHARTS: dict[str, Callable[[], list[Object]]] = {
    "ingress-controller": lambda: [
        *rights(["get", "list", "watch"], "services", "endpoints", "secrets"), *settings(), ingress_class(),
        workload("DaemonSet", "controller"), service("controller", type="NodePort"),
        webhook("ValidatingWebhookConfiguration"), hooked(named("ConfigMap", "-patch"), "pre-install"),
    ],
    "redis": lambda: [*settings(), policy(), *stateful("master", 1), *stateful("replicas", 2)],
    "cert-manager": lambda: [
        definition("Issuer"), *rights(["*"], "secrets", "events"), workload("Deployment", "controller"),
        workload("Deployment", "webhook"), service("webhook"), webhook("MutatingWebhookConfiguration"),
        webhook("ValidatingWebhookConfiguration"),
    ],
    "web": lambda: [workload("Deployment", "web", replicas=2), service("web"), ingress("web"), policy()],
    "external-dns": lambda: [
        definition("Endpoint"), *rights(["get", "list"], "services", "nodes"), workload("Deployment", "dns"),
    ],
    "prometheus": lambda: [
        *settings(), *rights(["get", "list", "watch"], "nodes", "pods", "services", "endpoints"), claim("server"),
        workload("Deployment", "server", keeping("server")), service("server"), workload("DaemonSet", "exporter"),
        service("exporter", clusterIP="None"), workload("Deployment", "state"), service("state"),
        *stateful("alerts", 1),
    ],
    "postgresql": lambda: [*settings(), policy(), *stateful("primary", 1), *stateful("read", 1), backup()],
    "argo": lambda: [
        definition("Application"), *rights(["*"], "secrets", "configmaps", "events"), *settings(),
        workload("StatefulSet", "controller", serviceName=f"{RELEASE}-controller"), workload("Deployment", "server"),
        service("server"), scaler("server"), workload("Deployment", "repo"), service("repo"), scaler("repo"), policy(),
        hooked(named("Secret", "-init", stringData={"auth": "x"}), "pre-install,pre-upgrade"),
    ],
    "grafana": lambda: [
        *settings(), claim("web"), workload("Deployment", "web", keeping("web")), service("web"), ingress("web"),
        scaler("web"), hooked(named("Pod", "-test", spec={"containers": [{"name": "t", "image": "t:1"}]}), "test"),
    ],
    "tenant": lambda: [*bounds(), workload("Deployment", "agent"), policy()],
}  # fmt: skip


@pytest.fixture(scope="module")
def storage(api: Client) -> None:
    """A class that gives simulated volumes: the local cluster has none of its own, and no default."""
    made = {"metadata": {"name": "charts"}, "provisioner": "cotenant.io/local"}
    api.create("/apis/storage.k8s.io/v1/storageclasses", made)


@pytest.mark.parametrize("name", CHARTS)
def test_helm_installs_it_and_all_of_it_becomes_ready(
    up: Up, api: Client, dead: Dead, storage: None, tmp_path: Path, name: str
) -> None:
    namespace = f"chart-{name}"
    folder = tmp_path / name
    (folder / "templates").mkdir(parents=True)
    (folder / "Chart.yaml").write_text(f"apiVersion: v2\nname: {name}\nversion: 1.0.0\n")
    objects = [named("ServiceAccount"), *CHARTS[name]()]
    (folder / "templates" / "all.yaml").write_text("\n---\n".join(json.dumps(one) for one in objects))
    where = ("--kubeconfig", up.kubeconfig, "--namespace", namespace)
    bound = ("--timeout-s", round(patience(120)))
    done = run("app", "install", name, folder, "--create-namespace", *bound, *where, within_s=240.0)
    assert done.returncode == 0, done.stdout + done.stderr
    shown = json.loads(run("app", "show", name, "--json", *where, within_s=90.0).stdout)
    hooks = sum("helm.sh/hook" in one["metadata"].get("annotations", {}) for one in objects)
    assert len(shown["objects"]) == len(objects) - hooks
    assert [one for one in shown["objects"] if one["ready"] < one["wanted"]] == []
    assert run("app", "uninstall", name, *where, within_s=120.0).returncode == 0
    api.delete(f"/api/v1/namespaces/{namespace}")

"""The real kubectl in common workflows."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.waiting import patience
from tools.tree import ROOT

pytestmark = pytest.mark.slow
BOUND = f"--timeout={patience(20):.0f}s"

_DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {app: web}}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - name: c
        image: registry.example/web:1
        ports: [{containerPort: 80}]
        resources: {requests: {cpu: 100m, memory: 64Mi}}
"""
_POD = """
apiVersion: v1
kind: Pod
metadata: {name: p, labels: {app: p}}
spec:
  containers: [{name: c, image: registry.example/app:1}]
"""


def test_apply_get_describe_delete(kubectl: Any) -> None:
    assert "deployment.apps/web created" in kubectl("apply", "-f", "-", text=_DEPLOYMENT)
    assert "deployment.apps/web unchanged" in kubectl("apply", "-f", "-", text=_DEPLOYMENT)
    assert "deployment.apps/web configured" in kubectl("apply", "-f", "-", text=_DEPLOYMENT.replace("web:1", "web:2"))
    head, row = kubectl("get", "deployments", "-o", "wide").splitlines()
    assert head.split() == ["NAME", "READY", "UP-TO-DATE", "AVAILABLE", "AGE", "CONTAINERS", "IMAGES", "SELECTOR"]
    assert row.split()[0] == "web"
    assert row.split()[-3:] == ["c", "registry.example/web:2", "app=web"]
    description = kubectl("describe", "deployment", "web")
    assert "Image:" in description
    assert "registry.example/web:2" in description
    assert 'deployment.apps "web" deleted' in kubectl("delete", "deployment", "web")
    assert "No resources found" in kubectl.run("get", "deployments").stderr


def test_get_in_every_output_format(kubectl: Any) -> None:
    kubectl("apply", "-f", "-", text=_POD)
    assert kubectl("get", "pods", "-o", "name").strip() == "pod/p"
    assert kubectl("get", "pod", "p", "-o", "jsonpath={.spec.containers[0].image}") == "registry.example/app:1"
    assert json.loads(kubectl("get", "po", "-l", "app=p", "-o", "json"))["items"][0]["metadata"]["name"] == "p"
    assert "kind: Pod" in kubectl("get", "pod", "p", "-o", "yaml")
    assert "p" in kubectl("get", "pods", "--sort-by=.metadata.name")
    assert "app=p" in kubectl("get", "pods", "--show-labels")
    assert kubectl("get", "pods", "-o", "custom-columns=N:.metadata.name,P:.status.phase").split() == [
        "N",
        "P",
        "p",
        "Pending",
    ]
    assert "NotFound" in kubectl.run("get", "pod", "nobody").stderr


def test_api_resources_and_explain(kubectl: Any) -> None:
    resources = kubectl("api-resources", "--namespaced=true", "-o", "name").split()
    assert {"pods", "deployments.apps", "jobs.batch", "events.events.k8s.io"} <= set(resources)
    assert "apps/v1" in kubectl("api-versions")
    told = kubectl("explain", "deployment.spec.template.spec.containers.resources")
    assert "requests" in told
    assert "integer" in kubectl("explain", "deployments.spec.replicas")


def test_edit(kubectl: Any) -> None:
    kubectl("create", "configmap", "c", "--from-literal=a=before")
    kubectl("edit", "configmap", "c", environment={"EDITOR": "sed -i s/before/after/"})
    assert kubectl("get", "configmap", "c", "-o", "jsonpath={.data.a}") == "after"


def test_label_annotate_and_the_three_patches(kubectl: Any) -> None:
    kubectl("apply", "-f", "-", text=_POD)
    kubectl("label", "pod", "p", "tier=back")
    kubectl("annotate", "pod", "p", "note=hello")
    kubectl("patch", "pod", "p", "--type", "strategic", "-p", '{"metadata":{"labels":{"s":"1"}}}')
    kubectl("patch", "pod", "p", "--type", "merge", "-p", '{"metadata":{"labels":{"m":"1"}}}')
    kubectl("patch", "pod", "p", "--type", "json", "-p", '[{"op":"add","path":"/metadata/labels/j","value":"1"}]')
    labels = json.loads(kubectl("get", "pod", "p", "-o", "json"))["metadata"]["labels"]
    assert labels == {"app": "p", "tier": "back", "s": "1", "m": "1", "j": "1"}


def test_scale_and_rollout(kubectl: Any) -> None:
    kubectl("apply", "-f", "-", text=_DEPLOYMENT.replace("replicas: 2", "replicas: 0"))
    kubectl("scale", "deployment", "web", "--replicas=3")
    assert kubectl("get", "deployment", "web", "-o", "jsonpath={.spec.replicas}") == "3"
    kubectl("rollout", "pause", "deployment", "web")
    waiting = kubectl.start("rollout", "status", "deployment", "web", BOUND)
    assert waiting.stdout is not None
    try:
        assert "Waiting for" in waiting.stdout.readline()
    finally:
        waiting.kill()
        waiting.communicate()


def test_create_typed_objects(kubectl: Any) -> None:
    kubectl("create", "configmap", "c", "--from-literal=a=b")
    kubectl("create", "secret", "generic", "s", "--from-literal=user=me")
    assert kubectl("get", "secret", "s", "-o", "jsonpath={.data.user}") == "bWU="
    kubectl("create", "job", "j", "--image=registry.example/job:1", "--", "true")
    kubectl("create", "serviceaccount", "a")
    kubectl("run", "r", "--image=registry.example/app:1", "--restart=Never")
    assert kubectl("get", "pod", "r", "-o", "jsonpath={.spec.restartPolicy}") == "Never"
    kubectl("create", "service", "clusterip", "svc", "--tcp=80:8080")
    assert "80/TCP" in kubectl("get", "service", "svc")


def test_dry_runs_change_nothing(kubectl: Any) -> None:
    assert "created" in kubectl("create", "deployment", "d", "--image=i", "--dry-run=server")
    assert "NotFound" in kubectl.run("get", "deployment", "d").stderr
    assert "created (server dry run)" in kubectl("apply", "--dry-run=server", "-f", "-", text=_POD)
    assert "NotFound" in kubectl.run("get", "pod", "p").stderr


def test_auth_can_i(kubectl: Any) -> None:
    assert kubectl("auth", "can-i", "create", "pods").strip() == "yes"


def test_diff(kubectl: Any) -> None:
    kubectl("apply", "-f", "-", text=_POD)
    same = kubectl.run("diff", "-f", "-", text=_POD)
    assert (same.returncode, same.stdout) == (0, "")
    differs = kubectl.run("diff", "-f", "-", text=_POD.replace("app:1", "app:2"))
    assert differs.returncode == 1
    assert "+  - image: registry.example/app:2" in differs.stdout


def test_server_side_apply_and_its_conflicts(kubectl: Any) -> None:
    apply = ("apply", "--server-side", "-f", "-")
    assert "serverside-applied" in kubectl(*apply, text=_DEPLOYMENT)
    other = kubectl.run(*apply, "--field-manager=other", text=_DEPLOYMENT.replace("web:1", "web:2"))
    assert other.returncode == 1
    assert "conflict" in other.stderr
    assert '.spec.template.spec.containers[name="c"].image' in other.stderr
    kubectl(*apply, "--field-manager=other", "--force-conflicts", text=_DEPLOYMENT.replace("web:1", "web:2"))


@pytest.mark.parametrize("page", ["deploy.md", "deploy.zh-CN.md"])
def test_the_guide_s_command_takes_kinds_of_a_newer_version_over_from_helm(
    kubectl: Any, tmp_path: Path, page: str
) -> None:
    """Helm makes the kinds and owns their fields: without force the first newer schema is refused as a conflict."""
    lines = (ROOT / "docs" / "guide" / page).read_text().splitlines()
    command = next(line.strip() for line in lines if line.startswith("    kubectl apply") and "chart/crds/" in line)
    _, *words = shlex.split(command, comments=True)
    name = f"{'teapots' if page == 'deploy.md' else 'kettles'}.guide.example"
    kind = f"""
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {{name: {name}}}
spec:
  group: guide.example
  scope: Namespaced
  names: {{kind: {name.partition("s.")[0].title()}, plural: {name.partition(".")[0]}}}
  versions:
    - name: v1
      served: true
      storage: true
      schema: {{openAPIV3Schema: {{type: object, properties: {{old: {{type: string}}}}}}}}
"""
    kubectl("create", "--field-manager=helm", "-f", "-", text=kind)
    try:
        (tmp_path / "kind.yaml").write_text(kind.replace("{old:", "{new: {type: string}, old:"))
        kubectl(*(str(tmp_path) if word == "deploy/chart/crds/" else word for word in words))
        schema = json.loads(kubectl("get", "crd", name, "-o", "json"))["spec"]["versions"][0]["schema"]
        assert sorted(schema["openAPIV3Schema"]["properties"]) == ["new", "old"]
    finally:
        kubectl("delete", "crd", name)


def test_validation_of_unknown_fields(kubectl: Any) -> None:
    wrong = _POD.replace("image:", "imagee:")
    assert "imagee" in kubectl.run("apply", "-f", "-", text=wrong).stderr


def test_cordon_and_drain(kube: Any, kubectl: Any, node: str) -> None:
    kubectl("apply", "-f", "-", text=_POD)
    namespace = json.loads(kubectl("get", "pod", "p", "-o", "json"))["metadata"]["namespace"]
    binding = {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": node}}
    kube.create(f"/api/v1/namespaces/{namespace}/pods/p/binding", binding)
    assert "cordoned" in kubectl("cordon", node)
    assert "SchedulingDisabled" in kubectl("get", "node", node)
    assert "evict" in kubectl("drain", node, "--force", "--ignore-daemonsets", "--grace-period=0", BOUND)
    assert "uncordoned" in kubectl("uncordon", node)
    assert "Allocatable" in kubectl("describe", "node", node)
    kubectl("taint", "node", node, "a=b:NoSchedule")


def test_wait(kube: Any, kubectl: Any, node: str) -> None:
    assert "condition met" in kubectl("wait", "--for=condition=Ready", f"node/{node}", BOUND)
    kubectl("apply", "-f", "-", text=_POD)
    waiting = kubectl.start("wait", "--for=delete", "pod/p", BOUND)
    kubectl("delete", "pod", "p", "--wait=false")
    assert waiting.wait(patience(30)) == 0


def test_get_watch(kubectl: Any) -> None:
    kubectl("apply", "-f", "-", text=_POD)
    watching = kubectl.start("get", "pods", "-w")
    assert watching.stdout is not None
    try:
        assert watching.stdout.readline().startswith("NAME")
        assert watching.stdout.readline().split()[0] == "p"
        kubectl("label", "pod", "p", "x=y")
        assert watching.stdout.readline().split()[0] == "p"
    finally:
        watching.kill()
        watching.communicate()


def test_events_are_described(kube: Any, kubectl: Any) -> None:
    kubectl("apply", "-f", "-", text=_POD)
    pod = json.loads(kubectl("get", "pod", "p", "-o", "json"))
    about = {
        "kind": "Pod",
        "apiVersion": "v1",
        "name": "p",
        "namespace": pod["metadata"]["namespace"],
        "uid": pod["metadata"]["uid"],
    }
    stamp = "2026-01-01T00:00:00Z"
    event = {
        "metadata": {"generateName": "p-"},
        "involvedObject": about,
        "reason": "FailedScheduling",
        "message": "no node fits",
        "type": "Warning",
        "count": 3,
        "firstTimestamp": stamp,
        "lastTimestamp": stamp,
        "source": {"component": "cases"},
    }
    kube.create(f"/api/v1/namespaces/{about['namespace']}/events", event)
    assert "no node fits" in kubectl("describe", "pod", "p")
    row = kubectl("get", "events").splitlines()[1]
    assert row.split()[1:4] == ["Warning", "FailedScheduling", "pod/p"]


def test_a_custom_kind(kube: Any, kubectl: Any, tmp_path: Path) -> None:
    group = f"k{abs(hash(tmp_path)) % 10**8}.example.com"
    definition = f"""
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {{name: gadgets.{group}}}
spec:
  group: {group}
  scope: Namespaced
  names: {{plural: gadgets, singular: gadget, kind: Gadget, shortNames: [gd]}}
  versions:
  - name: v1
    served: true
    storage: true
    additionalPrinterColumns: [{{name: Size, type: integer, jsonPath: .spec.size}}]
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: {{type: object, properties: {{size: {{type: integer, description: How large it is.}}}}}}
"""
    gadget = f"apiVersion: {group}/v1\nkind: Gadget\nmetadata: {{name: g}}\nspec: {{size: 3}}\n"
    kubectl("apply", "-f", "-", text=definition)
    try:
        kubectl("wait", "--for=condition=Established", f"crd/gadgets.{group}", BOUND)
        name = ".".join(reversed(group.split("."))) + ".v1.Gadget"
        kube.eventually("/openapi/v2", lambda document: name in document["definitions"])
        kube.eventually("/openapi/v3", lambda document: f"apis/{group}/v1" in document["paths"])
        assert "created" in kubectl("apply", "-f", "-", text=gadget)
        assert kubectl("get", "gd").split() == ["NAME", "SIZE", "g", "3"]
        assert "How large it is." in kubectl("explain", "gadgets.spec.size")
        wrong = kubectl.run("apply", "-f", "-", text=gadget.replace("size: 3", "size: 3, colour: red"))
        assert "colour" in wrong.stderr
        assert "configured" in kubectl(
            "apply", "--validate=false", "-f", "-", text=gadget.replace("size: 3", "size: 4, colour: red")
        )
        assert "colour" not in kubectl("get", "gadget", "g", "-o", "jsonpath={.spec}")
    finally:
        kubectl("delete", "crd", f"gadgets.{group}", "--wait=false")

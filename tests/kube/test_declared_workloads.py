"""A kind that nobody knows, installed on an API server: its pods are gangs by a declaration of ten lines."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from tests.kube.test_scheduler_kinds import Scheduler, pod, waits

from cotenant.drivers.kube.kinds.workload.declarations import read_kind

pytestmark = pytest.mark.slow  # a scheduler, and a definition

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def definition(group: str) -> dict[str, Any]:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"kind": "Oven", "plural": "ovens", "singular": "oven"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"ovens.{group}"},
        "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": [version]},
    }


def test_pods_of_an_unknown_kind_wait_for_one_another(kube: Any, pods: str, namespace: str, node: str) -> None:
    group = f"bake{uuid.uuid4().hex[:6]}.example.com"
    lines = f"kind: Oven\napi: {group}/v1\nplural: ovens\nreplicas: spec.loaves|1\nminimum: $replicas\n"
    kube.create(DEFINITIONS, definition(group))
    try:
        ovens = f"/apis/{group}/v1/namespaces/{namespace}/ovens"
        kube.eventually(ovens, lambda found: "items" in found)
        oven = {"apiVersion": f"{group}/v1", "kind": "Oven", "metadata": {"name": "o"}, "spec": {"loaves": 3}}
        uid = kube.create(ovens, oven)["metadata"]["uid"]
        owner = {"apiVersion": f"{group}/v1", "kind": "Oven", "name": "o", "uid": uid, "controller": True}
        with Scheduler(kube, (read_kind(lines, "oven.yaml"),)) as scheduler:
            here = {
                "schedulerName": scheduler.name,
                "nodeSelector": {"kubernetes.io/hostname": node},
                "terminationGracePeriodSeconds": 0,
            }

            def a_pod(name: str) -> dict[str, Any]:
                made = pod(name, here)
                made["metadata"]["ownerReferences"] = [owner]
                return made

            for i in range(2):
                kube.create(pods, a_pod(f"p{i}"))
            words = f"gang {namespace}/Oven:o has 2 of 3 members; waits for 1 more"
            kube.eventually(f"{pods}/p0", lambda obj: waits(obj) == words)
            kube.patch(f"{ovens}/o", {"spec": {"loaves": 2}})
            for i in range(2):
                kube.eventually(f"{pods}/p{i}", lambda obj: obj["spec"].get("nodeName"))
    finally:
        kube.delete(f"{DEFINITIONS}/ovens.{group}")

"""Gangs on a local cluster, by a PodGroup and by annotations."""

from __future__ import annotations

from typing import Any

import pytest
from tests.e2e.manifests import is_running, pod
from tests.e2e.running import Client, Up, eventually, kubectl

pytestmark = pytest.mark.slow

G = "gang.scheduling.koordinator.sh/"


SIGS = ("scheduling.sigs.k8s.io", "pod-group.scheduling.sigs.k8s.io")  # API group and label
CURRENT = ("scheduling.x-k8s.io", "scheduling.x-k8s.io/pod-group")


def member(
    name: str, /, cpu: str = "100m", group: str = "", label: str = "pod-group.scheduling.sigs.k8s.io", **notes: str
) -> dict[str, Any]:
    made = pod(name, cpu)
    if group:
        made["metadata"]["labels"][label] = group
    made["metadata"]["annotations"] = {G + key.replace("_", "-"): value for key, value in notes.items()}
    return made


def waits(api: Client, path: str) -> str:
    conditions = api.get(path)["status"].get("conditions", ())
    return next((condition["message"] for condition in conditions if condition["type"] == "PodScheduled"), "")


def test_a_pod_group_is_placed_once_it_is_complete(up: Up, api: Client, namespace: str) -> None:
    completes(up, api, namespace, *SIGS)


def test_a_pod_group_of_the_newer_api_group_is_placed_likewise(up: Up, api: Client, namespace: str) -> None:
    completes(up, api, namespace, *CURRENT)


def completes(up: Up, api: Client, namespace: str, api_group: str, label: str) -> None:
    """A gang of three waits for its third member, runs, and its PodGroup gets the status of its API group."""
    pods = f"/api/v1/namespaces/{namespace}/pods"
    groups = f"/apis/{api_group}/v1alpha1/namespaces/{namespace}/podgroups"
    api.create(
        groups,
        {
            "apiVersion": f"{api_group}/v1alpha1",
            "kind": "PodGroup",
            "metadata": {"name": "train"},
            "spec": {"minMember": 3},
        },
    )
    for i in range(2):
        api.create(pods, member(f"train-{i}", group="train", label=label))
    words = f"gang {namespace}/train has 2 of 3 members; waits for 1 more"
    eventually("the first two are told", lambda: waits(api, f"{pods}/train-1") == words)
    api.create(pods, member("train-2", group="train", label=label))
    eventually("all run", lambda: len([entry for entry in api.items(pods) if is_running(entry)]) == 3)

    def told() -> Any:
        status = api.get(f"{groups}/train").get("status", {})
        return status if status.get("phase") == "Running" and status.get("running") == 3 else None

    status = eventually("the PodGroup says so", told)
    assert status.get("scheduled") == (3 if api_group == SIGS[0] else None)
    assert "Running" in kubectl(up, "get", f"podgroups.{api_group}", "-n", namespace)


def test_a_gang_that_does_not_fit_is_not_placed_in_part_and_reports_why(api: Client, namespace: str) -> None:
    pods = f"/api/v1/namespaces/{namespace}/pods"
    for name, cpu in (("small-0", "100m"), ("small-1", "100m"), ("huge", "1000")):
        api.create(pods, member(name, cpu, name="big", min_available="3"))
    path = f"{pods}/small-0"
    told = eventually("they are told", lambda: words if "fit" in (words := waits(api, path)) else "")
    assert f"gang {namespace}/big: 2 of 3 members fit; the 3rd, {namespace}/huge, does not: 0/" in told
    assert not any(entry["spec"].get("nodeName") for entry in api.items(pods))

"""GPUs on simulated nodes, through the real processes: chosen with the node, written to an annotation, never an
unhealthy one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from tests.e2e.manifests import is_running
from tests.e2e.running import Client, Up, eventually

pytestmark = pytest.mark.slow
DEVICES = "/apis/scheduling.koordinator.sh/v1alpha1/devices"
RESERVATIONS = "/apis/scheduling.koordinator.sh/v1alpha1/reservations"
ALLOCATED = "scheduling.koordinator.sh/device-allocated"


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    with Up(tmp_path_factory.mktemp("gpus") / "up", "--nodes", 1, "--gpus-per-node", 4, "--ephemeral") as running:
        running.ready()
        yield running


@pytest.fixture(scope="module")
def gpus(up: Up) -> Client:
    return Client(up.kubeconfig)


def told(up: Up, node: str) -> list[Any]:
    """What the scheduler tells of a node's GPUs."""
    status, text = up.asked("GET", f"/apis/v1/plugins/DeviceShare/nodeDeviceSummaries/{node}")
    devices = json.loads(text)["devices"] if status == 200 else []
    return [device for device in devices if device["type"] == "gpu"]


def healthy(up: Up, node: str) -> int:
    """GPUs of a node that the scheduler takes for healthy."""
    return sum(device["isHealthy"] for device in told(up, node))


def asking(name: str, **amounts: str) -> dict[str, Any]:
    resources = {key.replace("__", "/").replace("_", "."): amount for key, amount in amounts.items()}
    container = {
        "name": "c",
        "image": "registry.example/app:1",
        "resources": {"requests": {"cpu": "100m", **resources}, "limits": resources},
    }
    spec = {"schedulerName": "cotenant", "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def given(pod: Any) -> list[int]:
    """The minors of the pod's GPUs."""
    return [entry["minor"] for entry in json.loads(pod["metadata"]["annotations"][ALLOCATED])["gpu"]]


def test_a_reservation_keeps_gpus_for_its_owner(up: Up, gpus: Client) -> None:
    pods = gpus.namespace("kept")
    (device,) = eventually("the node tells of its devices", lambda: gpus.items(DEVICES))
    template = {"metadata": {"namespace": "kept"}, "spec": asking("kept", nvidia_com__gpu="3")["spec"]}
    owners = [{"object": {"name": "owner", "namespace": "kept"}}]
    made = {
        "apiVersion": "scheduling.koordinator.sh/v1alpha1",
        "kind": "Reservation",
        "metadata": {"name": "kept"},
        "spec": {"template": template, "owners": owners, "allocateOnce": False},
    }
    gpus.create(RESERVATIONS, made)

    def kept() -> Any:
        found = gpus.get(f"{RESERVATIONS}/kept")
        return found if found.get("status", {}).get("phase") == "Available" else None

    minors = given(eventually("it is available", kept))
    assert len(minors) == 3
    gpus.create(pods, asking("stranger", nvidia_com__gpu="1"))
    stranger = eventually("the stranger runs", lambda: _running(gpus.get(f"{pods}/stranger")))
    assert set(given(stranger)) == {0, 1, 2, 3} - set(minors)
    gpus.create(pods, asking("owner", nvidia_com__gpu="2"))
    owner = eventually("the owner runs", lambda: _running(gpus.get(f"{pods}/owner")))
    assert set(given(owner)) < set(minors)
    gpus.delete(f"{RESERVATIONS}/kept")
    for name in ("owner", "stranger"):
        gpus.delete(f"{pods}/{name}")
    eventually("they are gone", lambda: not gpus.items(pods))
    name = device["metadata"]["name"]
    eventually("and hold nothing", lambda: [gpu["holders"] for gpu in told(up, name)] == [[]] * 4)


def test_shares_and_close_gpus_are_allocated_and_an_unhealthy_gpu_is_not(up: Up, gpus: Client) -> None:
    (device,) = eventually("the node tells of its devices", lambda: gpus.items(DEVICES))
    found = device["spec"]["devices"]
    assert [entry["type"] for entry in found] == ["gpu"] * 4 + ["rdma"] * 2
    found[0]["health"] = False
    name = device["metadata"]["name"]
    gpus.patch(f"{DEVICES}/{name}", {"spec": {"devices": found}})
    eventually("the scheduler has heard of it", lambda: healthy(up, name) == 3)
    pods = gpus.namespace("training")

    def runs(name: str) -> Any:
        return eventually(f"{name} runs", lambda: _running(gpus.get(f"{pods}/{name}")))

    gpus.create(pods, asking("share", koordinator_sh__gpu="50"))
    assert given(runs("share")) == [1]
    gpus.create(pods, asking("pair", nvidia_com__gpu="2"))
    pair = runs("pair")
    assert given(pair) == [2, 3]  # under one switch
    first = json.loads(pair["metadata"]["annotations"][ALLOCATED])["gpu"][0]
    assert first["resources"]["koordinator.sh/gpu-memory"] == "80Gi"
    assert first["id"].startswith("GPU-")

    gpus.create(pods, asking("third", nvidia_com__gpu="1"))

    def refused() -> Any:
        conditions = gpus.get(f"{pods}/third")["status"].get("conditions", ())
        return [
            condition["message"]
            for condition in conditions
            if condition["type"] == "PodScheduled" and condition["status"] == "False"
        ]

    (why,) = eventually("it is told why it waits", refused)
    assert "1 not enough gpu devices" in why
    assert "unhealthy: 0" in why
    found[0]["health"] = True
    gpus.patch(f"{DEVICES}/{device['metadata']['name']}", {"spec": {"devices": found}})
    assert given(runs("third")) == [0]

    gpus.create(pods, asking("odd", koordinator_sh__gpu="150"))

    def told_so() -> Any:
        conditions = gpus.get(f"{pods}/odd")["status"].get("conditions", ())
        return [condition["message"] for condition in conditions if "whole devices" in condition.get("message", "")]

    assert eventually("a contradiction is a sentence on the pod", told_so)


def _running(pod: Any) -> Any:
    return pod if is_running(pod) else None

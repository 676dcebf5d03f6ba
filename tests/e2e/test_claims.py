"""Claims for devices on simulated nodes, through the real processes: held, taken by preemption, given back, across a
kill of the scheduler; never a device for two.
"""

from __future__ import annotations

import itertools
import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest
from tests.e2e.manifests import is_running, pod
from tests.e2e.running import Client, Up, eventually

pytestmark = pytest.mark.slow
GROUP = "/apis/resource.k8s.io/v1"
DRIVER = "gpu.cotenant.io"
GPUS = 4


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    with Up(tmp_path_factory.mktemp("claims") / "up", "--nodes", 1, "--dra", GPUS, "--ephemeral") as running:
        running.ready()
        yield running


@pytest.fixture(scope="module")
def api(up: Up) -> Client:
    return Client(up.kubeconfig)


def devices(api: Client, namespace: str) -> list[tuple[str, str]]:
    """What claims of a namespace hold: (pool, device)."""
    return [
        (result["pool"], result["device"])
        for claim in api.items(f"{GROUP}/namespaces/{namespace}/resourceclaims")
        for result in (claim["status"].get("allocation") or {"devices": {}})["devices"].get("results", ())
    ]


def template(name: str, count: int) -> dict[str, Any]:
    exactly = {"deviceClassName": DRIVER, "count": count}
    requests = [{"name": "gpu", "exactly": exactly}]
    return {"metadata": {"name": name}, "spec": {"spec": {"devices": {"requests": requests}}}}


def asking(name: str, asked: str, **more: Any) -> dict[str, Any]:
    made = pod(name, **more, resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": asked}])
    made["spec"]["containers"][0]["resources"]["claims"] = [{"name": "gpu"}]
    made["spec"]["terminationGracePeriodSeconds"] = 0
    return made


def space(api: Client, name: str, *counts: int) -> str:
    """A namespace with a template for each number of GPUs."""
    pods = api.namespace(name)
    for count in counts:
        api.create(f"{GROUP}/namespaces/{name}/resourceclaimtemplates", template(f"gpus-{count}", count))
    return pods


def test_pods_run_with_devices_of_their_own_and_leave_them_to_the_next(up: Up, api: Client) -> None:
    pods = space(api, "next", 1, 2)
    for i in range(2):
        api.create(pods, asking(f"a{i}", "gpus-2"))
        eventually(f"a{i} runs", lambda i=i: is_running(api.get(f"{pods}/a{i}")))
    assert sorted(devices(api, "next")) == [("node-0000", f"gpu-{i}") for i in range(GPUS)]
    api.create(pods, asking("b", "gpus-1"))

    def waits() -> str:
        conditions = api.get(f"{pods}/b")["status"].get("conditions", ())
        return next((one.get("message", "") for one in conditions if one.get("reason") == "Unschedulable"), "")

    eventually("b is told why it waits", waits)
    os.kill(up.children()["scheduler"], signal.SIGKILL)
    api.delete(f"{pods}/a0?gracePeriodSeconds=0")
    eventually("b runs on a device of a0, by a new scheduler", lambda: is_running(api.get(f"{pods}/b")), 120.0)
    held = devices(api, "next")
    assert len(held) == len(set(held)) == 3
    for name in ("a1", "b"):
        api.delete(f"{pods}/{name}?gracePeriodSeconds=0")
    eventually("all claims are gone", lambda: not devices(api, "next"))


def test_a_pod_takes_devices_by_preemption(api: Client) -> None:
    priority = {"metadata": {"name": "urgent"}, "value": 100_000}
    api.create("/apis/scheduling.k8s.io/v1/priorityclasses", priority)
    pods = space(api, "urgent", 2, 3)
    for i in range(2):
        api.create(pods, asking(f"low{i}", "gpus-2"))
    for i in range(2):
        eventually(f"low{i} runs", lambda i=i: is_running(api.get(f"{pods}/low{i}")))
    api.create(pods, asking("vip", "gpus-3", priorityClassName="urgent"))
    eventually("vip runs", lambda: is_running(api.get(f"{pods}/vip")), 60.0)
    held = devices(api, "urgent")
    assert len(held) == len(set(held)) >= 3
    for one in api.items(pods):
        api.delete(f"{pods}/{one['metadata']['name']}?gracePeriodSeconds=0")
    eventually("all claims are gone", lambda: not devices(api, "urgent"))


def test_a_pod_waits_on_its_node_while_devices_cannot_be_prepared(api: Client) -> None:
    pods = space(api, "prepare", 1)
    api.patch("/api/v1/nodes/node-0000", {"metadata": {"annotations": {"cotenant.io/fail-prepare": "no driver"}}})
    api.create(pods, asking("p", "gpus-1"))

    def failures() -> list[Any]:
        events = api.items("/api/v1/namespaces/prepare/events")
        return [
            one for one in events if one["reason"] == "FailedPrepareDynamicResources" and "no driver" in one["message"]
        ]

    eventually("the kubelet says why", failures)
    assert api.get(f"{pods}/p")["status"]["phase"] == "Pending"
    api.patch("/api/v1/nodes/node-0000", {"metadata": {"annotations": {"cotenant.io/fail-prepare": None}}})
    eventually("p runs", lambda: is_running(api.get(f"{pods}/p")))
    api.delete(f"{pods}/p?gracePeriodSeconds=0")


def test_an_unhealthy_device_is_given_to_nobody(api: Client) -> None:
    pods = space(api, "healthy", 1)
    notes = {"cotenant.io/unhealthy-devices": "gpu-0,gpu-1,gpu-2"}
    api.patch("/api/v1/nodes/node-0000", {"metadata": {"annotations": notes}})

    def tainted() -> int:
        found = [one for slice_ in api.items(f"{GROUP}/resourceslices") for one in slice_["spec"]["devices"]]
        return sum(bool(one.get("taints")) for one in found)

    eventually("the driver says so", lambda: tainted() == 3)
    names = (f"p{i}" for i in itertools.count())

    def gets_the_healthy_one() -> bool:
        """Whether a new pod gets it; a pod that came before the scheduler heard of the taints may get another."""
        name = next(names)
        api.create(pods, asking(name, "gpus-1"))
        eventually(f"{name} runs", lambda: is_running(api.get(f"{pods}/{name}")))
        if devices(api, "healthy") == [("node-0000", "gpu-3")]:
            return True
        api.delete(f"{pods}/{name}?gracePeriodSeconds=0")
        eventually("its claim is gone", lambda: not devices(api, "healthy"))
        return False

    eventually("a pod gets the healthy one", gets_the_healthy_one)

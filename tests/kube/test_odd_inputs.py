"""`cotenant scheduler` and objects that somebody got wrong, or made very large: each is named on the pod that it
concerns within five seconds, and other pods go on meanwhile.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from tests.kube.test_declared_workloads import DEFINITIONS, definition
from tests.kube.test_scheduler_kinds import Scheduler, pod, waits

from cotenant.drivers.kube.kinds.custom.workload_pod_group import POD_GROUP_VERSIONS
from cotenant.drivers.kube.kinds.workload.declarations import read_kind

pytestmark = pytest.mark.slow  # a scheduler

NAMED_S = 5.0
RESOURCE = "/apis/resource.k8s.io/v1"
SLICES = f"{RESOURCE}/resourceslices"
OF_A_SLICE = 128  # devices, as many as it may have


class Place:
    """One node, a scheduler for it, and what is made there."""

    def __init__(self, kube: Any, pods: str, namespace: str, node: str, scheduler: Scheduler) -> None:
        self._kube, self.pods, self.namespace, self.node, self._scheduler = kube, pods, namespace, node, scheduler
        self.driver = f"d{uuid.uuid4().hex[:6]}.example.com"
        self._slices: list[str] = []

    def make(self, name: str, **more: Any) -> str:
        """A pod; its path. `more`: labels, metadata, and what its spec has."""
        meta = more.pop("meta", {})
        here = {
            "schedulerName": self._scheduler.name,
            "nodeSelector": {"kubernetes.io/hostname": self.node},
            "terminationGracePeriodSeconds": 0,
            **more,
        }
        made = pod(name, here, "100m")
        made["metadata"] |= meta
        self._kube.create(self.pods, made)
        return f"{self.pods}/{name}"

    def others_go_on(self, name: str = "other") -> None:
        """A plain pod is bound."""
        self._kube.eventually(self.make(name), lambda obj: obj["spec"].get("nodeName"), NAMED_S)

    def offer(self, pool: str, devices: list[dict[str, Any]], at: int = 0, of: int = 1) -> None:
        """One slice of a pool of this node."""
        name = f"{self.namespace}-{pool}-{at}"
        spec = {
            "driver": self.driver,
            "nodeName": self.node,
            "pool": {"name": pool, "generation": 1, "resourceSliceCount": of},
            "devices": devices,
        }
        self._kube.create(SLICES, {"metadata": {"name": name}, "spec": spec})
        self._slices.append(name)

    def claimant(self, name: str, expression: str = "") -> str:
        """A pod with a claim of its own for a device of this driver; its path."""
        selectors = [f'device.driver == "{self.driver}"', *filter(None, [expression])]
        exactly = {
            "deviceClassName": self.namespace,
            "selectors": [{"cel": {"expression": text}} for text in selectors],
        }
        claim = {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}
        claims = f"{RESOURCE}/namespaces/{self.namespace}/resourceclaims"
        self._kube.create(claims, {"metadata": {"name": name}, "spec": claim})
        return self.make(name, resourceClaims=[{"name": "gpu", "resourceClaimName": name}])

    def clear(self) -> None:
        for name in self._slices:
            self._kube.request("DELETE", f"{SLICES}/{name}")


@pytest.fixture(scope="module")
def scheduler(kube: Any) -> Iterator[Scheduler]:
    with Scheduler(kube) as running:
        yield running


@pytest.fixture
def place(kube: Any, pods: str, namespace: str, node: str, scheduler: Scheduler) -> Iterator[Place]:
    made = Place(kube, pods, namespace, node, scheduler)
    yield made
    made.clear()


@pytest.fixture
def devices(kube: Any, place: Place) -> Iterator[Place]:
    if kube.request("GET", RESOURCE).code != 200:
        pytest.skip("this server does not serve resource.k8s.io/v1")
    kube.create(f"{RESOURCE}/deviceclasses", {"metadata": {"name": place.namespace}, "spec": {}})
    yield place
    kube.request("DELETE", f"{RESOURCE}/deviceclasses/{place.namespace}")


def gpu(name: str, **attributes: Any) -> dict[str, Any]:
    return {"name": name, "attributes": {"index": {"int": 0}, **attributes}}


def test_owners_in_a_circle(kube: Any, pods: str, namespace: str, node: str) -> None:
    group = f"bake{uuid.uuid4().hex[:6]}.example.com"
    lines = f"kind: Oven\napi: {group}/v1\nplural: ovens\nreplicas: spec.loaves|1\nminimum: $replicas\n"
    kube.create(DEFINITIONS, definition(group))
    try:
        ovens = f"/apis/{group}/v1/namespaces/{namespace}/ovens"
        kube.eventually(ovens, lambda found: "items" in found)
        head = {"apiVersion": f"{group}/v1", "kind": "Oven"}
        refer = {}
        for name in ("a", "b"):
            made = kube.create(ovens, {**head, "metadata": {"name": name}, "spec": {"loaves": 2}})
            refer[name] = {**head, "name": name, "controller": True, "uid": made["metadata"]["uid"]}
        for name, owner in (("a", "b"), ("b", "a")):
            kube.patch(f"{ovens}/{name}", {"metadata": {"ownerReferences": [refer[owner]]}})
        with Scheduler(kube, (read_kind(lines, "oven.yaml"),)) as scheduler:
            place = Place(kube, pods, namespace, node, scheduler)
            path = place.make("p", meta={"ownerReferences": [refer["a"]]})
            said = "the owners of its pods are not walked further: Oven a is among its own owners"
            kube.eventually(path, lambda obj: said in waits(obj), NAMED_S)
            place.others_go_on()
    finally:
        kube.delete(f"{DEFINITIONS}/ovens.{group}")


def test_a_selector_that_costs_too_much(kube: Any, devices: Place) -> None:
    devices.offer("p", [gpu("g0"), gpu("g1")])
    many = f"[{', '.join(map(str, range(40)))}]"
    path = devices.claimant("dear", f"{many}.all(a, {many}.all(b, {many}.all(c, a + b + c >= 0)))")
    kube.eventually(path, lambda obj: "selector 1" in waits(obj) and "steps" in waits(obj), NAMED_S)
    devices.others_go_on()
    kube.eventually(devices.claimant("cheap"), lambda obj: obj["spec"].get("nodeName"), NAMED_S)


def test_slices_of_a_driver_that_disagree(kube: Any, devices: Place) -> None:
    devices.offer("p", [gpu("g0")], 0, 2)
    devices.offer("p", [gpu("g0", other={"bool": True})], 1, 2)
    path = devices.claimant("first")
    kube.eventually(path, lambda obj: "two devices are called g0" in waits(obj), NAMED_S)
    devices.others_go_on()
    devices.offer("q", [gpu("g1")])
    kube.eventually(path, lambda obj: obj["spec"].get("nodeName"), NAMED_S)


@pytest.mark.long
def test_a_hundred_thousand_devices(kube: Any, devices: Place) -> None:
    """Of one node, of a thousand kinds for the selector."""
    slices = -(-100_000 // OF_A_SLICE)
    for at in range(slices):
        several = [gpu(f"g{at}-{i}", index={"int": (at * OF_A_SLICE + i) % 1_000}) for i in range(OF_A_SLICE)]
        devices.offer("p", several, at, slices)
    path = devices.claimant("last", f'device.attributes["{devices.driver}"].index == 999')
    kube.eventually(path, lambda obj: "judged" in waits(obj) or obj["spec"].get("nodeName"), NAMED_S)
    devices.others_go_on()
    kube.eventually(path, lambda obj: obj["spec"].get("nodeName"))


def test_a_group_that_changes_while_its_pods_are_decided(kube: Any, place: Place) -> None:
    served = {one["version"] for one in kube.get("/apis/scheduling.k8s.io")["versions"]}
    version = next((found for found in POD_GROUP_VERSIONS if found in served), "")
    if not version:
        pytest.skip("this server does not serve PodGroup (feature gate GenericWorkload)")
    path = f"/apis/scheduling.k8s.io/{version}/namespaces/{place.namespace}/podgroups"
    if kube.request("GET", path).code != 200:
        pytest.skip("this server does not serve PodGroup (feature gate GenericWorkload)")

    def put(name: str, least: int) -> None:
        """The group as it is to be: made anew where it cannot be changed."""
        kube.request("PATCH", f"{path}/{name}", {"metadata": {"finalizers": None}}, content_type=_MERGE)
        kube.request("DELETE", f"{path}/{name}")
        spec = {"schedulingPolicy": {"gang": {"minCount": least}}}
        made = {"apiVersion": f"scheduling.k8s.io/{version}", "kind": "PodGroup", "metadata": {"name": name}}
        kube.create(path, {**made, "spec": spec})

    members = []
    for at in range(6):  # the last pod of each completes its gang just before the group asks for more
        group = {"schedulingGroup": {"podGroupName": f"g{at}"}}
        put(f"g{at}", 2)
        members += [place.make(f"w{at}-{i}", **group) for i in range(2)]
        put(f"g{at}", 3)
    place.others_go_on()
    for member in members:
        words = f"gang {place.namespace}/g{member[-3]} has 2 of 3 members"
        kube.eventually(member, lambda obj, said=words: said in waits(obj) or obj["spec"].get("nodeName"), NAMED_S)
    for at in range(6):
        put(f"g{at}", 2)
    for member in members:
        kube.eventually(member, lambda obj: obj["spec"].get("nodeName"))


_MERGE = "application/merge-patch+json"

"""A resource that names a vendor is served by devices of that vendor only."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.engine.rules.test_devices import cluster, decided, gpus, node, pod, unschedulable

from cotenant.engine.cluster import Cluster
from cotenant.model.cluster.labels import HOSTNAME, Labels
from cotenant.model.devices.inventory import GPU_VENDOR
from cotenant.model.devices.request import AMD_GPU, HYGON_DCU, HYGON_DCU_OLD, NPU_CORE, VENDORS
from cotenant.model.resources import GPU, GPU_MEMORY_RATIO, NVIDIA_GPU, Amounts


def one_node(device: str = "", on_node: str = "", **advertised: int) -> Cluster:
    """A node with four GPUs; labels of the vendor on the Device object and on the node."""
    c = cluster()
    labels = {HOSTNAME: "a"} | ({GPU_VENDOR: on_node} if on_node else {})
    found = replace(node("a"), labels=Labels.of(labels))
    c.node_seen(replace(found, allocatable=found.allocatable + Amounts.of(advertised)))
    c.plugins.devices.seen(replace(gpus("a"), labels=Labels.of({GPU_VENDOR: device} if device else {})))
    return c


def is_placed(c: Cluster, resource: str, amount: int = 1) -> bool:
    c.pod_seen(pod("x", {resource: amount}), 0.0)
    return "x" in decided(c, 0.0)


def test_a_request_for_amd_gpus_does_not_land_on_nvidia() -> None:
    c = one_node("nvidia")
    c.pod_seen(pod("x", {AMD_GPU: 1}), 0.0)
    assert "Insufficient amd.com/gpu" in unschedulable(c.decide(0.0))["x"].message


@pytest.mark.parametrize("label", ["device", "on_node"])
@pytest.mark.parametrize("vendor", ["nvidia", "amd", "hygon", "huawei", "AMD"])
@pytest.mark.parametrize("resource", [NVIDIA_GPU, AMD_GPU, HYGON_DCU, HYGON_DCU_OLD])
def test_each_resource_is_served_by_its_vendor_only(label: str, vendor: str, resource: str) -> None:
    assert is_placed(one_node(**{label: vendor}), resource) == (VENDORS[resource] == vendor.lower())


def test_generic_resources_are_served_by_every_vendor() -> None:
    assert is_placed(one_node("amd"), GPU, 50)


def test_without_a_label_the_advertised_resource_names_the_vendor() -> None:
    assert is_placed(one_node(**{AMD_GPU: 4}), AMD_GPU)
    assert not is_placed(one_node(**{AMD_GPU: 4}), NVIDIA_GPU)


def test_without_any_sign_devices_are_nvidia() -> None:
    assert is_placed(one_node(), NVIDIA_GPU)
    assert not is_placed(one_node(), AMD_GPU)


def test_npu_resources_are_not_served_by_gpus() -> None:
    c = one_node("nvidia")
    c.pod_seen(pod("x", {NPU_CORE: 50, GPU_MEMORY_RATIO: 50}), 0.0)
    assert not decided(c, 0.0)


def test_a_vendor_label_that_appears_later_is_read() -> None:
    c = one_node()
    c.pod_seen(pod("x", {AMD_GPU: 1}), 0.0)
    assert not decided(c, 0.0)
    found = node("a")
    c.node_seen(replace(found, labels=Labels.of({HOSTNAME: "a", GPU_VENDOR: "amd"})))
    assert "x" in decided(c, 60.0)

"""Shares of a GPU that something enforces, or nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.engine.rules.test_devices import cluster, decided, gpus, node, unschedulable
from tests.unit.engine.rules.test_devices import pod as plain

from cotenant.engine.rules.devices.requests import DeviceSettings
from cotenant.model.cluster.demands import UNENFORCED
from cotenant.model.cluster.labels import HOSTNAME, Labels
from cotenant.model.cluster.observed import ObservedPod
from cotenant.model.devices.inventory import GPU_ISOLATION, NODE_ISOLATION, NodeDevices
from cotenant.model.resources import GPU, Amounts


def pod(name: str, asks: dict[str, int], isolation: str = "") -> ObservedPod:
    made = plain(name, asks)
    labels = Labels.of({GPU_ISOLATION: isolation} if isolation else {})
    return replace(made, pod=replace(made.pod, labels=labels))


def isolating(name: str, by: str) -> NodeDevices:
    return replace(gpus(name), labels=Labels.of({NODE_ISOLATION: by}))


def test_a_share_that_has_to_be_enforced_is_given_only_where_the_node_says_by_what() -> None:
    c = cluster("a", "b", "c")
    c.plugins.devices.seen(isolating("a", "mps"))
    c.plugins.devices.seen(gpus("b"))
    c.pod_seen(pod("x", {GPU: 50}, isolation="HAMi-core"), 0.0)
    (waits,) = unschedulable(c.decide(0.0)).values()
    assert "2 shares of a GPU are not enforced by HAMi-core" in waits.message
    assert "(a: label cotenant.io/gpu-isolation-provider is mps)" in waits.message
    c.plugins.devices.seen(isolating("c", "HAMi-core"))
    bind = decided(c, 400.0)["x"]
    assert (bind.node, bind.holds.gpu_share) == ("c", "HAMi-core")


def test_whole_gpus_need_nothing_that_enforces_a_share() -> None:
    c = cluster("a", settings=DeviceSettings(only_isolated=True))
    c.plugins.devices.seen(gpus("a"))
    c.pod_seen(pod("x", {GPU: 100}, isolation="HAMi-core"), 0.0)
    assert decided(c, 0.0)["x"].holds.gpu_share == ""


@pytest.mark.parametrize(
    ("labels", "named"),
    [
        ({"nvidia.com/gpu.sharing-strategy": "time-slicing", "nvidia.com/gpu.replicas": "4"}, UNENFORCED),
        ({"nvidia.com/gpu.sharing-strategy": "mps", "nvidia.com/gpu.replicas": "4"}, "device-plugin-mps"),
        ({"nvidia.com/gpu.sharing-strategy": "none", "nvidia.com/gpu.replicas": "1"}, ""),
        ({"nvidia.com/gpu.replicas": "4"}, UNENFORCED),
        ({"nvidia.com/gpu.replicas": "1"}, ""),
        ({"cloud.google.com/gke-gpu-sharing-strategy": "time-sharing"}, UNENFORCED),
        ({}, ""),
    ],
)
@pytest.mark.parametrize("has_object", [True, False])
def test_what_a_device_plugin_gives_as_a_card_and_shares_is_named_on_its_pod(
    labels: dict[str, str], named: str, has_object: bool
) -> None:
    c = cluster()
    found = node("a")
    amounts = found.allocatable + Amounts.of({"nvidia.com/gpu": 4})
    c.node_seen(replace(found, allocatable=amounts, labels=Labels.of({HOSTNAME: "a", **labels})))
    if has_object:
        c.plugins.devices.seen(gpus("a"))
    c.pod_seen(pod("x", {"nvidia.com/gpu": 1}), 0.0)
    holds = decided(c, 0.0)["x"].holds
    assert (holds.gpu_share, bool(holds.devices)) == (named, has_object)


def test_a_share_that_nothing_enforces_is_named_on_its_pod() -> None:
    c = cluster("a")
    c.plugins.devices.seen(gpus("a"))
    c.pod_seen(pod("x", {GPU: 50}), 0.0)
    assert decided(c, 0.0)["x"].holds.gpu_share == UNENFORCED


def test_shares_that_nothing_enforces_are_not_sold_where_that_is_wanted() -> None:
    c = cluster("a", settings=DeviceSettings(only_isolated=True))
    c.plugins.devices.seen(gpus("a"))
    c.pod_seen(pod("x", {GPU: 50}), 0.0)
    (waits,) = unschedulable(c.decide(0.0)).values()
    assert "shares of a GPU are not enforced" in waits.message
    assert "(a: no label cotenant.io/gpu-isolation-provider)" in waits.message


def test_a_label_of_the_node_counts_when_it_comes_later() -> None:
    c = cluster("a", settings=DeviceSettings(only_isolated=True))
    c.plugins.devices.seen(gpus("a"))
    c.pod_seen(pod("x", {GPU: 50}), 0.0)
    assert not decided(c, 0.0)
    c.node_seen(replace(node("a"), labels=Labels.of({HOSTNAME: "a", NODE_ISOLATION: "HAMi-core"})))
    assert decided(c, 400.0)["x"].holds.gpu_share == "HAMi-core"

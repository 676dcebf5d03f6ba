"""Parts of a GPU that are lent: who gets them, and whom they leave alone."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.engine.rules.test_devices import cluster, decided, gpus, pod, unschedulable

from cotenant.engine.rules.devices.requests import DeviceSettings
from cotenant.model.cluster.labels import Labels
from cotenant.model.cluster.observed import ObservedPod
from cotenant.model.devices.inventory import LENT_RETURN, NODE_ISOLATION, NodeDevices
from cotenant.model.devices.request import device_requests
from cotenant.model.errors import InvalidInput
from cotenant.model.resources import GPU, GPU_CORE, LENT_GPU, Amounts
from cotenant.policy.placement.devices.strategy import DeviceStrategy, UsualPod


def lending(name: str, *percent: int, within_s: int = 30, by: str = "cotenant-mps") -> NodeDevices:
    """A node with GPUs of which so much is lent."""
    found = gpus(name, len(percent))
    devices = tuple(
        replace(device, total=device.total + Amounts.of({LENT_GPU: lent}))
        for device, lent in zip(found.devices, percent, strict=True)
    )
    labels = {LENT_RETURN: str(within_s)} | ({NODE_ISOLATION: by} if by else {})
    return replace(found, devices=devices, labels=Labels.of(labels))


def borrower(name: str, percent: int = 40, grace_s: int = 30) -> ObservedPod:
    made = pod(name, {LENT_GPU: percent})
    return replace(made, demands=replace(made.demands, lent_gpu_grace_s=grace_s))


def test_what_is_lent_is_given_beside_a_holder_of_the_whole_card() -> None:
    c = cluster("a")
    c.plugins.devices.seen(lending("a", 60))
    c.pod_seen(pod("server", {GPU: 100}), 0.0)
    assert "server" in decided(c, 0.0)
    c.pod_seen(borrower("train"), 0.0)
    (part,) = decided(c, 1.0)["train"].holds.devices
    assert (part.minor, dict(part.amounts)) == (0, {LENT_GPU: 40})
    c.pod_seen(borrower("more"), 0.0)
    (waits,) = unschedulable(c.decide(2.0)).values()
    assert "gpu 0 lacks 20 cotenant.io/lent-gpu" in waits.message
    c.plugins.devices.validate()


def test_it_lies_where_most_is_left_so_that_least_comes_back() -> None:
    c = cluster("a")
    c.plugins.devices.seen(lending("a", 40, 90, 50))
    c.pod_seen(borrower("one"), 0.0)
    assert decided(c, 0.0)["one"].holds.devices[0].minor == 1
    c.pod_seen(borrower("two", 30), 0.0)
    assert decided(c, 1.0)["two"].holds.devices[0].minor == 2  # of 50 % it leaves 20, on gpu 1 of 90 as many


def test_a_pod_that_takes_longer_to_end_than_a_server_tolerates_gets_none() -> None:
    c = cluster("a")
    c.plugins.devices.seen(lending("a", 60, within_s=20))
    c.pod_seen(borrower("train", grace_s=120), 0.0)
    (waits,) = unschedulable(c.decide(0.0)).values()
    assert "lent GPUs are wanted back sooner than the pod ends" in waits.message
    assert "within 20 s, and the pod's terminationGracePeriodSeconds is 120" in waits.message
    c.plugins.devices.seen(lending("a", 60, within_s=120))
    assert "train" in decided(c, 400.0)


@pytest.mark.parametrize(
    ("devices", "why"),
    [(lending("a", 60, by=""), "shares of a GPU are not enforced"), (gpus("a"), "shares of a GPU are not enforced")],
)
def test_none_is_lent_where_nothing_holds_a_share_to_its_part(devices: NodeDevices, why: str) -> None:
    c = cluster("a")
    c.plugins.devices.seen(devices)
    c.pod_seen(borrower("train"), 0.0)
    (waits,) = unschedulable(c.decide(0.0)).values()
    assert why in waits.message


def test_a_node_whose_agent_lends_nothing_says_so() -> None:
    c = cluster("a")
    c.plugins.devices.seen(replace(gpus("a"), labels=Labels.of({NODE_ISOLATION: "cotenant-mps"})))
    c.pod_seen(borrower("train"), 0.0)
    (waits,) = unschedulable(c.decide(0.0)).values()
    assert "no GPU is lent" in waits.message


def test_an_offer_that_falls_below_what_is_taken_is_no_device_held_twice() -> None:
    c = cluster("a")
    c.plugins.devices.seen(lending("a", 60))
    c.pod_seen(borrower("train"), 0.0)
    assert "train" in decided(c, 0.0)
    c.plugins.devices.seen(lending("a", 0))
    found = c.plugins.devices.describe("a")
    assert found is not None
    assert (found.overlaps, found.devices[0].holders[0].pod) == ((), "default/train")
    c.plugins.devices.validate()


def test_a_borrower_takes_nothing_from_who_asks_for_the_card_itself() -> None:
    """Whole cards are chosen as if it were not there: it leaves when the card is used."""
    c = cluster("a")
    c.plugins.devices.seen(lending("a", 90, 90))
    c.pod_seen(borrower("train"), 0.0)
    assert decided(c, 0.0)["train"].holds.devices[0].minor == 0
    c.pod_seen(pod("server", {GPU: 200}), 0.0)
    assert [part.minor for part in decided(c, 1.0)["server"].holds.devices] == [0, 1]


@pytest.mark.parametrize("strategy", list(DeviceStrategy))
def test_of_cards_that_are_equal_else_the_one_of_which_least_is_lent_comes_first(strategy: DeviceStrategy) -> None:
    c = cluster("a", settings=DeviceSettings(shared=strategy, usual=(UsualPod(50, 1, 1),)))
    c.plugins.devices.seen(lending("a", 90, 90, 90))
    for name, percent in (("large", 60), ("small", 40)):
        c.pod_seen(borrower(name, percent), 0.0)
        assert name in decided(c, 0.0)
    c.pod_seen(pod("server", {GPU: 50}), 0.0)
    assert decided(c, 1.0)["server"].holds.devices[0].minor == 2


def test_a_request_for_both_is_a_contradiction_that_says_what_to_change() -> None:
    with pytest.raises(InvalidInput, match="a valid combination of resources; leave out"):
        device_requests(Amounts.of({LENT_GPU: 20, GPU_CORE: 20}))
    with pytest.raises(InvalidInput, match="at most 100 percent, or whole devices"):
        device_requests(Amounts.of({LENT_GPU: 150}))
    (request,) = device_requests(Amounts.of({LENT_GPU: 200}))
    assert (request.count, request.amounts.get(LENT_GPU), request.shared) == (2, 100, True)

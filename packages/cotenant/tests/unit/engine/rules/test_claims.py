"""Pods with device claims in the engine, by example."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from tests.fakes.cluster.claims_world import DRIVER, ClaimsWorld, gpus, request, spec

from cotenant.engine.cluster import Cluster
from cotenant.engine.framework.instructions import Preempt, Unschedulable
from cotenant.engine.registry import PluginRegistry
from cotenant.engine.rules.claims.instructions import ReleaseClaim
from cotenant.engine.rules.claims.rules import ClaimRules
from cotenant.model.claims.claim import DeviceState, ResourceClaim
from cotenant.model.claims.devices import (
    CounterSet,
    CounterUse,
    DeviceCapacity,
    DeviceId,
    DeviceTaint,
    OfferedDevice,
    Reach,
    RequestPolicy,
    ResourceSlice,
    TaintRule,
)
from cotenant.model.claims.needs import ClaimGroup, ClaimNeeds, ContainerRequest, NamedClaim
from cotenant.model.claims.requests import (
    MAX_CONSUMERS,
    AllocationMode,
    ClaimRequest,
    DeviceClass,
    DeviceConstraint,
    DeviceToleration,
    ExactRequest,
)
from cotenant.model.cluster.demands import Demands
from cotenant.model.cluster.labels import Labels
from cotenant.model.cluster.node import Node
from cotenant.model.devices.device import Device, DeviceType
from cotenant.model.devices.inventory import NodeDevices
from cotenant.model.quantities import parse_quantity
from cotenant.model.resources import GPU_CORE, GPU_MEMORY, GPU_MEMORY_RATIO, Amounts
from cotenant.policy.placement.profiles import profile

WHOLE = Amounts.of({GPU_CORE: 100, GPU_MEMORY_RATIO: 100, GPU_MEMORY: 80 << 30})


def device(node: str, at: int) -> DeviceId:
    return DeviceId(DRIVER, node, f"gpu-{at}")


def test_a_claim_is_allocated_with_the_node_and_pinned_to_it() -> None:
    world = ClaimsWorld()
    world.node("bare")
    world.node("n", gpus(2))
    world.own("web")
    (bind,) = world.decide()
    (held,) = bind.holds.claims
    assert bind.node == "n"
    assert held.key == "default/web"
    assert held.allocation is not None
    assert [found.id for found in held.allocation.devices] == [device("n", 0)]
    assert held.allocation.nodes is not None
    assert held.allocation.nodes.matches("n", Labels(()))
    assert not held.allocation.nodes.matches("bare", Labels(()))


def test_devices_are_not_given_twice_while_claims_are_not_observed() -> None:
    world = ClaimsWorld(is_late=True)
    world.node("n", gpus(3))
    for name in ("a", "b", "c", "d"):
        world.own(name)
    world.catch_up()
    assert len(world.settle()) == 3
    world.engine.validate()
    world.catch_up()
    assert sorted(found for those in world.given().values() for found in those) == [device("n", at) for at in range(3)]
    world.engine.validate()


def test_a_refusal_says_request_class_and_figures() -> None:
    world = ClaimsWorld()
    world.node("bare")
    world.node("full", gpus(2))
    world.node("other", gpus(4, "b"))
    world.own("first", spec(request("gpu", 2, "a")))
    world.settle()
    world.own("second", spec(request("gpu", 2, "a")))
    world.settle()
    told = world.reason("second")
    assert "1 node(s) without devices for request gpu (gpu)" in told
    assert "1 node(s) with too few devices that match request gpu (gpu)" in told
    assert "1 node(s) with too few free devices for request gpu (gpu)" in told


def test_the_nearest_node_is_named_with_its_figures() -> None:
    world = ClaimsWorld()
    world.node("full", gpus(3))
    world.own("first", spec(request("gpu", 2)))
    world.settle()
    world.own("second", spec(request("gpu", 2)))
    world.own("third", spec(request("gpu", 2, "b")))
    world.settle()
    told = {entry.key: entry.message for entry in world.told if isinstance(entry, Unschedulable)}
    assert "(full: 3 devices, 3 match, 1 of them free; 2 requested)" in told["default/second"]
    assert "(full: 3 devices, 0 after selector 0 of the request; 2 requested)" in told["default/third"]


def test_a_pod_waits_for_its_claim_and_for_its_class_and_is_told_so() -> None:
    world = ClaimsWorld()
    world.node("n", gpus(1))
    world.pod("web", "later")
    assert world.settle() == {}
    assert world.reason("web") == "ResourceClaim default/later does not exist yet"
    world.claim("later", spec(request(device_class="unknown")))
    assert world.settle() == {}
    assert world.reason("web") == "ResourceClaim default/later, request gpu: DeviceClass unknown does not exist"
    world.facts.class_seen(DeviceClass("unknown"))
    assert world.settle() == {"web": "n"}


def test_pods_share_a_claim_on_its_node_up_to_the_most_consumers() -> None:
    world = ClaimsWorld()
    world.node("n", gpus(1), pods=400)
    world.node("m", gpus(1), pods=400)
    world.claim("shared")
    for number in range(257):
        world.pod(f"p{number}", "shared", cpu_milli=10)
    world.settle()
    assert len(world.nodes()) == 256
    assert len(set(world.nodes().values())) == 1
    assert len(world.claims["default/shared"].reserved_for) == 256
    world.end("p0")
    world.settle()
    assert len(world.nodes()) == 256


def test_a_bind_that_fails_gives_its_devices_back() -> None:
    world = ClaimsWorld()
    world.node("n", gpus(1))
    world.own("web")
    (bind,) = world.decide()
    assert world.engine.sending(bind.uid, 0.0)
    assert world.write(bind)
    world.take_back(bind)
    world.engine.bind_failed(bind.uid, "conflict", 0.0)
    world.engine.validate()
    world.own("other")
    assert len(world.settle()) == 1
    assert len({found for those in world.given().values() for found in those}) == 1


def test_a_restart_goes_on_with_what_was_written() -> None:
    world = ClaimsWorld()
    world.node("n", gpus(1))
    world.node("m", gpus(1))
    world.own("web")
    (bind,) = world.decide()
    world.write(bind)  # killed before the bind
    rules = ClaimRules(world.facts.selectors)
    again = Cluster(profile("cotenant-requests"), np.random.default_rng(1), plugins=PluginRegistry(claims=rules))
    world.facts.capture()(rules.facts)
    for node in world.engine.nodes():
        again.node_seen(node)
    again.pod_seen(world.pods["uid-web"], 1.0)
    (second,) = again.decide(1.0)
    assert (second.node, second.holds.claims[0].allocation) == (bind.node, None)  # type: ignore[union-attr]
    again.validate()


def test_a_claim_that_cannot_be_used_any_more_is_given_back() -> None:
    world = ClaimsWorld()
    world.node("n", gpus(1))
    world.own("web")
    (bind,) = world.decide()
    world.write(bind)
    world.engine.bind_failed(bind.uid, "conflict", 0.0)
    world.engine.node_gone("n", 1.0)
    world.node("m", gpus(1))
    assert world.settle() == {"web": "m"}
    assert any(isinstance(told, ReleaseClaim) for told in world.told)
    assert world.given() == {"web": [device("m", 0)]}


def test_a_claim_of_a_group_is_reserved_once_for_more_pods_than_may_share_one() -> None:
    world = ClaimsWorld()
    world.node("n", gpus(1), pods=400)
    world.claim("shared")
    for at in range(MAX_CONSUMERS + 4):
        world.pod(f"w-{at}", "shared", group="crew", cpu_milli=10)
    assert len(world.settle(400)) == MAX_CONSUMERS + 4
    assert world.claims["default/shared"].reserved_for == ("uid-crew",)
    world.engine.validate()


def test_a_claim_that_was_made_for_another_group_is_named() -> None:
    world = ClaimsWorld()
    world.node("n", gpus(1))
    world.claim("shared", owner="uid-other")
    crew = ClaimGroup("crew", "uid-crew")
    needs = ClaimNeeds(group=crew, uid="uid-w", claims=(NamedClaim("default/shared", True, crew),))
    world.pod("w", "shared")
    world.see(replace(world.pods["uid-w"], demands=Demands(claims=needs)))
    assert world.settle() == {}
    world.now_s += 2.0
    world.settle()
    assert world.reason("w") == "ResourceClaim default/shared was not made for PodGroup crew of this pod"


def test_a_groups_claim_is_kept_while_a_pod_of_it_runs_and_given_back_where_none_can() -> None:
    world = ClaimsWorld()
    world.node("n", gpus(1), cpu=250)
    world.claim("shared")
    for name in ("a", "b"):
        world.pod(name, "shared", group="crew")
    (first, second) = (*world.decide(), *world.decide())
    world.write(first)
    world.engine.bind_failed(second.uid, "conflict", 0.0)
    world.carry_out(first)
    assert world.settle() == {"a": "n", "b": "n"}
    world.pod("c", "shared", group="crew")  # has no room beside them, and only there its devices
    world.node("m", gpus(1))
    assert world.settle() == {"a": "n", "b": "n"}
    assert not any(isinstance(told, ReleaseClaim) for told in world.told)
    world.end("a")
    world.end("b")
    world.engine.node_gone("n", world.now_s)
    assert world.settle() == {"c": "m"}
    assert [told.consumer_uid for told in world.told if isinstance(told, ReleaseClaim)] == ["uid-crew"]
    assert world.given() == {"shared": [device("m", 0)]}
    world.engine.validate()


def test_nobody_is_evicted_for_devices_that_stay_with_a_group() -> None:
    world = ClaimsWorld()
    world.node("n", gpus(1))
    world.claim("shared")
    world.pod("low", "shared", group="crew")
    assert world.settle() == {"low": "n"}
    world.own("high", priority=10)
    world.settle()
    assert not any(isinstance(told, Preempt) for told in world.told)


def test_alternatives_are_tried_in_order_and_earlier_ones_are_preferred() -> None:
    world = ClaimsWorld()
    world.node("b", gpus(1, "b"))
    world.node("a", gpus(1, "a"))
    alternatives = tuple(ExactRequest(model, "gpu", (model,), parent="gpu") for model in ("a", "b"))
    wanted = spec(ClaimRequest("gpu", alternatives, is_list=True))
    for name in ("one", "two", "three"):
        world.own(name, wanted)
    assert world.settle() == {"one": "a", "two": "b"}
    allocation = world.claims["default/two"].allocation
    assert allocation is not None
    assert allocation.devices[0].request == "gpu/b"


def test_all_devices_and_constraints() -> None:
    world = ClaimsWorld()
    world.node("mixed", (*gpus(2), OfferedDevice("gpu-9", (("model", "b"),))))
    world.node("n", gpus(3))
    everything = ClaimRequest("gpu", (ExactRequest("gpu", "gpu", mode=AllocationMode.ALL),))
    world.own("alike", spec(everything, constraints=(DeviceConstraint(f"{DRIVER}/model"),)))
    assert world.settle() == {"alike": "n"}
    assert len(world.given()["alike"]) == 3


def test_taints_of_devices_and_rules() -> None:
    world = ClaimsWorld()
    tainted = OfferedDevice("gpu-0", taints=(DeviceTaint("broken", effect="NoSchedule"),))
    world.node("n", (tainted, OfferedDevice("gpu-1")))
    world.facts.rule_seen(TaintRule("drain", DeviceTaint("drain"), device="gpu-1"))
    world.own("web")
    tolerant = ExactRequest("gpu", "gpu", tolerations=(DeviceToleration("broken", "Exists"),))
    world.own("tolerant", spec(ClaimRequest("gpu", (tolerant,))))
    assert world.settle() == {"tolerant": "n"}
    world.facts.rule_gone("drain")
    assert world.settle() == {"tolerant": "n", "web": "n"}
    assert world.given()["web"] == [device("n", 1)]


def test_parts_of_a_device_share_its_counters() -> None:
    world = ClaimsWorld()
    world.node("n")
    uses = {"whole": 4, "half-0": 2, "half-1": 2}
    devices = tuple(OfferedDevice(name, uses=(CounterUse("card", (("slices", n),)),)) for name, n in uses.items())
    world.facts.slice_seen(ResourceSlice("a", DRIVER, "n", 1, 2, Reach("n"), devices))
    counters = (CounterSet("card", (("slices", 4),)),)
    world.own("one")
    assert world.settle() == {}
    assert "incomplete" in world.reason("one")
    world.facts.slice_seen(ResourceSlice("b", DRIVER, "n", 1, 2, Reach("n"), counters=counters))
    assert world.settle() == {"one": "n"}
    assert world.given()["one"] == [DeviceId(DRIVER, "n", "whole")]
    world.own("two")
    world.settle()
    assert "two" not in world.nodes()
    world.end("one")
    world.settle()
    assert world.nodes() == {"two": "n"}


def test_capacity_that_several_claims_consume() -> None:
    world = ClaimsWorld()
    policy = RequestPolicy(default=parse_quantity("1Gi"), min=parse_quantity("1Gi"), step=parse_quantity("1Gi"))
    memory = (("memory", DeviceCapacity(parse_quantity("4Gi"), policy)),)
    world.node("n", (OfferedDevice("gpu-0", capacity=memory, is_shared=True),))
    asked = ExactRequest("gpu", "gpu", capacity=(("memory", parse_quantity("1500Mi")),))
    for name in ("a", "b", "c"):
        world.own(name, spec(ClaimRequest("gpu", (asked,))))
    assert len(world.settle()) == 2  # each takes 2Gi
    allocation = world.claims["default/a"].allocation
    assert allocation is not None
    (given,) = allocation.devices
    assert given.share
    assert [(name, str(amount)) for name, amount in given.consumed] == [("memory", "2Gi")]
    world.engine.validate()


def test_slices_that_disagree_count_by_their_newest_generation() -> None:
    world = ClaimsWorld()
    world.node("n")
    world.facts.slice_seen(ResourceSlice("old", DRIVER, "n", 1, 1, Reach("n"), gpus(4)))
    world.facts.slice_seen(ResourceSlice("new-0", DRIVER, "n", 2, 2, Reach("n"), gpus(1)))
    world.own("web")
    assert world.settle() == {}
    world.facts.slice_seen(ResourceSlice("new-1", DRIVER, "n", 2, 2, Reach("n"), (OfferedDevice("gpu-0"),)))
    assert world.settle() == {}
    assert "1 node(s) with resource pools that contradict themselves" in world.reason("web")
    told = [entry.message for entry in world.told if isinstance(entry, Unschedulable)]
    assert "(n: pool n: two devices are called gpu-0)" in told[-1]
    world.own("all", spec(ClaimRequest("gpu", (ExactRequest("gpu", "gpu", mode=AllocationMode.ALL),))))
    assert world.settle() == {}
    of_all = "1 node(s) whose pools of devices are invalid for request gpu, which is for all devices"
    assert of_all in world.reason("all")
    world.end("all")
    world.facts.slice_seen(ResourceSlice("new-1", DRIVER, "n", 2, 2, Reach("n"), (OfferedDevice("gpu-7"),)))
    assert world.settle() == {"web": "n"}


def test_devices_behind_the_network_are_used_from_several_nodes() -> None:
    world = ClaimsWorld()
    for name in ("a", "b", "c"):
        world.engine.node_seen(
            Node(name, Amounts.of({"cpu": 100, "memory": 2**30, "pods": 9}), labels=Labels.of({"rack": name}))
        )
    reach = Reach(all=True)
    world.facts.slice_seen(ResourceSlice("s", DRIVER, "rack", 1, 1, reach, gpus(2)))
    for name in ("one", "two", "three"):
        world.own(name, cpu_milli=100)
    assert len(set(world.settle().values())) == 2
    assert sorted(found for those in world.given().values() for found in those) == [
        DeviceId(DRIVER, "rack", "gpu-0"),
        DeviceId(DRIVER, "rack", "gpu-1"),
    ]
    world.engine.validate()


def test_admin_access_needs_its_namespace_and_takes_nothing() -> None:
    world = ClaimsWorld()
    world.node("n", gpus(1))
    watching = ExactRequest("gpu", "gpu", admin_access=True)
    world.own("watch", spec(ClaimRequest("gpu", (watching,))))
    world.own("use")
    assert world.settle() == {"use": "n"}
    assert "admin access needs the label" in world.reason("watch")
    world.facts.namespace_seen("default", Labels.of({"resource.kubernetes.io/admin-access": "true"}))
    assert world.settle() == {"use": "n", "watch": "n"}
    world.engine.validate()


def test_a_selector_that_fails_rules_its_nodes_out() -> None:
    world = ClaimsWorld()
    world.node("n", gpus(1))
    world.own("web", spec(request("gpu", 1, "fails")))
    assert world.settle() == {}
    assert "a selector fails: request gpu, selector 0: no such key" in world.reason("web")


def test_extended_resources_are_devices_where_no_plugin_advertises_them() -> None:
    world = ClaimsWorld()
    world.facts.class_seen(DeviceClass("card", extended_resource="example.com/gpu"))
    world.engine.node_seen(
        Node("classic", Amounts.of({"cpu": 64_000, "memory": 2**36, "pods": 9, "example.com/gpu": 1}))
    )
    world.node("n", gpus(2))
    containers = (ContainerRequest(0, "main", True, (("example.com/gpu", 1),), ("cpu", "example.com/gpu")),)
    for name in ("a", "b", "c", "d"):
        world.pod(name, containers=containers, **{"example.com__gpu": 1})
    nodes = world.settle()
    assert sorted(nodes.values()) == ["classic", "n", "n"]
    made = [claim for claim in world.claims.values() if claim.is_for_extended]
    assert sorted(found for those in world.given().values() for found in those) == [device("n", 0), device("n", 1)]
    assert {claim.owner_uid for claim in made} == {f"uid-{name}" for name, node in nodes.items() if node == "n"}
    world.engine.validate()


def test_a_claim_of_another_namespace_is_never_a_pods_whoever_it_names_as_its_owner() -> None:
    world = ClaimsWorld()
    world.facts.class_seen(DeviceClass("card", extended_resource="example.com/gpu"))
    world.node("n", gpus(1))
    world.facts.claim_seen(
        ResourceClaim(
            "others", "forged", "uid-forged", spec(request("gpu", 3)), owner_uid="uid-web", is_for_extended=True
        )
    )
    containers = (ContainerRequest(0, "main", True, (("example.com/gpu", 1),), ("cpu", "example.com/gpu")),)
    world.pod("web", containers=containers, **{"example.com__gpu": 1})
    assert world.settle() == {"web": "n"}
    world.engine.validate()


def test_a_gang_is_placed_with_all_its_claims_or_not_at_all() -> None:
    world = ClaimsWorld()
    world.node("n", gpus(2))
    for at in range(3):
        world.claim(f"g{at}", owner=f"uid-g{at}")
        world.pod(f"g{at}", f"g{at}", gang="train", members=3)
    assert world.settle() == {}
    assert world.rules.facts.ledger.assumed == {}
    world.engine.validate()
    world.node("m", gpus(1))
    assert sorted(world.settle().values()) == ["m", "n", "n"]


def test_a_gang_that_waits_for_devices_does_not_wake_itself() -> None:
    """Each attempt takes devices for the first members, and gives them up again."""
    world = ClaimsWorld()
    world.node("n", gpus(1))
    for at in range(2):
        world.claim(f"g{at}", owner=f"uid-g{at}")
        world.pod(f"g{at}", f"g{at}", gang="train", members=2)
    world.settle()
    world.engine.why.pod("default/g0", world.now_s)
    assert world.engine.next_s() > world.now_s + 60.0
    judged = world.engine.judged
    world.now_s += 60.0
    world.decide()
    assert world.engine.judged == judged


def test_a_pod_waits_no_longer_than_until_others_may_be_evicted_for_it() -> None:
    """A claim was shared with something that is no pod."""
    world = ClaimsWorld()
    world.node("n", gpus(1))
    world.claim("shared")
    world.pod("low", "shared", priority=1)
    world.settle()
    world.put(replace(world.claims["default/shared"], reserved_for=("uid-low", "uid of a group")))
    world.own("high", priority=9)
    world.settle()
    assert not [told for told in world.told if isinstance(told, Preempt)]
    world.put(replace(world.claims["default/shared"], reserved_for=("uid-low",)))
    world.settle()
    assert [told.key for told in world.told if isinstance(told, Preempt)] == ["default/high"]


def test_pods_of_lower_priority_are_evicted_for_devices() -> None:
    world = ClaimsWorld()
    world.node("n", gpus(2))
    world.own("low", priority=1)
    world.own("mid", priority=5)
    world.settle()
    world.own("high", priority=9)
    world.settle()
    (preempt,) = [told for told in world.told if isinstance(told, Preempt)]
    assert [victim.key for victim in preempt.victims] == ["default/low"]
    before = len(world.told)
    world.end("low")
    assert world.settle() == {"mid": "n", "high": "n"}
    assert not [told for told in world.told[before:] if isinstance(told, Preempt)]


def test_pods_are_evicted_for_the_devices_of_a_gang() -> None:
    world = ClaimsWorld()
    for name in ("n", "m"):
        world.node(name, gpus(2))
    for at in range(4):
        world.own(f"low{at}", priority=1)
    assert len(world.settle()) == 4
    for at in range(2):
        world.claim(f"g{at}", spec(request("gpu", 2)), owner=f"uid-g{at}")
        world.pod(f"g{at}", f"g{at}", gang="train", members=2, priority=9)
    world.settle()
    victims = {victim.key for told in world.told if isinstance(told, Preempt) for victim in told.victims}
    assert victims == {f"default/low{at}" for at in range(4)}
    world.engine.validate()
    before = len(world.told)
    for at in range(4):
        world.end(f"low{at}")
        world.settle(3)
    assert sorted(world.settle()) == ["g0", "g1"]
    assert not [told for told in world.told[before:] if isinstance(told, Preempt)]
    world.engine.validate()


def test_no_gang_evicts_for_devices_that_are_about_to_be_free() -> None:
    """Its victims are gone, and the controller of claims has not looked yet."""
    world = ClaimsWorld()
    world.node("n", gpus(2))
    world.node("m", gpus(2))
    for at in range(4):
        world.claim(f"low{at}")
        world.pod(f"low{at}", f"low{at}", priority=1)
    world.settle()
    for at in range(2):
        world.claim(f"g{at}", owner=f"uid-g{at}")
        world.pod(f"g{at}", f"g{at}", gang="train", members=2, priority=9)
    world.settle()
    victims = {victim.key for told in world.told if isinstance(told, Preempt) for victim in told.victims}
    assert len(victims) == 2
    before = len(world.told)
    for key in victims:
        uid = f"uid-{key.partition('/')[2]}"
        del world.pods[uid]
        world.engine.pod_gone(uid, world.now_s)  # its claim stays reserved
        world.settle(3)
    world.settle()
    assert not [told for told in world.told[before:] if isinstance(told, Preempt)]
    assert "g0" not in world.nodes()
    for key in victims:
        world.put(replace(world.claims[key], reserved_for=(), allocation=None))
    assert {"g0", "g1"} <= world.settle().keys()
    world.engine.validate()


def test_nobody_is_evicted_for_a_claim_that_pods_of_higher_priority_share() -> None:
    world = ClaimsWorld()
    world.node("n", gpus(1))
    world.claim("shared")
    world.pod("low", "shared", priority=1)
    world.pod("top", "shared", priority=20)
    world.settle()
    world.own("high", priority=9)
    world.settle()
    assert not [told for told in world.told if isinstance(told, Preempt)]


def test_a_device_that_failed_is_given_back_and_another_is_taken() -> None:
    world = ClaimsWorld()
    waiting = replace(gpus(1)[0], binding_conditions=("ready",), failure_conditions=("broken",))
    world.node("n", (waiting,))
    world.own("web")
    (bind,) = world.decide()
    world.write(bind)
    world.put(replace(world.claims["default/web"], states=(DeviceState(device("n", 0), (("broken", "no link"),)),)))
    world.take_back(bind)
    world.engine.bind_failed(bind.uid, "device claims", 0.0)
    world.engine.validate()
    assert world.given() == {}


def test_a_gpu_of_a_device_object_and_of_a_slice_is_one_gpu() -> None:
    world = ClaimsWorld()
    world.node("n", gpus(2))
    cards = tuple(Device(DeviceType.GPU, at, WHOLE, id=f"U{at}") for at in range(2))
    world.engine.plugins.devices.seen(NodeDevices("n", cards))
    world.pod("part", **{"koordinator.sh/gpu-core": 50, "koordinator.sh/gpu-memory-ratio": 50})
    assert world.settle() == {"part": "n"}
    entry = world.engine.find("default/part")
    assert entry is not None
    (held,) = (part.minor for part in entry.holds.devices)
    world.own("claim")
    world.settle()
    assert world.given()["claim"] == [device("n", 1 - held)]
    world.pod("second", **{"koordinator.sh/gpu-core": 100, "koordinator.sh/gpu-memory-ratio": 100})
    world.own("third")
    assert set(world.settle()) == {"part", "claim"}
    world.engine.validate()
    world.end("claim")
    world.end("third")
    assert set(world.settle()) == {"part", "second"}
    world.engine.validate()

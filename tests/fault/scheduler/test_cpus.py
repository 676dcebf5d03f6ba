"""Own CPUs when binds fail, answers are lost, nodes and topologies vanish, and a scheduler ends at any step."""

from __future__ import annotations

from dataclasses import replace

from tests.fakes.cluster.cpu_cluster import Api, node, pod, tells

from cotenant.engine.framework.instructions import Bind
from cotenant.model.cluster.demands import NO_HOLDINGS
from cotenant.model.cpus.spec import BindPolicy, ResourceSpec

FULL = ResourceSpec(required=BindPolicy.FULL_CORES)


def decided(api: Api) -> Bind:
    """The one bind of a judgement, which is not carried out."""
    api.now_s += 30.0
    (bind,) = [instruction for instruction in api.cluster.decide(api.now_s) if isinstance(instruction, Bind)]
    return bind


def held(api: Api, name: str) -> dict[str, tuple[int, ...]]:
    told = api.cluster.plugins.cpus.describe(name)
    return {holder.pod: holder.cpus for holder in told.holders} if told is not None else {}


def test_a_bind_that_failed_gives_its_cpus_back_and_the_next_choice_is_the_same() -> None:
    api = Api(node("a"))
    api.create(pod("x", 4))
    first = decided(api)
    assert api.cluster.sending(first.uid, api.now_s)
    api.cluster.bind_failed(first.uid, "conflict", api.now_s)
    api.now_s += 60.0
    api.cluster.decide(api.now_s)
    api.cluster.validate()
    second = decided(api) if not held(api, "a") else None
    told = (second.holds if second is not None else first.holds).cpus
    assert told == first.holds.cpus
    assert held(api, "a") == {"default/x": (0, 1, 2, 3)}


def test_a_scheduler_that_ends_before_its_bind_has_given_nothing() -> None:
    api = Api(node("a"))
    api.create(pod("x"))
    decided(api)
    api.restart()
    assert held(api, "a") == {}
    api.create(pod("y", priority=9900))
    api.turn()
    assert {api.has("x"), api.has("y")} == {(0, 1), (2, 3)}


def test_a_bind_whose_answer_was_lost_is_found_again_by_its_annotation() -> None:
    api = Api(node("a"))
    api.create(pod("x"))
    bind = decided(api)
    api.pods[bind.uid] = replace(api.pods[bind.uid], node=bind.node, holds=bind.holds)  # it arrived
    api.restart()
    api.cluster.validate()
    assert held(api, "a") == {"default/x": (0, 1)}
    api.create(pod("y"))
    api.turn()
    assert api.has("y") == (2, 3)


def test_whoever_another_scheduler_binds_elsewhere_holds_what_its_annotation_says() -> None:
    api = Api(node("a", 64), node("b"))
    api.create(pod("x"))
    bind = decided(api)
    elsewhere = "b" if bind.node == "a" else "a"
    bound = replace(api.pods["uid-x"], node=elsewhere, holds=NO_HOLDINGS)
    api.pods["uid-x"] = bound
    api.cluster.pod_seen(bound, api.now_s)
    api.cluster.decide(api.now_s)
    api.cluster.validate()
    assert held(api, "a") == held(api, "b") == {}


def test_a_node_that_vanishes_and_returns_has_its_pods_cpus_taken() -> None:
    api = Api(node("a"))
    api.create(pod("x"), pod("y", 4))
    api.turn()
    before = held(api, "a")
    api.cluster.node_gone("a", api.now_s)
    api.turn()
    assert held(api, "a") == {}
    api.cluster.node_seen(node("a"))
    api.turn()
    assert held(api, "a") == before
    assert len(api.available("a")) == 2


def test_a_topology_that_vanishes_gives_nobody_cpus_until_it_is_back() -> None:
    api = Api(node("a"), node("other", 1))
    api.create(pod("x"))
    api.turn()
    api.forget("a")
    api.create(pod("insists", spec=FULL))
    api.turn()
    assert "without a usable CPU topology" in api.waits["insists"]
    assert held(api, "a") == {"default/x": (0, 1)}
    api.tell(tells("a"))
    api.turn()
    assert api.has("insists") == (2, 3)


def test_a_topology_that_comes_after_its_pods_finds_their_cpus_taken() -> None:
    api = Api(node("a"), told=[])
    api.create(pod("old", on="a", has="0-3"))
    api.turn()
    api.tell(tells("a"))
    api.create(pod("new", 4))
    api.turn()
    assert api.has("new") == (4, 5, 6, 7)


def test_a_pod_that_is_deleted_while_it_waits_leaves_nothing() -> None:
    api = Api(node("a", 64))
    api.create(pod("x", 8))
    api.turn()
    api.create(pod("waits", 2))
    api.turn()
    api.delete("waits")
    api.delete("x")
    api.turn()
    assert len(api.available("a")) == 8


def test_an_annotation_that_is_written_anew_replaces_what_was_known() -> None:
    api = Api(node("a"))
    api.create(pod("x"))
    api.turn()
    (moved,) = [pod("x", on="a", has="6-7")]
    api.pods["uid-x"] = moved
    api.cluster.pod_seen(moved, api.now_s)
    api.turn()
    assert held(api, "a") == {"default/x": (6, 7)}
    assert api.available("a") == (0, 1, 2, 3, 4, 5)

"""Who draws from a reservation, how much, from which, and what becomes of it."""

from __future__ import annotations

from dataclasses import replace
from math import inf, isnan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotenant.model.cluster.affinity import NodeSelector, NodeSelectorTerm
from cotenant.model.cluster.demands import Demands
from cotenant.model.cluster.labels import Labels, LabelSelector, Requirement, SelectorOperator
from cotenant.model.cluster.observed import ObservedPod, OwnedBy
from cotenant.model.cluster.pod import Pod
from cotenant.model.cluster.taints import Taint, TaintEffect, Toleration
from cotenant.model.groups.gang import POD_GROUP, GangNotes
from cotenant.model.groups.reservation import (
    AllocatePolicy,
    ControllerOwner,
    ObjectOwner,
    Reservation,
    ReservationCondition,
    ReservationOwner,
    ReservationPhase,
)
from cotenant.model.groups.reservation_notes import IGNORED, ReservationAffinity
from cotenant.model.resources import Amounts
from cotenant.policy.placement.reservations.drawing import allocated, covers, rank, remainder, shortage
from cotenant.policy.placement.reservations.lifecycle import LEGAL, cannot_keep, collect_at_s, conditions, ending
from cotenant.policy.placement.reservations.migration import reservation_for
from cotenant.policy.placement.reservations.owners import is_owner, keys_for, keys_of, matches, obstacle

RS = OwnedBy("apps/v1", "ReplicaSet", "web-1", "rs-1", True)


def seen(name: str = "x", **more: object) -> ObservedPod:
    outer = {key: more.pop(key) for key in ("owned_by", "reservation", "node", "demands") if key in more}
    return ObservedPod(Pod(name, **more), f"uid-{name}", "cotenant", 0.0, **outer)  # type: ignore[arg-type]


def held(**more: object) -> Reservation:
    made = Reservation("r", "uid-r", Pod("r", requests=Amounts.of({"cpu": 4000, "memory": 100})))
    return replace(made, **more)  # type: ignore[arg-type]


def zones(*names: str) -> NodeSelector:
    """Selects reservations by their zone."""
    return NodeSelector((NodeSelectorTerm((Requirement("zone", SelectorOperator.IN, names),)),))


@pytest.mark.parametrize(
    ("owner", "is_one"),
    [
        (ReservationOwner(), False),
        (ReservationOwner(object=ObjectOwner("x")), True),
        (ReservationOwner(object=ObjectOwner("x", "other")), False),
        (ReservationOwner(object=ObjectOwner(uid="uid-x")), True),
        (ReservationOwner(object=ObjectOwner("x", uid="uid-y")), False),
        (ReservationOwner(controller=ControllerOwner("web-1")), True),
        (ReservationOwner(controller=ControllerOwner("web-1", "other")), False),
        (ReservationOwner(controller=ControllerOwner(uid="rs-1", kind="Deployment")), False),
        (ReservationOwner(controller=ControllerOwner(uid="rs-1", controller=False)), False),
        (ReservationOwner(selector=LabelSelector.of({"app": "web"})), True),
        (ReservationOwner(selector=LabelSelector((Requirement("app", SelectorOperator.NOT_IN, ("web",)),))), False),
        (
            ReservationOwner(ObjectOwner("x"), selector=LabelSelector.of({"app": "db"})),
            False,
        ),  # all that is given must hold
        (ReservationOwner(selector=LabelSelector()), True),
    ],
)
def test_owners(owner: ReservationOwner, is_one: bool) -> None:
    pod = seen(owned_by=(RS,), labels=Labels.of({"app": "web"}))
    assert matches(owner, pod) is is_one
    assert is_owner(held(owners=(owner,)), pod) is is_one
    if is_one:
        assert set(keys_of(owner)) & set(keys_for(pod))
        assert not is_owner(held(owners=(owner,)), replace(pod, reservation="other"))
        ignoring = replace(pod, pod=replace(pod.pod, labels=Labels.of({"app": "web", IGNORED: "true"})))
        assert not is_owner(held(owners=(owner,)), ignoring)


def test_an_empty_entry_is_nobodys() -> None:
    pod = seen(owned_by=(RS,), labels=Labels.of({"app": "web"}))
    assert not matches(ReservationOwner(), pod)
    assert not is_owner(held(owners=(ReservationOwner(), ReservationOwner())), pod)
    assert set(keys_of(ReservationOwner())) <= set(keys_for(pod))


amounts = st.dictionaries(st.sampled_from(["cpu", "memory", "x/y"]), st.integers(0, 50), max_size=3).map(Amounts.of)


@given(amounts, st.lists(amounts, max_size=4))
def test_what_is_left_does_not_depend_on_the_order_and_grows_by_at_most_what_an_owner_took(
    reserved: Amounts, drawn: list[Amounts]
) -> None:
    left = remainder(reserved, drawn)
    assert left == remainder(reserved, reversed(drawn))
    assert all(0 < left.get(name) <= reserved.get(name) for name in left.names())
    assert left + allocated(reserved, left) == Amounts.of((name, amount) for name, amount in reserved if amount)
    for i, one in enumerate(drawn):
        without = remainder(reserved, drawn[:i] + drawn[i + 1 :])
        assert all(without.get(name) - left.get(name) <= one.get(name) for name in reserved.names())
    for one in drawn:
        if covers(left, one):
            assert not remainder(left, [one])


def test_what_restricted_is_about() -> None:
    asks = Amounts.of({"cpu": 3000, "memory": 200})
    left = held().reserved
    assert shortage(held(), left, asks) == ""
    assert "has 100 of memory left, 200 requested" in shortage(held(policy=AllocatePolicy.RESTRICTED), left, asks)
    assert shortage(held(policy=AllocatePolicy.RESTRICTED, restricted=("cpu",)), left, asks) == ""
    assert "none of the requested resources left" in shortage(held(), left, Amounts.of({"x/y": 1}))


def test_which_of_several() -> None:
    asks = Amounts.of({"cpu": 1000, "memory": 100})
    ranks = [
        rank(held(name="tight", order=1), held().reserved, asks, False),
        rank(held(name="empty"), held().reserved, asks, True),
        rank(held(name="full"), Amounts.of({"cpu": 1000, "memory": 100}), asks, True),
        rank(held(name="ordered", order=9), held().reserved, asks, True),
        rank(held(name="unordered", order=-1), held().reserved, asks, True),
    ]
    assert [entry.name for entry in sorted(ranks)] == ["ordered", "full", "empty", "unordered", "tight"]


def test_ends() -> None:
    assert held(created_s=10.0).ends_s == 86_410.0
    assert held(ttl_s=0.0).ends_s == inf
    assert held(ttl_s=0.0, expires_s=5.0).ends_s == 5.0
    available = held(phase=ReservationPhase.AVAILABLE, node="a", ttl_s=10.0)
    assert ending(available, 9.0, False, 0) is None
    assert ending(replace(available, allocate_once=False), 9.0, False, 3) is None
    for case, reason in (
        (ending(available, 10.0, False, 0), "Expired"),
        (ending(available, 0.0, True, 0), "Expired"),
        (ending(available, 99.0, False, 1), "Succeeded"),
        (ending(held(ttl_s=1.0), 1.0, True, 0), "Expired"),
    ):
        assert case is not None
        assert case.reason == reason
        assert (ReservationPhase.AVAILABLE, case.phase) in LEGAL
    assert ending(replace(available, phase=ReservationPhase.FAILED), 99.0, True, 0) is None
    assert not any(before.is_final for before, _ in LEGAL)


def test_conditions_and_collection() -> None:
    assert conditions("", "", None) == ()
    assert conditions("", "no room", None) == (ReservationCondition("Scheduled", False, "Unschedulable", "no room"),)
    assert [condition.status for condition in conditions("a", "", None)] == [True, True]
    failed = held(
        phase=ReservationPhase.FAILED, conditions=(ReservationCondition("Ready", False, "Expired", "", 100.0),)
    )
    assert collect_at_s(failed, 500.0) == 86_500.0
    assert collect_at_s(held(phase=ReservationPhase.FAILED), 500.0, 10.0) == 510.0
    assert isnan(held().changed_s)


def test_what_cannot_be_kept() -> None:
    assert cannot_keep(held().pod) == ()
    assert "nothing to reserve" in cannot_keep(Pod("r"))[0]


def test_a_reservation_for_a_pod_that_is_to_move() -> None:
    pod = seen(
        "web-1-abc",
        requests=Amounts.of({"cpu": 1000}),
        labels=Labels.of({"app": "web", POD_GROUP: "g"}),
        node="a",
        owned_by=(RS,),
        demands=Demands(gang=GangNotes(name="g")),
    )
    made = reservation_for(pod, "move-1", 100.0)
    assert (made.ends_s, made.allocate_once, made.scheduler, made.demands) == (400.0, True, "cotenant", Demands())
    assert made.pod.labels == Labels.of({"app": "web"})
    assert made.owners == (
        ReservationOwner(controller=ControllerOwner("web-1", "default", "rs-1", "ReplicaSet", "apps/v1", True)),
    )
    required = made.pod.node_affinity.required  # type: ignore[union-attr]
    assert required is not None
    assert (required.matches("a", Labels()), required.matches("b", Labels())) == (False, True)
    replacement = replace(pod, uid="uid-new", node="", pod=replace(pod.pod, name="web-1-def"))
    assert is_owner(made, replacement)
    alone = reservation_for(replace(pod, owned_by=()), "move-2", 0.0, elsewhere=False)
    assert alone.owners == (ReservationOwner(object=ObjectOwner("web-1-abc", "default")),)
    assert alone.pod.node_affinity is None


@pytest.mark.parametrize(
    ("affinity", "obstacle_begins"),
    [
        (None, ""),
        (ReservationAffinity("r"), ""),
        (ReservationAffinity("other"), "the pod's reservation affinity does not select"),
        (ReservationAffinity(selector=Labels.of({"zone": "a"})), ""),
        (ReservationAffinity(selector=Labels.of({"zone": "b"})), "the pod's reservation affinity does not select"),
        (ReservationAffinity(required=zones("a", "b")), ""),
        (ReservationAffinity(required=zones("b")), "the pod's reservation affinity does not select"),
        (ReservationAffinity("r", required=zones("b")), "the pod's reservation affinity does not select"),
    ],
)
def test_an_owner_draws_only_from_what_its_affinity_selects(
    affinity: ReservationAffinity | None, obstacle_begins: str
) -> None:
    pod = seen(demands=Demands(reservation_affinity=affinity))
    found = obstacle(held(labels=Labels.of({"zone": "a"})), pod)
    assert found.startswith(obstacle_begins)
    assert bool(found) is bool(obstacle_begins)


def test_a_taint_of_a_reservation_keeps_owners_away_unless_it_is_tolerated_or_only_preferred() -> None:
    repelling, preferred = Taint("spot", "yes"), Taint("spot", "yes", TaintEffect.PREFER_NO_SCHEDULE)
    tolerant = Demands(reservation_affinity=ReservationAffinity(tolerations=(Toleration("spot", value="yes"),)))
    assert "has the taint" in obstacle(held(taints=(repelling,)), seen())
    assert not obstacle(held(taints=(repelling,)), seen(demands=tolerant))
    assert not obstacle(held(taints=(preferred,)), seen())


@pytest.mark.parametrize(
    ("names", "cpu", "fits"),
    [
        (("cpu",), 4000, True),
        (("cpu",), 3999, False),  # less than reserved is no match either
        (("cpu", "memory"), 4000, True),
        (("gpu", "cpu"), 3999, False),  # neither has a gpu: the next resource still counts
        (("gpu", "cpu"), 4000, True),
        (("storage",), 4000, False),  # the pod requests it, and nothing of it is reserved
        ((), 1, True),
    ],
)
def test_an_exact_match_wants_equal_amounts_of_each_named_resource(
    names: tuple[str, ...], cpu: int, fits: bool
) -> None:
    requests = Amounts.of({"cpu": cpu, "memory": 100, "storage": 5})
    found = obstacle(held(), seen(requests=requests, demands=Demands(exact_match=names)))
    assert bool(found) is not fits
    assert fits or found.endswith("its exact-match-reservation requires equal amounts")


def test_nothing_is_drawn_from_a_reservation_that_is_marked_unschedulable() -> None:
    assert obstacle(held(unschedulable=True), seen()) == "reservation r is marked unschedulable"

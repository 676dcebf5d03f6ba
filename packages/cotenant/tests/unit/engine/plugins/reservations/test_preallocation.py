"""Reservations with `preAllocation`: placed on room that running pods still use, which become their owners."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.fakes.cluster.reservation_world import WEB, World, node, pod, reservation, size, web
from tests.property.few import examples, first_cases

from cotenant.engine.framework.instructions import Bind, Preempt
from cotenant.engine.plugins.reservations.instructions import ReservationStatus, ReserveNode
from cotenant.model.cluster.affinity import PodTerm
from cotenant.model.cluster.demands import Demands, Holdings
from cotenant.model.cluster.labels import HOSTNAME, Labels, LabelSelector
from cotenant.model.cluster.qos import QoSClass
from cotenant.model.cluster.taints import Taint
from cotenant.model.groups.quota import NAME, Quota, QuotaObject
from cotenant.model.groups.reservation import AllocatePolicy, PreAllocation, Reservation, ReservationPhase
from cotenant.model.groups.reservation_notes import IGNORED, PRE_ALLOCATABLE, AllocatedReservation, ReservationAffinity
from cotenant.model.resources import NVIDIA_GPU, Amounts

ONE, SEVERAL = PreAllocation(), PreAllocation(multiple=True)


def taking(policy: PreAllocation = ONE, cpu: int = 3000, **more: object) -> Reservation:
    return reservation(cpu=cpu, **{"pre_allocation": policy, "allocate_once": False, "ttl_s": 0.0, **more})  # type: ignore[arg-type]


def running(*pods: object, nodes: tuple[object, ...] = (node("a"),)) -> World:
    w = World(*nodes)  # type: ignore[arg-type]
    w.see(*pods)  # type: ignore[arg-type]
    w.go()
    return w


def left(w: World) -> Amounts:
    found = w.reservations.describe("r")
    assert found is not None
    return found.left


def test_a_full_node_is_reserved_by_taking_a_running_owner() -> None:
    w = running(web("x", 2000, on="a"), pod("other", 1000, on="a"))  # 1 of 4 CPUs is free
    w.see(reservation("plain", 3000))
    assert not any(isinstance(instruction, ReserveNode) for instruction in w.go())
    w.reservations.gone("plain", w.now_s)
    w.see(taking())
    (reserve,) = (instruction for instruction in w.go() if isinstance(instruction, ReserveNode))
    assert (reserve.node, [taken.name for taken in reserve.takes]) == ("a", ["x"])
    held = w.held["uid-r"]
    assert (held.phase, held.allocatable, held.allocated) == (ReservationPhase.AVAILABLE, size(3000), size(2000))
    assert [owner.name for owner in held.current] == ["x"]
    assert left(w) == size(1000)
    w.see(pod("stranger", 1000))
    w.go()
    assert not w.on("stranger")  # 2 + 1 in use, 1 reserved
    w.delete("x")
    w.go(20.0)
    assert (left(w), w.on("stranger")) == (size(3000), "")  # what it released stays reserved
    w.see(web("y", 3000))
    w.go()
    assert w.on("y") == "a"


def test_it_survives_a_restart() -> None:
    w = running(web("x", 2000, on="a"), pod("other", 1000, on="a"))
    w.see(taking())
    w.go()
    w = w.again()
    w.go()
    assert left(w) == size(1000)


@pytest.mark.parametrize(
    ("cpu", "policy", "taken"),
    [
        (3500, ONE, []),  # neither pod alone frees enough
        (3500, SEVERAL, ["x", "y"]),
        (2500, SEVERAL, ["y"]),  # the one that fills most of it first, and no more than needed
        (2500, ONE, ["y"]),
    ],
)
def test_one_pod_or_as_many_as_are_needed(cpu: int, policy: PreAllocation, taken: list[str]) -> None:
    w = running(web("x", 1500, on="a"), web("y", 2000, on="a"))
    w.see(taking(policy, cpu))
    given_ = [instruction for instruction in w.go() if isinstance(instruction, ReserveNode)]
    assert sorted(owner.name for reserve in given_ for owner in reserve.takes) == taken


def test_restricted_takes_no_pod_that_exceeds_it() -> None:
    w = running(web("x", 3500, on="a"))
    w.see(replace(taking(), policy=AllocatePolicy.RESTRICTED))
    assert not any(isinstance(instruction, ReserveNode) for instruction in w.go())
    w.see(replace(w.held["uid-r"], policy=AllocatePolicy.ALIGNED))
    w.go(20.0)
    assert (w.held["uid-r"].phase, left(w)) == (ReservationPhase.AVAILABLE, Amounts())


def test_required_is_placed_with_a_pod_only_and_says_so() -> None:
    w = running()
    w.see(taking(PreAllocation(required=True), 1000))
    (status,) = (instruction for instruction in w.go() if isinstance(instruction, ReservationStatus))
    assert status.phase is ReservationPhase.PENDING
    assert status.conditions[0].message.startswith("The reservation requires pre-allocation.")
    assert "No running pod can be pre-allocated to it." in status.conditions[0].message
    w.see(web("x", 500, on="a"))
    w.go(20.0)
    assert [owner.name for owner in w.held["uid-r"].current] == ["x"]


def test_without_a_pod_that_helps_it_is_placed_like_any_other() -> None:
    w = running(web("x", 4000, on="a"), nodes=(node("a"), node("b")))
    w.see(taking(cpu=2000))
    (reserve,) = (instruction for instruction in w.go() if isinstance(instruction, ReserveNode))
    assert (reserve.node, [owner.name for owner in reserve.takes]) == ("a", ["x"])  # pods that can be taken come first
    w.see(replace(taking(cpu=2000), name="s", uid="uid-s"))
    (reserve,) = (instruction for instruction in w.go() if isinstance(instruction, ReserveNode))
    assert (reserve.node, reserve.takes) == ("b", ())


def test_mode_cluster_takes_marked_pods_by_their_priority() -> None:
    marked = Labels.of({PRE_ALLOCATABLE: "true"})
    w = running(
        web("owner", 1000, on="a"),
        pod("low", 1000, on="a", labels=marked, demands=Demands(pre_allocatable_priority=1)),
        pod("high", 1000, on="a", labels=marked, demands=Demands(pre_allocatable_priority=5)),
        pod("mid", 1000, on="a", labels=marked),
    )
    w.see(taking(PreAllocation(cluster=True), 1000))
    (reserve,) = (instruction for instruction in w.go() if isinstance(instruction, ReserveNode))
    assert [owner.name for owner in reserve.takes] == ["high"]


@pytest.mark.parametrize(
    "unfit",
    [
        web("x", 2000, on="a", holds=Holdings(reservation=AllocatedReservation("s", "uid-s"))),
        web("x", 2000, on="a", demands=Demands(reservation_affinity=ReservationAffinity("other"))),
        web("x", 2000, on="a", demands=Demands(exact_match=("cpu",))),
        pod("x", 2000, on="a"),
        pod("x", 2000, on="a", labels=Labels.of({"app": "web", IGNORED: "true"})),
        replace(web("x", 2000, on="a"), ends_s=9.0),
    ],
)
def test_pods_that_are_not_taken(unfit: object) -> None:
    w = running(unfit)
    w.see(taking())
    assert not any(isinstance(instruction, ReserveNode) for instruction in w.go())


def test_taints_keep_pods_from_being_taken_and_the_mark_unschedulable_does_not() -> None:
    w = running(web("x", 2000, on="a"))
    w.see(replace(taking(), taints=(Taint("spot", "yes"),)))
    assert not any(isinstance(instruction, ReserveNode) for instruction in w.go())
    w.see(replace(w.held["uid-r"], taints=(), unschedulable=True))
    w.go(20.0)
    assert w.held["uid-r"].phase is ReservationPhase.AVAILABLE


def test_rules_between_pods_do_not_count_the_pod_that_it_takes() -> None:
    apart = PodTerm(HOSTNAME, LabelSelector.of({"app": "web"}), frozenset({"default"}))
    w = running(web("x", 2000, on="a"))
    made = taking()
    w.see(replace(made, pod=replace(made.pod, anti_affinity=(apart,))))
    w.go()
    assert w.held["uid-r"].node == "a"


def test_used_once_it_ends_with_the_pod_that_it_took() -> None:
    w = running(web("x", 2000, on="a"))
    w.see(replace(taking(), allocate_once=True))
    w.go()
    assert (w.held["uid-r"].phase, w.held["uid-r"].allocated) == (ReservationPhase.SUCCEEDED, size(2000))


def test_a_pod_is_taken_once_its_bind_is_confirmed() -> None:
    w = World(node("a"))
    w.see(web("x", 2000))
    (bind,) = w.cluster.decide(w.now_s)
    assert isinstance(bind, Bind)
    w.see(taking())
    assert not any(isinstance(instruction, ReserveNode) for instruction in w.cluster.decide(w.now_s))
    w.carry_out(bind, True)
    w.go(20.0)
    assert [owner.name for owner in w.held["uid-r"].current] == ["x"]


def test_a_write_that_fails_takes_nothing_and_is_tried_again() -> None:
    w = running(web("x", 2000, on="a"), web("y", 2000, on="a"), nodes=(node("a", 5000),))
    w.see(taking())
    (reserve,) = (instruction for instruction in w.cluster.decide(w.now_s) if isinstance(instruction, ReserveNode))
    assert w.cluster.sending("uid-r", w.now_s)
    w.annotate(reserve)  # the pod is annotated, and the status is not written
    w.cluster.bind_failed("uid-r", "refused", w.now_s)
    w.cluster.validate()
    w.go(20.0)
    assert [owner.name for owner in w.held["uid-r"].current] == [reserve.takes[0].name]  # the same pod again
    assert left(w) == size(1000)


def test_a_taken_pod_that_leaves_before_the_status_is_written_leaves_the_room_reserved() -> None:
    w = running(web("x", 2000, on="a"), pod("other", 1000, on="a"))
    w.see(taking())
    (reserve,) = (instruction for instruction in w.cluster.decide(w.now_s) if isinstance(instruction, ReserveNode))
    w.delete("x")
    w.cluster.sending("uid-r", w.now_s)
    w.written(reserve.status, holds=reserve.holds)
    w.cluster.bound("uid-r", w.now_s)
    w.go()
    assert left(w) == size(3000)


def test_a_taken_pod_may_be_preempted_and_its_room_stays_reserved() -> None:
    w = running(web("x", 2000, on="a"), pod("other", 1000, on="a", priority=9500))
    w.see(taking())
    w.go()
    w.see(pod("big", 3000, priority=9000))
    preempts = [instruction for instruction in w.go() if isinstance(instruction, Preempt)]
    assert preempts == []  # 2 of 4 CPUs would be free only if the reservation gave way
    w.see(web("next", 2000, priority=9000))
    (preempt,) = (instruction for instruction in w.go(10.0) if isinstance(instruction, Preempt))
    assert [victim.key for victim in preempt.victims] == ["default/x"]
    w.delete("x")
    w.go(20.0)
    assert w.on("next") == "a"


def test_a_quota_counts_the_taken_pod_once_and_the_reservation_never() -> None:
    quota = Quota("q", maximum=size(3000))
    of_q = {"labels": Labels.of({"app": "web", NAME: "q"})}
    w = World(node("a"))
    w.cluster.plugins.quotas.quota_seen(QuotaObject("default/q", "uid-q", quota), 0.0)
    w.see(pod("x", 2000, on="a", **of_q))
    w.go()
    w.see(taking(cpu=4000))
    w.go()
    assert (w.held["uid-r"].node, left(w)) == ("a", size(2000))
    w.see(pod("y", 1500, **of_q))
    w.go()
    assert not w.on("y")  # the reservation has 2 CPUs left, the quota one
    w.see(pod("z", 1000, **of_q))
    w.go()
    assert (w.on("z"), left(w)) == ("a", size(1000))


def test_its_end_leaves_the_pods_that_it_took() -> None:
    w = running(web("x", 2000, on="a"), pod("other", 1000, on="a"))
    w.see(replace(taking(), ttl_s=30.0))
    w.go()
    w.go(31.0)
    assert (w.held["uid-r"].phase, w.on("x")) == (ReservationPhase.FAILED, "a")
    w.see(pod("stranger", 1000))
    w.go()
    assert w.on("stranger") == "a"


def test_what_is_allocated_by_number_is_refused_with_the_reason() -> None:
    for made in (
        taking(also=Amounts.of({NVIDIA_GPU: 1})),
        (lambda r: replace(r, pod=replace(r.pod, qos=QoSClass.LSR)))(taking()),
    ):
        w = running(web("x", 2000, on="a"))
        w.see(made)
        (status,) = (instruction for instruction in w.go() if isinstance(instruction, ReservationStatus))
        assert "spec.preAllocation does not support what is allocated by number" in status.conditions[0].message


@settings(max_examples=examples(60), deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from("ab"), st.integers(1, 4), st.booleans()), max_size=7),
    st.integers(1, 7),
    st.sampled_from([ONE, SEVERAL, PreAllocation(required=True), PreAllocation(multiple=True, required=True)]),
)
def test_against_every_choice_of_pods(there: list[tuple[str, int, bool]], cpu: int, policy: PreAllocation) -> None:
    """It is placed exactly where some choice of pods makes it fit; the pods that are taken are such a choice."""
    free = {"a": 6, "b": 6}
    owners: dict[str, list[int]] = {"a": [], "b": []}
    pods = []
    for i, (name, amount, is_owner) in enumerate(there):
        if amount <= free[name]:
            free[name] -= amount
            pods.append((web if is_owner else pod)(f"p{i}", amount * 1000, on=name))
            owners[name] += [amount] * is_owner
    w = running(*pods, nodes=(node("a", 6000), node("b", 6000)))
    w.see(taking(policy, cpu * 1000))
    found = [instruction for instruction in w.go() if isinstance(instruction, ReserveNode)]
    most = {name: (sum(of) if policy.multiple else max(of, default=0)) for name, of in owners.items()}
    fits = [n for n in free if cpu <= free[n] + most[n] and (owners[n] or not policy.required)]
    assert bool(found) == bool(fits)
    for reserve in found:
        assert reserve.node in fits
        by_name = {seen.pod.name: seen for seen in pods}
        took = [by_name[owner.name] for owner in reserve.takes]
        assert all(seen.node == reserve.node and seen.pod.labels == WEB for seen in took)
        assert cpu <= free[reserve.node] + sum(seen.pod.requests.get("cpu") for seen in took) // 1000
        assert took or not policy.required
        assert policy.multiple or len(took) <= 1
        assert w.room_taken(reserve.node) <= 6000


test_first_cases = first_cases(
    test_against_every_choice_of_pods,
)

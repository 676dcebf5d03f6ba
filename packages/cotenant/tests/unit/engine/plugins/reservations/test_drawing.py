"""Which reservation an owner would use on each node, and in which order others are tried."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np

from cotenant.engine.framework.pod_state import PodInfo
from cotenant.engine.plugins.reservations.drawing import candidates
from cotenant.engine.plugins.reservations.records import ReservationRecord
from cotenant.model.cluster.demands import Holdings
from cotenant.model.cluster.observed import ObservedPod
from cotenant.model.cluster.pod import Pod
from cotenant.model.cpus.spec import ResourceStatus
from cotenant.model.groups.reservation import Reservation
from cotenant.model.resources import Amounts, ResourceAxis

AXIS = ResourceAxis()
ALL = np.zeros(0, np.bool_)


def pod(name: str, cpu: int, row: int = -1, **more: int) -> PodInfo:
    requests = Amounts.of({"cpu": cpu, **more})
    return PodInfo(ObservedPod(Pod(name, requests=requests), f"u-{name}", "s", 0.0), row=row)


def reserved(
    name: str, row: int, left: int, of: int = 4000, order: int = 0, holds: Holdings | None = None
) -> ReservationRecord:
    """On a row; of its amount so much is left."""
    more: dict[str, Any] = {"holds": holds, "node": "n"} if holds is not None else {}
    template = Pod(name, requests=Amounts.of({"cpu": of}))
    return ReservationRecord(
        Reservation(name, f"u-{name}", template, order=order, **more), (), entry=pod(name, left, row)
    )


def tried(
    owner: PodInfo, *records: ReservationRecord, free: list[tuple[int, int]] | None = None, only: Any = ALL
) -> list[dict[int, str]]:
    """Names of reservations by row, one map after the other. `free`: milli-CPU and pod slots of each row."""
    rows = free if free is not None else [(0, 1)] * 40
    requested = np.array([[7, 0, 3] for _ in rows])
    capacity = requested + np.array([[cpu, 0, slots] for cpu, slots in rows])
    nodes = SimpleNamespace(capacity=capacity, requested=requested)
    found = candidates(owner, records, cast(Any, nodes), AXIS, only)
    return [{row: record.reservation.name for row, record in one.items()} for one in found]


def test_the_best_of_every_node_comes_first_then_the_second_best() -> None:
    """A remainder that is used up is better than one that is not, and an order is better than none."""
    owner = pod("owner", 1000)
    exact, large = reserved("exact", 0, 1000), reserved("large", 0, 4000)
    ordered, late = reserved("ordered", 1, 4000, order=1), reserved("late", 1, 1000, order=2)
    assert tried(owner, large, exact) == [{0: "exact"}, {0: "large"}]
    assert tried(owner, late, ordered) == [{1: "ordered"}, {1: "late"}]
    assert tried(owner, large, exact, late, ordered) == [
        {1: "ordered"},
        {0: "exact"},
        {1: "late"},
        {0: "large"},
    ]


def test_what_the_node_has_besides_counts_to_the_last_milli_core() -> None:
    owner = pod("owner", 3000)
    small, near = reserved("small", 0, 1000), reserved("near", 1, 1000)
    assert tried(owner, small, near, free=[(2000, 1), (1999, 1)]) == [{0: "small"}, {1: "near"}]
    assert tried(owner, small, near, free=[(1999, 1), (2000, 1)]) == [{1: "near"}, {0: "small"}]
    # memory is on the axis, and none of it is there; what the axis does not have is judged by its own rule
    assert tried(pod("m", 1000, memory=1), reserved("a", 0, 1000), reserved("b", 1, 1000, order=5)) == [
        {1: "b"},
        {0: "a"},
    ]
    assert tried(pod("x", 1000, **{"example.com/x": 9}), reserved("a", 0, 1000)) == [{0: "a"}]


def test_an_owner_that_leaves_a_part_needs_a_slot_for_itself() -> None:
    partly, whole = pod("owner", 1000), pod("owner", 4000)
    for slots, owner, is_there in ((1, partly, True), (0, partly, False), (0, whole, True), (-1, whole, False)):
        assert bool(tried(owner, reserved("r", 0, 4000), free=[(9000, slots)])) is is_there
    with_cpus = reserved("r", 0, 4000, holds=Holdings(ResourceStatus((0, 1))))
    assert tried(whole, with_cpus, free=[(9000, 0)]) == []  # what was reserved by number may stay behind
    assert tried(whole, with_cpus, free=[(9000, 1)]) == [{0: "r"}]


def test_nodes_that_are_not_asked_for_and_reservations_without_one_are_left_out() -> None:
    owner = pod("owner", 1000)
    records = [reserved("a", 0, 1000), reserved("b", 1, 1000), reserved("none", -1, 1000)]
    gone = reserved("gone", 2, 1000)
    gone.entry = None
    assert tried(owner, *records, gone) == [{0: "a", 1: "b"}]
    assert tried(owner, *records, only=np.array([False, True])) == [{1: "b"}]
    assert tried(owner, reserved("empty", 0, 0)) == []


def test_of_many_nodes_a_few_are_judged_at_a_time() -> None:
    records = [reserved(f"r{row:02}", row, 1000) for row in range(33)]
    found = tried(pod("owner", 1000), *records)
    assert [len(one) for one in found] == [16, 16, 1]
    assert [row for one in found for row in one] == list(range(33))

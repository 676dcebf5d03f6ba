"""Pools as a node sees them: generations, missing slices, contradictions, order, and which devices it can use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from cotenant.model.claims.devices import (
    CounterSet,
    CounterUse,
    DeviceTaint,
    OfferedDevice,
    PoolId,
    Reach,
    ResourceSlice,
    TaintRule,
)
from cotenant.model.cluster.labels import NO_LABELS
from cotenant.policy.claims.pools import DevicePool, PoolState, pools_of, reaches

HERE, THERE, EVERYWHERE = Reach("n1"), Reach("n2"), Reach(all=True)


def devices(*names: str, **more: Any) -> tuple[OfferedDevice, ...]:
    return tuple(OfferedDevice(name, **more) for name in names)


def offered(name: str, *names: str, **more: Any) -> ResourceSlice:
    fields: dict[str, Any] = {"generation": 1, "slices": 1, "reach": HERE, "devices": devices(*names), **more}
    return ResourceSlice(name, fields.pop("driver", "d"), fields.pop("pool", "p"), **fields)


def seen(*slices: ResourceSlice, every: Sequence[ResourceSlice] = (), rules: Sequence[TaintRule] = ()) -> Any:
    def all_of(pool: PoolId) -> list[ResourceSlice]:
        return [one for one in (*slices, *every) if one.pool_id == pool]

    return pools_of("n1", NO_LABELS, slices, all_of, rules)


def names(pool: DevicePool) -> list[str]:
    return [one.id.device for one in pool.devices]


@pytest.mark.parametrize(
    ("reach", "is_in"),
    [(HERE, True), (THERE, False), (EVERYWHERE, True), (Reach(), False), (Reach("n2", all=True), False)],
)
def test_a_reach_is_a_node_or_all_or_none(reach: Reach, is_in: bool) -> None:
    assert reaches(reach, "n1", NO_LABELS) is is_in


def test_devices_come_by_driver_pool_slice_and_their_order_in_it() -> None:
    found = seen(
        offered("z", "z1", "a1", pool="p2", slices=2),
        offered("b", "b1", pool="p2", slices=2),
        offered("x", "x1", pool="p1"),
        offered("y", "y1", driver="c", pool="p9"),
    )
    assert [(pool.id, names(pool)) for pool in found] == [
        (("c", "p9"), ["y1"]), (("d", "p1"), ["x1"]), (("d", "p2"), ["b1", "z1", "a1"]),
    ]  # fmt: skip
    assert {pool.state for pool in found} == {PoolState.USABLE}


def test_pools_whose_devices_wait_for_conditions_come_last() -> None:
    waiting = replace(offered("w", pool="a"), devices=devices("w1", binding_conditions=("Ready",)))
    assert [pool.id.pool for pool in seen(waiting, offered("x", "x1", pool="b"))] == ["b", "a"]


def test_only_the_newest_generation_counts_whatever_the_order() -> None:
    old, new = offered("old", "o1"), offered("new", "n1", generation=2)
    for slices in ((old, new), (new, old)):
        (pool,) = seen(*slices)
        assert names(pool) == ["n1"]


def test_a_newer_generation_that_offers_nothing_here_hides_the_older() -> None:
    assert seen(offered("old", "o1", slices=2), every=[offered("new", "x", generation=2, reach=THERE)]) == ()


def test_slices_of_other_nodes_complete_a_pool_and_their_devices_are_elsewhere() -> None:
    other = offered("other", "o1", slices=2, reach=THERE)
    (pool,) = seen(offered("mine", "m1", slices=2), every=[other])
    assert (pool.state, names(pool)) == (PoolState.USABLE, ["m1"])
    assert [one.id.device for one in pool.elsewhere] == ["o1"]


def test_a_pool_without_all_its_slices_is_incomplete() -> None:
    (pool,) = seen(offered("mine", "m1", slices=3), every=[offered("other", "o1", slices=3, reach=THERE)])
    assert (pool.state, pool.why, pool.devices) == (PoolState.INCOMPLETE, "2 of 3 slices", ())


def test_what_concerns_no_device_here_is_no_pool() -> None:
    assert seen(offered("there", "t1", reach=THERE)) == ()
    each = replace(offered("each", reach=None), devices=devices("e1", reach=THERE))
    assert seen(each) == ()
    some = replace(each, devices=(*devices("e1", reach=THERE), *devices("e2", reach=HERE), *devices("e3")))
    (pool,) = seen(some)
    assert names(pool) == ["e2"]
    assert [one.id.device for one in pool.elsewhere] == ["e1", "e3"]
    counters = offered("c", reach=THERE, counters=(CounterSet("s", (("m", 5),)),))
    assert seen(counters) == ()  # counters alone are nothing to use


def with_counters(*uses: CounterUse, sets: tuple[str, ...] = ("s",)) -> DevicePool:
    counters = offered("c", slices=2, reach=THERE, counters=tuple(CounterSet(name, (("m", 5),)) for name in sets))
    using = replace(offered("u", slices=2), devices=devices("u1", uses=uses))
    (pool,) = seen(using, counters)
    return pool  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("uses", "sets", "why"),
    [
        ((CounterUse("s", (("m", 1),)),), ("s",), ""),
        ((CounterUse("t", (("m", 1),)),), ("s",), "there is no counter set t"),
        ((CounterUse("s", (("m", 1), ("k", 1))),), ("s",), "counter set s has no counter k"),
        ((), ("s", "s"), "two counter sets have one name"),
    ],
)
def test_counters_that_a_device_takes_must_be_there(
    uses: tuple[CounterUse, ...], sets: tuple[str, ...], why: str
) -> None:
    pool = with_counters(*uses, sets=sets)
    assert (pool.state, pool.why) == (PoolState.INVALID if why else PoolState.USABLE, why)
    assert len(pool.counters) == (0 if why else 1)


def test_two_devices_of_one_name_make_a_pool_invalid() -> None:
    (pool,) = seen(offered("a", "x", slices=2), offered("b", "x", slices=2))
    assert (pool.state, pool.why) == (PoolState.INVALID, "two devices are called x")


def test_rules_taint_the_devices_that_they_cover() -> None:
    own, more = DeviceTaint("own"), DeviceTaint("more")
    given = replace(offered("a"), devices=(*devices("x", taints=(own,)), *devices("y")))
    (pool,) = seen(given, rules=[TaintRule("r", more, device="x"), TaintRule("q", more, driver="other")])
    assert [one.taints for one in pool.devices] == [(own, more), ()]

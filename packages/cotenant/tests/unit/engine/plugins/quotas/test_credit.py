"""Credit changes shares and order among equals, and neither priorities, gangs nor guarantees."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.fakes.cluster.quota_world import World, bound, cpu, evicted, node, pod, quota
from tests.property.few import examples

from cotenant.engine.plugins.quotas.credit import MAX_ADVANCE_S, advance_s, weighted
from cotenant.model.cluster.demands import Demands
from cotenant.model.cluster.observed import ObservedPod
from cotenant.model.groups.gang import GangNotes
from cotenant.model.groups.quota import NO_LIMIT, Quota, QuotaObject
from cotenant.model.resources import Amounts
from cotenant.policy.quota.tree import QuotaTree


def standing(of: QuotaObject, value: int) -> QuotaObject:
    return replace(of, standing=value)


def two(debtor: int, lender: int, least: int = 2, *, on: bool = True, cores: int = 10) -> World:
    world = World(node("n", cores), credit=on, revoke_after_s=120.0)
    world.write(standing(quota("debtor", least, 100), debtor), standing(quota("lender", least, 100), lender))
    return world


def whole(name: str, of: str, share: int = 1, **more: object) -> ObservedPod:
    """A pod of one core with a share of the node's memory, so that the node decides and not the quota."""
    return pod(name, 1, of, requests=Amounts.of({"cpu": 1000, "memory": (1 << 40) // share}), **more)


def test_of_equals_the_tenant_with_credit_goes_first() -> None:
    for on, first in ((True, ["l"]), (False, ["d"])):
        world = two(-1000, 1000, on=on)
        world.create(whole("d", "debtor", created_s=0.0), whole("l", "lender", created_s=100.0))
        assert bound(world.go()) == first


def test_a_pod_that_waited_longer_than_the_bound_goes_first_whatever_the_credit() -> None:
    world = two(-1000, 1000)
    late = 2 * MAX_ADVANCE_S + 1
    world.create(whole("d", "debtor", created_s=0.0), whole("l", "lender", created_s=late))
    assert bound(world.go()) == ["d"]


def test_priority_precedes_credit() -> None:
    world = two(-1000, 1000)
    world.create(whole("l", "lender", created_s=0.0), whole("d", "debtor", priority=1, created_s=50.0))
    assert bound(world.go()) == ["d"]


def test_sub_priority_precedes_credit() -> None:
    world = two(-1000, 1000)
    world.create(whole("l", "lender", created_s=0.0), whole("d", "debtor", sub_priority=1, created_s=50.0))
    assert bound(world.go()) == ["d"]


def test_a_gang_is_placed_whole_or_not_at_all_whatever_the_credit() -> None:
    def gang(name: str, of: str, created_s: float) -> list[ObservedPod]:
        demands = Demands(gang=GangNotes(name=name, min_available=3))
        pods = [whole(f"{name}{i}", of, 3, created_s=created_s + i) for i in range(3)]
        return [replace(observed_pod, demands=demands) for observed_pod in pods]

    world = two(-1000, 1000, least=4)
    world.create(*gang("d", "debtor", 0.0), *gang("l", "lender", 50.0))
    assert bound(world.go()) == ["l0", "l1", "l2"]
    world.delete("l0", "l1", "l2")
    assert bound(world.go(700.0)) == ["d0", "d1", "d2"]


def test_shared_resources_follow_credit_and_guarantees_do_not() -> None:
    world = two(-1000, 1000, least=10, cores=100)
    for of in ("debtor", "lender"):
        world.create(*(pod(f"{of}{i}", 1, of) for i in range(100)))
    world.go()
    assert (world.runtime("debtor"), world.runtime("lender")) == (10 + 20, 10 + 60)
    assert (world.seated("debtor"), world.seated("lender")) == (30, 70)


def test_the_debtor_gives_back_first() -> None:
    """Both borrowed equally; a third quota claims its guarantee."""
    world = two(0, 0, least=10, cores=100)
    world.write(quota("third", 20, 100))
    for of in ("debtor", "lender"):
        world.create(*(pod(f"{of}{i}", 1, of) for i in range(50)))
    world.go()
    assert (world.seated("debtor"), world.seated("lender")) == (50, 50)
    world.write(standing(quota("debtor", 10, 100), -1000), standing(quota("lender", 10, 100), 1000))
    world.create(*(pod(f"third{i}", 1, "third") for i in range(20)))
    world.go(10.0)
    gone = evicted(world.go(130.0))
    assert len(gone) >= 20
    assert all(name.startswith("debtor") for name in gone)
    assert 50 - len(gone) >= 10  # what is guaranteed stays


def test_a_tenant_in_debt_gets_its_guarantee() -> None:
    world = two(-1000, 1000, least=50, cores=100)
    for of in ("debtor", "lender"):
        world.create(*(pod(f"{of}{i}", 1, of) for i in range(100)))
    world.go()
    assert (world.seated("debtor"), world.seated("lender")) == (50, 50)


def test_a_standing_is_ignored_where_credit_is_off() -> None:
    world = two(-1000, 1000, least=10, on=False, cores=100)
    for of in ("debtor", "lender"):
        world.create(*(pod(f"{of}{i}", 1, of) for i in range(100)))
    world.go()
    assert (world.runtime("debtor"), world.runtime("lender")) == (50, 50)


@pytest.mark.parametrize("value", [-1000, -1, 0, 1, 1000, 10**9, -(10**9)])
def test_the_influence_is_bounded(value: int) -> None:
    assert abs(advance_s(value)) <= MAX_ADVANCE_S
    for amount in (1, 7, 10**6, NO_LIMIT):
        made = weighted(Quota("q", Amounts.of({"cpu": amount})), value).weight.get("cpu")
        assert max(1, amount // 2) <= made <= min(NO_LIMIT, amount * 3 // 2)


STANDINGS = st.integers(-1000, 1000)


@settings(max_examples=examples(60), deadline=None)
@given(
    st.integers(0, 300),
    st.lists(st.tuples(st.integers(0, 60), st.integers(0, 200), STANDINGS), min_size=1, max_size=5),
)
def test_no_runtime_falls_below_the_guarantee_and_no_unit_is_lost(
    total: int, members: list[tuple[int, int, int]]
) -> None:
    def runtimes(on: bool) -> list[int]:
        quotas = [Quota(f"q{i}", cpu(300), cpu(least)) for i, (least, _, _) in enumerate(members)]
        if on:
            quotas = [weighted(entry, value) for entry, (_, _, value) in zip(quotas, members, strict=True)]
        tree = QuotaTree(quotas, cpu(total))
        for i, (_, asked, _) in enumerate(members):
            tree.ask(f"q{i}", cpu(asked))
        return [dict(tree.runtime(f"q{i}"))["cpu"] for i in range(len(members))]

    plain, credited = runtimes(False), runtimes(True)
    tree = QuotaTree([Quota(f"q{i}", cpu(300), cpu(least)) for i, (least, _, _) in enumerate(members)], cpu(total))
    for i, (_, asked, _) in enumerate(members):
        tree.ask(f"q{i}", cpu(asked))
    for i, (_, asked, _) in enumerate(members):
        guaranteed = tree.runtime_terms(f"q{i}", "cpu").scaled_minimum
        assert credited[i] >= min(asked * 1000, guaranteed)
    assert sum(credited) == sum(plain)

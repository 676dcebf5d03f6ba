"""Factors follow the global dominant share, within their bounds, whatever a cluster states."""

from __future__ import annotations

from itertools import product

from cotenant.policy.federation.statement import NONE, ClusterRoom, Statement, TenantSums, Vector
from cotenant.policy.federation.weights import (
    MAX_PERMILLE,
    MIN_PERMILLE,
    dominant_ppm,
    factors,
    global_shares_ppm,
    weighted_permille,
)


def stated(cluster: str, capacity: Vector, *tenants: TenantSums) -> Statement:
    return Statement(cluster, "s", 1, 0, 30_000, 0, ClusterRoom(capacity, (0, 0, 0)), tenants)


def test_the_dominant_share_is_of_all_clusters() -> None:
    one = stated("a", (100, 1000, 0), TenantSums("x", (50, 100, 0)))
    other = stated("b", (300, 1000, 4), TenantSums("x", (50, 100, 3)))
    assert global_shares_ppm([one, other]) == {"x": 750_000}  # 3 of 4 GPUs; CPU 100 of 400
    assert dominant_ppm((5, 5, 5), (0, 0, 0)) == 0


def test_who_has_much_elsewhere_weighs_less_where_it_competes() -> None:
    here = stated("a", (100, 0, 0), TenantSums("rich", (50, 0, 0)), TenantSums("poor", (50, 0, 0)))
    there = stated("b", (100, 0, 0), TenantSums("rich", (90, 0, 0)))
    found = factors([here, there], {})
    assert found["rich"] < 1000 < found["poor"]
    again = factors([here, there], found)
    assert again["rich"] < found["rich"]
    assert again["poor"] > found["poor"]


def test_guarantees_are_claims() -> None:
    found = factors(
        [
            stated(
                "a",
                (100, 0, 0),
                TenantSums("large", (60, 0, 0), (60, 0, 0)),
                TenantSums("small", (20, 0, 0), (20, 0, 0)),
            )
        ],
        {},
    )
    assert found == {"large": 1000, "small": 1000}


def test_credit_decides_among_equals() -> None:
    sums = [TenantSums("a", (50, 0, 0), credit=1000), TenantSums("b", (50, 0, 0), credit=-1000)]
    assert factors([stated("c", (100, 0, 0), *sums)], {}) == {"a": 1250, "b": 750}


def test_one_that_overstates_credit_is_outvoted() -> None:
    honest = [stated(name, (100, 0, 0), TenantSums("a", (50, 0, 0)), TenantSums("b", (50, 0, 0))) for name in "cd"]
    liar = stated("e", (100, 0, 0), TenantSums("a", (50, 0, 0), credit=1000), TenantSums("b", (50, 0, 0)))
    assert factors([*honest, liar], {}) == {"a": 1000, "b": 1000}


def test_factors_stay_within_their_bounds_for_ever() -> None:
    amounts = [(0, 0, 0), (1, 0, 0), (100, 1 << 50, 8)]
    for one, other in product(amounts, amounts):
        before: dict[str, int] = {}
        for _ in range(50):
            told = stated(
                "a", (100, 1 << 53, 8), TenantSums("x", one, credit=1000), TenantSums("y", other, credit=-1000)
            )
            before = factors([told], before)
            assert all(MIN_PERMILLE <= permille <= MAX_PERMILLE for permille in before.values())


def test_alone_nothing_changes() -> None:
    assert factors([stated("a", (100, 0, 0), TenantSums("x", (90, 0, 0)), TenantSums("idle", (0, 0, 0)))], {}) == {
        "idle": 1000,
        "x": 1000,
    }
    assert factors([], {"x": 500}) == {}


def test_a_weight_above_zero_stays_above_zero() -> None:
    assert [weighted_permille(amount, 500) for amount in (0, 1, 2, 3)] == [0, 1, 1, 1]


def test_who_overstates_a_guarantee_claims_what_its_cluster_could_keep_at_most() -> None:
    def after_a_round(guarantee: int) -> dict[str, int]:
        tenants = [TenantSums(name, (20, 0, 0), (20, 0, 0)) for name in ("friend", "one", "other")]
        honest = [stated(name, (100, 0, 0), *tenants) for name in "abc"]
        liar = stated("d", (10, 0, 0), TenantSums("friend", NONE, (guarantee, 0, 0)))
        return factors([*honest, liar], {})

    assert after_a_round(0) == {"friend": 1000, "one": 1000, "other": 1000}
    assert after_a_round(2**53) == after_a_round(10)
    assert 1000 < after_a_round(2**53)["friend"] < 1100

"""What no honest cluster states is refused, and names the field."""

from __future__ import annotations

import msgspec
import pytest

from cotenant.model.errors import InvalidInput
from cotenant.model.prediction.shared_use import UseEvidence
from cotenant.policy.federation.shared_profiles import Evidence, SharedProfile
from cotenant.policy.federation.statement import (
    MAX_TENANTS,
    ClusterRoom,
    Statement,
    TenantSums,
    check_name,
    check_statement,
    fit_to,
)

REGISTERED = (64_000, 65_536, 8)
GOOD = Statement(
    "east", "s", 1, 0, 30_000, 0, ClusterRoom((64_000, 65_536, 0), (32_000, 32_768, 0)), (TenantSums("a", (1, 1, 0)),)
)


def test_a_good_one_passes() -> None:
    check_statement(GOOD, REGISTERED)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"cluster": "East"}, "cluster"),
        ({"cluster": "x" * 300}, "cluster"),
        ({"session": ""}, "session"),
        ({"epoch": 0}, "epoch"),
        ({"epoch": 10**30}, "epoch"),
        ({"lasts_ms": 10**9}, "lasts_ms"),
        ({"lasts_ms": -1}, "lasts_ms"),
        ({"epsilon_milli": -1}, "epsilon_milli"),
        ({"room": ClusterRoom((64_001, 0, 0), (0, 0, 0))}, "capacity cpu_milli"),
        ({"room": ClusterRoom((64_000, 0, 0), (64_000, 1, 0))}, "free memory_mib"),
        ({"room": ClusterRoom((64_000, 0, 0), (-1, 0, 0))}, "free cpu_milli"),
        ({"room": ClusterRoom((0, 0, 0), (0, 0, 0), objectives=1, objectives_missed=2)}, "objectives_missed"),
        ({"tenants": (TenantSums("a", (-1, 0, 0)),)}, "a.used cpu_milli"),
        ({"tenants": (TenantSums("a", (10**400, 0, 0)),)}, "a.used cpu_milli"),
        ({"tenants": (TenantSums("a", (0, 0, 0), credit=1001),)}, "a.credit"),
        ({"tenants": (TenantSums("a", (0, 0, 0), violations=-1),)}, "a.violations"),
        ({"tenants": (TenantSums("a", (0, 0, 0)), TenantSums("a", (0, 0, 0)))}, "tenants"),
        ({"tenants": (TenantSums("a b", (0, 0, 0)),)}, "tenant"),
        ({"tenants": (TenantSums("a", (40_000, 0, 0)), TenantSums("b", (40_000, 0, 0)))}, "sum of used cpu_milli"),
        ({"tenants": tuple(TenantSums(f"t{i}", (0, 0, 0)) for i in range(MAX_TENANTS + 1))}, "tenants"),
    ],
)
def test_impossible_ones_are_refused(change: dict[str, object], field: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        check_statement(msgspec.structs.replace(GOOD, **change), REGISTERED)
    assert refused.value.field == field
    assert len(str(refused.value)) < 400


def test_ten_thousand_tenants_are_taken() -> None:
    tenants = tuple(TenantSums(f"t{i}", (6, 6, 0)) for i in range(MAX_TENANTS))
    check_statement(msgspec.structs.replace(GOOD, tenants=tenants), REGISTERED)


def test_noise_is_scaled_into_the_capacity() -> None:
    tenants = (TenantSums("a", (90, 10, 0)), TenantSums("b", (60, 10, 1)))
    fitted = fit_to((100, 100, 0), tenants)
    assert [sums.used for sums in fitted] == [(60, 10, 0), (40, 10, 0)]
    assert fit_to((150, 100, 1), tenants) == tenants


def refused(change: dict[str, object]) -> InvalidInput | None:
    """What is said of the good statement with this change."""
    try:
        check_statement(msgspec.structs.replace(GOOD, **change), REGISTERED)
    except InvalidInput as error:
        return error
    return None


def room(**change: object) -> dict[str, object]:
    return {"room": msgspec.structs.replace(GOOD.room, **change)}


def tenant(**change: object) -> dict[str, object]:
    return {"tenants": (msgspec.structs.replace(TenantSums("a", (0, 0, 0)), **change),)}


@pytest.mark.parametrize(
    ("least", "below", "most", "above", "range_"),
    [
        ({"epoch": 1}, {"epoch": 0}, {"epoch": 2**53}, {"epoch": 2**53 + 1}, "1 to 9007199254740992"),
        ({"issued_ms": 0}, {"issued_ms": -1}, {"issued_ms": 2**53}, {"issued_ms": 2**53 + 1}, "0 to 9007199254740992"),
        ({"lasts_ms": 1000}, {"lasts_ms": 999}, {"lasts_ms": 3_600_000}, {"lasts_ms": 3_600_001}, "1000 to 3600000"),
        (
            {"epsilon_milli": 0},
            {"epsilon_milli": -1},
            {"epsilon_milli": 1_000_000},
            {"epsilon_milli": 1_000_001},
            "0 to 1000000",
        ),
        (room(price_micro=0), room(price_micro=-1), room(price_micro=2**53), room(price_micro=2**53 + 1), "0 to 9007"),
        (room(objectives=0), room(objectives=-1), room(objectives=2**53), room(objectives=2**53 + 1), "0 to 9007"),
        (
            room(objectives=5, objectives_missed=0),
            room(objectives=5, objectives_missed=-1),
            room(objectives=5, objectives_missed=5),
            room(objectives=5, objectives_missed=6),
            "0 to 5",
        ),
        (tenant(credit=-1000), tenant(credit=-1001), tenant(credit=1000), tenant(credit=1001), "-1000 to 1000"),
        (
            tenant(violations=0),
            tenant(violations=-1),
            tenant(violations=2**53),
            tenant(violations=2**53 + 1),
            "0 to 9007199254740992",
        ),
        (
            tenant(guaranteed=(0, 0, 0)),
            tenant(guaranteed=(0, 0, -1)),
            tenant(guaranteed=(0, 2**53, 0)),
            tenant(guaranteed=(0, 2**53 + 1, 0)),
            "0 to 9007199254740992",
        ),
        (
            room(largest_free=(0, 0, 0)),
            room(largest_free=(-1, 0, 0)),
            room(largest_free=(2**53, 0, 0)),
            room(largest_free=(2**53 + 1, 0, 0)),
            "0 to 9007199254740992",
        ),
        (
            room(lent_free=(0, 0, 0)),
            room(lent_free=(0, -1, 0)),
            room(lent_free=(0, 0, 2**53)),
            room(lent_free=(0, 0, 2**53 + 1)),
            "0 to 9007199254740992",
        ),
    ],
)
def test_a_range_has_its_ends_and_nothing_beyond(
    least: dict[str, object], below: dict[str, object], most: dict[str, object], above: dict[str, object], range_: str
) -> None:
    assert refused(least) is None
    assert refused(most) is None
    for change in (below, above):
        error = refused(change)
        assert error is not None
        assert range_ in str(error)


def test_amounts_may_be_all_that_there_is_and_no_more() -> None:
    whole = (64_000, 65_536, 8)
    assert refused({"room": ClusterRoom(whole, whole), "tenants": (TenantSums("a", whole),)}) is None
    for at, name in enumerate(("cpu_milli", "memory_mib", "gpus")):
        more = (*whole[:at], whole[at] + 1, *whole[at + 1 :])
        for change, field, expected in (
            ({"room": ClusterRoom(more, whole)}, f"capacity {name}", f"at most what is registered, {whole[at]}"),
            ({"room": ClusterRoom(whole, more)}, f"free {name}", f"at most the capacity, {whole[at]}"),
            (
                {"room": ClusterRoom(whole, whole), "tenants": (TenantSums("a", more),)},
                f"sum of used {name}",
                f"at most the stated capacity, {whole[at]}",
            ),
        ):
            error = refused(change)
            assert error is not None
            assert (error.field, error.value, error.expected) == (field, whole[at] + 1, expected)


def test_names_and_sessions_have_their_lengths() -> None:
    for name in ("a", "a" * 253, "a.b-c", "0"):
        check_name("cluster", name)
    for name in ("", "a" * 254, "-a", "a-", ".a", "A", "a_b", "a\n"):
        with pytest.raises(InvalidInput, match="at most 253 lower-case letters"):
            check_name("cluster", name)
    assert refused({"session": "s" * 64}) is None
    for session in ("", "s" * 65):
        error = refused({"session": session})
        assert error is not None
        assert (error.field, error.value, error.expected) == ("session", session[:64], "1 to 64 characters")


def profiles(*found: SharedProfile) -> dict[str, object]:
    return {"profiles": found}


def test_profiles_are_so_many_each_once_and_possible() -> None:
    good = Evidence(500, 400, 600, 3)
    assert refused(profiles(*(SharedProfile(f"p{i}", good, good, good) for i in range(1000)))) is None
    for change, field, expected in (
        (profiles(*(SharedProfile(f"p{i}") for i in range(1001))), "profiles", "at most 1000"),
        (profiles(SharedProfile("p"), SharedProfile("q"), SharedProfile("p")), "profiles", "each name once"),
        (profiles(SharedProfile("P")), "profile", "at most 253 lower-case letters, digits, '-' and '.'"),
    ):
        error = refused(change)
        assert error is not None
        assert (error.field, error.expected) == (field, expected)


@pytest.mark.parametrize(
    "wrong",
    [
        Evidence(500, 501, 600, 3),
        Evidence(500, 400, 499, 3),
        Evidence(500, -1, 600, 3),
        Evidence(500, 400, 1001, 3),
        Evidence(500, 400, 600, 0),
    ],
)
def test_each_figure_of_a_profile_must_be_possible(wrong: Evidence) -> None:
    good = Evidence(500, 500, 500, 1)
    for figures in ((wrong, good, good), (good, wrong, good), (good, good, wrong), (None, None, wrong)):
        error = refused(profiles(SharedProfile("fine"), SharedProfile("p", *figures)))
        assert error is not None
        assert error.field == "profile p"


def test_predictions_are_so_many_and_each_once() -> None:
    asked = [UseEvidence(f"u{i}") for i in range(41)]
    assert refused({"predictions": tuple(asked[:40])}) is None
    for change, expected in (
        (tuple(asked), "at most 40"),
        ((*asked[:3], asked[0]), "each name once"),
        ((UseEvidence("U"),), "at most 253 lower-case letters, digits, '-' and '.'"),
    ):
        error = refused({"predictions": change})
        assert error is not None
        assert error.expected == expected
    learned = refused({"predictions": (UseEvidence("u", trust_ppm=1),)})
    assert learned is not None
    assert learned.field == "prediction u"


def test_what_is_not_stated_is_nothing() -> None:
    nothing = (0, 0, 0)
    assert TenantSums("a", (1, 1, 0)) == TenantSums("a", (1, 1, 0), nothing, 0, 0)
    assert ClusterRoom((1, 2, 3), (1, 1, 1)) == ClusterRoom((1, 2, 3), (1, 1, 1), nothing, nothing, 0, 0, 0)


def test_only_what_exceeds_the_capacity_is_scaled_and_nothing_is_rounded_up() -> None:
    tenants = (TenantSums("a", (2, 30, 1), credit=7), TenantSums("b", (1, 20, 0)))
    fitted = fit_to((2, 50, 1), tenants)
    assert [sums.used for sums in fitted] == [(1, 30, 1), (0, 20, 0)]
    assert fitted[0].credit == 7
    assert fit_to((3, 50, 1), tenants) == tenants
    assert fit_to(nothing := (0, 0, 0), ()) == ()
    assert [sums.used for sums in fit_to(nothing, tenants)] == [nothing, nothing]

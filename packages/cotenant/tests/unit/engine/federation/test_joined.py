"""Weights are taken, applied from the owner's, and given back."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import pytest
from tests.fakes.shared_use import use_evidence

from cotenant.engine.federation.hub import FederationWeights
from cotenant.engine.federation.joined import Joined, KeptWeight, WeighedQuota, WriteWeight, writes
from cotenant.model.resources import Amounts

MAXIMUM = Amounts.of({"cpu": 40_000})


def amounts(text: str | None) -> Amounts | None:
    return Amounts.parse(msgspec.json.decode(text, type=dict[str, str])) if text else None


def quota(text: str | None = None, kept: str | None = None) -> WeighedQuota:
    read = msgspec.json.decode(kept, type=KeptWeight) if kept else None
    original = None if read is None else amounts(read.before) or MAXIMUM
    weight = amounts(text) or MAXIMUM
    written = amounts(read.written) if read else None
    return WeighedQuota("ns/a", "u", "7", "a", MAXIMUM, text, weight, kept, written, original)


def applied(given: WeighedQuota, in_force: Mapping[str, int]) -> WeighedQuota:
    """The quota after its writes."""
    for write in writes([given], in_force):
        if write.weight is None:
            return quota(write.before)
        text = msgspec.json.encode({name: f"{amount}m" for name, amount in write.weight.items}).decode()
        return quota(text, msgspec.json.encode(KeptWeight(write.before, text)).decode())
    return given


@pytest.mark.parametrize("text", [None, '{"cpu":"10"}'])
def test_every_path_of_factors_ends_at_the_original(text: str | None) -> None:
    original = quota(text)
    now = original
    for permille in (500, 2000, 1000, 700, 701, 1999):
        now = applied(now, {"a": permille})
        assert now.weight.get("cpu") == original.weight.get("cpu") * permille // 1000
        assert not writes([now], {"a": permille})
    assert applied(now, {}) == original


def test_an_owners_change_is_the_new_original() -> None:
    now = applied(quota('{"cpu":"10"}'), {"a": 500})
    changed = quota('{"cpu":"30"}', now.kept)
    assert applied(changed, {"a": 500}).weight.get("cpu") == 15_000
    assert writes([changed], {}) == [WriteWeight("ns/a", "u", "7", '{"cpu":"30"}', None)]
    assert writes([quota(None, now.kept)], {}) == [WriteWeight("ns/a", "u", "7", None, None)]  # it was removed


def test_what_cannot_be_read_beside_a_weight_goes_and_the_weight_stays() -> None:
    broken = WeighedQuota("ns/a", "u", "7", "a", MAXIMUM, '{"cpu":"3"}', Amounts.of({"cpu": 3000}), "{", None, None)
    assert writes([broken], {}) == [WriteWeight("ns/a", "u", "7", '{"cpu":"3"}', None)]


def test_answers_count_from_the_sending_and_expire() -> None:
    joined = Joined("east")
    assert joined.answered(FederationWeights("east", 4, 30_000, (("a", 700),)), 4, 1_000) == ""
    assert joined.in_force(30_999) == {"a": 700}
    assert joined.in_force(31_000) == {}
    assert joined.in_force(5_000) == {}  # expired is expired


def test_answers_to_others_and_old_ones_are_not_taken() -> None:
    joined = Joined("east")
    for answer in (
        FederationWeights("west", 4, 30_000, (("a", 700),)),
        FederationWeights("east", 3, 30_000, (("a", 700),)),
    ):
        assert joined.answered(answer, 4, 0)
    assert joined.answered(FederationWeights("east", 4, refused="no"), 4, 0) == "no"
    assert joined.in_force(1) == {}


def test_a_hub_is_believed_within_the_bounds_only() -> None:
    joined = Joined("east")
    joined.answered(FederationWeights("east", 1, 30_000, (("a", 10**9), ("b", -5))), 1, 0)
    assert joined.in_force(1) == {"a": 2000, "b": 500}


def test_a_hub_cannot_make_weights_last() -> None:
    joined = Joined("east", lasts_ms=90_000)
    joined.answered(FederationWeights("east", 1, 2**62, (("a", 2000),)), 1, 0)
    assert joined.in_force(89_999) == {"a": 2000}
    assert joined.in_force(90_000) == {}


def test_epochs_grow_though_a_clock_is_set_back() -> None:
    joined = Joined("east")
    assert [joined.next_epoch(wall_ms) for wall_ms in (100, 100, 50, 200)] == [100, 101, 102, 200]


def test_what_others_learned_of_use_stands_while_weights_do_and_what_cannot_be_is_left_out() -> None:
    joined = Joined("east")
    odd = msgspec.structs.replace(use_evidence("odd.cpu"), trust_ppm=-1)
    found = FederationWeights("east", joined.next_epoch(1), 1000, predictions=(use_evidence(), odd))
    assert joined.answered(found, joined.epoch, 0) == ""
    assert list(joined.predictions_in_force(999)) == ["web.cpu"]
    assert not joined.predictions_in_force(1000)

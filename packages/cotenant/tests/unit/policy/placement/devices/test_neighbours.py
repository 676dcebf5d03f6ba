"""Shares that want the same of a card are kept apart, as far as the cards allow it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.policy.placement.devices.machines import ask, gpus, placed

from cotenant.model.devices.card_need import NO_NEED, CardNeed, ServingPhase, parse_card_need
from cotenant.model.devices.device import DeviceType
from cotenant.model.devices.hints import DeviceHint, DeviceScope
from cotenant.model.errors import InvalidInput
from cotenant.model.resources import GPU, GPU_MEMORY_RATIO, GPU_SHARED
from cotenant.policy.placement.devices.allocation import DeviceAsk, DeviceChoice, allocate, crowding
from cotenant.policy.placement.devices.ledger import DeviceHolding, DeviceLedger
from cotenant.policy.placement.devices.neighbours import ALONE, neighbours, points, sentence, without
from cotenant.policy.placement.devices.strategy import DeviceStrategy

PREFILL = CardNeed(80, 30, ServingPhase.PREFILL)
DECODE = CardNeed(30, 80, ServingPhase.DECODE)
TRAIN = CardNeed(70, 20)
SCAN = CardNeed(20, 70)
TWO = {GPU_SHARED: 2, GPU_MEMORY_RATIO: 60}


def share(need: CardNeed, percent: int = 30) -> DeviceAsk:
    return replace(ask({GPU: percent}), need=need, strategy=DeviceStrategy.BINPACK)


def held(*needs: tuple[int, CardNeed], cards: int = 2) -> DeviceLedger:
    ledger = DeviceLedger.of(gpus(cards))
    for number, (minor, need) in enumerate(needs):
        found = allocate(ledger, replace(share(need), required=((DeviceType.GPU, 1 << minor),)))
        assert isinstance(found, DeviceChoice)
        ledger = ledger.given(DeviceHolding(f"p{number}", found.allocations, need))
    ledger.validate()
    return ledger


def card(ledger: DeviceLedger, need: CardNeed, percent: int = 30) -> int:
    found = allocate(ledger, share(need, percent))
    assert isinstance(found, DeviceChoice)
    return found.allocations[0].minor


def test_who_says_nothing_is_packed_as_before() -> None:
    assert card(held((1, TRAIN)), NO_NEED) == 1
    assert card(held((1, NO_NEED)), TRAIN) == 1


@pytest.mark.parametrize(("need", "expected"), [(TRAIN, 1), (SCAN, 0), (CardNeed(20, 20), 0)])
def test_like_bound_neighbours_are_kept_apart_and_unlike_ones_share(need: CardNeed, expected: int) -> None:
    assert card(held((0, TRAIN), (1, SCAN), (0, NO_NEED)), need) == expected


def test_an_empty_card_is_no_better_than_one_on_which_both_have_enough() -> None:
    assert card(held((1, CardNeed(50, 10))), CardNeed(50, 10)) == 1
    assert card(held((1, CardNeed(51, 10))), CardNeed(50, 10)) == 0


def test_where_every_card_is_bound_alike_the_least_crowded_is_taken() -> None:
    assert card(held((0, CardNeed(95)), (1, CardNeed(60))), TRAIN) == 1


@pytest.mark.parametrize(("who", "there"), [(PREFILL, DECODE), (DECODE, PREFILL)])
def test_prefill_beside_decode_is_the_last_choice(who: CardNeed, there: CardNeed) -> None:
    crowded = CardNeed(100, 100)
    assert card(held((0, there), (1, crowded)), who) == 1
    assert card(held((0, there), cards=1), who) == 0, "it is a preference: nothing waits for it"


def test_room_for_a_growing_cache_is_left_by_others() -> None:
    grows = CardNeed(10, 20, growth=50)
    assert card(held((0, grows)), NO_NEED, percent=20) == 0, "half of the card is left"
    assert card(held((0, grows)), NO_NEED, percent=21) == 1
    assert card(held((0, NO_NEED)), grows, percent=30) == 1, "its own growth counts where nobody else says anything"


def test_several_shares_take_the_calmest_cards_together() -> None:
    ledger = held((0, TRAIN), (2, TRAIN), cards=4)
    found = allocate(ledger, replace(ask(TWO), need=TRAIN))
    assert isinstance(found, DeviceChoice)
    assert [part.minor for part in found.allocations] == [1, 3]


def test_a_demand_for_nearness_comes_before_calm_cards() -> None:
    ledger = held((0, TRAIN), (2, TRAIN), cards=4)
    near = replace(ask(TWO), need=TRAIN, hints=(DeviceHint(DeviceType.GPU, scope=DeviceScope.PCIE),))
    found = allocate(ledger, near)
    assert isinstance(found, DeviceChoice)
    assert [part.minor for part in found.allocations] == [0, 1]


def test_whole_cards_are_chosen_as_before() -> None:
    ledger = held((0, TRAIN))
    assert placed(ledger, "x", replace(ask({GPU: 100}), need=TRAIN)).holdings[-1].allocations[0].minor == 1


def test_who_leaves_takes_the_need_along() -> None:
    ledger = held((0, TRAIN), (0, SCAN))
    assert ledger.returned("p0").beside[0] == neighbours([SCAN])
    assert ledger.returned_all(("p0", "p1")).beside == ()
    assert ledger.with_devices(gpus(2)).beside == ledger.beside


def test_points_of_a_node_are_those_of_the_cards_that_it_would_give() -> None:
    ledger = held((0, TRAIN), cards=1)
    found = allocate(ledger, share(TRAIN))
    assert isinstance(found, DeviceChoice)
    assert crowding(ledger, TRAIN, found.allocations) == 40
    assert crowding(ledger, SCAN, found.allocations) == 0


def test_what_the_others_want_beyond_a_card_is_not_the_newcomers_doing() -> None:
    assert points(CardNeed(10), neighbours([CardNeed(90), CardNeed(90)]), 100) == 10


def test_a_sentence_names_what_speaks_against_a_card() -> None:
    beside = neighbours([CardNeed(70, 20, ServingPhase.DECODE, 30)])
    assert sentence(CardNeed(60, 10, ServingPhase.PREFILL), beside, 10) == (
        "130 % of its multiprocessors are wanted; prefill beside decode; "
        "10 % of its memory is left, KV caches may grow by 30 %"
    )
    assert sentence(NO_NEED, ALONE, 0) == ""
    assert without(neighbours([TRAIN, PREFILL]), PREFILL) == neighbours([TRAIN])


def test_the_annotation_is_read() -> None:
    text = '{"sm": 30, "memoryBandwidth": 85, "phase": "decode", "cacheGrowth": 10}'
    assert parse_card_need(text) == CardNeed(30, 85, ServingPhase.DECODE, 10)
    assert parse_card_need('{"phase": "prefill"}') == CardNeed(phase=ServingPhase.PREFILL)


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ('{"sm": 101}', "percent of one card"),
        ('{"sm": -1}', "percent of one card"),
        ('{"sm": "30"}', "sm: 30: expected percent of one card"),
        ('{"sm": true}', "percent of one card"),
        ('{"phase": "both"}', "prefill or decode"),
        ('{"phase": ["decode"]}', "prefill or decode"),
        ('{"smActivity": 3}', "cacheGrowth"),
        ("[]", "JSON object"),
        ("{", "JSON object"),
    ],
)
def test_what_cannot_be_read_is_refused_with_what_is_expected(text: str, part: str) -> None:
    with pytest.raises(InvalidInput, match=part):
        parse_card_need(text)

"""Where a job should run: room first, then the expected price, then what is left."""

from __future__ import annotations

from dataclasses import replace

import msgspec

from cotenant.policy.federation.statement import ClusterRoom
from cotenant.policy.federation.where import JobNeeds, ranked

ROOM = ClusterRoom((100_000, 400_000, 0), (50_000, 200_000, 0), (16_000, 64_000, 0), (8_000, 8_000, 0), 30_000, 10, 0)
JOB = JobNeeds((4_000, 8_000, 0), 5)


def names(needs: JobNeeds, **rooms: ClusterRoom) -> list[tuple[str, bool]]:
    return [(one.cluster, one.fits) for one in ranked(needs, list(rooms.items()))]


def changed(**fields: object) -> ClusterRoom:
    return msgspec.structs.replace(ROOM, **fields)


def test_the_cheaper_one_is_first() -> None:
    assert names(JOB, dear=ROOM, cheap=changed(price_micro=20_000)) == [("cheap", True), ("dear", True)]


def test_missed_objectives_make_a_cluster_dearer() -> None:
    assert names(JOB, a=changed(price_micro=25_000, objectives_missed=5), b=ROOM)[0] == ("b", True)


def test_no_price_counts_as_the_dearest() -> None:
    assert names(JOB, a=changed(price_micro=0), b=ROOM, c=changed(price_micro=10_000))[0] == ("c", True)


def test_of_equals_the_emptier_one() -> None:
    assert names(JOB, a=changed(free=(30_000, 200_000, 0)), b=ROOM)[0] == ("b", True)


def test_without_room_the_reason_says_what_lacks() -> None:
    small, scattered = changed(free=(1_000, 200_000, 0)), changed(largest_free=(3_000, 64_000, 0))
    found = ranked(JOB, [("small", small), ("scattered", scattered)])
    assert [one.fits for one in found] == [False, False]
    assert "no node has more than 3000" in found[0].why
    assert "20000 wanted, 1000 free" in found[1].why


def test_lent_work_needs_lent_room() -> None:
    lent = replace(JOB, is_lent=True)
    assert names(lent, a=ROOM) == [("a", False)]
    assert names(replace(lent, pods=1), a=ROOM, b=changed(objectives_missed=1)) == [("a", True), ("b", True)]


def test_lent_work_needs_room_for_what_nobody_lends_too() -> None:
    trains = JobNeeds((1_000, 1_000, 0), 2, is_lent=True, beside=(0, 0, 1))
    capacity, cards = (100_000, 400_000, 8), changed(free=(50_000, 200_000, 2), largest_free=(16_000, 64_000, 1))
    cards = msgspec.structs.replace(cards, capacity=capacity)
    assert names(trains, a=ROOM, b=cards) == [("b", True), ("a", False)]
    assert ranked(trains, [("a", ROOM)])[0].why == "gpus: 2 wanted, 0 free"
    assert "0.03 a core-hour" in ranked(trains, [("b", cards)])[0].why  # cards are not lent

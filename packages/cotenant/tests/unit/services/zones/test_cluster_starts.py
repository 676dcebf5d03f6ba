"""When a zone of the cluster is asked for again: pauses that double, and a past that ends with another source."""

from __future__ import annotations

import pytest

from cotenant.services.zones.cluster_starts import ENDED, LONGEST_PAUSE_S, STEADY_S, ZoneStarts


def started(at_s: float = 0.0) -> ZoneStarts:
    starts = ZoneStarts()
    assert starts.absent("box", "one", "", at_s)
    starts.asked("box", "one")
    assert starts.is_starting("box")
    starts.seen("box", "one", True, at_s)
    assert not starts.is_starting("box")
    return starts


def test_pauses_double_up_to_the_longest() -> None:
    starts, now_s = ZoneStarts(), 0.0
    pauses = []
    for _ in range(8):
        assert starts.absent("box", "one", "", now_s)
        starts.refused("box", "one", "no", now_s)
        assert not starts.absent("box", "one", "", now_s)
        pause_s = next(s for s in range(1, 1000) if starts.absent("box", "one", "", now_s + s))
        pauses.append(pause_s)
        now_s += pause_s
    assert pauses == [10, 20, 40, 80, 160, LONGEST_PAUSE_S, LONGEST_PAUSE_S, LONGEST_PAUSE_S]
    assert starts.restarts("box") == 0  # refusals are no starts


def test_an_end_has_the_keepers_reason_and_counts_as_a_failure() -> None:
    starts = started()
    assert not starts.absent("box", "one", "the machine ended", 5)
    assert starts.message("box") == "the machine ended"
    assert starts.absent("box", "one", "", 15)
    starts.asked("box", "one")
    assert starts.message("box") == ""
    assert starts.restarts("box") == 1
    assert not starts.absent("box", "one", "", 20)
    assert starts.message("box") == ENDED
    assert not starts.absent("box", "one", "", 39)
    assert starts.absent("box", "one", "", 40)


@pytest.mark.parametrize(("ran_s", "second_pause_s"), [(STEADY_S - 1, 20), (STEADY_S, 10)])
def test_a_zone_that_ran_for_long_begins_anew(ran_s: float, second_pause_s: float) -> None:
    starts = started()
    starts.absent("box", "one", "ended", 1)
    starts.asked("box", "one")
    starts.seen("box", "one", True, 11)
    starts.seen("box", "one", True, 12)  # since when it runs stays
    end_s = 11 + ran_s
    assert not starts.absent("box", "one", "ended", end_s)
    assert not starts.absent("box", "one", "", end_s + second_pause_s - 0.5)
    assert starts.absent("box", "one", "", end_s + second_pause_s)


def test_another_source_and_a_zone_that_was_forgotten_have_no_past() -> None:
    starts = started()
    starts.refused("box", "one", "no", 1)
    assert starts.absent("box", "two", "", 1)
    assert (starts.message("box"), starts.restarts("box")) == ("", 0)
    starts.refused("box", "two", "no", 1)
    starts.keep(["other"])
    assert starts.absent("box", "two", "", 1)
    assert not starts.is_starting("none")
    assert (starts.message("none"), starts.restarts("none")) == ("", 0)


def test_a_zone_of_an_earlier_agent_is_known_by_what_is_seen() -> None:
    starts = ZoneStarts()
    starts.seen("box", "one", False, 0)
    assert starts.is_starting("box")
    starts.seen("box", "one", True, 0)
    assert not starts.absent("box", "one", "", 1)
    assert starts.absent("box", "one", "", 11)
    starts.asked("box", "one")
    assert starts.restarts("box") == 1

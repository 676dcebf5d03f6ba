"""Cron schedules, against a walk over every minute."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotenant_local.apiserver.schema.kinds.cron_schedule import BadSchedule, is_zone, parse


def at(text: str, zone: str = "UTC") -> float:
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp()


@pytest.mark.parametrize(
    ("schedule", "since", "following"),
    [
        ("*/15 * * * *", "2026-03-01T10:07", "2026-03-01T10:15"),
        ("0 0 * * *", "2026-02-28T00:00", "2026-03-01T00:00"),
        ("30 4 1,15 * 5", "2026-11-02T00:00", "2026-11-06T04:30"),  # either kind of day
        ("30 4 1 * *", "2026-11-02T00:00", "2026-12-01T04:30"),
        ("0 12 29 FEB *", "2026-01-01T00:00", "2028-02-29T12:00"),
        ("5-20/5 1 * * mon-WED", "2026-11-28T00:00", "2026-11-30T01:05"),
        ("10/20 * * * ?", "2026-01-01T00:31", "2026-01-01T00:50"),
        ("@hourly", "2026-01-01T00:00", "2026-01-01T01:00"),
        ("@every 1h30m", "2026-01-01T00:00", "2026-01-01T01:30"),
    ],
)
def test_the_next_time(schedule: str, since: str, following: str) -> None:
    assert parse(schedule).after(at(since)) == at(following)


def test_a_day_that_never_is_has_no_time() -> None:
    assert parse("0 0 30 2 *").after(at("2026-01-01T00:00")) is None


def test_an_hour_that_a_zone_skips_has_no_run_and_one_that_it_repeats_has_one() -> None:
    zone = "Europe/Berlin"
    daily = parse("30 2 * * *")
    assert daily.after(at("2026-03-28T12:00", zone), zone) == at("2026-03-30T02:30", zone)
    first = daily.after(at("2026-10-24T12:00", zone), zone)
    assert first == at("2026-10-25T02:30", zone)
    assert daily.after(first, zone) == at("2026-10-26T02:30", zone)


NUMBERS = st.integers(0, 59)
PART = st.one_of(
    st.just("*"),
    st.integers(1, 30).map(lambda step: f"*/{step}"),
    NUMBERS.map(str),
    st.tuples(NUMBERS, NUMBERS).map(lambda two: f"{min(two)}-{max(two)}"),
)
MINUTE = st.lists(PART, min_size=1, max_size=3).map(",".join)


@pytest.mark.slow
@given(minute=MINUTE, hour=st.one_of(st.just("*"), st.integers(0, 23).map(str)), start=st.integers(0, 10_000_000))
def test_the_next_time_is_the_first_minute_that_matches(minute: str, hour: str, start: int) -> None:
    schedule = parse(f"{minute} {hour} * * *")
    tried = datetime.fromtimestamp(start, UTC).replace(second=0) + timedelta(minutes=1)
    while tried.minute not in schedule.minutes or tried.hour not in schedule.hours:
        tried += timedelta(minutes=1)
    assert schedule.after(start) == tried.timestamp()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "empty spec string"),
        ("* * * *", "expected exactly 5 fields, found 4: [* * * *]"),
        ("60 * * * *", "end of range (60) above maximum (59): 60"),
        ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
        ("* 5-3 * * *", "beginning of range (5) beyond end of range (3): 5-3"),
        ("*/0 * * * *", "step of range should be a positive number: */0"),
        ("1-2-3 * * * *", "too many hyphens: 1-2-3"),
        ("1/2/3 * * * *", "too many slashes: 1/2/3"),
        ("a * * * *", 'failed to parse int from a: strconv.Atoi: parsing "a": invalid syntax'),
        ("* * * * 7", "end of range (7) above maximum (6): 7"),
        ("@often", "unrecognized descriptor: @often"),
    ],
)
def test_what_is_no_schedule_is_refused_in_the_real_parser_s_words(text: str, why: str) -> None:
    with pytest.raises(BadSchedule) as refused:
        parse(text)
    assert str(refused.value) == why


def test_zones() -> None:
    assert [is_zone(name) for name in ("Asia/Shanghai", "Mars/Base", "../etc", "Europe")] == [True, False, False, False]

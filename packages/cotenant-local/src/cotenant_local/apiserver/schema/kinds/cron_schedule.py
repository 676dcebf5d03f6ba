"""Cron schedules as CronJobs have them: five fields, or `@hourly` and the like, in a time zone.

Time is walked forward, by days, hours and minutes of the zone, so an hour that a zone skips has no run; one that it
repeats has one, the first. Where neither the day of the month nor that of the week is `*`, either is enough.
Limits: a schedule without a time in the next five years has none.
Source: Kubernetes documentation "CronJob" (schedule syntax); robfig/cron v3, whose dialect and messages these are.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

_MONTHS = {
    name: i + 1
    for i, name in enumerate(("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"))
}
_DAYS = {name: i for i, name in enumerate(("sun", "mon", "tue", "wed", "thu", "fri", "sat"))}
_NAMED = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_BOUNDS: tuple[tuple[int, int, dict[str, int]], ...] = (
    (0, 59, {}),
    (0, 23, {}),
    (1, 31, {}),
    (1, 12, _MONTHS),
    (0, 6, _DAYS),
)
_DURATION = re.compile(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?")
_MAX_AHEAD_S = 5 * 366 * 86_400


class BadSchedule(ValueError):
    """A text that is no schedule; its words are those of the real parser."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """When to run. `every_s`: of `@every`, which counts from a time instead of matching it."""

    minutes: frozenset[int] = frozenset()
    hours: frozenset[int] = frozenset()
    month_days: frozenset[int] = frozenset()
    months: frozenset[int] = frozenset()
    week_days: frozenset[int] = frozenset()
    is_either: bool = False  # one of the two kinds of days is enough
    every_s: int = 0

    def after(self, time_s: float, zone: str = "") -> float | None:
        """The first time after a Unix time, None where there is none in five years."""
        if self.every_s:
            return float(int(time_s) + self.every_s)
        place = _zone(zone)
        at_s = (int(time_s) // 60 + 1) * 60
        end_s = at_s + _MAX_AHEAD_S
        while at_s < end_s:
            local = datetime.fromtimestamp(at_s, place)
            if not self._is_day(local):
                next_day = datetime(local.year, local.month, local.day, tzinfo=place) + timedelta(days=1)
                at_s = int(next_day.timestamp())
            elif local.hour not in self.hours or local.fold:
                at_s += (60 - local.minute) * 60
            elif local.minute not in self.minutes:
                later = min((minute for minute in self.minutes if minute > local.minute), default=60)
                at_s += (later - local.minute) * 60
            else:
                return float(at_s)
        return None

    def _is_day(self, day: datetime) -> bool:
        if day.month not in self.months:
            return False
        of_month, of_week = day.day in self.month_days, (day.weekday() + 1) % 7 in self.week_days
        return of_month or of_week if self.is_either else of_month and of_week


@lru_cache(maxsize=1024)
def parse(text: str) -> Schedule:
    """The schedule. Raises `BadSchedule`."""
    if not text:
        raise BadSchedule("empty spec string")
    if text.startswith("@"):
        return _named(text)
    fields = text.split()
    if len(fields) != 5:
        raise BadSchedule(f"expected exactly 5 fields, found {len(fields)}: [{' '.join(fields)}]")
    parsed = [_field(given, *bounds) for given, bounds in zip(fields, _BOUNDS, strict=True)]
    is_either = not (parsed[2][1] or parsed[4][1])
    return Schedule(parsed[0][0], parsed[1][0], parsed[2][0], parsed[3][0], parsed[4][0], is_either)


def is_zone(name: str) -> bool:
    """Whether there is such a time zone."""
    try:
        _zone(name)
    except (OSError, ValueError, KeyError):  # a folder, a path, an unknown name
        return False
    return True


def _zone(name: str) -> ZoneInfo:
    return ZoneInfo(name or "UTC")


def _named(text: str) -> Schedule:
    if text in _NAMED:
        return parse(_NAMED[text])
    if text.startswith("@every "):
        rest = text.removeprefix("@every ")
        found = _DURATION.fullmatch(rest)
        if found is None or not rest:
            raise BadSchedule(f'failed to parse duration {text}: time: invalid duration "{rest}"')
        hours, minutes, seconds = (int(part or 0) for part in found.groups())
        return Schedule(every_s=max(1, hours * 3600 + minutes * 60 + seconds))
    raise BadSchedule(f"unrecognized descriptor: {text}")


def _field(text: str, low: int, high: int, names: dict[str, int]) -> tuple[frozenset[int], bool]:
    """The values of a field, and whether it is `*`."""
    found: set[int] = set()
    is_any = False
    for part in text.split(","):
        values, star = _range(part, low, high, names)
        found |= values
        is_any |= star
    return frozenset(found), is_any


def _range(text: str, low: int, high: int, names: dict[str, int]) -> tuple[set[int], bool]:
    span, *steps = text.split("/")
    first, *rest = span.split("-")
    is_star = first in ("*", "?")
    if is_star:
        start, end = low, high
    else:
        start = _number(first, names)
        if len(rest) > 1:
            raise BadSchedule(f"too many hyphens: {text}")
        end = _number(rest[0], names) if rest else start
    if len(steps) > 1:
        raise BadSchedule(f"too many slashes: {text}")
    step = 1
    if steps:
        step = _number(steps[0], {})
        if not rest and not is_star:
            end = high
    if start < low:
        raise BadSchedule(f"beginning of range ({start}) below minimum ({low}): {text}")
    if end > high:
        raise BadSchedule(f"end of range ({end}) above maximum ({high}): {text}")
    if start > end:
        raise BadSchedule(f"beginning of range ({start}) beyond end of range ({end}): {text}")
    if step == 0:
        raise BadSchedule(f"step of range should be a positive number: {text}")
    return set(range(start, end + 1, step)), is_star and step == 1


def _number(text: str, names: dict[str, int]) -> int:
    named = names.get(text.lower())
    if named is not None:
        return named
    if not re.fullmatch(r"[+-]?[0-9]+", text):
        raise BadSchedule(f'failed to parse int from {text}: strconv.Atoi: parsing "{text}": invalid syntax')
    if int(text) < 0:
        raise BadSchedule(f"negative number ({int(text)}) not allowed: {text}")
    return int(text)

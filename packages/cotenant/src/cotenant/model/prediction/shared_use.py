"""What one kind of nodes, or several clusters together, learned of use by the hour, as a few hundred integers.

Of series alike (one resource of nodes that their owner calls by one name) these are sufficient for everything that a
prediction takes from its kind: the usual hours of a day and of a week above a level, how far these came true, how much
of a present excess lasts, and the size and quantiles of errors. Amounts are shares of a series' size in millionths, so
machines of any size have them in common. No series, no level and no time is in it.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from cotenant.model.errors import InvalidInput

PPM = 1_000_000
DAY_HOURS, WEEK_HOURS = 24, 168
QUANTILE_SHARES = (0.02, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.98, 0.99, 0.995, 1.0)  # of errors that are not larger
MAX_HORIZONS = 8
MAX_FORECASTS = 2**53
MAX_PREDICTIONS = 40  # of a cluster
_MAX_SIZES = 100 * PPM  # of an error, in sizes of errors


class HorizonEvidence(msgspec.Struct, frozen=True, array_like=True):
    """Of forecasts for so many hours."""

    hours: int
    forecasts: int  # that were judged
    carry_ppm: int  # the share of a present excess that was in what came
    excess_ppm: int  # standard deviation of that excess
    error_ppm: int  # mean of what came above the forecast
    size_ppm: int  # mean distance from it
    quantiles_ppm: tuple[int, ...]  # of errors less their mean, in sizes, at `QUANTILE_SHARES`


class UseEvidence(msgspec.Struct, frozen=True, array_like=True):
    """Of the series with one shared name. In a statement without `hours`: its cluster only asks."""

    name: str
    hours: int = 0  # of all series, that it was learned from
    day_ppm: tuple[int, ...] = ()  # by hour of the day (UTC), above the level
    week_ppm: tuple[int, ...] = ()  # by hour of the week since 1970, above the day
    trust_ppm: int = 0  # how far the two came true
    horizons: tuple[HorizonEvidence, ...] = ()
    clusters: int = 0  # whose it is, in an answer


def check_evidence(field: str, found: UseEvidence) -> None:
    """Raises `InvalidInput` for what no cluster can have learned. One that only asks is right with its name."""
    if not found.hours:
        if found != UseEvidence(found.name):
            raise InvalidInput(field, "0 hours", "hours of at least 1 where something was learned")
        return
    _check_range(f"{field}.hours", (found.hours,), 1, 2**53)
    for name, values, count in (("day", found.day_ppm, DAY_HOURS), ("week", found.week_ppm, WEEK_HOURS)):
        if len(values) != count:
            raise InvalidInput(f"{field}.{name}", len(values), f"{count} hours")
        _check_range(f"{field}.{name}", values, -PPM, PPM)
    _check_range(f"{field}.trust", (found.trust_ppm,), 0, PPM)
    hours = [one.hours for one in found.horizons]
    if not 1 <= len(hours) <= MAX_HORIZONS or sorted(set(hours)) != hours:
        raise InvalidInput(f"{field}.horizons", str(hours)[:100], f"1 to {MAX_HORIZONS} horizons, the shortest first")
    for one in found.horizons:
        of = f"{field}.{str(one.hours)[:20]} h"
        _check_range(of, (one.hours,), 1, WEEK_HOURS)
        _check_range(f"{of}.forecasts", (one.forecasts,), 1, MAX_FORECASTS)
        _check_range(f"{of}.carry", (one.carry_ppm,), 0, 2 * PPM)
        _check_range(f"{of}.excess, size", (one.excess_ppm, one.size_ppm), 0, PPM)
        _check_range(f"{of}.error", (one.error_ppm,), -PPM, PPM)
        _check_range(f"{of}.quantiles", one.quantiles_ppm, -_MAX_SIZES, _MAX_SIZES)
        if len(one.quantiles_ppm) != len(QUANTILE_SHARES) or sorted(one.quantiles_ppm) != list(one.quantiles_ppm):
            raise InvalidInput(f"{of}.quantiles", len(one.quantiles_ppm), f"{len(QUANTILE_SHARES)} that do not fall")


def place_of_predictions(field: str, text: str) -> tuple[str, str] | None:
    """Namespace and name of `NAMESPACE/NAME`; None for no text. Raises `InvalidInput`."""
    if not text:
        return None
    namespace, _, name = text.partition("/")
    if not namespace or not name or "/" in name:
        raise InvalidInput(field, text, "NAMESPACE/NAME of a ConfigMap")
    return namespace, name


def _check_range(field: str, values: Sequence[int], least: int, most: int) -> None:
    for value in values:
        if not least <= value <= most:
            raise InvalidInput(field, str(value)[:20], f"{least} to {most}")

"""Series of use by name: measurements in, finished hours and bounds of the next hours out.

A series begins with its first measurement and is forgotten when it was not measured for `FORGET_H` hours; what its kind
learned stays, so a new series of a known kind is not cold. An hour is over when the first measurement or question comes
after it. A measurement from before the present hour changes nothing.
Limits: an hour of 5,000 series is learned at once, in some tens of milliseconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from cotenant.model.arrays import Float
from cotenant.model.prediction.hour import HourOfUse
from cotenant.model.prediction.shared_use import UseEvidence
from cotenant.policy.prediction.evidence import evidence, with_others
from cotenant.policy.prediction.forecast import (
    ForecastSettings,
    Tables,
    UseForecast,
    bounds,
    hour_seen,
    new_forecast,
    tables,
)
from cotenant.policy.prediction.rows import only, with_rows

HOUR_S = 3600.0
FORGET_H = 14 * 24
_MAX_GAP_H = 48  # of hours without any measurement that are learned as such; a longer gap is cut to it


@dataclass(slots=True)
class _Series:
    row: int
    kind: str
    seen_hour: int
    peak: float = np.nan  # of the present hour
    last: float = np.nan


class UseByHour:
    """Times are Unix seconds."""

    def __init__(self, settings: ForecastSettings | None = None) -> None:
        self.settings = settings or ForecastSettings()
        self.late = 0  # measurements from before the present hour
        self._kinds: dict[str, int] = {}
        self._series: dict[str, _Series] = {}
        self._new: list[str] = []  # not yet in the forecast
        self._forecast: UseForecast | None = None
        self._hour = 0  # the present one
        self._ready: dict[int, Tables] = {}  # by place of the horizon
        self._others: dict[str, UseEvidence] = {}  # by kind

    def __len__(self) -> int:
        return len(self._series)

    def names(self) -> tuple[str, ...]:
        """Of the series that are kept."""
        return tuple(self._series)

    @property
    def hours_known(self) -> int:
        """The last hour that was learned, in hours since 1970; 0 = none."""
        return self._forecast.hour if self._forecast is not None else 0

    def measured(self, name: str, kind: str, share: float, at_s: float) -> tuple[HourOfUse, ...]:
        """One measurement, as a share of the series' size. Hours that are over now, to be stored."""
        if not np.isfinite(share) or share < 0:
            return ()
        hour = int(at_s // HOUR_S)
        if self._forecast is not None and hour < self._hour:
            self.late += 1
            return ()
        finished = self.until(at_s)
        series = self._series.get(name)
        if series is None:
            self._kinds.setdefault(kind, len(self._kinds))
            series = self._series[name] = _Series(len(self._series), kind, hour)
            self._new.append(name)
        series.seen_hour = hour
        series.peak = share if np.isnan(series.peak) else max(series.peak, share)
        series.last = share
        return finished

    def until(self, at_s: float) -> tuple[HourOfUse, ...]:
        """Learn the hours that are over at this time; those in which something was measured, to be stored."""
        hour = int(at_s // HOUR_S)
        if self._forecast is None:
            self._hour = hour
            self._forecast = new_forecast((), self.settings, hour - 1)
        if hour <= self._hour:
            return ()
        self._grow()
        names = sorted(self._series, key=lambda name: self._series[name].row)
        own = [self._series[name] for name in names]
        peak, last = np.array([one.peak for one in own]), np.array([one.last for one in own])
        known = np.flatnonzero(~np.isnan(peak))
        stored = HourOfUse(
            self._hour,
            tuple(names[row] for row in known),
            tuple(own[row].kind for row in known),
            peak[known],
            last[known],
        )
        self._learn(self._hour, peak, last)
        for one in own:
            one.peak = one.last = np.nan
        self._skip_to(hour)
        self._forget()
        return (stored,) if len(known) else ()

    def replay(self, hours: Iterable[HourOfUse]) -> int:
        """Learn what was stored, oldest first; how many hours. Only before the first measurement. Hours that do not
        come after the one before them are left out.
        """
        count = 0
        for stored in hours:
            if self._forecast is None:
                self._forecast = new_forecast((), self.settings, stored.hour - 1)
                self._hour = stored.hour
            if stored.hour < self._hour:
                continue
            self._skip_to(stored.hour)
            for name, kind, peak, last in zip(stored.series, stored.kinds, stored.peak, stored.last, strict=True):
                at_s = (stored.hour + 0.5) * HOUR_S
                self.measured(name, kind, float(peak), at_s)
                self.measured(name, kind, float(last), at_s)
            self.until((stored.hour + 1) * HOUR_S)
            count += 1
        return count

    def below(self, name: str, horizon_h: int, risk: float, share: float, at_s: float) -> float | None:
        """What the series stays below for so many hours, but for the risk, where it uses `share` now; None where too
        little is known. The horizon is rounded up to one that is predicted, the risk down to one that is stated.
        """
        series = self._series.get(name)
        forecast = self._forecast
        if series is None or forecast is None or series.row >= len(forecast.peaks):
            return None
        horizons, risks = self.settings.horizons_h, self.settings.risks
        place = next((at for at, hours in enumerate(horizons) if hours >= horizon_h), len(horizons) - 1)
        stated = max((known for known in risks if known <= risk + 1e-12), default=min(risks))
        if place not in self._ready:
            self._ready[place] = tables(forecast, place)
        since = min(1.0, max(0.0, at_s / HOUR_S - self._hour))
        row = np.array([series.row])
        found = float(bounds(self._ready[place], since, np.array([share]), row)[0, risks.index(stated)])
        return None if np.isnan(found) else found

    def learned(self, kind: str, name: str) -> UseEvidence:
        """What was learned here of a kind, under the name that other clusters have for it."""
        number, forecast = self._kinds.get(kind), self._forecast
        if number is None or forecast is None or number >= len(forecast.course.kind_told):
            return UseEvidence(name)
        return evidence(forecast, number, name) or UseEvidence(name)

    def begin_with(self, others: Mapping[str, UseEvidence]) -> None:
        """What other clusters learned, by kind, in the place of what they had before."""
        if dict(others) != self._others:
            self._others = dict(others)
            self._apply_others()

    def kept(self, horizon_h: int, risk: float) -> tuple[int, int]:
        """How many bounds of this horizon and stated risk were judged, and how many of them were exceeded."""
        if self._forecast is None:
            return 0, 0
        at = self.settings.risks.index(risk)
        reserve = self._forecast.reserves[self.settings.horizons_h.index(horizon_h)]
        return int(reserve.judged[:, at].sum()), int(reserve.exceeded[:, at].sum())

    def _grow(self) -> None:
        assert self._forecast is not None
        if self._new:
            kinds = np.array([self._kinds[self._series[name].kind] for name in self._new], np.int64)
            are_new = int(kinds.max()) >= len(self._forecast.course.kind_told)
            self._forecast = with_rows(self._forecast, kinds)
            self._new = []
            if are_new and self._others:
                self._apply_others()

    def _apply_others(self) -> None:
        if self._forecast is None:
            return
        known = len(self._forecast.course.kind_told)
        numbers = {self._kinds[kind]: found for kind, found in self._others.items() if kind in self._kinds}
        self._forecast = with_others(self._forecast, {at: found for at, found in numbers.items() if at < known})
        self._ready.clear()

    def _learn(self, hour: int, peak: Float, last: Float) -> None:
        assert self._forecast is not None
        assert self._forecast.hour == hour - 1
        self._forecast = hour_seen(self._forecast, peak, last)
        self._hour = hour + 1
        self._ready.clear()

    def _skip_to(self, hour: int) -> None:
        """Hours without any measurement, up to this one."""
        assert self._forecast is not None
        if hour - self._hour > _MAX_GAP_H:
            self._hour = hour - _MAX_GAP_H
            self._forecast = self._forecast.at(self._hour - 1)
        while self._hour < hour:
            self._grow()
            nothing = np.full(len(self._series), np.nan)
            self._learn(self._hour, nothing, nothing)

    def _forget(self) -> None:
        gone = [name for name, one in self._series.items() if self._hour - one.seen_hour > FORGET_H]
        if not gone:
            return
        assert self._forecast is not None
        for name in gone:
            del self._series[name]
        left = sorted(self._series.values(), key=lambda one: one.row)
        self._forecast = only(self._forecast, np.array([one.row for one in left], np.int64))
        for row, one in enumerate(left):
            one.row = row
        self._ready.clear()

"""What a kind learned, as figures that other clusters can use, and theirs as a beginning for a kind of here.

What others learned stands beside the sums of a kind as a few more visits and forecasts, and never in them: what is
stated is of here only, and others' can be changed and taken away at any time. It weighs `DAYS` visits of each hour of
the day, which fade as the own ones come, and as many forecasts as make a kind warm, so a bound is stated at once;
against the forecasts of a kind's own first days these are few.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from cotenant.model.arrays import Float
from cotenant.model.prediction.shared_use import PPM, QUANTILE_SHARES, HorizonEvidence, UseEvidence
from cotenant.policy.prediction.course import Course
from cotenant.policy.prediction.forecast import ForecastSettings, UseForecast
from cotenant.policy.prediction.reserve import BINS, LOWEST, STEP, PredictedReserve

DAYS, WEEKS = 3.0, 2.0  # visits of an hour that others' count for
TRUST_HOURS = 48.0
LEAST_SERIES, LEAST_HOURS = 5, 24  # below, nothing is stated of a kind


def evidence(forecast: UseForecast, kind: int, name: str, least_series: int = LEAST_SERIES) -> UseEvidence | None:
    """What the kind with this number learned here; None where it is too few series, or too short."""
    course = forecast.course
    hours = course.kind_told[kind, 2]
    if int((course.kinds == kind).sum()) < least_series or hours < least_series * LEAST_HOURS:
        return None
    horizons = tuple(
        found for reserve in forecast.reserves if (found := _horizon(reserve, kind, forecast.settings)) is not None
    )
    if not horizons:
        return None
    said, came = course.kind_told[kind, 1], course.kind_told[kind, 0]
    return UseEvidence(
        name,
        int(hours),
        _ppm(_means(course.kind_day[kind])),
        _ppm(_means(course.kind_week[kind])),
        int(PPM * np.clip(came / said, 0.0, 1.0)) if said > 1e-12 else PPM,
        horizons,
    )


def with_others(forecast: UseForecast, others: Mapping[int, UseEvidence]) -> UseForecast:
    """The forecast with what others learned of these kinds, and of no other kind."""
    course = _empty_prior(forecast.course)
    for kind, found in others.items():
        visits = ((course.kind_prior_day, found.day_ppm, DAYS), (course.kind_prior_week, found.week_ppm, WEEKS))
        for table, values, weight in visits:
            table[kind, :, 0] = weight * np.array(values) / PPM
            table[kind, :, 1] = weight
        said = np.array(found.week_ppm) / PPM + np.tile(np.array(found.day_ppm) / PPM, 7)
        across = TRUST_HOURS * float(np.mean(said * said))
        course.kind_prior_told[kind] = found.trust_ppm / PPM * across, across, TRUST_HOURS
    reserves = tuple(_reserve_with(reserve, others, forecast.settings) for reserve in forecast.reserves)
    return replace(forecast, course=course, reserves=reserves)


def _horizon(reserve: PredictedReserve, kind: int, settings: ForecastSettings) -> HorizonEvidence | None:
    weight, errors, counts = reserve.kind_sums[kind, 0], reserve.kind_error[kind], reserve.kind_counts[kind]
    if counts.sum() < settings.reserve.warm or not weight:
        return None
    mean_d, mean_g = reserve.kind_sums[kind, 1:3] / weight
    variance = max(0.0, reserve.kind_sums[kind, 3] / weight - mean_d * mean_d)
    along = reserve.kind_sums[kind, 4] / weight - mean_d * mean_g
    whole = np.cumsum(counts)
    at = np.searchsorted(whole, np.array(QUANTILE_SHARES) * whole[-1] * (1 - 1e-12))
    return HorizonEvidence(
        reserve.horizon,
        int(np.ceil(weight)),
        int(PPM * np.clip(along / variance, 0.0, 2.0)) if variance > 1e-12 else PPM,
        int(PPM * min(1.0, np.sqrt(variance))),
        int(PPM * np.clip(errors[1] / errors[0], -1.0, 1.0)),
        int(PPM * min(1.0, errors[2] / errors[0])),
        _ppm(LOWEST + STEP * (1 + np.minimum(at, BINS - 1)), 100.0),
    )


def _reserve_with(
    reserve: PredictedReserve, others: Mapping[int, UseEvidence], settings: ForecastSettings
) -> PredictedReserve:
    warm = settings.reserve.warm
    found = replace(
        reserve,
        kind_prior_sums=np.zeros_like(reserve.kind_sums),
        kind_prior_error=np.zeros_like(reserve.kind_error),
        kind_prior_counts=np.zeros_like(reserve.kind_counts),
    )
    for kind, learned in others.items():
        told = next((one for one in learned.horizons if one.hours == reserve.horizon), None)
        if told is None:
            continue
        variance = (told.excess_ppm / PPM) ** 2
        found.kind_prior_sums[kind] = warm, 0.0, 0.0, warm * variance, warm * variance * told.carry_ppm / PPM
        found.kind_prior_error[kind] = warm, warm * told.error_ppm / PPM, warm * told.size_ppm / PPM
        bins = np.clip(((np.array(told.quantiles_ppm) / PPM - LOWEST) / STEP).astype(np.int64) - 1, 0, BINS - 1)
        np.add.at(found.kind_prior_counts[kind], bins, warm * np.diff((0.0, *QUANTILE_SHARES)))
    return found


def _empty_prior(course: Course) -> Course:
    return replace(
        course,
        kind_prior_day=np.zeros_like(course.kind_day),
        kind_prior_week=np.zeros_like(course.kind_week),
        kind_prior_told=np.zeros_like(course.kind_told),
    )


def _means(cells: Float) -> Float:
    found: Float = cells[:, 0] / np.maximum(cells[:, 1], 1e-9)
    return found


def _ppm(values: Float, most: float = 1.0) -> tuple[int, ...]:
    return tuple(np.rint(PPM * np.clip(values, -most, most)).astype(np.int64).tolist())

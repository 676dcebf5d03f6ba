"""A forecast with more series, or with some of them only: what is learned of a kind stays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import TypeVar

import numpy as np

from cotenant.model.arrays import Float, Int
from cotenant.policy.prediction.course import Course
from cotenant.policy.prediction.forecast import UseForecast, new_forecast
from cotenant.policy.prediction.reserve import PredictedReserve

Part = TypeVar("Part", Course, PredictedReserve)


def with_rows(forecast: UseForecast, kinds: Int) -> UseForecast:
    """With new series at the end; a kind may be new too, with the next number."""
    new = new_forecast(kinds, forecast.settings, forecast.hour)

    def joined(own: Part, more: Part) -> Part:
        return _changed(own, lambda name: np.concatenate([getattr(own, name), getattr(more, name)]), _padded(own, more))

    return replace(
        forecast,
        course=joined(forecast.course, new.course),
        reserves=tuple(joined(own, more) for own, more in zip(forecast.reserves, new.reserves, strict=True)),
        peaks=np.concatenate([forecast.peaks, new.peaks]),
    )


def only(forecast: UseForecast, rows: Int) -> UseForecast:
    """These series, in this order."""

    def taken(own: Part) -> Part:
        return _changed(own, lambda name: getattr(own, name)[rows], lambda name: getattr(own, name))

    return replace(
        forecast,
        course=taken(forecast.course),
        reserves=tuple(taken(reserve) for reserve in forecast.reserves),
        peaks=forecast.peaks[rows],
    )


def _padded(own: Part, more: Part) -> Callable[[str], Float]:
    def padded(name: str) -> Float:
        table: Float = getattr(own, name)
        missing = max(0, len(getattr(more, name)) - len(table))
        return np.concatenate([table, np.zeros((missing, *table.shape[1:]))]) if missing else table

    return padded


def _changed(own: Part, of_series: Callable[[str], Float], of_kinds: Callable[[str], Float]) -> Part:
    """Every array of series by the one function, every array of kinds by the other."""
    changed: dict[str, Float] = {}
    for part in fields(own):
        if isinstance(getattr(own, part.name), np.ndarray):
            changed[part.name] = of_kinds(part.name) if part.name.startswith("kind_") else of_series(part.name)
    return replace(own, **changed)  # type: ignore[arg-type]

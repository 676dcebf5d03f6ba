"""Preferences of a pod besides its profile's score: soft terms with kube-scheduler's weights.

Preferred affinity, ScheduleAnyway spread and PreferNoSchedule taints are not row-local: each is relative to the rows
that pass the filters. A pod with such preferences is evaluated separately: the compiled filters give the feasible rows,
the profile scores them, the preferences are added, and the best row is taken. Other pods stay in the compiled queue.
The profile's score has weight 1 on a scale of 0 to 100 over the feasible rows; kube-scheduler's own resource score
already has that scale.
Source: kube-scheduler's default plugin weights.
Limits: with kube-scheduler's system defaults of topology spread (topology/spread.py), replicas of controllers are
evaluated separately too.
"""

from __future__ import annotations

from math import isfinite
from typing import NamedTuple

import numpy as np

from cotenant.model.arrays import Float, Int, Mask
from cotenant.policy.placement.codes import Score

_OWN_SCALE = (Score.NONE, Score.KUBE_DEFAULT, Score.KUBE_1_36, Score.FOUNDING, Score.FOUNDING_LEDGER)


class PreferencePart(NamedTuple):
    """One soft term's share of the score of each row, weight included."""

    name: str
    values: Float  # [len(rows)]


def scaled(score: int, values: Float) -> Float:
    """A profile's scores over the feasible rows, on 0..100: the lowest is 0, the highest 100; all 0 where they are
    equal.

    Scores made of kube-scheduler's 0..100 parts, or with that scale, are unchanged. An infinite score is at its end of
    the scale.
    """
    if score in _OWN_SCALE or len(values) == 0:
        return values
    bounded, low, high = values, float(values.min()), float(values.max())
    if not isfinite(high - low):
        finite = values[np.isfinite(values)]
        low, high = (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 0.0)
        bounded = np.nan_to_num(np.clip(values, low, high), nan=low)
    spread = high - low
    return (bounded - low) * (100.0 / spread) if spread > 0 else np.zeros(len(values))


def sampled(passes: Mask, sample: int, cursor: Int) -> Int:
    """The rows of a mask, or the first `sample` of them from the cursor on, which is advanced."""
    size = len(passes)
    if sample <= 0:
        return np.flatnonzero(passes)
    start = int(cursor[0])
    order = np.roll(np.arange(size), -start)
    found = np.flatnonzero(passes[order])
    examined = int(found[sample - 1]) + 1 if len(found) >= sample else size
    cursor[0] = (start + examined) % size if size else 0
    return order[found[:sample]]

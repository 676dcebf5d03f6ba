"""Non-negative least squares with a small ridge, for a few columns: how much of a service's excess each candidate's
activity explains.

An innocent pod that is often active together with the cause correlates with the excess as well. All candidates are
fitted together, so that an innocent explains only what the others do not; coefficients are at least 0, since activity
of others does not make a service faster. Columns that cannot be distinguished share the coefficient by their ridges: in
equal parts where these are equal, so that neither is confident.
Limits: linear; plain Python, since the agent does not load NumPy: 16 columns of 240 samples take about 10 ms.

Source: Lawson and Hanson, Solving Least Squares Problems (the problem); coordinate descent on the Gram matrix as in
Franc et al., CAIP 2005.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

_RIDGE = 0.02  # of each normalised column's square
_SWEEPS = 200
_CHANGE = 1e-9


def nonnegative_fit(
    columns: Sequence[Sequence[float]], target: Sequence[float], reluctance: Sequence[float] | None = None
) -> list[float]:
    """Coefficients of the columns, each at least 0; 0 for a column that is 0 throughout. `reluctance`: factors of the
    columns' ridges; all 1 where None.
    """
    norms = [sqrt(sum(value * value for value in column)) for column in columns]
    used = [at for at, norm in enumerate(norms) if norm > 0]
    unit = [[value / norms[at] for value in columns[at]] for at in used]
    gram = [[_dot(one, other) for other in unit] for one in unit]
    aim = [_dot(one, target) for one in unit]
    ridges = [_RIDGE * (1.0 if reluctance is None else reluctance[at]) for at in used]
    found = [0.0] * len(unit)
    for _ in range(_SWEEPS):
        moved = 0.0
        for at, row in enumerate(gram):
            rest = aim[at] - sum(row[other] * found[other] for other in range(len(unit)) if other != at)
            value = max(0.0, rest / (1.0 + ridges[at]))
            moved = max(moved, abs(value - found[at]))
            found[at] = value
        if moved <= _CHANGE:
            break
    result = [0.0] * len(columns)
    for at, value in zip(used, found, strict=True):
        result[at] = value / norms[at]
    return result


def explained(columns: Sequence[Sequence[float]], target: Sequence[float], coefficients: Sequence[float]) -> float:
    """Share of the target's sum of squares that the fit explains, 0 to 1."""
    total = _dot(target, target)
    if total <= 0:
        return 0.0
    left = 0.0
    for at, value in enumerate(target):
        fitted = sum(coefficient * column[at] for coefficient, column in zip(coefficients, columns, strict=True))
        left += (value - fitted) ** 2
    return max(0.0, 1.0 - left / total)


def _dot(one: Sequence[float], other: Sequence[float]) -> float:
    return sum(a * b for a, b in zip(one, other, strict=True))

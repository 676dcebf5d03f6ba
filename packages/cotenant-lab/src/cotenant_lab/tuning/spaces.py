"""Which knobs of which policy are tuned, and in which range.

A search needs a box around the defaults, and rivals must get boxes of their own for an equal tuning budget. One table
per policy, shared by `cotenant lab tune` and `bench/tuning.py`; a user's ranges replace it.
Limits: ranges are for the co-located world; knobs of other worlds are not here.
"""

from __future__ import annotations

from dataclasses import fields
from difflib import get_close_matches
from math import isfinite

from cotenant.model.errors import InvalidInput
from cotenant.policy.placement.knobs import Knobs

Space = dict[str, tuple[float, float]]

_NODE: Space = {"smt_loss": (0.2, 0.6), "batch_budget": (0.5, 0.85), "pressure_factor": (0.4, 1.0)}
_FIT: Space = {"use_limit": (0.68, 0.9), "memory_limit": (0.85, 0.95), "request_cap": (1.2, 2.0)}
_DAMAGE: Space = {
    "service_weight": (0.3, 3.0),
    "own_weight": (0.5, 4.0),
    "batch_weight": (0.1, 1.0),
    "linear_weight": (0.2, 2.0),
    "packing_weight": (0.0, 1.0),
}
_MOVES: Space = {"slack_margin": (1.0, 1.4), "move_gain": (0.1, 2.0)}
# The published weights are 35/40/15/20/15/20. The base shifts all nodes of a pod alike, so it is left out.
_FOUNDING: Space = {
    "founding_capacity": (0.0, 80.0),
    "founding_fairness": (0.0, 40.0),
    "founding_latency": (0.0, 60.0),
    "founding_dominant": (0.0, 60.0),
    "founding_violations": (0.0, 60.0),
}

SPACES: dict[str, Space] = {
    "edf-paragon": _NODE,
    "edf-paragon-overcommit": {**_NODE, **_FIT},
    "edf-paragon-measured": {**_NODE, **_FIT, "caution": (0.0, 1.0)},
    "tetris": {"fairness": (0.0, 0.9)},
    "cotenant": {**_FIT, "caution": (0.0, 1.0), **_DAMAGE, **_MOVES},
    "cotenant-requests": {**_DAMAGE, **_MOVES},
    "founding": _FOUNDING,
    "founding-ledger": _FOUNDING,
}


def space_of(policy: str, asked: tuple[str, ...]) -> Space:
    """The ranges to search: those asked for (`NAME=LOW:HIGH`), else the policy's own. Raises `InvalidInput`.

    A range must contain the default only by courtesy: the defaults are the first trial in any case.
    """
    if asked:
        return dict(_range(text) for text in asked)
    if policy not in SPACES:
        raise InvalidInput(
            "--policy",
            policy,
            f"a policy with known ranges: {', '.join(sorted(SPACES))}",
            "or give ranges with --knob NAME=LOW:HIGH",
        )
    return SPACES[policy]


def _range(text: str) -> tuple[str, tuple[float, float]]:
    name, _, ends = text.partition("=")
    low, _, high = ends.partition(":")
    try:
        span = float(low), float(high)
    except ValueError:
        span = float("nan"), float("nan")
    if not (isfinite(span[0]) and isfinite(span[1]) and span[0] < span[1]):
        raise InvalidInput("--knob", text, "NAME=LOW:HIGH with LOW < HIGH, e.g. packing_weight=0:1")
    known = [f.name for f in fields(Knobs)]
    if name not in known:
        close = get_close_matches(name, known, n=1)
        raise InvalidInput(
            "--knob", name, f"one of {', '.join(sorted(known))}", f"did you mean {close[0]}?" if close else ""
        )
    return name, span

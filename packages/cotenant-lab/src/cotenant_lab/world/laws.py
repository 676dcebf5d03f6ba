"""The laws by which pressure on the memory subsystem slows a node's residents, their scales, and the mixed law of
record.

Results under one law may only show that a policy assumes this law, and under a law that hurts nobody policies cannot be
told apart. Three published forms (linear; flat up to a knee: Mars et al., Bubble-Up, MICRO'11; a queue for bandwidth: 1
/ (1 - share)), each with a scale on the pressure at which kube-default violates about 1 % at load 0.82, as under the
linear law. `mixed`, the law of record, draws the form and its parameters from the seed, so an interval over seeds
covers what is not known about the machine.
Limits: the scales are calibrated with the default services, batch and node QoS (the table below, docs/results.md); the
ranges of the queueing start and of the cache partition are assumptions.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from cotenant.model.errors import InvalidInput
from cotenant_lab.world.config import MIXED, PRESSURE_CHOICES, PRESSURE_LAWS, WorldConfig

_STREAM = 11  # of the seed: the draw is independent of the workload's and of the failures'
_STEP = 0.001

# Ranges of the mixed law: field of `WorldConfig` -> lowest and highest value.
RANGES: dict[str, tuple[float, float]] = {
    "knee": (0.30, 0.50),  # Bubble-Up: flat up to 0.3-0.5 of the bandwidth
    "queueing_start": (0.10, 0.20),  # assumption, around 0.15
    "smt_loss": (0.30, 0.40),  # two busy siblings run at 0.6-0.7 of full speed each
    "cache_partition": (0.60, 0.80),  # assumption, around 0.7: batch confined to at most 30 % of the cache
}


def drawn(config: WorldConfig, law: str, seed: int) -> WorldConfig:
    """`config` under `law`, one of `PRESSURE_CHOICES`; for `mixed` the law and its parameters are drawn from the seed.

    Drawn parameters are odd multiples of half a thousandth, so that no policy's knob, which has at most three decimals,
    equals one. Raises `InvalidInput` for an unknown law.
    """
    if law not in PRESSURE_CHOICES:
        raise InvalidInput("pressure_law", law, "one of " + ", ".join(PRESSURE_CHOICES))
    if law != MIXED:
        return replace(config, pressure_law=law)
    rng = np.random.default_rng([seed, _STREAM])
    form = PRESSURE_LAWS[int(rng.integers(len(PRESSURE_LAWS)))]
    values = {}
    for name, (low, high) in RANGES.items():
        steps = round((high - low) / _STEP)
        values[name] = round(low + _STEP * (int(rng.integers(steps)) + 0.5), 4)
    return replace(config, pressure_law=form, **values)  # type: ignore[arg-type]


# Scale on the pressure by the law's own parameter, calibrated with kube-default at load 0.82 on seeds 0-4 and linear in
# between.
_KNEE = ((0.30, 1.61), (0.40, 1.74), (0.50, 1.86))
_QUEUEING = ((0.10, 1.70), (0.15, 1.79), (0.20, 1.86))


def pressure_scale(config: WorldConfig) -> float:
    """The factor on the others' pressure before the law is applied; 1 under the linear law."""
    if config.pressure_law == "knee":
        return _between(_KNEE, config.knee)
    if config.pressure_law == "queueing":
        return _between(_QUEUEING, config.queueing_start)
    return 1.0


def _between(points: tuple[tuple[float, float], ...], at: float) -> float:
    x, y = zip(*points, strict=True)
    return float(np.interp(at, x, y))


def describe(config: WorldConfig) -> str:
    """The law and its parameters, in one sentence for a run's notes."""
    own = {"knee": f", knee {config.knee:g}", "queueing": f", start {config.queueing_start:g}"}.get(
        config.pressure_law, ""
    )
    return (
        f"Contention: the {config.pressure_law} law{own}, SMT loss {config.smt_loss:g}, cache partition "
        f"{config.cache_partition:g}."
    )

"""The pressure laws: the mixed draw, the scales, and that no policy assumes a world's own parameters."""

from dataclasses import fields, replace

import numpy as np
import pytest

from cotenant.model.arrays import Float
from cotenant.model.errors import InvalidInput
from cotenant.policy.interference.learning.model import LearningSettings
from cotenant.policy.placement.knobs import Knobs
from cotenant.policy.placement.profiles import PROFILES
from cotenant_lab.world import contention, laws, state
from cotenant_lab.world.config import PRESSURE_CHOICES, PRESSURE_LAWS, WorldConfig

# What a policy assumes about a node or about measurements -> the world's parameters that it stands for.
ASSUMED = {
    "smt_loss": ("smt_loss",),
    "batch_budget": ("batch_budget",),
    "pressure_factor": ("cache_partition",),
    "memory_limit": ("squeeze_from", "evict_above"),
    "move_noise": ("load_noise_sd", "measurement_error"),
    "anticipate_pressure": ("pressure_median",),
    "anticipate_use": ("real_cpu_median",),
}
# The same of the model of learned interference.
LEARNED = {
    "sensitivity": ("sensitivity_median",),
    "sensitivity_sd": ("profile_log_sd",),
    "pressure": ("pressure_median",),
    "pressure_sd": ("profile_log_sd",),
    "noise_sd": ("load_noise_sd", "measurement_error", "replica_imbalance_sd"),
    "declared_sd": ("estimate_error",),
}
SEEDS = range(2_000)


@pytest.mark.parametrize("law", PRESSURE_CHOICES)
def test_no_knob_of_a_policy_equals_a_parameter_of_a_world(law: str) -> None:
    """For every law and every draw; where the parameter is fixed, the knob differs from it by at least 1 %."""
    profiles = {"default": Knobs()} | {profile.name: profile.knobs for profile in PROFILES}
    drawn = [laws.drawn(WorldConfig(), law, seed) for seed in SEEDS]
    learning = LearningSettings()
    held = [
        (owner, knob, getattr(knobs, knob), of) for owner, knobs in profiles.items() for knob, of in ASSUMED.items()
    ]
    held += [("learning", knob, getattr(learning, knob), of) for knob, of in LEARNED.items()]
    for owner, knob, assumed, parameters in held:
        for parameter in parameters:
            assert_apart(assumed, np.array([getattr(config, parameter) for config in drawn]), f"{owner}: {knob}")
    # `sibling` is in logarithms: two busy siblings are slower by 1 / (1 - loss)
    assert_apart(learning.sibling, np.array([-np.log1p(-config.smt_loss) for config in drawn]), "learning: sibling")


def assert_apart(assumed: float, worlds: Float, name: str) -> None:
    """No world has the assumed value; where all have the same, it differs by at least 1 %."""
    gap = np.abs(worlds - assumed)
    assert gap.min() > 1e-4, (name, assumed)
    if worlds.std() == 0:
        assert gap.min() >= 0.01 * assumed, (name, assumed)


def test_every_drawn_parameter_that_a_policy_could_assume_is_compared() -> None:
    """Nothing in a policy stands for the knee or the start of the queueing law."""
    assert set(laws.RANGES) - {entry for of in ASSUMED.values() for entry in of} == {"knee", "queueing_start"}
    names = {field.name for field in fields(Knobs)} | {field.name for field in fields(LearningSettings)}
    assert not {name for name in names if "knee" in name or "bandwidth" in name or name.startswith("queueing")}


def test_the_mixed_law_draws_every_law_and_the_whole_of_each_range() -> None:
    drawn = [laws.drawn(WorldConfig(), "mixed", seed) for seed in SEEDS]
    counts = [sum(config.pressure_law == law for config in drawn) for law in PRESSURE_LAWS]
    assert min(counts) > 0.28 * len(drawn)
    for name, (low, high) in laws.RANGES.items():
        values = np.array([getattr(config, name) for config in drawn])
        assert low < values.min() < low + 0.01 * (high - low) + 0.001
        assert high > values.max() > high - 0.01 * (high - low) - 0.001


def test_a_draw_depends_on_the_seed_alone() -> None:
    small = WorldConfig(nodes=12, pods=600)
    first, again = (laws.drawn(WorldConfig(), "mixed", 7) for _ in range(2))
    assert first == again
    assert laws.drawn(small, "mixed", 7) == replace(
        small, pressure_law=first.pressure_law, **{name: getattr(first, name) for name in laws.RANGES}
    )
    assert laws.drawn(WorldConfig(), "mixed", 8) != first


@pytest.mark.parametrize("law", PRESSURE_LAWS)
def test_a_named_law_keeps_the_configured_parameters(law: str) -> None:
    assert laws.drawn(WorldConfig(), law, 3) == WorldConfig(pressure_law=law)


def test_an_unknown_law_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InvalidInput, match="pressure_law: cubic: expected one of linear, knee, queueing, mixed"):
        laws.drawn(WorldConfig(), "cubic", 0)


def test_only_the_linear_law_has_no_scale_and_a_later_start_is_scaled_more() -> None:
    assert laws.pressure_scale(WorldConfig()) == 1.0
    for law, parameter in (("knee", "knee"), ("queueing", "queueing_start")):
        low, high = laws.RANGES[parameter]
        scales = [
            laws.pressure_scale(WorldConfig(pressure_law=law, **{parameter: value}))  # type: ignore[arg-type]
            for value in np.linspace(low, high, 9)
        ]
        assert scales == sorted(scales)
        assert scales[0] > 1.0


@pytest.mark.parametrize("name", PRESSURE_LAWS)
def test_the_scale_is_on_the_pressure(name: str) -> None:
    config = WorldConfig(pressure_law=name)
    law = state.law(config)
    assert contention.response(1.0 / law.pressure_scale, law) == pytest.approx(1.0)
    assert contention.response(0.0, law) == 0.0

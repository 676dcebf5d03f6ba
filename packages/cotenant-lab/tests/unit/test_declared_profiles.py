"""The lab without declared profiles: what is hidden, from which policies, and that the engine learns it in a run."""

from __future__ import annotations

import numpy as np
import pytest

from cotenant.policy.placement.profiles import profile
from cotenant_lab.bridge import Bridge
from cotenant_lab.offered import OfferedPods
from cotenant_lab.workloads.colocation import generate
from cotenant_lab.world.config import WorldConfig
from cotenant_lab.world.offer import without_profiles
from cotenant_lab.world.world import World

CONFIG = WorldConfig(nodes=3, pods=120, horizon_s=7200.0, failures=False)


def test_only_sensitivity_pressure_and_tolerance_are_hidden() -> None:
    _, offer = generate(CONFIG, 3, 0.8)
    hidden = without_profiles(offer)
    assert not hidden.est_sensitivity.any()
    assert not hidden.est_pressure.any()
    changed = {name for name in offer._fields if getattr(offer, name) is not getattr(hidden, name)}
    assert changed == {"est_sensitivity", "est_pressure", "est_tolerance"}
    for template in OfferedPods(hidden).templates:
        assert template.estimate is not None
        assert template.estimate.allowance == (np.inf if template.is_service else 1.0)


@pytest.mark.slow
def test_a_run_learns_profiles_and_the_explanation_says_from_how_many_windows() -> None:
    truth, offer = generate(CONFIG, 3, 0.8)
    bridge = Bridge(
        World(truth, CONFIG, 3), without_profiles(offer), CONFIG, profile("cotenant-learned"), np.random.default_rng(3)
    )
    bridge.run()
    learned = bridge.learned(0)  # a replica of the first service
    assert learned is not None
    assert learned.windows > 50
    assert not learned.declared
    assert np.isfinite(learned.allowance)
    bridge.engine.validate()
    plain = Bridge(World(truth, CONFIG, 3), offer, CONFIG, profile("cotenant"), np.random.default_rng(3))
    assert plain.learned(0) is None

"""What is simulated leaves nothing behind: afterwards an engine equals a twin that saw the same events and simulated
nothing, in its state and in all later decisions.

The clusters have gangs, reservations, quotas, devices, CPUs, budgets, load figures and rules between pods
(tests/fakes/cluster/mixed_world.py); what is simulated are moves and the placement of pods that wait.
"""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.fakes.cluster.mixed_world import NODES, MixedWorld, differences
from tests.property.few import examples

from cotenant.engine.rebalancer.landing import LandingSimulator, is_copy

_ROUNDS = 3


def simulate(w: MixedWorld, rng: np.random.Generator) -> int:
    """Place what waits, and move random pods to random nodes; some of it is taken back at once. Returns how many
    pods landed.
    """
    cluster, landed = w.cluster, 0
    with cluster.tentative(w.now_s):
        simulator = LandingSimulator(cluster, w.now_s)
        if rng.random() < 0.8:
            simulator.place_waiting()
        for _ in range(int(rng.integers(0, 6))):
            placed = [pod_info for pod_info in cluster.every_pod() if pod_info.node and pod_info.seen.node]
            placed = [pod_info for pod_info in placed if not (pod_info.seen.reservation or is_copy(pod_info.seen.uid))]
            if not placed:
                break
            entry = placed[int(rng.integers(len(placed)))]
            targets = [f"n{i}" for i in range(NODES) if rng.random() < 0.6 and f"n{i}" != entry.node]
            undo = cluster.checkpoint() if rng.random() < 0.3 else None
            landed += bool(simulator.land(entry, targets).node)
            if undo is not None:
                undo.restore()
            if rng.random() < 0.3:
                simulator.reopen()
                simulator.place_waiting()
    return landed


def compare(seed: int) -> int:
    """Returns how many pods landed in simulations."""
    mine, twin = MixedWorld(seed), MixedWorld(seed)
    rng = np.random.default_rng(seed)
    landed = 0
    for _ in range(int(rng.integers(5, 40))):
        mine.step()
        twin.step()
    for number in range(_ROUNDS):
        for w in (mine, twin):
            w.cluster._outbox.take()  # a simulation drops what nobody has fetched
            w.cluster.validate()
        for _ in range(2):
            landed += simulate(mine, rng)
            mine.cluster.validate()
            if number == 0:  # later pods may have other numbers of equal shapes
                assert [*islice(differences(mine.cluster, twin.cluster), 5)] == []
        for _ in range(10):
            mine.step()
            twin.step()
        assert mine.round() == twin.round()
    return landed


@pytest.mark.slow
@settings(max_examples=examples(12), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 2**32 - 1))
def test_an_engine_is_afterwards_as_its_twin(seed: int) -> None:
    compare(seed)


@pytest.mark.slow
def test_moves_are_simulated_in_these_clusters() -> None:
    assert sum(compare(seed) for seed in range(5)) > 5

import numpy as np
import pytest

from cotenant.model.errors import InvalidInput
from cotenant.policy.nodeqos.guard.config import GuardConfig
from cotenant.policy.nodeqos.guard.track import GuardMode
from cotenant_lab.world.config import WorldConfig

BATCH = [{"cores": 60.0, "pressure": 0.9, "duration_s": 4000.0}]
# slowed by batch at its budget it misses its objective, alone it is far from it
SERVICE = [{"cores": 8, "load": 4.0, "sensitivity": 1.0, "objective": 6.5}]


def lived(world, guard, minutes=30, services=SERVICE, batch=BATCH):
    w = world(batch, services, smt_loss=0.0, node_guard=guard)
    w.advance(0.0)
    n = len(w._state.pods.status)
    w.start(np.arange(n), np.zeros(n, np.int64))
    ratios = []
    for minute in range(1, minutes + 1):
        w.advance(60.0 * minute)
        ratios += [float(w.measured().p99_ratio[0])] if minute > 1 else []
    return w, ratios


def test_the_guard_keeps_a_replica_that_batch_would_slow_too_much_and_batch_pays(world):
    without, bad = lived(world, False)
    guarded, good = lived(world, True)
    assert min(bad) > 1.0
    assert max(good) < 1.0
    node = guarded._state.nodes[0]
    assert GuardMode(node["guard_mode"]) in (GuardMode.HOLD, GuardMode.GROW, GuardMode.CUT)
    assert GuardConfig().disabled_cpu_m < node["ceiling_m"] < 96_000
    assert guarded._state.pods.remaining_s[1] > without._state.pods.remaining_s[1]


def test_a_replica_with_slack_leaves_batch_alone(world):
    calm = [SERVICE[0] | {"objective": 20.0}]
    guarded, _ = lived(world, True, services=calm)
    without, _ = lived(world, False, services=calm)
    assert guarded._state.nodes[0]["ceiling_m"] == 96_000
    assert guarded._state.pods.remaining_s[1] == without._state.pods.remaining_s[1]


def test_an_objective_that_no_cut_can_save_stops_batch_and_lets_it_back_after_the_cool_down(world):
    hopeless = [SERVICE[0] | {"objective": 3.0}]
    guarded, _ = lived(world, True, minutes=3, services=hopeless)
    node = guarded._state.nodes[0]
    # at 20 mCPU batch is not the cause any more: no growth, and no more cutting
    assert node["ceiling_m"] == GuardConfig().disabled_cpu_m
    assert node["cool_until_us"] > 0
    guarded.advance(20 * 60.0)
    assert GuardMode(guarded._state.nodes[0]["guard_mode"]) is GuardMode.HOLD


def test_without_node_qos_there_is_no_guard(world):
    w = world(BATCH, SERVICE, node_qos=False, node_guard=True)
    assert not w._law.node_guard


@pytest.mark.parametrize("share", [0.655, -0.01, 1.01])
def test_the_budget_is_a_whole_percentage(share):
    with pytest.raises(InvalidInput, match="batch_budget"):
        WorldConfig(batch_budget=share)

"""Whole runs under a random placement: invariants of the world, and its figures."""

import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from tests.fakes.waiting import patience
from tools.tree import python_path

from cotenant_lab.world import state
from cotenant_lab.world.config import WorldConfig

pytestmark = pytest.mark.slow


def assert_consistent(world) -> None:
    """A pod is in one place only, sums equal those of the residents, and work is conserved."""
    s = world._state
    n = len(s.pods)
    where = np.full(n, -1)
    for node in range(len(s.nodes)):
        before, pod, steps = -1, int(s.nodes.first[node]), 0
        while pod >= 0:
            assert where[pod] == -1, "a pod is in two lists"
            assert s.pods.previous[pod] == before
            where[pod], before, pod, steps = node, pod, int(s.pods.next[pod]), steps + 1
            assert steps <= n
    np.testing.assert_array_equal(where, s.pods.node)
    np.testing.assert_array_equal(where >= 0, s.pods.status == state.RUNNING)
    placed = where >= 0
    for column, total in (("cpu_milli", "requested_milli"), ("memory_bytes", "requested_bytes")):
        expected = np.zeros(len(s.nodes), np.int64)
        np.add.at(expected, where[placed], s.pods[column][placed])
        np.testing.assert_array_equal(expected, s.nodes[total])
    waiting = (s.pods.status == state.READY) | (s.pods.status == state.UNREPORTED)
    for mask, name in ((placed, "held_milli"), (waiting, "queued_milli")):
        expected = np.zeros(len(s.tenants), np.int64)
        np.add.at(expected, s.pods.tenant[mask], s.pods.cpu_milli[mask])
        np.testing.assert_array_equal(expected, s.tenants[name])
    services = np.bincount(s.pods.service[placed & (s.pods.service >= 0)], minlength=len(s.services))
    np.testing.assert_array_equal(services, s.services.live)
    running = placed & (s.pods.service < 0)
    progress = (s.pods.duration_s[running] - s.pods.remaining_s[running]).sum()
    run = s.run
    assert run.work_done_s[0] == pytest.approx(run.work_completed_s[0] + run.work_lost_s[0] + progress, rel=1e-9)
    finished = s.pods.status == state.FINISHED
    assert run.work_completed_s[0] == pytest.approx(s.pods.duration_s[finished].sum(), rel=1e-6)
    assert run.batch_left[0] == (s.pods.service < 0).sum() - finished.sum()


@pytest.mark.parametrize("pack", [False, True])
def test_the_world_is_consistent_after_every_round(live, small, pack):
    rough = replace(small, nodes=12, pods=960, failure_interval_days=0.3, evict_above=0.75, squeeze_from=0.6)
    rounds = iter(range(1_000_000))

    def look(world):
        if next(rounds) % 200 == 0:
            assert_consistent(world)

    life = live(rough, seed=2, load=0.8, pack=pack, on_round=look)
    assert_consistent(life.world)
    assert life.account.evictions_failure > 0
    assert life.account.evictions_memory > 0
    assert life.account.unfinished == 0


def test_every_placement_but_the_evicted_ends_once(live, small):
    life = live(replace(small, failure_interval_days=1.0), seed=1)
    starts = np.bincount([pod for _, pod, _ in life.placements], minlength=len(life.truth.cpu_milli))
    np.testing.assert_array_equal(starts, life.world._state.pods.restarts + 1)


def test_equal_seeds_give_equal_runs(live, small):
    one, again, other = (live(small, seed=s) for s in (3, 3, 4))
    assert one.placements == again.placements
    np.testing.assert_array_equal(one.account.slowdown, again.account.slowdown)
    assert one.account.violation == again.account.violation
    assert one.account.slowdown.mean() != other.account.slowdown.mean()


def test_littles_law(live, small):
    """Time mean of running pods = rate of arrival x mean residence on nodes, over the whole run."""
    life = live(replace(small, failures=False), seed=5)
    s = life.world._state
    assert life.account.evictions_memory == 0
    batch = s.pods.service < 0
    taken = s.ticks[: s.run.ticks[0]]
    span = taken["time_s"][-1] - taken["time_s"][0]
    inside = (taken["running_pods"] - (~batch).sum())[1:].mean()  # at the first tick nothing was placed yet
    residence = (s.pods.finished_s - s.pods.placed_s)[batch]
    assert inside == pytest.approx(batch.sum() / span * residence.mean(), rel=0.01)


def test_without_interference_and_smt_random_placement_slows_little(live, small):
    quiet = live(replace(small, interference=0.0, smt_loss=0.0, failures=False), seed=0, load=0.6)
    assert quiet.account.violation_service < 0.002
    assert np.median(quiet.account.slowdown) < 1.01
    loud = live(replace(small, interference=2.0), seed=0, load=0.6)
    assert loud.account.violation_service > quiet.account.violation_service + 0.01
    assert np.median(loud.account.slowdown) > 1.05


def test_node_qos_helps_services_and_costs_batch(live, small):
    on, off = (live(replace(small, node_qos=qos), seed=1, load=0.9).account for qos in (True, False))
    assert on.violation_service < off.violation_service


def test_failures_cost_work_and_can_be_compared_on_the_same_seed(live, small):
    with_them, without = (
        live(replace(small, failures=f, failure_interval_days=2.0), seed=6).account for f in (True, False)
    )
    assert without.evictions_failure == 0
    assert with_them.evictions_failure > 0
    assert with_them.task_fairness < without.task_fairness


def test_packing_is_worse_for_everyone(live, small):
    spread, packed = (live(small, seed=0, pack=p).account for p in (False, True))
    assert packed.violation > spread.violation
    assert packed.requested_cpu > spread.requested_cpu  # slowed pods live longer: never a merit


@pytest.mark.parametrize("seed", [0, 1])
def test_random_placement_meets_the_founding_targets(live, seed):
    """The founding table's targets are met by random placement, so meeting them proves little."""
    a = live(WorldConfig(), seed=seed).account
    assert a.success > 0.999
    assert a.requested_cpu == pytest.approx(0.785, abs=0.015)
    assert a.used_cpu == pytest.approx(0.457, abs=0.015)
    assert a.requested_memory == pytest.approx(0.69, abs=0.04)
    assert a.fragmentation == pytest.approx(0.010, abs=0.008)
    assert 0.004 < a.violation < 0.025
    assert a.violation == pytest.approx(
        a.violation_unplaced + a.violation_queued + a.violation_restarted + a.violation_slowed
    )
    assert a.task_fairness == pytest.approx(0.988, abs=0.008)
    assert 0.09 < a.dominant_fairness < 0.19
    assert a.granted_fairness > 0.999
    assert np.quantile(a.slowdown, 0.99) == pytest.approx(1.75, abs=0.3)
    assert a.unfinished == 0


PLAIN = """
import sys
import numpy as np
from cotenant_lab.workloads.colocation import generate
from cotenant_lab.world.config import WorldConfig
from cotenant_lab.world.world import World
config = WorldConfig(nodes=3, pods=90, horizon_s=2400.0, averages_from_s=600.0,
                     duration_chain_most_s=1200.0, map_at_s=1200.0,
                     failure_interval_days=0.05, evict_above=0.5, squeeze_from=0.4, width=(4, 8), width_p=(0.5, 0.5))
truth, offer = generate(config, 1, 0.6)
world, rng = World(truth, config, 1), np.random.default_rng(0)
hold, up, queue, now = np.zeros(len(offer.shape)), np.ones(3, bool), [], 0.0
while not world.done:
    happened = world.advance(now)
    hold[happened.evicted] = happened.hold_until_s
    up[happened.nodes_down], up[happened.nodes_up] = False, True
    queue += happened.evicted.tolist() + happened.ready.tolist()
    able = [p for p in queue if hold[p] <= now] if up.any() else []
    if able:
        world.start(np.array(able), rng.choice(np.flatnonzero(up), len(able)))
        queue = [p for p in queue if p not in able]
    now += 60.0
a = world.account()
assert a.evictions_memory > 0 and a.evictions_failure > 0
print(repr((a.violation, a.used_cpu, a.fragmentation, a.task_fairness, a.slowdown.tolist(), a.evictions_memory)))
"""


def test_the_plain_path_with_python_s_bounds_checks_gives_the_same_run():
    """An index out of range corrupts memory silently in compiled code; the interpreter raises."""
    outputs = []
    for plain in ("0", "1"):
        env = {**os.environ, "NUMBA_DISABLE_JIT": plain, "PYTHONPATH": python_path()}
        done = subprocess.run(
            [sys.executable, "-c", PLAIN], env=env, capture_output=True, text=True, timeout=patience(300), check=False
        )
        assert done.returncode == 0, done.stderr
        outputs.append(done.stdout)
    assert outputs[0] == outputs[1]

from __future__ import annotations

import numpy as np
import pytest

from cotenant.model.errors import InvalidInput
from cotenant_lab.baselines.drf import DominantResourceFairness
from cotenant_lab.baselines.rounds import NO_ROOM
from cotenant_lab.baselines.tetris import Tetris, alignments, preference

PACKING = Tetris(fairness=0.0)


def test_alignment_is_the_dot_product_over_the_machines_capacity(snapshot) -> None:
    cluster = snapshot([(10, 100)], [(4, 10), (1, 50)], [], used=[(2, 60)])
    aligned = np.empty(2)
    alignments(cluster.nodes, cluster.shapes, 0, np.array([0, 1]), 2, aligned)
    # free (0.8, 0.4): 0.4 x 0.8 + 0.1 x 0.4 and 0.1 x 0.8 + 0.5 x 0.4
    assert aligned == pytest.approx([0.36, 0.28])


def test_preference_ranks_jobs_not_pods_and_services_have_none() -> None:
    job = np.array([7, 7, 3, 9, -1])
    work = np.array([5.0, 5.0, 1.0, 9.0, 0.0])
    # job 3 first of three, then 7, then 9
    assert preference(job, work) == pytest.approx([2 / 3, 2 / 3, 1.0, 1 / 3, 0.0])


def worked_example(snapshot, work):
    """One machine, (0.8, 0.4) free; three jobs of one task. By hand:

    task     demand        a
    0     (0.4, 0.1)    0.36
    1     (0.1, 0.5)    does not fit: 0.4 of memory is free
    2     (0.3, 0.2)    0.32
    3     (0.2, 0.3)    0.28
    """
    return snapshot(
        [(10, 100)], [(4, 10), (1, 50), (3, 20), (2, 30)], [0, 1, 2, 3], used=[(2, 60)], job=[0, 1, 2, 3], work=work
    )


def first(decision) -> int:
    return int(decision.order[0])


def test_equal_work_leaves_the_choice_to_alignment(snapshot, rng) -> None:
    decision = PACKING.decide(worked_example(snapshot, [5.0, 5.0, 5.0, 5.0]), 0.0, rng)
    assert first(decision) == 0


def test_the_score_weighs_alignment_and_remaining_work_equally(snapshot, rng) -> None:
    # Less work first: task 3, then 2, then 1, then 0. p = 1/4, 2/4, 3/4, 4/4 for tasks 0, 1, 2, 3.
    # Candidates 0, 2, 3: mean a = 0.96 / 3 = 0.32, mean p = 2 / 3, eps = 0.48.
    # a + eps p: 0 -> 0.36 + 0.12 = 0.48; 2 -> 0.32 + 0.36 = 0.68; 3 -> 0.28 + 0.48 = 0.76.
    decision = PACKING.decide(worked_example(snapshot, [9.0, 4.0, 2.0, 1.0]), 0.0, rng)
    assert first(decision) == 3


def test_alignment_can_outweigh_a_small_lead_in_work(snapshot, rng) -> None:
    # p = 3/4, 2/4, 4/4, 1/4 for tasks 0, 1, 2, 3: eps = 0.32 / (2 / 3) = 0.48.
    # 0 -> 0.36 + 0.36 = 0.72; 2 -> 0.32 + 0.48 = 0.80; 3 -> 0.28 + 0.12 = 0.40.
    assert first(PACKING.decide(worked_example(snapshot, [2.0, 4.0, 1.0, 9.0]), 0.0, rng)) == 2
    # Swap the work of 0 and 2: 0 -> 0.36 + 0.48 = 0.84; 2 -> 0.32 + 0.36 = 0.68.
    assert first(PACKING.decide(worked_example(snapshot, [1.0, 4.0, 2.0, 9.0]), 0.0, rng)) == 0


def test_the_machine_chooses_the_task_that_fills_it(snapshot, rng) -> None:
    # CPU is what this machine has left, so it takes the task that wants CPU, though the other is larger and came first
    cluster = snapshot([(16, 64)], [(1, 24), (8, 4)], [0, 1], used=[(4, 40)])
    assert first(PACKING.decide(cluster, 0.0, rng)) == 1


def two_tenants(snapshot):
    """Tenant 0 holds more and its task aligns better; one of the two fits."""
    cluster = snapshot([(10, 10)], [(6, 6), (5, 5)], [0, 1], tenant=[0, 1], job=[0, 1], work=[1.0, 1.0])
    cluster.tenants.allocated[0] = (5, 5, 1)
    cluster.tenants.allocated[1] = (1, 1, 1)
    return cluster


def test_fairness_zero_is_packing_alone(snapshot, rng) -> None:
    assert first(Tetris(fairness=0.0).decide(two_tenants(snapshot), 0.0, rng)) == 0


def test_fairness_near_one_serves_the_tenant_with_the_least_share(snapshot, rng) -> None:
    decision = Tetris(fairness=0.99).decide(two_tenants(snapshot), 0.0, rng)
    assert first(decision) == 1
    assert decision.row.tolist() == [-1, 0]


def test_fairness_near_one_follows_shares_as_they_grow(snapshot, rng) -> None:
    # tenant 0's tasks align better, so packing alone would take three of them; shares go 0, 1/3 | 1/6, 2/6 | a draw
    cluster = snapshot([(6, 6)], [(2, 2), (1, 1)], [0] * 5 + [1] * 5, tenant=[0, 1], work=[1.0] * 10)
    order = Tetris(fairness=0.99).decide(cluster, 0.0, rng).order
    assert cluster.pending.tenant[order].tolist() == [0, 1, 1, 0]
    assert cluster.pending.tenant[PACKING.decide(cluster, 0.0, rng).order].tolist() == [0, 0, 0]


def test_the_default_fairness_leaves_out_the_richest_quarter(snapshot, rng) -> None:
    # four tenants, equal but for what they hold: the one with most is not a candidate though its task aligns best
    sizes = [(9, 9), (5, 5), (4, 4), (3, 3)]
    cluster = snapshot([(12, 12)], sizes, [0, 1, 2, 3], tenant=[0, 1, 2, 3], work=[1.0] * 4)
    cluster.tenants.allocated[:, 0] = [4, 3, 2, 1]
    assert first(Tetris().decide(cluster, 0.0, rng)) == 1
    assert first(Tetris(fairness=0.0).decide(cluster, 0.0, rng)) == 0


def test_a_tenant_that_cannot_use_the_machine_does_not_hold_it_back(snapshot, rng) -> None:
    cluster = snapshot([(4, 4)], [(8, 8), (2, 2)], [0, 1], tenant=[0, 1])
    cluster.tenants.allocated[1] = (3, 3, 1)
    decision = Tetris(fairness=0.99).decide(cluster, 0.0, rng)
    assert decision.row.tolist() == [-1, 0]
    assert decision.reasons == {NO_ROOM: 1}


def test_one_task_a_visit_goes_round_the_machines_and_zero_fills_them(snapshot, rng) -> None:
    cluster = snapshot([(4, 4)] * 4, [(1, 1)], [0] * 4)
    assert sorted(Tetris().decide(cluster, 0.0, rng).row.tolist()) == [0, 1, 2, 3]
    assert len(set(Tetris(tasks_per_visit=0).decide(cluster, 0.0, rng).row.tolist())) == 1


def test_pods_of_a_group_stay_under_its_limit(snapshot, rng) -> None:
    cluster = snapshot([(9, 9)] * 2, [(1, 1)], [0] * 8, group_limit=[3], service=[True] * 8)
    row = Tetris(tasks_per_visit=0).decide(cluster, 0.0, rng).row
    assert np.bincount(row[row >= 0]).tolist() == [3, 3]


def test_knobs_out_of_range_are_refused() -> None:
    with pytest.raises(InvalidInput, match="fairness"):
        Tetris(fairness=1.0)
    with pytest.raises(InvalidInput, match="tasks_per_visit"):
        Tetris(tasks_per_visit=-1)


# A mix of diverse demands on small machines, every task one wave long. Slots are what the paper's comparison used: a
# slot is a fixed slice of CPU and memory, and a task takes as many as its larger demand needs.
MACHINES, MACHINE, SLOT = 8, (16, 64), (1, 4)
DEMANDS = [(6, 4), (1, 28), (4, 8), (2, 12), (1, 4), (8, 8), (2, 24)]


def makespan(snapshot, policy, demands, pods, works) -> int:
    """Waves until every task has run; each wave starts on empty machines."""
    waiting = np.asarray(pods)
    waves = 0
    while waiting.size:
        cluster = snapshot(
            [MACHINE] * MACHINES,
            demands,
            waiting,
            tenant=[k % 2 for k in range(len(demands))],
            work=works[waiting],
        )
        placed = policy.decide(cluster, float(waves), np.random.default_rng(waves)).row >= 0
        waiting = waiting[~placed]
        waves += 1
        assert placed.any()
    return waves


def in_slots(demand: tuple[int, int]) -> tuple[int, int]:
    slots = max(-(-demand[0] // SLOT[0]), -(-demand[1] // SLOT[1]))
    return slots * SLOT[0], slots * SLOT[1]


def test_packing_beats_fair_slots_in_makespan_on_diverse_demands(snapshot) -> None:
    works = np.array([c / 16 + m / 64 for c, m in DEMANDS])
    for seed in (3, 4):
        pods = np.random.default_rng(seed).integers(0, len(DEMANDS), 400)
        tetris = makespan(snapshot, Tetris(), DEMANDS, pods, works)
        slots = makespan(snapshot, DominantResourceFairness(), [in_slots(d) for d in DEMANDS], pods, works)
        volume = max(sum(DEMANDS[pod][r] / MACHINE[r] for pod in pods) for r in (0, 1)) / MACHINES
        assert volume <= tetris <= 0.8 * slots

from __future__ import annotations

import numpy as np
import pytest

from cotenant.model.errors import InvalidInput
from cotenant_lab.baselines.firmament.coco import CoCo
from cotenant_lab.baselines.firmament.costs import CostModel
from cotenant_lab.baselines.firmament.load_spreading import LoadSpreading
from cotenant_lab.baselines.firmament.quincy import Quincy
from cotenant_lab.baselines.firmament.scheduler import REJECTED, Firmament
from cotenant_lab.baselines.rounds import NO_ROOM

MODELS: tuple[CostModel, ...] = (Quincy(), Quincy(transfer_cost=300), LoadSpreading(), CoCo())
NAMES = ("quincy", "quincy with input", "load-spreading", "coco")
every_model = pytest.mark.parametrize("model", MODELS, ids=NAMES)


@every_model
def test_one_task_and_one_machine_that_fits(snapshot, rng, model: CostModel) -> None:
    cluster = snapshot([(1, 1), (4, 4)], [(2, 2)], [0])
    assert Firmament(model).decide(cluster, 0.0, rng).row.tolist() == [1]


@every_model
def test_nothing_waits_while_there_is_room_though_nothing_has_waited(snapshot, rng, model: CostModel) -> None:
    # the clock stands at the moment of arrival, and all room is needed
    cluster = snapshot([(2, 2)] * 3, [(1, 1)], [0] * 6, running=[900, 0, 500], ready_s=[5.0] * 6)
    decision = Firmament(model).decide(cluster, 5.0, rng)
    assert sorted(decision.row.tolist()) == [0, 0, 1, 1, 2, 2]
    assert decision.reasons == {}


@every_model
def test_a_crowd_on_a_full_machine_does_not_make_waiting_cheaper(snapshot, rng, model: CostModel) -> None:
    cluster = snapshot(
        [(100, 100)],
        [(1, 1)],
        [0],
        used=[(99, 99)],
        running=[90],
        sensitivity=[0.9],
        pressure=[0.1],
        residents=[(0, 0)] * 90,
    )
    assert Firmament(model).decide(cluster, 0.0, rng).row.tolist() == [0]


@every_model
def test_the_longest_wait_goes_first_when_capacity_is_short(snapshot, rng, model: CostModel) -> None:
    cluster = snapshot([(1, 1)], [(1, 1)], [0, 0, 0], ready_s=[50.0, 0.0, 90.0])
    assert Firmament(model).decide(cluster, 100.0, rng).row.tolist() == [-1, 0, -1]


@every_model
def test_two_classes_that_overfill_a_machine_meet_the_admission_check(snapshot, rng, model: CostModel) -> None:
    # the machine fits two of either class, so the network lets two tasks through, but not one of CPU 3 beside one of
    # CPU 2
    cluster = snapshot([(4, 9)], [(2, 1), (3, 2)], [0, 1], ready_s=[0.0, 10.0])
    decision = Firmament(model).decide(cluster, 20.0, rng)
    assert decision.row.tolist() == [0, -1]
    assert decision.reasons == {NO_ROOM: 1}


def test_a_rejected_task_that_fits_elsewhere_has_that_reason(snapshot) -> None:
    # Quincy holds the machines equal, so in some orders both tasks go to one; the rejected one fits the other
    told = 0
    for seed in range(20):
        cluster = snapshot([(4, 9), (4, 9)], [(2, 1), (3, 2)], [0, 1])
        decision = Firmament(Quincy()).decide(cluster, 20.0, np.random.default_rng(seed))
        if (decision.row < 0).any():
            assert decision.reasons == {REJECTED: 1}
            told += 1
    assert told > 0


def test_networks_of_a_few_tasks_build_on_one_another(snapshot, rng) -> None:
    cluster = snapshot([(5, 5)] * 2, [(1, 1)], [0] * 9)
    decision = Firmament(LoadSpreading(), round_tasks=2).decide(cluster, 0.0, rng)
    assert sorted(np.bincount(decision.row).tolist()) == [4, 5]


def test_services_have_networks_of_their_own_first(snapshot, rng) -> None:
    cluster = snapshot([(2, 2)], [(1, 1), (2, 2)], [0, 0, 1], service=[False, False, True], ready_s=[0.0, 0.0, 99.0])
    assert Firmament(LoadSpreading()).decide(cluster, 100.0, rng).row.tolist() == [-1, -1, 0]


@every_model
def test_the_group_limit_holds(snapshot, rng, model: CostModel) -> None:
    cluster = snapshot([(9, 9)] * 2, [(1, 1)], [0] * 8, group_limit=[3], service=[True] * 8)
    row = Firmament(model).decide(cluster, 0.0, rng).row
    assert np.bincount(row[row >= 0]).tolist() == [3, 3]


def test_a_round_of_no_tasks_is_refused() -> None:
    with pytest.raises(InvalidInput, match="round_tasks"):
        Firmament(Quincy(), round_tasks=0)

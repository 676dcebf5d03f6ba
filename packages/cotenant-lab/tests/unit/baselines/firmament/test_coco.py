from __future__ import annotations

import math

import numpy as np
import pytest

from cotenant.model.arrays import ResidentArrays
from cotenant.model.errors import Unsupported
from cotenant.policy.placement.contract import Snapshot
from cotenant_lab.baselines.firmament.coco import PENALTY, Animal, CoCo
from cotenant_lab.baselines.firmament.scheduler import Firmament

CALM, MILD, SUFFERS, PRESSES, BOTH = 0, 1, 2, 3, 4
SENSITIVITY = [0.1, 0.3, 0.6, 0.1, 0.6]
PRESSURE = [0.1, 0.1, 0.1, 0.5, 0.5]


def five_kinds(snapshot, pods, **more):
    return snapshot([(10, 20), (10, 20)], [(1, 1)] * 5, pods, sensitivity=SENSITIVITY, pressure=PRESSURE, **more)


def test_animals_come_from_estimated_sensitivity_and_pressure(snapshot) -> None:
    label = CoCo().label(five_kinds(snapshot, []).shapes)
    assert label.tolist() == [Animal.TURTLE, Animal.SHEEP, Animal.RABBIT, Animal.DEVIL, Animal.DEVIL]


def test_the_matrix_is_the_published_one() -> None:
    assert PENALTY[Animal.TURTLE].tolist() == [50, 50, 50, 50]
    assert PENALTY[Animal.SHEEP, Animal.DEVIL] == 200
    assert PENALTY[Animal.RABBIT].tolist() == [10, 50, 200, 1000]
    assert PENALTY[Animal.DEVIL, Animal.RABBIT] == 1000
    assert PENALTY[Animal.DEVIL, Animal.DEVIL] == 200


def test_a_rounds_prices_by_hand(snapshot) -> None:
    cluster = snapshot(
        [(10, 20), (20, 20)],
        [(2, 4), (1, 1), (1, 1)],
        [0],
        used=[(5, 5), (0, 0)],
        ready_s=[40.0],
        sensitivity=[0.6, 0.1, 0.1],
        pressure=[0.1, 0.5, 0.1],
        residents=[(0, 1), (0, 1), (0, 0), (0, 2), (-1, 1)],
    )
    prices = Firmament(CoCo(), lift=False).lay_out(cluster, np.array([0]), np.array([0, 1]), 100.0).prices
    # two resources: 2 x 1000 + 1000 x (2/10 + 4/20) + 2 + 600 tenths of a second
    assert prices.unscheduled.tolist() == [2000 + 400 + 2 + 600]
    assert prices.enter.tolist() == [round(1000 * (2 / 20 + 4 / 20))]
    # a rabbit beside two devils, a rabbit and a turtle on a machine half occupied; nobody on the other
    beside = (1000 + 1000 + 200 + 10) * (math.exp(0.5) - 1)
    assert prices.assign.tolist() == [[round(1000 * (5 / 10 + 5 / 20) + beside), 0]]
    assert prices.slope.tolist() == [1000 * 2 // 10 + 1000 * 4 // 20, 1000 * 2 // 20 + 1000 * 4 // 20]


def test_a_rabbit_keeps_away_from_devils_and_a_turtle_does_not_care(snapshot, rng) -> None:
    # node 0 holds devils, node 1 as many turtles and a little more of everything else
    residents = [(0, PRESSES)] * 3 + [(1, CALM)] * 3
    for pod, expected in ((SUFFERS, 1), (CALM, 0)):
        cluster = five_kinds(snapshot, [pod], used=[(5, 5), (5, 6)], residents=residents)
        assert Firmament(CoCo()).decide(cluster, 0.0, rng).row.tolist() == [expected]


def test_tasks_that_look_alike_but_for_their_animal_are_two_classes(snapshot) -> None:
    cluster = five_kinds(snapshot, [CALM, SUFFERS, PRESSES, BOTH])
    layout = Firmament(CoCo()).lay_out(cluster, np.arange(4), np.array([0, 1]), 0.0)
    assert len(set(layout.class_of.tolist())) == 3
    assert layout.class_of[2] == layout.class_of[3]


def test_what_a_decision_has_placed_counts_as_company_in_its_next_network(snapshot, rng) -> None:
    # a devil of one network, then a rabbit of the next: they part, though everything else pulls the rabbit to the
    # devil's node
    cluster = snapshot(
        [(10, 20), (10, 20)],
        [(1, 1), (1, 1)],
        [1, 0],
        used=[(5, 5), (5, 9)],
        sensitivity=[0.6, 0.1],
        pressure=[0.1, 0.5],
    )
    policy = Firmament(CoCo(), round_tasks=1)
    assert policy.decide(cluster, 0.0, rng).row.tolist() == [0, 1]
    cluster.shapes.params[1] = 0.0  # no devil any more
    assert policy.decide(cluster, 0.0, rng).row.tolist() == [0, 0]


def test_without_residents_the_model_is_unsupported(snapshot, rng) -> None:
    cluster = five_kinds(snapshot, [CALM])
    blind = Snapshot(cluster.nodes, cluster.shapes, cluster.pending, cluster.tenants)
    assert isinstance(cluster.residents, ResidentArrays)
    with pytest.raises(Unsupported, match="residents"):
        Firmament(CoCo()).decide(blind, 0.0, rng)

"""The published costs with a standing clock, and what our rounds do about it."""

from __future__ import annotations

import numpy as np

from cotenant_lab.baselines.firmament.network import solve
from cotenant_lab.baselines.firmament.quincy import OFFSET, Quincy
from cotenant_lab.baselines.firmament.scheduler import Firmament


def placed(snapshot, policy: Firmament, waited_s: float) -> bool:
    cluster = snapshot([(4, 4)], [(1, 1)], [0], ready_s=[0.0])
    return bool(policy.decide(cluster, waited_s, np.random.default_rng(0)).row[0] == 0)


def test_published_costs_make_an_idle_cluster_wait_for_the_clock(snapshot) -> None:
    # input costs 100: placing beats waiting once 0.5 x wait > 100
    published = Firmament(Quincy(transfer_cost=100), lift=False)
    assert not placed(snapshot, published, 0.0)
    assert not placed(snapshot, published, 198.0)
    assert placed(snapshot, published, 202.0)


def test_published_costs_without_input_are_a_draw_at_wait_zero(snapshot) -> None:
    cluster = snapshot([(4, 4)], [(1, 1)], [0], ready_s=[0.0])
    layout = Firmament(Quincy(), lift=False).lay_out(cluster, np.array([0]), np.array([0]), 0.0)
    assert solve(layout.network).cost == OFFSET  # whichever way the unit flows
    assert layout.prices.unscheduled[0] == layout.prices.enter[0]


def test_our_rounds_place_at_once_and_keep_the_order_by_wait(snapshot) -> None:
    assert placed(snapshot, Firmament(Quincy()), 0.0)
    assert placed(snapshot, Firmament(Quincy(transfer_cost=100)), 0.0)
    cluster = snapshot([(4, 4)], [(1, 1)], [0, 0], ready_s=[0.0, 60.0])
    policy = Firmament(Quincy(transfer_cost=100))
    prices = policy.lay_out(cluster, np.array([0, 1]), np.array([0]), 100.0).prices
    assert (prices.unscheduled > prices.enter).all()
    assert prices.unscheduled[0] - prices.unscheduled[1] == 30  # 0.5 x (100 - 40) s, lifted alike


def test_no_lift_where_the_wait_has_done_it(snapshot) -> None:
    cluster = snapshot([(4, 4)], [(1, 1)], [0], ready_s=[0.0])
    lifted = Firmament(Quincy()).lay_out(cluster, np.array([0]), np.array([0]), 100.0).prices
    assert lifted.unscheduled[0] == OFFSET + 50

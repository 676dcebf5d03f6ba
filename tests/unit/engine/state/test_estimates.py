"""Estimates corrected by measurement, and replicas that keep missing their objective."""

import numpy as np

from cotenant.engine.rebalancer import Rebalancer
from cotenant.engine.state.estimates import Estimates
from cotenant.engine.state.ledger import Ledger, empty_nodes
from cotenant.model.arrays import Param, PendingArrays, ShapeArrays, Sum
from cotenant.policy.placement.contribution import contribution
from cotenant.policy.placement.knobs import Knobs
from cotenant.policy.placement.profiles import profile

GIB = 2**30


def cluster(shapes: int = 30, nodes: int = 3, service: int = 0) -> Ledger:
    """`shapes` alike, the first `service` of them services; 16-core nodes."""
    request = np.tile(np.array([[4000, 8 * GIB, 1]]), (shapes, 1))
    params = np.zeros((shapes, len(Param)))
    params[:, Param.USE_CPU], params[:, Param.USE_MEMORY] = 4.0, 8.0 * GIB
    params[:, Param.SENSITIVITY], params[:, Param.PRESSURE], params[:, Param.ALLOWANCE] = 1.0, 1.0, 0.5
    params[:, Param.IS_SERVICE] = np.arange(shapes) < service
    params[:, Param.LOAD_LIMIT], params[:, Param.DURATION] = np.inf, 100.0
    zero = np.zeros(shapes, np.uint64)
    table = ShapeArrays(
        request, contribution(request, params, 8.0, 0.7), params, zero, zero[:, None], np.zeros(shapes, np.int64),
        np.full(shapes, -1), np.zeros(shapes, np.int64),
    )  # fmt: skip
    return Ledger(empty_nodes(np.tile(np.array([[16_000, 64 * GIB, 50]]), (nodes, 1))), table, 1, 40)


def test_a_measured_shape_weighs_what_was_measured_and_others_follow_what_was_learnt() -> None:
    ledger = cluster()
    estimates = Estimates(ledger, Knobs())
    pods = np.arange(24)
    ledger.place(pods, pods % 3, pods)
    estimates.measured(pods, np.full(24, 1.0), np.full(24, 2.0 * GIB))
    estimates.correct_use()
    estimates.revise(estimates.seated())
    ledger.validate()
    assert ledger.nodes.sums[:, Sum.USE_CPU].tolist() == [8000, 8000, 8000]
    assert ledger.shapes.params[29, Param.USE_CPU] == 1.0  # told 4, but estimates have proved four times too high
    ledger.remove(pods)
    assert not ledger.nodes.sums.any()


def test_a_services_estimate_is_raised_by_its_peak_and_never_lowered() -> None:
    ledger = cluster(service=2)
    estimates = Estimates(ledger, Knobs())
    ledger.place(np.array([0, 1]), np.array([0, 1]), np.array([0, 1]))
    for cores in (6.0, 1.0):
        estimates.measured(np.array([0, 1]), np.array([cores, 1.0]), np.array([1.0, 1.0]))
        estimates.correct_use()
    assert ledger.shapes.params[:2, Param.USE_CPU].tolist() == [6.0, 4.0]


def test_a_pod_evicted_for_memory_teaches_its_shape_at_once() -> None:
    ledger = cluster()
    estimates = Estimates(ledger, Knobs())
    ledger.place(np.array([3]), np.array([0]), np.array([3]))
    estimates.outgrew(np.array([3]), np.array([20.0 * GIB]))
    assert ledger.shapes.params[3, Param.USE_MEMORY] == 20.0 * GIB
    assert ledger.shapes.sums[3, Sum.USE_MEMORY] == 20 * GIB
    ledger.validate()  # the resident keeps what it was placed with until the next revision


def test_slack_shrinks_while_a_pod_waits_and_weighs_more() -> None:
    ledger = cluster()
    estimates = Estimates(ledger, Knobs())
    one = np.array([5])
    estimates.submitted(
        PendingArrays(one, one, one, one, one, np.array([False]), np.zeros(1), np.array([300.0]), np.array([100.0]), np.ones(1))
    )  # fmt: skip
    weights = []
    for now in (0.0, 100.0, 150.0):
        estimates.waiting(one, now, slack=True)
        weights.append(int(ledger.shapes.sums[5, Sum.BATCH_W]))
    assert weights == [2_000_000, 4_000_000, 8_000_000]  # 4 cores / (3 - 1), / (2 - 1), / (1.5 - 1)


def missing(ledger: Ledger, rebalancer: Rebalancer, now_s: float, violated: bool = True) -> list[int]:
    replicas = np.array([0])
    return rebalancer.victims(
        ledger, profile("cotenant"), replicas, np.array([1.5]), np.array([violated]), now_s
    ).tolist()  # fmt: skip


def test_a_replica_moves_after_consecutive_misses_and_then_rests() -> None:
    ledger = cluster(service=1)
    crowd = np.arange(1, 4)
    ledger.place(np.array([0]), np.array([0]), np.array([0]))
    ledger.place(crowd, np.zeros(3, np.int64), crowd)  # beside it a crowd that presses; elsewhere nobody
    rebalancer = Rebalancer()
    assert missing(ledger, rebalancer, 60.0) == []
    assert missing(ledger, rebalancer, 120.0, violated=False) == []
    assert missing(ledger, rebalancer, 180.0) == []
    assert missing(ledger, rebalancer, 240.0) == [0]
    for minute in range(5, 12):
        assert missing(ledger, rebalancer, 60.0 * minute) == []
    ledger.validate()


def test_nobody_moves_where_nothing_is_better() -> None:
    ledger = cluster(service=1, nodes=1)
    ledger.place(np.array([0, 1]), np.zeros(2, np.int64), np.array([0, 1]))
    rebalancer = Rebalancer()
    assert [missing(ledger, rebalancer, 60.0 * minute) for minute in range(1, 6)] == [[]] * 5
    assert ledger.row[0] == 0

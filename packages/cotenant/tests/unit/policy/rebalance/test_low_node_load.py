"""A round of LowNodeLoad: what it promises about every node after the moves, and what is kept with which reason."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from cotenant.model.cluster.labels import Labels, LabelSelector
from cotenant.model.cluster.qos import PriorityClass
from cotenant.policy.rebalance.loads.detector import AnomalyCondition
from cotenant.policy.rebalance.loads.low_node_load import Landing, LoadScope, LowNodeLoad
from cotenant.policy.rebalance.loads.order import LoadPod
from cotenant.policy.rebalance.loads.pools import NodeLoads, NodePool
from cotenant.policy.rebalance.loads.thresholds import Excess, NodeClass, Percentages, thresholds

NAMES = ("cpu", "memory")


class Choosing:
    """First fit; refuses the pods named in `refused`."""

    def __init__(self, refused: Sequence[str] = (), nowhere: Sequence[str] = ()) -> None:
        self._refused, self._nowhere = refused, nowhere

    def admit(self, pod: LoadPod, node: str) -> str:
        return "limit" if pod.key in self._refused else ""

    def land(self, pod: LoadPod, node: str, targets: Sequence[str]) -> Landing:
        return Landing("", "taints") if pod.key in self._nowhere else Landing(targets[0])


def pods_by_node(*uses: Sequence[int], prod: bool = False) -> dict[str, list[LoadPod]]:
    kind = PriorityClass.PROD if prod else PriorityClass.BATCH
    return {
        f"n{at}": [LoadPod(f"n{at}/p{i}", f"n{at}/p{i}", {"cpu": cpu}, kind) for i, cpu in enumerate(row)]
        for at, row in enumerate(uses)
    }


def loads(pods: dict[str, list[LoadPod]], labels: Sequence[Labels] = ()) -> NodeLoads:
    def total(node: str, prod: bool) -> int:
        return sum((pod.usage or {}).get("cpu", 0) for pod in pods[node] if pod.is_prod or not prod)

    nodes = tuple(pods)
    return NodeLoads(
        nodes,
        tuple(labels) or tuple(Labels() for _ in nodes),
        NAMES,
        np.array([[1000, 1000]] * len(nodes)),
        np.array([[total(node, False), 0] for node in nodes]),
        np.array([[total(node, True), 0] for node in nodes]),
        np.zeros(len(nodes), dtype=np.bool_),
    )


def pool(low: float = 30, high: float = 60, **more: object) -> NodePool:
    return replace(NodePool("p", Percentages({"cpu": low}, {"cpu": high}), anomaly=None), **more)  # type: ignore[arg-type]


def test_moves_until_the_node_is_not_above_its_threshold() -> None:
    pods = pods_by_node([200, 200, 200, 200], [])
    found = LowNodeLoad([pool()]).round(loads(pods), pods.__getitem__, Choosing(), 0.0)
    assert [(move.pod.key, move.node, move.target, move.scope) for move in found.moves] == [
        ("n0/p0", "n0", "n1", LoadScope.NODE)
    ]
    assert str(found.moves[0].excess[0]) == "cpu 80.00 % above 60.00 %"
    assert found.usage[:, 0].tolist() == [600, 200]
    assert found.pools[0].left_over == ()


@pytest.mark.parametrize("seed", range(40))
def test_no_move_overloads_a_target_and_every_use_is_conserved(seed: int) -> None:
    rng = np.random.default_rng(seed)
    uses = [rng.integers(10, 300, size=rng.integers(0, 8)).tolist() for _ in range(8)]
    pods = pods_by_node(*uses)
    before = loads(pods)
    low, high = sorted(rng.integers(5, 95, size=2).tolist())
    found = LowNodeLoad([pool(low, high)]).round(before, pods.__getitem__, Choosing(), 0.0)
    assert found.usage.sum(axis=0).tolist() == before.usage.sum(axis=0).tolist()
    assert len({move.pod.uid for move in found.moves}) == len(found.moves)
    classes = dict(zip(found.pools[0].considered, found.pools[0].classes, strict=True))
    for move in found.moves:
        assert classes[move.node] is NodeClass.HIGH
        assert classes[move.target] in (NodeClass.LOW, NodeClass.BOTH_LOW)
    limit = thresholds(pool(low, high).percentages, NAMES, before.allocatable, before.usage, before.prod).high
    for row, name in enumerate(before.names):
        if classes[name] is not NodeClass.HIGH or name not in found.pools[0].left_over:
            assert (found.usage[row] <= limit[row]).all()


class Recording(Choosing):
    """Lands anywhere at random, or nowhere, and keeps what was offered."""

    def __init__(self, rng: np.random.Generator) -> None:
        super().__init__()
        self._rng = rng
        self.offered: list[tuple[str, tuple[str, ...]]] = []  # by pod, in order

    def land(self, pod: LoadPod, node: str, targets: Sequence[str]) -> Landing:
        self.offered.append((pod.uid, tuple(targets)))
        if self._rng.random() < 0.3:
            return Landing("", "taints")
        return Landing(str(self._rng.choice(targets)))


@pytest.mark.parametrize("seed", range(40))
def test_nodes_with_room_after_the_earlier_moves_are_offered_and_no_others(seed: int) -> None:
    rng = np.random.default_rng(seed)
    pods = pods_by_node(*[rng.integers(5, 250, size=rng.integers(0, 12)).tolist() for _ in range(12)])
    before = loads(pods)
    percentages = Percentages({"cpu": 45}, {"cpu": 65})
    choosing = Recording(rng)
    found = LowNodeLoad([pool(45, 65)]).round(before, pods.__getitem__, choosing, 0.0)
    classes = dict(zip(found.pools[0].considered, found.pools[0].classes, strict=True))
    low = [row for row, name in enumerate(before.names) if classes[name] in (NodeClass.LOW, NodeClass.BOTH_LOW)]
    landed = {move.pod.uid: move for move in found.moves}
    usage = before.usage.copy()
    uses = {pod.uid: (pod.usage or {})["cpu"] for group in pods.values() for pod in group}
    limit = thresholds(percentages, NAMES, before.allocatable, before.usage, before.prod).high
    for uid, offered in choosing.offered:
        room = tuple(before.names[row] for row in low if usage[row, 0] + uses[uid] <= limit[row, 0])
        assert offered == room
        if uid in landed:
            usage[before.names.index(landed[uid].node), 0] -= uses[uid]
            usage[before.names.index(landed[uid].target), 0] += uses[uid]
    assert usage.tolist() == found.usage.tolist()


def test_room_of_candidates_that_stay_is_not_reserved() -> None:
    pods = pods_by_node([290, 290, 290], [300])
    found = LowNodeLoad([pool()]).round(loads(pods), pods.__getitem__, Choosing(nowhere=["n0/p0", "n0/p1"]), 0.0)
    assert [move.pod.key for move in found.moves] == ["n0/p2"]
    assert [(kept.pod.key, kept.reason) for kept in found.kept] == [("n0/p0", "taints"), ("n0/p1", "taints")]


def test_reasons_are_kept() -> None:
    pods = pods_by_node([300, 300, 300], [0])
    pods["n0"][0] = replace(pods["n0"][0], refused="it has local storage")
    pods["n0"][1] = replace(pods["n0"][1], usage=None, priority=1)
    before = replace(loads(pods), usage=np.array([[900, 0], [0, 0]]))
    found = LowNodeLoad([pool()]).round(before, pods.__getitem__, Choosing(refused=["n0/p2"]), 0.0)
    assert not found.moves
    assert {kept.pod.key: kept.reason for kept in found.kept} == {
        "n0/p0": "it has local storage",
        "n0/p1": "its use is not measured",
        "n0/p2": "limit",
    }
    assert found.pools[0].left_over == ("n0",)


def test_production_pods_move_by_their_own_thresholds() -> None:
    pods = pods_by_node([300, 300], [0], prod=True)
    pods["n0"].append(LoadPod("n0/b", "n0/b", {"cpu": 10}, PriorityClass.BATCH))
    only = Percentages({"cpu": 30}, {"cpu": 90}, {"cpu": 20}, {"cpu": 40})
    found = LowNodeLoad([pool(percentages=only)]).round(loads(pods), pods.__getitem__, Choosing(), 0.0)
    assert [(move.pod.key, move.scope) for move in found.moves] == [("n0/p0", LoadScope.PROD)]


def test_a_pool_without_a_selector_leaves_out_nodes_that_an_earlier_pool_acted_on() -> None:
    pods = pods_by_node([900], [100], [700])
    labels = [Labels.of({"pool": "x"}), Labels.of({"pool": "x"}), Labels()]
    pools = [pool(20, 80, name="x", selector=LabelSelector.of({"pool": "x"})), pool(20, 60, name="rest")]
    found = LowNodeLoad(pools).round(loads(pods, labels), pods.__getitem__, Choosing(), 0.0)
    assert found.pools[1].considered == ("n1", "n2")


@pytest.mark.parametrize(
    ("uses", "more", "note"),
    [
        (([300], [300]), {}, "no node is overloaded"),
        (([900], [400]), {}, "no node is underused"),
        (([900], [100]), {"number_of_nodes": 1}, "1 node is underused, numberOfNodes is 1"),
    ],
)
def test_why_nothing_is_examined(uses: Sequence[list[int]], more: dict[str, int], note: str) -> None:
    pods = pods_by_node(*uses)
    found = LowNodeLoad([pool()], **more).round(loads(pods), pods.__getitem__, Choosing(), 0.0)
    assert found.pools[0].note == note
    assert not found.moves


def test_a_node_is_overloaded_only_after_enough_rounds() -> None:
    pods = pods_by_node([300, 300, 300], [0])
    policy = LowNodeLoad([pool(anomaly=AnomalyCondition(2))])
    found = [len(policy.round(loads(pods), pods.__getitem__, Choosing(), 60.0 * i).moves) for i in range(3)]
    assert found == [0, 0, 1]


def test_a_resource_that_no_target_has_does_not_end_the_round() -> None:
    pods = pods_by_node([300, 300, 300], [0])
    base = loads(pods)
    wide = replace(
        base,
        resources=("cpu", "example.com/foo", "memory"),
        allocatable=np.array([[1000, 8, 1000], [1000, 0, 1000]]),
        usage=np.array([[900, 0, 0], [0, 0, 0]]),
        prod=np.zeros((2, 3), dtype=np.int64),
    )
    both = Percentages({"cpu": 30, "example.com/foo": 30}, {"cpu": 60, "example.com/foo": 60})
    found = LowNodeLoad([pool(percentages=both)]).round(wide, pods.__getitem__, Choosing(), 0.0)
    assert len(found.moves) == 1


def test_an_excess_shows_that_it_is_one() -> None:
    assert str(Excess("cpu", 65.00004, 65.0)) == "cpu 65.00004 % above 65.00 %"
    assert str(Excess("cpu", 71.5, 65.0)) == "cpu 71.50 % above 65.00 %"


@pytest.mark.parametrize(("cpu", "moves"), [(651, 0), (659, 0), (660, 1), (700, 1)])
def test_an_excess_within_the_band_begins_no_moves(cpu: int, moves: int) -> None:
    """A pod that uses a tenth of the node, on a node that is above its threshold by that little."""
    pods = pods_by_node([100, cpu - 100], [])
    round_ = LowNodeLoad([pool(45, 65)], min_relief_percent=1.0)
    assert len(round_.round(loads(pods), pods.__getitem__, Choosing(nowhere=["n0/p1"]), 0.0).moves) == moves


def test_moves_that_have_begun_go_on_until_the_node_is_below_its_threshold() -> None:
    pods = pods_by_node([*[15] * 50], [])  # 75 %
    found = LowNodeLoad([pool(45, 65)], min_relief_percent=1.0).round(loads(pods), pods.__getitem__, Choosing(), 0.0)
    assert found.usage[0, 0] <= 650


def test_a_pod_that_would_free_next_to_nothing_stays() -> None:
    pods = pods_by_node([9, 300, 600], [])
    found = LowNodeLoad([pool(45, 65)], min_relief_percent=1.0).round(
        loads(pods), pods.__getitem__, Choosing(nowhere=["n0/p1", "n0/p2"]), 0.0
    )
    assert not found.moves
    assert {kept.pod.key: kept.reason for kept in found.kept}["n0/p0"] == "it would free next to nothing"


def test_a_round_in_which_a_node_was_acted_on_counts_as_a_normal_one() -> None:
    pods = pods_by_node([200, 200, 200, 200], [])
    policy = LowNodeLoad([pool(anomaly=AnomalyCondition(2, 1, 1e9))])
    moved = [bool(policy.round(loads(pods), pods.__getitem__, Choosing(), float(at)).moves) for at in range(8)]
    # without effect it stays overloaded: acted on in each round from the third on
    assert moved == [False, False, True, True, True, True, True, True]
    quick = LowNodeLoad([pool(anomaly=AnomalyCondition(2, 0, 1e9))])
    moved = [bool(quick.round(loads(pods), pods.__getitem__, Choosing(), float(at)).moves) for at in range(8)]
    assert moved == [False, False, True, False, False, True, False, False]

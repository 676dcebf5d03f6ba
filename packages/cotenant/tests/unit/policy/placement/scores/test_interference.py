"""What a pod costs by the law of interference: the form of one node and that of many agree, and both with the law
itself, added up pod by pod.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from cotenant.model.arrays import CPU, MEMORY, MICRO, Float, NodeArrays, Param, ReportColumn, ShapeArrays, Sum
from cotenant.policy.placement.contribution import plain_contribution
from cotenant.policy.placement.knobs import Knobs
from cotenant.policy.placement.scores.interference import (
    PARTS,
    interference_at,
    interference_parts,
    paragon_like,
    paragon_like_at,
    smt,
)

CORES = 8
KNOBS = Knobs()
one_node, one_node_paragon = interference_at.py_func, paragon_like_at.py_func  # type: ignore[attr-defined]


def shapes_of(rng: np.random.Generator, count: int, is_service: bool | None = None) -> ShapeArrays:
    params = np.zeros((count, len(Param)))
    params[:, Param.USE_CPU] = rng.integers(100, 3000, count) / 1000  # as sums have it
    params[:, Param.SENSITIVITY] = rng.uniform(0.0, 2.0, count)
    params[:, Param.PRESSURE] = rng.uniform(0.0, 1.0, count)
    params[:, Param.ALLOWANCE] = rng.choice([0.05, 0.3, 1.0, 2.0], count)
    params[:, Param.LENT_CPU] = rng.choice([0.0, 0.5], count)
    params[:, Param.IS_SERVICE] = rng.integers(0, 2, count) if is_service is None else float(is_service)
    request = np.stack([rng.integers(100, 3000, count), rng.integers(1 << 28, 1 << 31, count)], axis=1)
    sums = plain_contribution(request, params, CORES / 2, KNOBS.pressure_factor)
    none, words = np.zeros(count, np.int64), np.zeros(count, np.uint64)
    return ShapeArrays(request, sums, params, words, words[:, None], none, none - 1, none)


def nodes_with(shapes: ShapeArrays, on: list[list[int]]) -> NodeArrays:
    """Nodes of eight cores and 16 GiB with residents of these shapes."""
    count = len(on)
    return NodeArrays(
        np.tile(np.array([CORES * 1000, 16 << 30]), (count, 1)),
        np.array([shapes.request[which].sum(axis=0) for which in on]),
        np.array([shapes.sums[which].sum(axis=0) for which in on]),
        np.zeros((count, len(ReportColumn))),
        np.zeros(count, np.uint64),
        np.zeros((count, 1), np.uint64),
        np.ones(count, np.bool_),
        np.zeros((count, 0), np.int64),
    )


@dataclass(frozen=True)
class Scene:
    shapes: ShapeArrays
    nodes: NodeArrays
    on: list[list[int]]


def scene(seed: int) -> Scene:
    rng = np.random.default_rng(seed)
    shapes = shapes_of(rng, 12)
    on = [list(map(int, rng.integers(0, 12, int(rng.integers(0, 9))))) for _ in range(6)]
    return Scene(shapes, nodes_with(shapes, on), on)


@pytest.mark.parametrize("seed", range(4))
def test_both_forms_say_the_same(seed: int) -> None:
    found, knobs, rows = scene(seed), KNOBS.array(), np.arange(6)
    for k in range(12):
        parts = interference_parts(found.nodes, found.shapes, k, rows, knobs)
        assert parts.shape == (6, len(PARTS))
        single = [one_node(found.nodes, n, found.shapes, k, knobs) for n in range(6)]
        assert parts.sum(axis=1) == pytest.approx(single)
        of_all = paragon_like(found.nodes, found.shapes, k, rows, knobs)
        assert of_all == pytest.approx([one_node_paragon(found.nodes, n, found.shapes, k, knobs) for n in range(6)])


class Law:
    """The law on one node: (1 + a (B - o)) smt(u), batch slowed further above its budget."""

    def __init__(self, shapes: ShapeArrays, residents: list[int], room: float = 0.0) -> None:
        self.shapes, self.residents = shapes, residents
        params = shapes.params
        self.pressure = KNOBS.anticipate_pressure * room
        self.use = room
        for k in residents:
            factor = 1.0 if params[k, Param.IS_SERVICE] else KNOBS.pressure_factor
            self.pressure += factor * params[k, Param.PRESSURE] * params[k, Param.USE_CPU] / (CORES / 2)
            self.use += params[k, Param.USE_CPU] / CORES

    def slowdown(self, k: int) -> float:
        params = self.shapes.params[k]
        own = params[Param.PRESSURE] * params[Param.USE_CPU] / (CORES / 2)
        service = bool(params[Param.IS_SERVICE])
        busy = smt_by_hand(min(self.use, KNOBS.batch_budget + 0.05), KNOBS.smt_loss)
        others = self.pressure - (own if service else 0.0)
        squeeze = 1.0 if service else max(1.0, self.use / KNOBS.batch_budget)
        return float((1 + params[Param.SENSITIVITY] * others) * busy * squeeze)

    def weighted(self, k: int, is_relative: bool = True) -> float:
        """In cores; relative to what the pod tolerates."""
        allowance = max(0.1, self.shapes.params[k, Param.ALLOWANCE]) if is_relative else 1.0
        return self.slowdown(k) * cores_of(self.shapes, k) / allowance


def cores_of(shapes: ShapeArrays, k: int) -> float:
    return float(shapes.request[k, CPU] / 1000 + shapes.params[k, Param.LENT_CPU])


def smt_by_hand(use: float, loss: float) -> float:
    use = min(use, 1.0)
    return 1.0 if use <= 0.5 else 1.0 / (1.0 - loss * (2 * use - 1) / use)


def test_busy_siblings_slow_from_one_half_on() -> None:
    for use, expected in ((0.0, 1.0), (0.5, 1.0), (0.75, 1 / (1 - 0.3 * 2 / 3)), (1.0, 1 / 0.7), (3.0, 1 / 0.7)):
        assert smt(use, 0.3) == pytest.approx(expected)
        assert smt_by_hand(use, 0.3) == pytest.approx(expected)


def expected_parts(found: Scene, n: int, k: int) -> dict[str, float]:
    """By the law, before and with the pod, pod by pod."""
    shapes, on = found.shapes, found.on[n]
    service = bool(shapes.params[k, Param.IS_SERVICE])
    with_pod = Law(shapes, [*on, k])
    room = max(0.0, KNOBS.anticipate_use - with_pod.use) if service else 0.0
    before, after = Law(shapes, on, room), Law(shapes, [*on, k], room)

    def more(is_service: bool) -> float:
        return sum(
            after.weighted(other) - before.weighted(other)
            for other in on
            if bool(shapes.params[other, Param.IS_SERVICE]) == is_service
        )

    cores, params = cores_of(shapes, k), shapes.params[k]
    suffers = (1 + params[Param.SENSITIVITY] * before.pressure) * smt_by_hand(
        min(after.use, KNOBS.batch_budget + 0.05), KNOBS.smt_loss
    )
    if not service:
        suffers *= max(1.0, after.use / KNOBS.batch_budget)
    held = [sum(float(shapes.request[other, r]) for other in on) for r in (CPU, MEMORY)]
    share0 = [held[0] / (CORES * 1000), held[1] / (16 << 30)]
    share1 = [share0[0] + shapes.request[k, CPU] / (CORES * 1000), share0[1] + shapes.request[k, MEMORY] / (16 << 30)]
    resident = sum(cores_of(shapes, other) for other in on if shapes.params[other, Param.IS_SERVICE])
    return {
        "services": -KNOBS.service_weight * more(True),
        "batch": 0.0 if service else -KNOBS.batch_weight * more(False),
        "strand": -KNOBS.strand_weight * (abs(share1[0] - share1[1]) - abs(share0[0] - share0[1])) * CORES,
        "packing": 0.0 if service else -KNOBS.packing_weight * ((1 - share0[0]) + (1 - share0[1])) * cores,
        "spread": -KNOBS.spread_weight * ((resident + cores) ** 2 - resident**2) / CORES if service else 0.0,
        "own": -KNOBS.own_weight * cores * (suffers - 1) / max(0.1, params[Param.ALLOWANCE])
        - (0.0 if service else KNOBS.linear_weight * linear(found, on, k, before, after, suffers)),
    }


def linear(found: Scene, on: list[int], k: int, before: Law, after: Law, suffers: float) -> float:
    """Cores lost by the pod, and by batch beside it, whatever they tolerate."""
    shapes = found.shapes

    def squeeze(law: Law) -> float:
        busy = smt_by_hand(min(law.use, KNOBS.batch_budget + 0.05), KNOBS.smt_loss)
        return busy * max(1.0, law.use / KNOBS.batch_budget)

    batch = [other for other in on if not shapes.params[other, Param.IS_SERVICE]]
    lost = sum(
        cores_of(shapes, other)
        * (
            shapes.params[other, Param.SENSITIVITY] * (after.pressure - before.pressure)
            + squeeze(after)
            - squeeze(before)
        )
        for other in batch
    )
    return float(cores_of(shapes, k) * (suffers - 1) + lost)


@pytest.mark.parametrize("seed", range(10, 14))
def test_each_part_is_that_of_the_law(seed: int) -> None:
    found, knobs = scene(seed), KNOBS.array()
    for k in range(12):
        parts = interference_parts(found.nodes, found.shapes, k, np.arange(6), knobs)
        for n in range(6):
            expected = expected_parts(found, n, k)
            for name, value in zip(PARTS, parts[n], strict=True):
                assert value == pytest.approx(expected[name], abs=2e-4), (name, n, k)


@pytest.mark.parametrize("seed", range(20, 23))
def test_paragon_adds_up_what_all_pods_lose(seed: int) -> None:
    """Services as a whole, batch by pressure alone, and the pod itself."""
    found, knobs = scene(seed), KNOBS.array()
    shapes = found.shapes
    for k in range(12):
        got: Float = paragon_like(found.nodes, shapes, k, np.arange(6), knobs)
        for n, on in enumerate(found.on):
            before, after = Law(shapes, on), Law(shapes, [*on, k])
            lost = 0.0
            for other in on:
                if shapes.params[other, Param.IS_SERVICE]:
                    lost += after.weighted(other, False) - before.weighted(other, False)
                else:
                    more = after.pressure - before.pressure
                    lost += cores_of(shapes, other) * shapes.params[other, Param.SENSITIVITY] * more
            busy = smt_by_hand(min(after.use, KNOBS.batch_budget + 0.05), KNOBS.smt_loss)
            own = (1 + shapes.params[k, Param.SENSITIVITY] * before.pressure) * busy
            if not shapes.params[k, Param.IS_SERVICE]:
                own *= max(1.0, after.use / KNOBS.batch_budget)
            assert got[n] == pytest.approx(-(lost + cores_of(shapes, k) * (own - 1)), abs=2e-4)


def test_sums_are_in_millionths() -> None:
    assert MICRO == 1_000_000
    assert scene(1).shapes.sums[:, Sum.PRESSURE].max() > 1000

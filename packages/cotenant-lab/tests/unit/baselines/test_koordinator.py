"""Koordinator's default plugins on small clusters: batch resources, load thresholds, estimates since the last
report.
"""

from __future__ import annotations

import numpy as np
import pytest
from tests.unit.baselines.conftest import MakeSnapshot

from cotenant.model.arrays import CPU, MEMORY, Param, ReportColumn
from cotenant.policy.placement.contract import Snapshot
from cotenant_lab.baselines.koordinator import Koordinator

GIB = 1 << 30
BATCH_CPU, BATCH_MEMORY = 3, 4  # columns


def lent(found: Snapshot, offered: list[tuple[int, int]], asked: list[tuple[int, int]]) -> Snapshot:
    """The snapshot with batch resources: `offered` by node, `asked` by shape; a shape that asks for them has no
    native requests.
    """

    def wider(column: np.ndarray, more: list[tuple[int, int]]) -> np.ndarray:
        return np.column_stack([column, np.array(more, np.int64)])

    nodes, shapes = found.nodes, found.shapes
    params = shapes.params.copy()
    params[:, Param.LENT_CPU] = [cpu / 1000 for cpu, _ in asked]
    params[:, Param.LENT_MEMORY] = [memory for _, memory in asked]
    request = shapes.request.copy()
    request[[cpu > 0 for cpu, _ in asked], :2] = 0
    nothing = [(0, 0)] * len(offered)
    return Snapshot(
        nodes._replace(capacity=wider(nodes.capacity, offered), requested=wider(nodes.requested, nothing)),
        shapes._replace(request=wider(request, asked), params=params),
        found.pending,
        found.tenants,
        found.residents,
    )


def reported(found: Snapshot, row: int, cpu: float, memory: float, at_s: float) -> None:
    """Write a node's report."""
    found.nodes.report[row] = 0.0
    found.nodes.report[row, [ReportColumn.CPU_USED, ReportColumn.MEMORY_USED, ReportColumn.REPORTED_AT]] = (
        cpu,
        memory,
        at_s,
    )


def test_batch_fits_by_what_is_lent_and_services_by_native_requests(
    snapshot: MakeSnapshot, rng: np.random.Generator
) -> None:
    found = snapshot(
        [(10_000, 64 * GIB)] * 2,
        [(4_000, GIB), (4_000, GIB)],
        [0, 1, 1],
        used=[(8_000, GIB), (2_000, GIB)],
        service=[True, False, False],
    )
    found = lent(found, [(4_000, 8 * GIB), (0, 0)], [(0, 0), (4_000, GIB)])
    placed = Koordinator().decide(found, 0.0, rng).row
    assert placed.tolist() == [1, 0, -1]  # the service where cores are free, one batch pod where they are lent


def test_a_service_is_placed_on_a_node_that_lends_less_than_batch_holds(
    snapshot: MakeSnapshot, rng: np.random.Generator
) -> None:
    found = lent(snapshot([(10_000, 64 * GIB)], [(1_000, GIB)], [0], service=[True]), [(1_000, GIB)], [(0, 0)])
    found.nodes.requested[0, BATCH_CPU] = 5_000
    assert Koordinator().decide(found, 0.0, rng).row.tolist() == [0]


def test_a_node_above_a_load_threshold_is_filtered_and_one_without_a_report_is_not(
    snapshot: MakeSnapshot, rng: np.random.Generator
) -> None:
    found = snapshot([(10_000, 64 * GIB)] * 3, [(1_000, GIB)], [0])
    reported(found, 0, 0.60, 0.1, 0.0)
    reported(found, 1, 0.10, 0.95, 0.0)
    reported(found, 2, 0.10, 0.1, 0.0)
    found.nodes.ready[2] = False
    assert Koordinator().decide(found, 10.0, rng).row.tolist() == [-1]  # 60 % + 85 % of a core exceeds 65 %
    found.nodes.report[0] = np.nan
    assert Koordinator().decide(found, 10.0, rng).row.tolist() == [0]


def test_an_old_report_closes_its_node(snapshot: MakeSnapshot, rng: np.random.Generator) -> None:
    found = snapshot([(10_000, 64 * GIB)], [(1_000, GIB)], [0])
    reported(found, 0, 0.1, 0.1, 0.0)
    assert Koordinator().decide(found, 180.0, rng).row.tolist() == [0]
    assert Koordinator().decide(found, 181.0, rng).row.tolist() == [-1]


def test_pods_placed_since_the_report_count_by_their_estimate(snapshot: MakeSnapshot, rng: np.random.Generator) -> None:
    found = snapshot([(100_000, 640 * GIB)], [(10_000, GIB)], [0] * 12)
    reported(found, 0, 0.0, 0.0, 0.0)
    policy = Koordinator()
    assert (policy.decide(found, 1.0, rng).row == 0).sum() == 7  # 7 x 8.5 cores = 59.5 of 65
    assert (policy.decide(found, 2.0, rng).row == 0).sum() == 0  # counted until the next report
    reported(found, 0, 0.30, 0.0, 60.0)
    assert (policy.decide(found, 61.0, rng).row == 0).sum() == 4


def test_batch_counts_by_its_batch_resources(snapshot: MakeSnapshot, rng: np.random.Generator) -> None:
    found = lent(snapshot([(100_000, 640 * GIB)], [(0, 0)], [0] * 12), [(100_000, 640 * GIB)], [(10_000, GIB)])
    reported(found, 0, 0.0, 0.0, 0.0)
    assert (Koordinator().decide(found, 1.0, rng).row == 0).sum() == 7


def test_the_node_that_uses_least_is_preferred(snapshot: MakeSnapshot, rng: np.random.Generator) -> None:
    found = snapshot([(10_000, 64 * GIB)] * 3, [(1_000, GIB)], [0])
    for row, cpu in enumerate((0.5, 0.2, 0.4)):
        reported(found, row, cpu, 0.1, 0.0)
    assert Koordinator().decide(found, 1.0, rng).row.tolist() == [1]


def test_ties_are_broken_at_random_and_equal_seeds_choose_alike(snapshot: MakeSnapshot) -> None:
    def chosen(seed: int) -> list[int]:
        found = snapshot([(10_000, 64 * GIB)] * 20, [(1_000, GIB)], [0] * 5)
        return Koordinator().decide(found, 1.0, np.random.default_rng(seed)).row.tolist()

    assert chosen(1) == chosen(1)
    assert len({tuple(chosen(seed)) for seed in range(5)}) > 1


@pytest.mark.parametrize("resource", [CPU, MEMORY])
def test_requests_never_exceed_capacity(snapshot: MakeSnapshot, rng: np.random.Generator, resource: int) -> None:
    sizes = rng.integers(1, 8, (6, 2)) * (1_000, GIB)
    found = snapshot([(16_000, 16 * GIB)] * 4, sizes.tolist(), rng.integers(0, 6, 60).tolist())
    row = Koordinator().decide(found, 0.0, rng).row
    for n in range(4):
        assert sizes[found.pending.shape[row == n], resource].sum() <= found.nodes.capacity[n, resource]

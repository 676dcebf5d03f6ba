"""The upper bound: small programs solved by hand, and no policy above it."""

from __future__ import annotations

import numpy as np
import pytest

from cotenant.model.errors import InvalidInput
from cotenant.policy.placement.gpu.fragmentation import mix_of
from cotenant.policy.placement.gpu.state import ANY_MODEL, GpuNodeArrays, GpuShapes
from cotenant.policy.placement.gpu.tuning import BALANCED
from cotenant_lab.baselines.fgd import GpuRule
from cotenant_lab.replay.device_queue import kept_scores, place_all
from cotenant_lab.workloads.openb import OpenbCluster, PodList
from cotenant_lab.workloads.openb_bound import allocation_bound


def cluster_of(*rows: tuple[int, int, int]) -> OpenbCluster:
    """Rows of (CPU, GPUs, model)."""
    cpu, gpus, model = (np.array(column, np.int64) for column in zip(*rows, strict=True))
    memory = np.full(len(rows), 1 << 30)
    idle = (np.arange(8) < gpus[:, None]).astype(np.int64) * 1000
    names = tuple(str(n) for n in range(len(rows)))
    return OpenbCluster(GpuNodeArrays(cpu.copy(), memory.copy(), idle, cpu, memory, gpus, model), names, ("A", "B"), ())


def pods_of(*rows: tuple[int, int, int, int]) -> PodList:
    """Rows of (CPU, GPUs, milli-GPU, models), one pod each."""
    table = np.array(rows, np.int64)
    distinct, shape = np.unique(table, axis=0, return_inverse=True)
    columns = [np.ascontiguousarray(distinct[:, i]) for i in range(4)]
    shapes = GpuShapes(columns[0], np.zeros(len(distinct), np.int64), *columns[1:])
    return PodList(shapes, shape.ravel(), tuple(str(n) for n in range(len(rows))), ())


def bound(cluster: OpenbCluster, pods: PodList, must_place: float = 0.0) -> float:
    return allocation_bound(cluster, pods, np.arange(len(pods.shape)), must_place).allocated


def test_two_sizes_that_do_not_fill_a_device() -> None:
    two = cluster_of((64_000, 2, 0))
    assert bound(two, pods_of(*[(0, 1, 600, ANY_MODEL)] * 5)) == pytest.approx(0.6)
    assert bound(two, pods_of(*[(0, 1, 600, ANY_MODEL)] * 5, *[(0, 1, 400, ANY_MODEL)] * 5)) == pytest.approx(1.0)


def test_cpu_and_models_limit_it() -> None:
    assert bound(cluster_of((4_000, 4, 0)), pods_of(*[(2_000, 1, 1000, ANY_MODEL)] * 4)) == pytest.approx(0.5)
    both = cluster_of((64_000, 1, 0), (64_000, 1, 1))
    assert bound(both, pods_of(*[(0, 1, 1000, 0b10)] * 4)) == pytest.approx(0.5)


def test_mandatory_pods_lower_the_bound() -> None:
    one = cluster_of((64_000, 1, 0))
    pods = pods_of((0, 1, 700, ANY_MODEL), (0, 1, 1000, ANY_MODEL))
    assert bound(one, pods) == pytest.approx(1.0)
    assert bound(one, pods, must_place=0.7) == pytest.approx(0.7)
    with pytest.raises(InvalidInput, match="must_place"):
        bound(one, pods, must_place=1.7)


@pytest.mark.parametrize("seed", range(3))
def test_no_policy_is_above_it(seed: int) -> None:
    rng = np.random.default_rng(seed)
    cluster = cluster_of(
        *((int(rng.integers(4, 17)) * 1_000, int(rng.integers(1, 5)), int(rng.integers(2))) for _ in range(6))
    )
    pods = pods_of(
        *(
            (
                int(rng.integers(0, 4)) * 1_000,
                1,
                int(rng.choice([230, 320, 470, 810, 1000])),
                int(rng.choice([ANY_MODEL, 1])),
            )
            for _ in range(60)
        )
    )
    ceiling = bound(cluster, pods)
    demand = (pods.shapes.gpu_count * pods.shapes.gpu_milli)[pods.shape]
    mix = mix_of(pods.shapes, pods.usual, 2, 8)
    for rule in GpuRule:
        nodes = GpuNodeArrays(*(column.copy() for column in cluster.nodes))
        kept = kept_scores(len(pods.shapes.cpu), nodes, int(rule), mix, BALANCED, 60)
        row, devices = np.zeros(60, np.int64), np.zeros(60, np.int64)
        place_all(
            int(rule), nodes, pods.shapes, pods.shape, 0, 60, mix, BALANCED, kept, rng.random((60, 2)), row, devices
        )
        assert demand[row >= 0].sum() / cluster.gpu_milli <= ceiling + 1e-9
    assert 0.5 < ceiling <= 1.0

"""A world small enough to compute by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pytest

from cotenant_lab.world.config import GIB, WorldConfig
from cotenant_lab.world.truth import Truth
from cotenant_lab.world.world import World

# Only what a test enables: no failures, no noise, no swings.
CALM = {
    "nodes": 2,
    "node_cores": 96,
    "node_memory_bytes": 100 * GIB,
    "failures": False,
    "cpu_swing": 0.0,
    "memory_start": 1.0,
    "load_noise_sd": 0.0,
    "replica_imbalance_sd": 0.0,
    "measurement_error": 0.0,
    "report_lost": 0.0,
    "report_late": 0.0,
    "horizon_s": 7200.0,
}


@dataclass
class Pod:
    """A batch pod; `stage` and `job` group them."""

    cores: float = 1.0  # requested and used
    memory_gib: float = 1.0
    duration_s: float = 1000.0
    sensitivity: float = 0.0
    pressure: float = 0.0
    job: int = 0
    level: int = 0


@dataclass
class Service:
    """A service with a flat load."""

    cores: int = 4
    replicas: int = 1
    load: float = 1.0  # erlangs per replica
    objective: float = 20.0
    sensitivity: float = 0.0
    pressure: float = 0.0
    memory_gib: float = 1.0


def truth_of(pods: list[Pod], services: list[Service], deadline_s: float) -> Truth:
    """Services' replicas first, then batch pods by job and level."""
    replicas = [i for i, service in enumerate(services) for _ in range(service.replicas)]
    batch = sorted(pods, key=lambda pod: (pod.job, pod.level))
    stages = sorted({(pod.job, pod.level) for pod in batch})
    number = {stage: i for i, stage in enumerate(stages)}
    stage_of = [number[pod.job, pod.level] for pod in batch]
    _, stage_job = np.unique(np.array([job for job, _ in stages], np.int64), return_inverse=True)
    depth = np.bincount(stage_job).astype(np.int64)
    jobs = len(depth)
    n = len(replicas)
    sizes = np.bincount(np.array(stage_of, np.int64), minlength=len(stages)).astype(np.int64)

    def both(of_service: list[float], of_batch: list[float]) -> np.ndarray:
        return np.array([of_service[i] for i in replicas] + of_batch, np.float64)

    return Truth(
        cpu_milli=both([1000.0 * s.cores for s in services], [1000.0 * p.cores for p in batch]).astype(np.int64),
        memory_bytes=both([GIB * s.memory_gib for s in services], [GIB * p.memory_gib for p in batch]).astype(np.int64),
        tenant=np.arange(n + len(batch), dtype=np.int64) % 2,
        service=np.array(replicas + [-1] * len(batch), np.int64),
        stage=np.array([-1] * n + stage_of, np.int64),
        use_cores=both([0.0] * len(services), [p.cores for p in batch]),
        use_memory_bytes=both([GIB * s.memory_gib for s in services], [GIB * p.memory_gib for p in batch]),
        sensitivity=both([s.sensitivity for s in services], [p.sensitivity for p in batch]),
        pressure=both([s.pressure for s in services], [p.pressure for p in batch]),
        duration_s=both([np.inf] * len(services), [p.duration_s for p in batch]),
        service_cores=np.array([s.cores for s in services], np.int64),
        service_peak=np.array([s.load for s in services], np.float64),
        service_time_s=np.full(len(services), 0.01),
        service_objective=np.array([s.objective for s in services], np.float64),
        service_swing=np.zeros(len(services)),
        service_phase=np.zeros(len(services)),
        stage_job=stage_job.astype(np.int64),
        stage_pods=sizes,
        stage_first_pod=n + np.cumsum(sizes) - sizes,
        job_arrival_s=np.zeros(jobs),
        job_deadline_s=np.full(jobs, deadline_s),
        job_first_stage=np.cumsum(depth) - depth,
        job_stages=depth,
        tenants=2,
    )


@pytest.fixture
def world() -> Callable[..., World]:
    """`world(batch=[{...}], services=[{...}], **config)`: a constant world of two nodes by default."""

    def build(
        batch: Sequence[dict[str, float]] = (),
        services: Sequence[dict[str, float]] = (),
        seed: int = 0,
        deadline_s: float = 1e9,
        **changes: object,
    ) -> World:
        config = WorldConfig(**{**CALM, **changes})  # type: ignore[arg-type]
        pods = [Pod(**fields) for fields in batch]  # type: ignore[arg-type]
        return World(truth_of(pods, [Service(**fields) for fields in services], deadline_s), config, seed)  # type: ignore[arg-type]

    return build

"""The world's state as arrays that compiled functions read and write.

Problem: a run is some 60,000 events over 20,000 pods, and must cost less than a second. Choice: one NamedTuple of arrays;
residents of a node are a doubly linked list through the pods, so a node holds any number of them; the next completion of
each node sits in a tournament tree of minima. Limits: scalars that change live in one-element columns of `clock`,
`counts` and `work`, because tuples are values.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cotenant.lab.world.config import PRESSURE_LAWS, WorldConfig
from cotenant.lab.world.demand import outages, service_load
from cotenant.lab.world.latency import p99_table
from cotenant.lab.world.truth import Truth
from cotenant.model.arrays import Float, Int, Mask, Report

# status of a pod
FUTURE = 0  # its job has not come, or an earlier stage is not done
READY = 1  # waiting for a node
RUNNING = 2
FINISHED = 3
UNTOLD = 4  # evicted, and the scheduler has not been told yet

# cause of an eviction
MEMORY = 0
NODE_FAILURE = 1
ASKED = 2
CAUSES = ("memory", "node failure", "asked by the scheduler")

# columns of `clock`, in seconds
NOW, NEXT_TICK, LAST_TICK = 0, 1, 2
# columns of `counts`
READY_TOLD, FINISHED_TOLD, EVICTED_TOLD, JOBS_COME, OUTAGES_COME, BATCH_LEFT, TICKS, TENANT_TICKS, MAP_TAKEN = range(9)
# columns of `work`, in seconds alone
WORK_DONE, WORK_COMPLETED, WORK_LOST = 0, 1, 2

# columns of `ticks`, one row a tick
TICK_COLUMNS = (
    "time_s",
    "requested_cpu",  # fractions of the cluster
    "used_cpu",
    "requested_memory",
    "used_memory",
    "service_cores",  # demanded in this window
    "violated_cores",  # of placed replicas that missed their objective
    "unplaced_cores",
    "replicas",
    "violated_replicas",  # placed and missed, or unplaced
    "fragmentation",  # fraction of the cluster's CPU, NaN where not taken at this tick
    "queued_pods",
    "running_pods",
)
(
    T_TIME, T_REQUESTED_CPU, T_USED_CPU, T_REQUESTED_MEMORY, T_USED_MEMORY, T_CORES, T_VIOLATED, T_UNPLACED,
    T_REPLICAS, T_BAD_REPLICAS, T_FRAGMENTATION, T_QUEUED, T_RUNNING,
) = range(len(TICK_COLUMNS))  # fmt: skip


class Law(NamedTuple):
    """The numbers of `WorldConfig` that compiled code needs."""

    cores: float
    memory_bytes: float
    pair_cores: float
    pressure_law: int
    knee: float
    queueing_start: float
    queueing_ceiling: float
    smt_loss: float
    node_qos: bool
    batch_cores: float
    least_batch_cores: float
    cache_partition: float  # 1 without QoS
    wakeup_delay_s: float
    wakeup_power: float
    squeeze_from: float
    squeeze_span: float
    evict_above: float
    hold_s: float
    hold_doublings: int
    cpu_swing: float
    memory_start: float
    memory_ramp: float
    tick_s: float
    averages_from_s: float
    horizon_s: float
    fragmentation_every_s: float
    map_at_s: float


def law(config: WorldConfig) -> Law:
    """The compiled code's view of `config`."""
    return Law(
        cores=float(config.node_cores),
        memory_bytes=float(config.node_memory_bytes),
        pair_cores=config.pair_cores,
        pressure_law=PRESSURE_LAWS.index(config.pressure_law),
        knee=config.knee,
        queueing_start=config.queueing_start,
        queueing_ceiling=config.queueing_ceiling,
        smt_loss=config.smt_loss,
        node_qos=config.node_qos,
        batch_cores=config.batch_budget * config.node_cores,
        least_batch_cores=config.least_batch_cores,
        cache_partition=config.cache_partition if config.node_qos else 1.0,
        wakeup_delay_s=config.wakeup_delay_s,
        wakeup_power=config.wakeup_power,
        squeeze_from=config.squeeze_from,
        squeeze_span=config.squeeze_span,
        evict_above=config.evict_above,
        hold_s=config.hold_s,
        hold_doublings=config.hold_doublings,
        cpu_swing=config.cpu_swing,
        memory_start=config.memory_start,
        memory_ramp=config.memory_ramp,
        tick_s=config.tick_s,
        averages_from_s=config.averages_from_s,
        horizon_s=config.horizon_s,
        fragmentation_every_s=config.fragmentation_every_s,
        map_at_s=config.map_at_s,
    )


class State(NamedTuple):
    """Everything that is, at one instant. P pods, S services, G stages, J jobs, N nodes, T tenants."""

    # pods: what they are, [P]
    cpu_milli: Int
    memory_bytes: Int
    tenant: Int
    service: Int
    stage: Int
    use_cores: Float
    use_memory: Float
    sensitivity: Float  # times the interference scale
    pressure: Float
    duration_s: Float
    imbalance: Float  # of a replica's load
    swing_phase: Float  # of a batch pod's CPU use
    # pods: how they fare, [P]
    status: Int
    node: Int
    next: Int  # linked list of a node's residents, -1 = end
    previous: Int
    remaining_s: Float  # of work alone
    speed: Float
    slowdown: Float
    busy_cores: Float  # in use, after throttling
    ready_s: Float  # NaN until it happens, as the next three
    started_s: Float  # first time
    placed_s: Float  # last time
    finished_s: Float
    evicted_s: Float
    hold_until_s: Float
    restarts: Int
    seen_cores: Float  # as an agent saw it at the last tick
    seen_memory: Float
    seen_ratio: Float  # a replica's p99 / objective
    seen_violated: Mask
    # services, [S]
    service_cores: Int
    service_time_s: Float
    service_objective: Float
    service_row: Int  # of the p99 table
    service_replicas: Int
    service_live: Int
    load: Float  # [S, ticks] erlangs a replica
    replica_pods: Int  # [replicas] the services' pods
    # stages, [G]
    stage_pods: Int
    stage_first_pod: Int
    stage_left: Int
    stage_job: Int
    # jobs, [J]
    job_order: Int  # by arrival
    job_arrival_s: Float
    job_first_stage: Int
    job_stages: Int
    job_finished_s: Float  # NaN until it happens
    # nodes, [N]
    first: Int  # resident, -1 = none
    requested_milli: Int
    requested_bytes: Int
    updated_s: Float  # residents' remaining work is as of this instant
    up: Mask
    used_share: Float  # of CPU
    memory_share: Float
    report: Float  # [N, len(Report)]
    tree: Float  # [2 x leaves] minima of the nodes' next completions
    # tenants, [T]
    held_milli: Int
    held_bytes: Int
    queued_milli: Int
    queued_bytes: Int
    share_sum: Float  # of dominant shares over ticks
    wanted_sum: Float
    on_node: Float  # scratch
    # what happens
    outage_s: Float
    outage_row: Int
    outage_up: Mask
    ready_told: Int  # [P] pods, since the scheduler was last told; counts in `counts`
    finished_told: Int
    evicted_told: Int
    evicted_cause: Int
    evicted_memory: Float
    # scalars and records
    clock: Float
    counts: Int
    work: Float
    evictions: Int  # by cause
    p99_table: Float
    shapes_milli: Int  # [fragmentation shapes]
    shapes_bytes: Int
    ticks: Float  # [ticks, len(TICK_COLUMNS)]
    map_node: Int  # [P] nodes at the instant of the machine map


def build(truth: Truth, config: WorldConfig, seed: int) -> State:
    """An empty cluster at time 0 with the services' replicas ready and every job still to come."""
    streams = [np.random.default_rng(s) for s in np.random.SeedSequence(seed).spawn(5)]
    pods, services, nodes = len(truth.cpu_milli), len(truth.service_cores), config.nodes
    is_replica = truth.service >= 0
    replica_pods = np.flatnonzero(is_replica)
    batch = ~is_replica
    kinds, row = np.unique(truth.service_cores, return_inverse=True)
    imbalance = np.where(is_replica, np.exp(config.replica_imbalance_sd * streams[1].standard_normal(pods)), 1.0)
    down = outages(config, streams[2])
    drawn = streams[3].integers(0, pods, config.fragmentation_shapes)
    leaves = 1 << max(0, nodes - 1).bit_length()
    rows = int(config.limit_s // config.tick_s) + 2
    ticks = np.full((rows, len(TICK_COLUMNS)), np.nan)
    counts = np.zeros(9, np.int64)
    counts[BATCH_LEFT] = int(batch.sum())
    counts[READY_TOLD] = len(replica_pods)
    ready_told = np.zeros(pods, np.int64)
    ready_told[: len(replica_pods)] = replica_pods

    def whole(n: int, value: int = 0) -> Int:
        return np.full(n, value, np.int64)

    def real(n: int, value: float = 0.0) -> Float:
        return np.full(n, value, np.float64)

    def by_tenant(column: Int) -> Int:
        out = whole(truth.tenants)
        np.add.at(out, truth.tenant[replica_pods], column[replica_pods])
        return out

    return State(
        cpu_milli=truth.cpu_milli.copy(),
        memory_bytes=truth.memory_bytes.copy(),
        tenant=truth.tenant.copy(),
        service=truth.service.copy(),
        stage=truth.stage.copy(),
        use_cores=truth.use_cores.copy(),
        use_memory=truth.use_memory_bytes.astype(np.float64),
        sensitivity=truth.sensitivity * config.interference,
        pressure=truth.pressure.copy(),
        duration_s=truth.duration_s.copy(),
        imbalance=imbalance,
        swing_phase=streams[4].random(pods),
        status=np.where(is_replica, READY, FUTURE).astype(np.int64),
        node=whole(pods, -1),
        next=whole(pods, -1),
        previous=whole(pods, -1),
        remaining_s=truth.duration_s.copy(),
        speed=real(pods),
        slowdown=real(pods, 1.0),
        busy_cores=real(pods),
        ready_s=np.where(is_replica, 0.0, np.nan),
        started_s=real(pods, np.nan),
        placed_s=real(pods, np.nan),
        finished_s=real(pods, np.nan),
        evicted_s=real(pods, np.nan),
        hold_until_s=real(pods),
        restarts=whole(pods),
        seen_cores=real(pods),
        seen_memory=real(pods),
        seen_ratio=real(pods, np.nan),
        seen_violated=np.zeros(pods, np.bool_),
        service_cores=truth.service_cores.copy(),
        service_time_s=truth.service_time_s.copy(),
        service_objective=truth.service_objective.copy(),
        service_row=row.astype(np.int64),
        service_replicas=np.bincount(truth.service[replica_pods], minlength=services).astype(np.int64),
        service_live=whole(services),
        load=service_load(truth, config, streams[0]),
        replica_pods=replica_pods,
        stage_pods=truth.stage_pods.copy(),
        stage_first_pod=truth.stage_first_pod.copy(),
        stage_left=truth.stage_pods.copy(),
        stage_job=truth.stage_job.copy(),
        job_order=np.argsort(truth.job_arrival_s, kind="stable"),
        job_arrival_s=truth.job_arrival_s.copy(),
        job_first_stage=truth.job_first_stage.copy(),
        job_stages=truth.job_stages.copy(),
        job_finished_s=real(len(truth.job_stages), np.nan),
        first=whole(nodes, -1),
        requested_milli=whole(nodes),
        requested_bytes=whole(nodes),
        updated_s=real(nodes),
        up=np.ones(nodes, np.bool_),
        used_share=real(nodes),
        memory_share=real(nodes),
        report=np.full((nodes, len(Report)), np.nan),
        tree=real(2 * leaves, np.inf),
        held_milli=whole(truth.tenants),
        held_bytes=whole(truth.tenants),
        queued_milli=by_tenant(truth.cpu_milli),
        queued_bytes=by_tenant(truth.memory_bytes),
        share_sum=real(truth.tenants),
        wanted_sum=real(truth.tenants),
        on_node=real(truth.tenants),
        outage_s=down.at_s,
        outage_row=down.row,
        outage_up=down.up,
        ready_told=ready_told,
        finished_told=whole(pods),
        evicted_told=whole(pods),
        evicted_cause=whole(pods),
        evicted_memory=real(pods),
        clock=np.array([0.0, 0.0, np.nan]),
        counts=counts,
        work=real(3),
        evictions=whole(len(CAUSES)),
        p99_table=p99_table(kinds.astype(np.int64)),
        shapes_milli=truth.cpu_milli[drawn],
        shapes_bytes=truth.memory_bytes[drawn],
        ticks=ticks,
        map_node=whole(pods, -1),
    )

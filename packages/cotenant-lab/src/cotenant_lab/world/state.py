"""The world's state as arrays that compiled functions read and write.

A run has some 60,000 events over 20,000 pods, and must take less than a second. One NamedTuple of arrays of records, so
that the fields of a pod are adjacent in memory and compiled code receives few arrays; residents of a node are a doubly
linked list through the pods, so a node holds any number of them; the next completion of each node is in a tournament
tree of minima.
Limits: changing scalars are in the single record of `run`, because tuples are values.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cotenant.model.arrays import Float, Int, ReportColumn
from cotenant.model.results.forms import Cells
from cotenant_lab.world.config import PRESSURE_LAWS, WorldConfig
from cotenant_lab.world.demand import outages, service_load
from cotenant_lab.world.frames import frame_ticks, no_frames
from cotenant_lab.world.latency import decay_table, p99_table
from cotenant_lab.world.laws import pressure_scale
from cotenant_lab.world.records import JOB, NODE, POD, RUN, SERVICE, SHAPE, STAGE, TENANT, TICK, Records, records
from cotenant_lab.world.truth import Truth

# status of a pod
FUTURE = 0  # its job has not arrived, or an earlier stage is not done
READY = 1  # waiting for a node
RUNNING = 2
FINISHED = 3
UNREPORTED = 4  # evicted, and not yet reported to the scheduler

# cause of an eviction
MEMORY = 0
NODE_FAILURE = 1
REQUESTED = 2
CAUSES = ("memory", "node failure", "requested by the scheduler")


class Law(NamedTuple):
    """The numbers of `WorldConfig` that compiled code needs."""

    cores: float
    memory_bytes: float
    pair_cores: float
    pressure_law: int
    pressure_scale: float
    knee: float
    queueing_start: float
    queueing_ceiling: float
    smt_loss: float
    node_qos: bool
    capacity_m: int  # milli-CPU, as in policy/nodeqos
    threshold_pct: int
    min_m: int
    node_guard: bool
    cache_partition: float  # 1 without QoS
    replica_start_s: float
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
    report_lost: float
    report_late: float
    averages_from_s: float
    horizon_s: float
    fragmentation_every_s: float
    map_at_s: float
    frame_ticks: int  # ticks from one frame of the map over time to the next


def law(config: WorldConfig) -> Law:
    """The parameters of `config` for compiled code."""
    return Law(
        cores=float(config.node_cores),
        memory_bytes=float(config.node_memory_bytes),
        pair_cores=config.pair_cores,
        pressure_law=PRESSURE_LAWS.index(config.pressure_law),
        pressure_scale=pressure_scale(config),
        knee=config.knee,
        queueing_start=config.queueing_start,
        queueing_ceiling=config.queueing_ceiling,
        smt_loss=config.smt_loss,
        node_qos=config.node_qos,
        capacity_m=config.node_cores * 1000,
        threshold_pct=round(100.0 * config.batch_budget),
        min_m=round(config.min_batch_cores * 1000.0),
        node_guard=config.node_qos and config.node_guard,
        cache_partition=config.cache_partition if config.node_qos else 1.0,
        replica_start_s=config.replica_start_s,
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
        report_lost=config.report_lost,
        report_late=config.report_late,
        averages_from_s=config.averages_from_s,
        horizon_s=config.horizon_s,
        fragmentation_every_s=config.fragmentation_every_s,
        map_at_s=config.map_at_s,
        frame_ticks=frame_ticks(config),
    )


class WorldState(NamedTuple):
    """The complete state at one instant. P pods, S services, G stages, J jobs, N nodes, T tenants."""

    run: Records  # [1] RUN
    pods: Records  # [P] POD
    services: Records  # [S] SERVICE
    stages: Records  # [G] STAGE
    jobs: Records  # [J] JOB
    nodes: Records  # [N] NODE
    tenants: Records  # [T] TENANT
    outages: Records  # OUTAGE, in order of time
    shapes: Records  # SHAPE, drawn from the workload, for fragmentation
    ticks: Records  # TICK
    load: Float  # [S, ticks] erlangs a replica
    replica_pods: Int  # the services' pods
    job_order: Int  # [J] by arrival
    report: Float  # [N, len(Report)]
    tree: Float  # [2 x leaves] minima of the nodes' next completions
    outbox: Float  # [N, len(Report)] each node's last report, which the scheduler may not have yet
    p99_table: Float  # [sizes of replicas, TABLE_STEPS]
    decay_table: Float  # [sizes of replicas, TABLE_STEPS]
    ready: Int  # [P] pods that became ready, finished, or were evicted since the last report to the scheduler
    finished: Int
    evicted: Int
    evictions: Int  # [len(CAUSES)]
    frames: Cells  # [F, M, len(FrameCell)] the map over time
    frame_nodes: Int  # [M] rows of the nodes in it


def _pods(truth: Truth, config: WorldConfig, imbalance: np.random.Generator, swing: np.random.Generator) -> Records:
    """All pods: replicas ready, jobs' pods yet to come."""
    n_pods, is_replica = len(truth.cpu_milli), truth.service >= 0
    pods = records(n_pods, POD)
    for name in ("cpu_milli", "memory_bytes", "tenant", "service", "stage", "use_cores", "pressure", "duration_s"):
        pods[name] = getattr(truth, name)
    pods.use_memory = truth.use_memory_bytes
    pods.sensitivity = truth.sensitivity * config.interference
    noise = np.exp(config.replica_imbalance_sd * imbalance.standard_normal(n_pods))
    pods.imbalance = np.where(is_replica, noise, 1.0)
    pods.swing_phase = swing.random(n_pods)
    pods.status = np.where(is_replica, READY, FUTURE)
    for name in ("node", "next", "previous", "map_node"):
        pods[name] = -1
    pods.remaining_s = truth.duration_s
    pods.slowdown = 1.0
    for name in ("started_s", "placed_s", "finished_s", "evicted_s", "seen_ratio"):
        pods[name] = np.nan
    pods.ready_s = np.where(is_replica, 0.0, np.nan)
    return pods


def build(truth: Truth, config: WorldConfig, seed: int) -> WorldState:
    """An empty cluster at time 0 with the services' replicas ready and no job arrived."""
    streams = [np.random.default_rng(s) for s in np.random.SeedSequence(seed).spawn(5)]
    n_pods = len(truth.cpu_milli)
    replica_pods = np.flatnonzero(truth.service >= 0)
    drawn = streams[3].integers(0, n_pods, config.fragmentation_shapes)
    leaves = 1 << max(0, config.nodes - 1).bit_length()
    sizes, table_row = np.unique(truth.service_cores, return_inverse=True)

    services = records(len(truth.service_cores), SERVICE)
    services.cores = truth.service_cores
    services.time_s = truth.service_time_s
    services.objective = truth.service_objective
    services.table_row = table_row
    services.replicas = np.bincount(truth.service[replica_pods], minlength=len(services))

    stages = records(len(truth.stage_job), STAGE)
    stages.job = truth.stage_job
    stages.pods = truth.stage_pods
    stages.left = truth.stage_pods
    stages.first_pod = truth.stage_first_pod

    jobs = records(len(truth.job_stages), JOB)
    jobs.arrival_s = truth.job_arrival_s
    jobs.first_stage = truth.job_first_stage
    jobs.stages = truth.job_stages
    jobs.finished_s = np.nan

    nodes = records(config.nodes, NODE)
    nodes.first = -1
    nodes.up = True
    nodes.ceiling_m = config.node_cores * 1000
    nodes.last_close_us = -1
    nodes.missed_us = -1
    nodes.seen_s = -np.inf

    tenants = records(truth.tenants, TENANT)
    np.add.at(tenants.queued_milli, truth.tenant[replica_pods], truth.cpu_milli[replica_pods])
    np.add.at(tenants.queued_bytes, truth.tenant[replica_pods], truth.memory_bytes[replica_pods])

    shapes = records(len(drawn), SHAPE)
    shapes.cpu_milli = truth.cpu_milli[drawn]
    shapes.memory_bytes = truth.memory_bytes[drawn]

    ticks = records(int(config.limit_s // config.tick_s) + 2, TICK)
    ticks.fragmentation = np.nan

    frame_cells, frame_nodes = no_frames(config)
    highs = p99_table(sizes.astype(np.int64))
    run = records(1, RUN)
    run.seed = seed
    run.last_tick_s = np.nan
    run.ready = len(replica_pods)
    run.batch_left = n_pods - len(replica_pods)
    ready = np.zeros(n_pods, np.int64)
    ready[: len(replica_pods)] = replica_pods

    return WorldState(
        run=run,
        pods=_pods(truth, config, streams[1], streams[4]),
        services=services,
        stages=stages,
        jobs=jobs,
        nodes=nodes,
        tenants=tenants,
        outages=outages(config, streams[2]),
        shapes=shapes,
        ticks=ticks,
        load=service_load(truth, config, streams[0]),
        replica_pods=replica_pods,
        job_order=np.argsort(truth.job_arrival_s, kind="stable"),
        report=np.full((config.nodes, len(ReportColumn)), np.nan),
        tree=np.full(2 * leaves, np.inf),
        outbox=np.full((config.nodes, len(ReportColumn)), np.nan),
        p99_table=highs,
        decay_table=decay_table(sizes.astype(np.int64), highs),
        ready=ready,
        finished=np.zeros(n_pods, np.int64),
        evicted=np.zeros(n_pods, np.int64),
        evictions=np.zeros(len(CAUSES), np.int64),
        frames=frame_cells,
        frame_nodes=frame_nodes,
    )

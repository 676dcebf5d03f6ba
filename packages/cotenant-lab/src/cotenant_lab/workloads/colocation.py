"""The founding workload: resident services beside waves of batch on shared machines.

No public trace has services, batch and their objectives on the same machines. A seeded generator calibrated on Alibaba
2018 and Tianchi 2018 figures (each parameter and its source: `cotenant_lab.world.config`), in arrays. Load is an input,
met to about a point for each seed: batch durations are scaled until the mean CPU requested over [1 h, horizon], with
jobs run alone and stretched by an expected 1.12, equals the load minus the services' share.
Limits: real v2018 instances last 35 s on average; 20,000 of them would keep 249 machines busy for half a minute, so
durations here are stretched about 79 times. Stages of a job are a chain with barriers, not a general DAG.
"""

from __future__ import annotations

from math import isfinite, log, sqrt
from typing import NamedTuple, Protocol

import numpy as np

from cotenant.model.arrays import Float, Int
from cotenant.model.errors import InvalidInput
from cotenant_lab.world.config import WorldConfig
from cotenant_lab.world.latency import p99_alone, tolerances
from cotenant_lab.world.offer import Offer
from cotenant_lab.world.truth import Truth, check

LOAD_MOST = 1.5
_DOUBLINGS, _HALVINGS = 16, 24  # of the bracket on the duration scale, in search of the load


class Services(NamedTuple):
    """Services, [S] each."""

    cores: Int
    replicas: Int
    memory_bytes: Int
    peak: Float
    time_s: Float
    objective: Float
    tolerance: Float
    swing: Float
    phase: Float
    sensitivity: Float
    pressure: Float
    tenant: Int


class TraceDraws(Protocol):
    """What a trace gives instead of draws; each method may return None: drawn as in the founding workload."""

    def services(self, config: WorldConfig, rng: np.random.Generator) -> tuple[Int, Int, Int] | None:
        """Cores, replicas and memory in bytes of one replica, [S] each; services beyond the services' share are cut."""
        ...

    def stages(self, config: WorldConfig, rng: np.random.Generator, pods: int) -> tuple[Stages, Int] | None:
        """At most `pods` pods of batch, and the jobs' tenants."""
        ...

    def arrivals(self, config: WorldConfig, rng: np.random.Generator, jobs: int) -> Float | None:
        """Seconds in [0, horizon), [J]."""
        ...


class Stages(NamedTuple):
    """Stages of batch jobs, [G] each."""

    job: Int
    level: Int
    chain: Int  # stages of its job
    pods: Int
    cpu_milli: Int
    memory_bytes: Int
    relative_duration: Float
    use_cores: Float
    use_memory_bytes: Float
    sensitivity: Float
    pressure: Float


def generate(
    config: WorldConfig,
    seed: int,
    load: float,
    estimate_error: float | None = None,
    duration_error: float | None = None,
    given: TraceDraws | None = None,
) -> tuple[Truth, Offer]:
    """A workload of `config.pods` pods that requests `load` (fraction of the cluster's CPU, time mean over [1 h,
    horizon]).

    Errors are log-normal standard deviations of the estimates in the offer: `config.estimate_error` and 1.5 times it
    unless given; 0 offers the stages' true values. The truth depends on (config, seed, load) only, so errors pair.

    Raises `InvalidInput` for a load that leaves nothing for batch or is above 1.5, and for pods larger than a node.
    """
    error = config.estimate_error if estimate_error is None else estimate_error
    error_s = config.duration_error_factor * error if duration_error is None else duration_error
    for name, value in (("estimate_error", error), ("duration_error", error_s)):
        if not (isfinite(value) and value >= 0):
            raise InvalidInput(name, value, "0 or more")
    if not (isfinite(load) and config.service_share < load <= LOAD_MOST):
        hint = "load is the fraction of the cluster's CPU that services and batch request together"
        raise InvalidInput("load", load, f"{config.service_share} (the services' share) < load <= {LOAD_MOST}", hint)
    if seed < 0:
        raise InvalidInput("seed", seed, "0 or more")

    streams = [np.random.default_rng(s) for s in np.random.SeedSequence(seed).spawn(4)]
    services = _draw_services(config, streams[0], given)
    resident = int(services.replicas.sum())
    if resident >= config.pods:
        raise InvalidInput("pods", config.pods, f"more than the {resident} replicas that fill the services' share")
    batch_share = load - float((services.cores * services.replicas).sum()) / (config.nodes * config.node_cores)
    taken = given.stages(config, streams[1], config.pods - resident) if given else None
    stages, job_tenant = taken or _draw_stages(config, streams[1], config.pods - resident)
    arrivals = given.arrivals(config, streams[2], len(job_tenant)) if given else None
    schedule = _draw_schedule(config, streams[2], stages, load, batch_share, arrivals)
    return _assemble(config, services, stages, job_tenant, schedule, streams[3], error, error_s)


def profile_pairs(config: WorldConfig, rng: np.random.Generator, size: int) -> tuple[Float, Float]:
    """Sensitivity a and pressure b, heavy-tailed and independent."""
    a = np.minimum(config.sensitivity_most, rng.lognormal(log(config.sensitivity_median), config.profile_log_sd, size))
    b = np.minimum(config.pressure_most, rng.lognormal(log(config.pressure_median), config.profile_log_sd, size))
    return a, b


def drawn_tenants(config: WorldConfig, rng: np.random.Generator, size: int) -> Int:
    """A tenant for each of `size` services or jobs, by Zipf's law."""
    weight = np.arange(1, config.tenants + 1) ** -config.tenant_zipf
    return rng.choice(config.tenants, size, p=weight / weight.sum()).astype(np.int64)


def _draw_services(config: WorldConfig, rng: np.random.Generator, given: TraceDraws | None) -> Services:
    """Services until their replicas request `service_share` of the cluster; the last one is cut to fit."""
    room = int(config.service_share * config.nodes * config.node_cores)
    size = room // min(config.replica_cores) + 1  # enough even if all are of the smallest size
    cores = rng.choice(np.array(config.replica_cores), size, p=np.array(config.replica_cores_p)).astype(np.int64)
    most = min(config.replicas_most, config.replicas_per_node * config.nodes)
    drawn = np.rint(rng.lognormal(log(config.replicas_median), config.replicas_log_sd, size))
    replicas = np.clip(drawn, 1, most).astype(np.int64)
    taken = given.services(config, rng) if given else None
    if taken is not None:
        cores, replicas, size = taken[0], taken[1], len(taken[0])
    before = np.cumsum(cores * replicas) - cores * replicas
    replicas = np.minimum(replicas, (room - before) // cores)
    n = int(np.argmin(replicas > 0)) if np.any(replicas <= 0) else size
    cores, replicas = cores[:n], replicas[:n]

    spread = rng.lognormal(config.replica_memory_log_mean, config.replica_memory_log_sd, n)
    share = np.minimum(config.replica_memory_most, cores * config.replica_memory_per_core * spread)
    a, b = profile_pairs(config, rng, n)
    memory = np.rint(share * config.node_memory_bytes).astype(np.int64) if taken is None else taken[2][:n]
    peak = rng.uniform(config.peak_load_low, config.peak_load_high, n) * cores
    objective = rng.uniform(config.objective_low, config.objective_high, n) * p99_alone(cores, peak)
    return Services(
        cores=cores,
        replicas=replicas,
        memory_bytes=memory,
        peak=peak,
        time_s=rng.lognormal(log(config.service_time_median_s), config.service_time_log_sd, n),
        objective=objective,
        tolerance=tolerances(cores, peak, objective),
        swing=rng.uniform(config.day_swing_low, config.day_swing_high, n),
        phase=rng.normal(0.0, config.day_phase_sd, n),
        sensitivity=a,
        pressure=b,
        tenant=drawn_tenants(config, rng, n),
    )


def _draw_stages(config: WorldConfig, rng: np.random.Generator, pods: int) -> tuple[Stages, Int]:
    """Jobs until they have `pods` pods, the last one cut to fit; and the jobs' tenants."""
    jobs = pods  # upper bound: each job has at least one pod
    chain = 1 + rng.choice(len(config.stages_p), jobs, p=np.array(config.stages_p)).astype(np.int64)
    job = np.repeat(np.arange(jobs), chain)
    level = np.arange(len(job)) - np.repeat(np.cumsum(chain) - chain, chain)
    g = len(job)
    tail = np.rint((1.0 - rng.random(g)) ** (-1.0 / config.stage_pods_pareto))
    many = np.clip(tail, 2, config.stage_pods_most).astype(np.int64)
    count = np.where(rng.random(g) < config.single_pod_stages, 1, many)
    width = rng.choice(np.array(config.width), g, p=np.array(config.width_p))
    count = np.minimum(count, np.maximum(1, config.stage_width_most // width))

    before = np.cumsum(count) - count
    count = np.minimum(count, pods - before)
    g = int(np.argmin(count > 0)) if np.any(count <= 0) else g
    job, level, count, width = job[:g], level[:g], count[:g], width[:g]
    jobs = int(job[-1]) + 1
    chain = np.bincount(job, minlength=jobs)

    cores = width * rng.choice(np.array(config.plan_cores), g, p=np.array(config.plan_cores_p))
    plan = (
        width * rng.choice(np.array(config.plan_memory), g, p=np.array(config.plan_memory_p)) * config.plan_memory_scale
    )
    memory = np.minimum(config.plan_memory_most, plan) * config.node_memory_bytes
    a, b = profile_pairs(config, rng, g)
    duration = rng.lognormal(0.0, config.duration_job_log_sd, jobs)[job] * rng.lognormal(
        0.0, config.duration_stage_log_sd, g
    )
    real = np.minimum(config.real_cpu_most, rng.lognormal(log(config.real_cpu_median), config.real_cpu_log_sd, g))
    real_memory = rng.lognormal(log(config.real_memory_median), config.real_memory_log_sd, g)
    stages = Stages(
        job=job,
        level=level,
        chain=chain[job],
        pods=count,
        cpu_milli=np.rint(1000.0 * cores).astype(np.int64),
        memory_bytes=np.rint(memory).astype(np.int64),
        relative_duration=duration,
        use_cores=cores * real,
        use_memory_bytes=memory * real_memory,
        sensitivity=a,
        pressure=b,
    )
    return stages, drawn_tenants(config, rng, jobs)


class _Schedule(NamedTuple):
    """Arrivals of jobs, and durations of their pods alone."""

    arrival_s: Float  # [J]
    deadline_s: Float  # [J]
    duration_s: Float  # [batch pods]
    stage_duration_s: Float  # [G] of a pod without its straggler factor
    pod_memory: Float  # [batch pods] factor on the stage's memory in use


def _draw_schedule(
    config: WorldConfig,
    rng: np.random.Generator,
    stages: Stages,
    load: float,
    batch_share: float,
    arrivals: Float | None,
) -> _Schedule:
    """Arrivals, and durations scaled so that batch requests `batch_share` of the cluster's CPU."""
    jobs = int(stages.job[-1]) + 1
    horizon = config.horizon_s
    warm = rng.random(jobs) < config.warm_jobs
    arrival = np.where(warm, rng.uniform(0.0, config.warm_s, jobs), rng.uniform(0.0, horizon, jobs))
    burst = (rng.random(jobs) < config.burst_jobs) & ~warm
    starts = np.floor(rng.uniform(0.0, horizon, jobs) / config.burst_every_s) * config.burst_every_s
    arrival = np.where(burst, starts + rng.uniform(0.0, config.burst_length_s, jobs), arrival)
    if arrivals is not None:
        arrival, warm = arrivals, np.zeros(jobs, dtype=np.bool_)
    residual = np.where(warm, rng.uniform(0.2, 1.0, jobs), 1.0)[stages.job]

    pod_stage = np.repeat(np.arange(len(stages.pods)), stages.pods)
    first = np.cumsum(stages.pods) - stages.pods
    straggler = rng.lognormal(0.0, config.duration_pod_log_sd, len(pod_stage))
    longest = config.duration_chain_most_s / stages.chain
    cores = stages.cpu_milli[pod_stage] / 1000.0
    f = config.residence_stretch

    def lasting(scale: float) -> tuple[Float, Float, Float]:
        """Durations of pods, the stages' starts when stretched, and the jobs' critical paths."""
        pods = scale * stages.relative_duration[pod_stage] * straggler
        pods = np.clip(pods, config.duration_least_s, longest[pod_stage]) * residual[pod_stage]
        stage: Float = np.maximum.reduceat(pods, first)
        ends = np.cumsum(stage)
        path = np.bincount(stages.job, weights=stage, minlength=jobs).astype(np.float64)
        job_start = np.cumsum(path) - path
        begin = arrival[stages.job] + f * (ends - stage - job_start[stages.job])
        return pods, begin, path

    wanted = batch_share * config.nodes * config.node_cores * (horizon - config.averages_from_s)
    weight = float((stages.cpu_milli * stages.pods / 1000.0 * stages.relative_duration).sum())
    scale = batch_share * config.nodes * config.node_cores * horizon / weight

    def requested(scale: float) -> float:
        pods, begin, _ = lasting(scale)
        start = begin[pod_stage]
        inside = np.minimum(start + f * pods, horizon) - np.maximum(start, config.averages_from_s)
        return float((cores * np.maximum(inside, 0.0)).sum())

    low = high = scale
    for _ in range(_DOUBLINGS):
        if requested(low) <= wanted <= requested(high):
            break
        low, high = (low, 2.0 * high) if requested(high) < wanted else (0.5 * low, high)
    else:
        hint = "pods have a shortest and a longest duration: change the number of pods, or the load"
        raise InvalidInput("load", load, "a load that this many batch pods can request", hint)
    for _ in range(_HALVINGS):
        scale = sqrt(low * high)
        low, high = (scale, high) if requested(scale) < wanted else (low, scale)
    pods, _, path = lasting(scale)
    factor = rng.choice(np.array(config.deadline_factors), jobs)
    return _Schedule(
        arrival_s=arrival,
        deadline_s=arrival + factor * path + config.deadline_slack_s,
        duration_s=pods,
        stage_duration_s=np.clip(scale * stages.relative_duration, config.duration_least_s, longest) * residual,
        pod_memory=rng.lognormal(0.0, config.real_memory_pod_log_sd, len(pod_stage)),
    )


def _assemble(
    config: WorldConfig,
    services: Services,
    stages: Stages,
    job_tenant: Int,
    schedule: _Schedule,
    rng: np.random.Generator,
    error: float,
    error_s: float,
) -> tuple[Truth, Offer]:
    """Pods of services first, then of stages, job by job; one shape per service or stage."""
    s, g, jobs = len(services.cores), len(stages.job), len(job_tenant)
    replica = np.repeat(np.arange(s), services.replicas)
    member = np.repeat(np.arange(g), stages.pods)
    resident = len(replica)
    batch_first = resident + np.cumsum(stages.pods) - stages.pods
    service_cpu = 1000 * services.cores
    service_use = config.replica_memory_used * services.memory_bytes
    levels = np.bincount(stages.job, minlength=jobs)
    first_stage = np.cumsum(levels) - levels

    def both(of_services: Int | Float, of_stages: Int | Float) -> Float:
        return np.concatenate((of_services[replica], of_stages[member]))

    truth = Truth(
        cpu_milli=both(service_cpu, stages.cpu_milli).astype(np.int64),
        memory_bytes=both(services.memory_bytes, stages.memory_bytes).astype(np.int64),
        tenant=both(services.tenant, job_tenant[stages.job]).astype(np.int64),
        service=np.concatenate((replica, np.full(len(member), -1))),
        stage=np.concatenate((np.full(resident, -1), member)),
        use_cores=both(np.zeros(s), stages.use_cores),
        use_memory_bytes=np.concatenate((service_use[replica], stages.use_memory_bytes[member] * schedule.pod_memory)),
        sensitivity=both(services.sensitivity, stages.sensitivity),
        pressure=both(services.pressure, stages.pressure),
        duration_s=np.concatenate((np.full(resident, np.inf), schedule.duration_s)),
        service_cores=services.cores,
        service_peak=services.peak,
        service_time_s=services.time_s,
        service_objective=services.objective,
        service_swing=services.swing,
        service_phase=services.phase,
        stage_job=stages.job,
        stage_pods=stages.pods,
        stage_first_pod=batch_first,
        job_arrival_s=schedule.arrival_s,
        job_deadline_s=schedule.deadline_s,
        job_first_stage=first_stage,
        job_stages=levels,
        tenants=config.tenants,
    )
    check(truth, config)

    def noisy(value: Float, sd: float) -> Float:
        return value * np.exp(sd * rng.standard_normal(len(value)))

    memory = np.concatenate((service_use, stages.use_memory_bytes))
    tolerance = 1.0 + noisy(services.tolerance - 1.0, error)
    offer = Offer(
        cpu_milli=np.concatenate((service_cpu, stages.cpu_milli)),
        memory_bytes=np.concatenate((services.memory_bytes, stages.memory_bytes)),
        tenant=np.concatenate((services.tenant, job_tenant[stages.job])),
        is_service=np.arange(s + g) < s,
        group_limit=np.where(np.arange(s + g) < s, config.replicas_per_node, 0),
        job=np.concatenate((np.full(s, -1), stages.job)),
        level=np.concatenate((np.zeros(s, np.int64), stages.level)),
        pods=np.concatenate((services.replicas, stages.pods)),
        first_pod=np.concatenate((np.cumsum(services.replicas) - services.replicas, batch_first)),
        est_use_cores=noisy(np.concatenate((services.peak, stages.use_cores)), error),
        est_use_memory_bytes=noisy(memory, error),
        est_sensitivity=noisy(np.concatenate((services.sensitivity, stages.sensitivity)), error) * config.interference,
        est_pressure=noisy(np.concatenate((services.pressure, stages.pressure)), error),
        est_tolerance=np.concatenate((tolerance, np.full(g, np.nan))),
        est_duration_s=np.concatenate((np.full(s, np.inf), noisy(schedule.stage_duration_s, error_s))),
        shape=np.concatenate((replica, s + member)),
        arrival_s=schedule.arrival_s.copy(),
        deadline_s=schedule.deadline_s.copy(),
        levels=levels.copy(),
        first_shape=s + first_stage,
        tenants=config.tenants,
    )
    return truth, offer

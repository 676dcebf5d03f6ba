"""Parameters of the simulated world, in one frozen value, each with its unit in its name and its source.

A result about co-location depends on its assumptions, so they must be readable, few, and easy to sweep. One dataclass;
"trace" means measured on Alibaba 2018 (Tian et al., SoCC'19; Guo et al., IWQoS'19) or Tianchi 2018 containers, a paper
is named, and "assumption, swept" marks our own assumptions.
Limits: one scalar of memory pressure per node (cache and bandwidth are not distinguished), identical nodes, no network
or disk contention.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from math import isfinite

from cotenant.model.errors import InvalidInput

GIB = 1 << 30
PRESSURE_LAWS = ("linear", "knee", "queueing")
MIXED = "mixed"  # one of them and its parameters, drawn from the seed (laws.py)
PRESSURE_CHOICES = (*PRESSURE_LAWS, MIXED)


@dataclass(frozen=True, slots=True)
class WorldConfig:
    """The machines, the laws of contention, the founding workload's distributions, and the metrics' windows.

    Raises `InvalidInput` for an impossible value.
    """

    # --- machines
    nodes: int = 249  # the founding table's cluster
    node_cores: int = 96  # hardware threads; trace: every one of 4,034 machines
    node_memory_bytes: int = 512 * GIB  # the trace gives memory in percent of a machine; the size is an assumption

    # --- time
    horizon_s: float = 21_600.0  # a day squeezed into six hours; assumption
    run_out_horizons: float = 3.5  # a run ends at the latest after this many horizons, so that no long chain is cut off
    tick_s: float = 60.0  # load changes, latency windows and node reports; SLO windows of 1-5 min are customary
    windows_from_s: float = 600.0  # latency windows count from here to the horizon: the cluster is still filling before
    averages_from_s: float = 3_600.0  # time means count from here to the horizon
    success_wait_s: float = 600.0  # a pod that starts later than this after it became ready has not succeeded
    fragmentation_every_s: float = 300.0
    fragmentation_shapes: int = 200  # pod shapes drawn from the workload, tested against idle CPU
    map_at_s: float = 10_800.0  # when the machine map is taken
    map_frames: int = 96  # of the map over time, from the start to the horizon, at most; 0 = none, 1 = only the start

    # --- contention of CPU time
    node_qos: bool = True  # whether nodes hold batch back (Koordinator's CPU suppression and cache partition)
    # of the node, in whole percent, less what services use, is left to batch: the threshold of policy/nodeqos/suppress
    batch_budget: float = 0.65
    min_batch_cores: float = 2.0  # batch is never squeezed below this: min_cpus there
    node_guard: bool = (
        False  # whether nodes also cut batch when a replica comes close to its objective, as policy/nodeqos/guard does
    )
    smt_loss: float = 0.35  # a thread with a busy sibling runs at 1 - this; 0.6-0.7 of full speed is customary for SMT
    replica_start_s: float = 60.0  # a replica that was (re)placed misses the windows of its first minute; assumption
    wakeup_delay_s: float = 0.003  # without QoS a request waits this long for a CPU on a full node; assumption, swept
    wakeup_power: float = 8.0  # ... times utilisation to this power; assumption, swept

    # --- contention of the memory subsystem
    interference: float = 1.0  # X: scales every slowdown by pressure; 0 = none, 1 = calibrated, 2 = twice
    pressure_law: str = "linear"  # linear; knee: Mars et al., Bubble-Up, MICRO'11; queueing: bandwidth as a server
    pair_cores: float = (
        48.0  # K: a node half filled by one kind is taken to be one measured pair; assumption, swept via X
    )
    knee: float = 0.4  # law "knee": no effect below this pressure; Bubble-Up: 0.3-0.5 of bandwidth
    queueing_start: float = (
        0.15  # law "queueing": B0, share of bandwidth below which nothing happens; assumption, swept
    )
    queueing_ceiling: float = 0.95  # law "queueing": bandwidth share is cut here, the form diverges at 1; assumption
    cache_partition: float = 0.7  # batch pressure is scaled by this under QoS; assumption after a 0-30 % cache mask

    # --- memory capacity
    squeeze_from: float = 0.90  # above this share of memory batch slows ...
    squeeze_span: float = 0.07  # ... by 1 + (share - squeeze_from) / this; assumption, swept
    evict_above: float = 0.97  # above this share batch is evicted, least progress first; assumption, swept
    hold_s: float = (
        60.0  # a pod evicted for memory is held hold_s x 2^restarts; assumption (without it evictions live-lock)
    )
    hold_doublings: int = 5  # at most this many doublings; assumption

    # --- failures
    failures: bool = True
    failure_interval_days: float = 60.0  # mean time between failures of one node; assumption, swept
    repair_s: float = 900.0  # assumption

    # --- services
    pods: int = 20_000  # services' replicas and batch pods together; the founding table
    service_share: float = 0.384  # of the cluster's CPU requested by services; founding calibration
    replica_cores: tuple[int, ...] = (2, 4, 8, 16)  # trace: mostly 4 and 8
    replica_cores_p: tuple[float, ...] = (0.15, 0.50, 0.30, 0.05)  # spread is an assumption
    replicas_median: float = 3.0  # Tianchi: mean 7.3, p50 2, p90 12 containers an app
    replicas_log_sd: float = 1.25
    replicas_most: int = 60
    replicas_per_node: int = 3  # Tianchi's anti-affinity: k = 2 beside itself
    replica_memory_per_core: float = 0.0125  # of a node; assumption: memory is the full resource in the trace
    replica_memory_log_mean: float = -0.08
    replica_memory_log_sd: float = 0.4
    replica_memory_most: float = 0.16  # of a node
    replica_memory_used: float = 0.9  # of the request; trace: memory of services is flat and high
    peak_load_low: float = 0.35  # peak load of a replica, share of its cores; trace: mean CPU 41 %
    peak_load_high: float = 0.60
    day_swing_low: float = 0.35  # the trough is 1 - swing of the peak; trace: 31.5 % against 59.9 %
    day_swing_high: float = 0.60
    day_phase_sd: float = 0.08  # of a day; assumption
    load_noise_sd: float = 0.05  # log-normal, minute by minute; assumption
    load_noise_memory: float = 0.9  # its autocorrelation a minute; assumption
    replica_imbalance_sd: float = 0.08  # log-normal, fixed a replica; assumption
    service_time_median_s: float = 0.005  # assumption: only ratios matter, but for wake-up delay and reports in ms
    service_time_log_sd: float = 0.7
    objective_low: float = (
        1.5  # objective = this x p99 alone at peak load; the knee rule of Chen et al., PARTIES, ASPLOS'19
    )
    objective_high: float = 2.5

    # --- batch
    plan_cores: tuple[float, ...] = (0.5, 1.0)  # trace: plan_cpu is 50 in 42 % and 100 in 58 % of tasks
    plan_cores_p: tuple[float, ...] = (0.42, 0.58)
    plan_memory: tuple[float, ...] = (0.0020, 0.0030, 0.0039, 0.0049, 0.0059)  # of a node; trace: plan_mem
    plan_memory_p: tuple[float, ...] = (0.35, 0.24, 0.23, 0.12, 0.06)
    plan_memory_scale: float = 1.6  # assumption: makes memory matter
    plan_memory_most: float = 0.2  # of a node
    width: tuple[int, ...] = (1, 2, 4, 8, 16, 32)  # instances that a pod runs side by side; assumption
    width_p: tuple[float, ...] = (0.30, 0.20, 0.20, 0.15, 0.10, 0.05)
    single_pod_stages: float = 0.55  # trace: 66 % of tasks have one instance
    stage_pods_pareto: float = 0.9  # else Pareto with this exponent; trace: heavy tail
    stage_pods_most: int = 48
    stage_width_most: int = 256  # pods x width of a stage: a few giant jobs would decide every figure; assumption
    stages_p: tuple[float, ...] = (0.50, 0.25, 0.15, 0.10)  # 1, 2, 3, 4 stages with a barrier between; trace, thinned
    real_cpu_median: float = 0.7  # real use / plan, by stage; trace: mean 0.75, above plan at p90
    real_cpu_log_sd: float = 0.35
    real_cpu_most: float = 1.5
    real_memory_median: float = 0.32  # real use / plan, by stage; trace: 0.37 with a heavy tail
    real_memory_log_sd: float = 0.55
    real_memory_pod_log_sd: float = 0.2
    cpu_swing: float = 0.2  # use swings by this share, once over a pod's work, mean unchanged; assumption, swept
    memory_start: float = 0.7  # memory starts at this share of its full level ...
    memory_ramp: float = 0.2  # ... and reaches it after this share of the work; assumption, swept
    duration_job_log_sd: float = 0.8  # durations are scaled to the load; trace: instance body log-sd 1.51
    duration_stage_log_sd: float = 0.85
    duration_pod_log_sd: float = 0.1  # stragglers
    duration_least_s: float = 60.0
    duration_chain_most_s: float = 14_400.0  # / stages = the longest a pod can last; assumption
    warm_jobs: float = 0.10  # of jobs arrive in the first ten minutes with residual durations, to fill the cluster
    warm_s: float = 600.0
    burst_jobs: float = 0.20  # of the other jobs come in bursts ...
    burst_every_s: float = 1_800.0  # ... on the half hour ...
    burst_length_s: float = 60.0  # ... within a minute; assumption
    residence_stretch: float = 1.12  # expected residence / time alone, used only to scale durations to the load
    deadline_factors: tuple[float, ...] = (
        1.5,
        2.0,
        3.0,
    )  # x critical path alone, equally likely; customary for EDF studies
    deadline_slack_s: float = 60.0

    # --- both classes
    sensitivity_median: float = 0.25  # a; calibrated: 1 + a b over random pairs matches published co-location pairs
    sensitivity_most: float = 1.13
    pressure_median: float = 0.20  # b
    pressure_most: float = 1.0
    profile_log_sd: float = 1.1  # of a and of b, independent
    tenants: int = 30  # assumption
    tenant_zipf: float = 1.52  # tuned so that granting everything gives the founding 0.13 of dominant-share fairness
    estimate_error: float = 0.2  # log-normal sd of every estimate shown to schedulers (durations: 1.5 x)
    duration_error_factor: float = 1.5
    measurement_error: float = 0.05  # log-normal sd of the CPU and memory in use that a node's agent measures
    report_lost: float = 0.01  # share of nodes' measurements of a minute that are lost; assumption, swept
    report_late: float = 0.03  # share that arrives a minute late, in place of the next one; assumption, swept

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            numbers = value if isinstance(value, tuple) else (value,)
            for number in numbers:
                if isinstance(number, (int, float)) and not isfinite(number):
                    raise InvalidInput(field.name, value, "a finite number")
        positive = (
            "nodes", "node_cores", "node_memory_bytes", "horizon_s", "run_out_horizons", "tick_s",
            "fragmentation_every_s",
            "pair_cores", "squeeze_span", "failure_interval_days", "repair_s", "pods", "tenants",
            "fragmentation_shapes",
            "replicas_per_node", "service_time_median_s", "duration_least_s", "residence_stretch", "memory_ramp",
        )  # fmt: skip
        for name in positive:
            if getattr(self, name) <= 0:
                raise InvalidInput(name, getattr(self, name), "more than 0")
        for name in (
            "interference",
            "estimate_error",
            "measurement_error",
            "replica_start_s",
            "hold_s",
            "map_frames",
            "hold_doublings",
            "min_batch_cores",
        ):
            if getattr(self, name) < 0:
                raise InvalidInput(name, getattr(self, name), "0 or more")
        for name in ("service_share", "smt_loss", "cpu_swing", "warm_jobs", "burst_jobs", "knee", "load_noise_memory"):
            if not 0 <= getattr(self, name) < 1:
                raise InvalidInput(name, getattr(self, name), "0 <= value < 1")
        if self.report_lost < 0 or self.report_late < 0 or self.report_lost + self.report_late > 1:
            raise InvalidInput("report_lost", self.report_lost, "shares report_lost + report_late from 0 to 1 together")
        if not 0 < self.queueing_start < 0.5 < self.queueing_ceiling < 1:
            raise InvalidInput("queueing_start", self.queueing_start, "0 < queueing_start < 0.5 < queueing_ceiling < 1")
        for name in ("windows_from_s", "averages_from_s"):
            if not 0 <= getattr(self, name) < self.horizon_s:
                expected = f"more than {name} ({getattr(self, name):g} s), where the metrics begin"
                raise InvalidInput("horizon_s", self.horizon_s, expected)
        if abs(100.0 * self.batch_budget - round(100.0 * self.batch_budget)) > 1e-9 or not 0 <= self.batch_budget <= 1:
            raise InvalidInput("batch_budget", self.batch_budget, "a share of the node from 0 to 1 in whole percent")
        if self.run_out_horizons < 1:
            raise InvalidInput("run_out_horizons", self.run_out_horizons, "1 or more")
        if self.pressure_law not in PRESSURE_LAWS:
            raise InvalidInput("pressure_law", self.pressure_law, "one of " + ", ".join(PRESSURE_LAWS))
        for name in ("replica_cores", "plan_cores", "plan_memory", "width"):
            weights = getattr(self, name + "_p")
            if len(weights) != len(getattr(self, name)) or abs(sum(weights) - 1.0) > 1e-9:
                raise InvalidInput(name + "_p", weights, f"one probability for each of {name}, adding up to 1")
        if abs(sum(self.stages_p) - 1.0) > 1e-9:
            raise InvalidInput("stages_p", self.stages_p, "probabilities that add up to 1")

    @property
    def limit_s(self) -> float:
        """The latest end of a run."""
        return self.run_out_horizons * self.horizon_s

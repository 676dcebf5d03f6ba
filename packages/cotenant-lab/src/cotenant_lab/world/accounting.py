"""The metrics of a run, from recorded events.

Success, violation and fairness depend on which pods are counted, and when. Every pod that was ever submitted stays in
the denominator; services are judged by one-minute windows from ten minutes to the horizon, time means are taken at the
ticks from one hour to the horizon, batch is judged by its jobs' deadlines after the run has ended.
Limits: time means are means over one-minute samples; requested utilisation is an input of the workload and rises when a
policy is bad, because slowed pods stay longer: it is not a merit.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cotenant.model.arrays import Float, Mask
from cotenant.model.results.forms import MachineFrames
from cotenant_lab.contract import MachineMap
from cotenant_lab.world.config import WorldConfig
from cotenant_lab.world.frames import machine_frames
from cotenant_lab.world.records import Records, where
from cotenant_lab.world.state import MEMORY, NODE_FAILURE, REQUESTED, WorldState
from cotenant_lab.world.truth import Truth


@dataclass(frozen=True, slots=True)
class RunTimeline:
    """The run by minute, equal lengths. Fractions of the cluster except `queued_pods`; NaN where not sampled."""

    time_s: Float
    requested_cpu: Float
    used_cpu: Float
    requested_memory: Float
    used_memory: Float
    service_violation: Float  # core-weighted share of replicas that missed their objective or were not placed
    fragmentation: Float
    queued_pods: Float


@dataclass(frozen=True, slots=True)
class RunMetrics:
    """The metrics of a run. Fractions are 0..1."""

    success: float  # pods started within `success_wait_s` of becoming ready, over all pods
    requested_cpu: float  # time means over [1 h, horizon]
    used_cpu: float
    requested_memory: float
    used_memory: float
    fragmentation: float  # time mean of idle requested CPU x share of sampled shapes that do not fit the node
    violation: float  # core-hours that missed their objective / core-hours demanded, both classes
    violation_service: float  # cores x violated one-minute windows; an unplaced replica's window is violated
    violation_batch: float  # cores x seconds alone of all pods of jobs that ended after their deadline or never
    violation_count: float  # by number of pods instead of core-hours
    violation_unplaced: float  # parts of `violation`: unplaced replicas; jobs with a pod that never ended
    violation_queued: float  # late jobs that lost most of their time waiting for a node
    violation_restarted: float  # late jobs that lost most of their time starting again from zero
    violation_slowed: float  # placed replicas that missed; late jobs that lost most of their time to slow progress
    task_fairness: float  # Jain over batch pods of seconds alone / (finish - ready), 0 if unfinished
    dominant_fairness: float  # Jain over tenants of time-mean dominant share: a property of the workload
    granted_fairness: float  # Jain over tenants of granted / (granted + queued)
    evictions_memory: int
    evictions_failure: int
    evictions_asked: int
    unfinished: int  # batch pods
    slowdown: Float  # batch pods: (finish - ready) / seconds alone, inf if unfinished
    wait_s: Float  # all pods: first start - ready, inf if never started
    timeline: RunTimeline
    machine_map: MachineMap | None  # at `map_at_s`; None if the run did not reach it
    machine_frames: MachineFrames | None  # up to the horizon


@dataclass(frozen=True, slots=True)
class _LateJobs:
    """Core-seconds of late jobs by their largest loss."""

    unplaced: float
    queued: float
    restarted: float
    slowed: float


def jain(x: Float) -> float:
    """Jain's index (sum x)^2 / (n sum x^2), 1/n..1; 1 where there is nothing to share."""
    squares = float((x * x).sum())
    return float(x.sum()) ** 2 / (len(x) * squares) if squares > 0 else 1.0


def account(truth: Truth, state: WorldState, config: WorldConfig) -> RunMetrics:
    """Compute the metrics at the current time; what has not happened yet counts as never."""
    taken = where(state.ticks, np.arange(len(state.ticks)) < state.run.ticks[0])
    time = taken.time_s
    averaged = where(taken, (time >= config.averages_from_s) & (time <= config.horizon_s))
    windows = where(taken, (time > config.windows_from_s) & (time <= config.horizon_s))  # a window ends at its tick
    batch = truth.service < 0

    wait = np.where(np.isnan(state.pods.started_s), np.inf, state.pods.started_s - state.pods.ready_s)
    residence = np.where(np.isnan(state.pods.finished_s), np.inf, state.pods.finished_s - state.pods.ready_s)[batch]
    alone = truth.duration_s[batch]
    owned = state.run.tenant_ticks[0] > 0
    wanted = np.maximum(state.tenants.wanted_sum, 1e-12)

    late = np.isnan(state.jobs.finished_s) | (state.jobs.finished_s > truth.job_deadline_s)
    pod_late = late[truth.stage_job[truth.stage[batch]]]
    core_s = truth.cpu_milli[batch] / 1000.0 * alone
    parts = _late_jobs(truth, state, late)
    late_core_s, batch_core_s = float(core_s[pod_late].sum()), float(core_s.sum())
    window_core_s = float(windows.service_cores.sum()) * config.tick_s
    slow_core_s = float(windows.violated_cores.sum()) * config.tick_s
    absent_core_s = float(windows.unplaced_cores.sum()) * config.tick_s
    demanded = window_core_s + batch_core_s
    replica_windows = float(windows.replicas.sum())
    bad_replicas = (
        float(windows.violated_replicas.sum()) / replica_windows * float((~batch).sum()) if replica_windows else 0.0
    )

    return RunMetrics(
        success=float((wait <= config.success_wait_s).mean()),
        requested_cpu=_mean(averaged.requested_cpu),
        used_cpu=_mean(averaged.used_cpu),
        requested_memory=_mean(averaged.requested_memory),
        used_memory=_mean(averaged.used_memory),
        fragmentation=_mean(averaged.fragmentation),
        violation=_share(slow_core_s + absent_core_s + late_core_s, demanded),
        violation_service=_share(slow_core_s + absent_core_s, window_core_s),
        violation_batch=_share(late_core_s, batch_core_s),
        violation_count=(bad_replicas + float(pod_late.sum())) / len(batch),
        violation_unplaced=_share(absent_core_s + parts.unplaced, demanded),
        violation_queued=_share(parts.queued, demanded),
        violation_restarted=_share(parts.restarted, demanded),
        violation_slowed=_share(slow_core_s + parts.slowed, demanded),
        task_fairness=jain(alone / residence),
        dominant_fairness=jain(state.tenants.share_sum) if owned else float("nan"),
        granted_fairness=jain(state.tenants.share_sum / wanted) if owned else float("nan"),
        evictions_memory=int(state.evictions[MEMORY]),
        evictions_failure=int(state.evictions[NODE_FAILURE]),
        evictions_asked=int(state.evictions[REQUESTED]),
        unfinished=int(np.isinf(residence).sum()),
        slowdown=residence / alone,
        wait_s=wait,
        timeline=_timeline(taken),
        machine_map=_machine_map(truth, state, config),
        machine_frames=machine_frames(state.frames, state.frame_nodes, taken, config),
    )


def _late_jobs(truth: Truth, state: WorldState, late: Mask) -> _LateJobs:
    """Split late jobs by their largest loss, summed over the last pod to finish of each stage.

    Between ready and finish that pod waited for its first start, lost time in earlier starts, and ran longer than
    alone.
    """
    batch = np.flatnonzero(truth.service < 0)
    job = truth.stage_job[truth.stage[batch]]
    core_s = np.bincount(job, truth.cpu_milli[batch] / 1000.0 * truth.duration_s[batch], len(late))
    never = np.isnan(state.jobs.finished_s)
    last = np.zeros(len(truth.stage_pods), np.int64)
    order = batch[np.argsort(state.pods.finished_s[batch], kind="stable")]
    last[truth.stage[order]] = order  # the last write wins: the latest to finish
    waited = state.pods.started_s[last] - state.pods.ready_s[last]
    again = state.pods.placed_s[last] - state.pods.started_s[last]
    slowed = state.pods.finished_s[last] - state.pods.placed_s[last] - truth.duration_s[last]
    losses = np.stack([np.bincount(truth.stage_job, np.nan_to_num(x), len(late)) for x in (waited, again, slowed)])
    largest = losses.argmax(axis=0)
    return _LateJobs(
        unplaced=float(core_s[late & never].sum()),
        queued=float(core_s[late & ~never & (largest == 0)].sum()),
        restarted=float(core_s[late & ~never & (largest == 1)].sum()),
        slowed=float(core_s[late & ~never & (largest == 2)].sum()),
    )


def _timeline(taken: Records) -> RunTimeline:
    return RunTimeline(
        time_s=taken.time_s.copy(),
        requested_cpu=taken.requested_cpu.copy(),
        used_cpu=taken.used_cpu.copy(),
        requested_memory=taken.requested_memory.copy(),
        used_memory=taken.used_memory.copy(),
        service_violation=(taken.violated_cores + taken.unplaced_cores) / np.maximum(taken.service_cores, 1e-12),
        fragmentation=taken.fragmentation.copy(),
        queued_pods=taken.queued_pods.copy(),
    )


def _machine_map(truth: Truth, state: WorldState, config: WorldConfig) -> MachineMap | None:
    if not state.run.map_taken[0]:
        return None
    pods = np.flatnonzero(state.pods.map_node >= 0)
    pods = pods[np.lexsort((pods, truth.service[pods] < 0, state.pods.map_node[pods]))]
    return MachineMap(
        at=f"at {config.map_at_s / 3600.0:.1f} h",
        machine=state.pods.map_node[pods],
        owner=tuple(f"tenant {t}" for t in truth.tenant[pods]),
        cpu_share=truth.cpu_milli[pods] / (1000.0 * config.node_cores),
        is_service=truth.service[pods] >= 0,
    )


def _mean(column: Float) -> float:
    """Mean of the sampled values; NaN if there are none."""
    taken = column[~np.isnan(column)]
    return float(taken.mean()) if taken.size else float("nan")


def _share(part: float, whole: float) -> float:
    return part / whole if whole > 0 else 0.0

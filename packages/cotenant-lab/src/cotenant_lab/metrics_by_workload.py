"""Metrics that a workload defines differently from `metrics.py`: the same field of `Measures`, with another
denominator, unit of count or instant.

Jobs of tasks, arrivals without departures and services beside batch cannot share one definition of success or latency.
One record per figure and workload, shown with the workload's figures.
Limits: figures of one name do not compare across workloads.
"""

from __future__ import annotations

from dataclasses import replace

from cotenant_lab.metric import Better, Metric
from cotenant_lab.metrics import METRICS

_GENERAL = {metric.name: metric for metric in METRICS}


def _here(
    name: str, definition: str, title: str = "", short: str = "", better: Better | None = None, subject: str = ""
) -> Metric:
    """A metric as one workload measures it; with `better` it is the policy's property there."""
    general = _GENERAL[name]
    return replace(
        general,
        definition=definition,
        title=title or general.title,
        short=short or general.short,
        better=better or general.better,
        owner="policy" if better else general.owner,
        subject=subject or general.subject,
    )


# Definitions that replace those of `metrics.py`, by workload.
_VARIANTS: dict[str, tuple[Metric, ...]] = {
    "openb": (
        _here(
            "success",
            "Pods placed, over all pods that arrived, up to the end of arrivals; nothing departs and nothing is tried "
            "twice.",
        ),
        _here(
            "utilisation",
            "GPU allocated / GPUs of the cluster when the last pod has arrived. A pod that fits somewhere must be "
            "placed.",
            "GPU allocated",
            "GPU alloc.",
            better="higher",
        ),
        _here(
            "fragmentation",
            "Idle GPU that a random pod of the list cannot use (FGD, ATC'23), as a share of all GPUs, at the end of "
            "arrivals.",
            "GPU fragment",
        ),
        _here(
            "decision_p50_us",
            "Median over arrivals, refused ones included, of the wall time of a block of up to 32 decisions / its "
            "arrivals.",
            subject="an arrived pod",
        ),
        _here(
            "decision_p99_us",
            "99th percentile over arrivals of the same wall time, so of blocks and not of single decisions.",
        ),
    ),
    "tianchi": (
        _here(
            "success",
            "Containers placed, over all that arrived, up to the end of arrivals; nothing departs and nothing is "
            "tried twice.",
        ),
        _here(
            "utilisation",
            "CPU allocated / CPU capacity when the last container has arrived.",
            "CPU allocated",
            "CPU alloc.",
            better="higher",
        ),
        _here(
            "utilisation_used",
            "Mean over the day's 98 samples of the placed containers' CPU in use / CPU capacity, after the last "
            "arrival.",
        ),
        _here(
            "utilisation_memory",
            "Memory allocated / memory capacity when the last container has arrived.",
            "Memory allocated",
            "mem alloc.",
        ),
        _here(
            "fragmentation",
            "Idle CPU that a random container of the workload cannot use, as a share of CPU capacity, at the end of "
            "arrivals.",
            "CPU fragment",
        ),
        _here(
            "decision_p50_us",
            "Median over arrivals, refused ones included, of the wall time of one decision.",
            subject="an arrived container",
        ),
        _here("decision_p99_us", "99th percentile over arrivals, refused ones included, of the same wall time."),
    ),
    # Counted jobs: those that arrive in [1 h, 5 h); the run goes on until every job has ended.
    "dag": (
        _here(
            "success",
            "Pods of counted jobs (arrived in [1 h, 5 h)) that started within 600 s of their task becoming ready, "
            "which is when all its "
            "parents have ended, over all pods of counted jobs. Every pod starts in the end.",
        ),
        _here(
            "utilisation",
            "Time mean over [1 h, 5 h] of requested CPU / CPU capacity, uncounted jobs included. Follows from the "
            "load, and from "
            "how much of the work an order defers beyond 5 h.",
        ),
        _here(
            "utilisation_memory",
            "Time mean over [1 h, 5 h] of requested memory / memory capacity, uncounted jobs included. Follows from "
            "the load.",
        ),
        _here(
            "violation",
            "Core-seconds (pods x cores x recorded duration) of counted jobs that ended after their deadline, over "
            "those of all "
            "counted jobs. Deadline: arrival + 1.5, 2 or 3 times the job alone + 60 s; alone: the longest path of its "
            "tasks' durations.",
            "Deadlines missed, by work",
        ),
        _here(
            "violation_batch",
            "The same as the violation: this workload has no services.",
            "Deadlines missed, by work",
        ),
        _here(
            "violation_count",
            "Counted jobs that ended after their deadline, over all counted jobs: one a job, however large.",
            "Deadlines missed, by jobs",
            "V by jobs",
        ),
        _here(
            "task_fairness",
            "Jain's index over counted jobs of x = the job alone / (end - arrival).",
            "Per-job fairness",
            "job fair",
        ),
        _here(
            "slowdown_p50",
            "Median over counted jobs of (end - arrival) / the job alone, which is the longest path of its tasks' "
            "durations.",
            "Job slowdown, median",
            subject="jobs",
        ),
        _here(
            "slowdown_p95", "95th percentile over counted jobs of (end - arrival) / the job alone.", "Job slowdown, p95"
        ),
        _here(
            "slowdown_p99", "99th percentile over counted jobs of (end - arrival) / the job alone.", "Job slowdown, p99"
        ),
        _here(
            "wait_p99_s",
            "99th percentile over tasks of counted jobs of the seconds from ready to the start of the task's last pod.",
            "Task wait, p99",
        ),
        _here(
            "decision_p50_us",
            "Median wall time of a placement round, which starts all that fits after one event time; not divided by "
            "its pods. One round "
            "in 64 is timed.",
            "Round latency, median",
            "round p50",
            subject="a placement round",
        ),
        _here(
            "decision_p99_us",
            "99th percentile over the timed rounds of the same wall time.",
            "Round latency, p99",
            "round p99",
        ),
        _here(
            "run_s",
            "Wall time of the event loop with its placements; reading and drawing the jobs, and compiling, are not in "
            "it.",
        ),
    ),
    # Counted jobs: those that arrive in [2 h, 10 h); the run goes on until every job has ended, at most 48 h.
    "training": (
        _here(
            "success", "Counted jobs (arrived in [2 h, 10 h)) that had ended when the run did, over all counted jobs."
        ),
        _here(
            "utilisation",
            "Time mean over [2 h, 10 h] of GPUs held by pods that were decided or bound / GPUs of the cluster: "
            "allocated, whether or not the job runs.",
            "GPU allocated",
            "GPU alloc.",
        ),
        _here(
            "utilisation_used",
            "Time mean over [2 h, 10 h] of GPUs held by jobs that run / GPUs of the cluster, including time whose "
            "work is later lost.",
            "GPU computing",
            "GPU comput.",
            better="higher",
        ),
        _here(
            "granted_fairness",
            "Jain's index over teams of GPU-time held / GPU-time deserved in [2 h, 10 h]. Deserved: weighted max-min "
            "by guarantees, among "
            "organisations, then among their teams, capped at what each requests.",
            "Delivered over deserved",
            "deserved",
        ),
        _here(
            "slowdown_p50",
            "Median over counted jobs of (end - arrival) / duration alone; a job that never ended is taken to end "
            "with the run.",
            "Job slowdown, median",
            subject="jobs",
        ),
        _here(
            "slowdown_p95",
            "95th percentile over counted jobs of (end - arrival) / duration alone.",
            "Job slowdown, p95",
        ),
        _here(
            "slowdown_p99",
            "99th percentile over counted jobs of (end - arrival) / duration alone.",
            "Job slowdown, p99",
        ),
        _here(
            "wait_p99_s",
            "99th percentile over counted jobs of the seconds from arrival until all pods ran for the first time.",
            "Job wait, p99",
        ),
        _here(
            "wait_mean_s",
            "Mean over counted jobs of the seconds from arrival until all pods ran for the first time.",
            "Job wait, mean",
        ),
        _here(
            "wait_p50_s",
            "Median over counted jobs of the seconds from arrival until all pods ran for the first time.",
            "Job wait, median",
        ),
        _here("evictions", "Pods on nodes that failed. Their jobs begin again at the last checkpoint."),
        _here(
            "preemptions",
            "Pods that the scheduler had evicted, for a more important pod or for a quota. Their jobs begin again at "
            "the last checkpoint.",
        ),
        _here(
            "decision_p50_us",
            "Median over bound pods of the wall time of the engine's round that decided them / the pods decided in it.",
        ),
        _here("decision_p99_us", "99th percentile over bound pods of the same wall time."),
        _here(
            "decision_total_s", "Wall time of all the engine's rounds together, including rounds that placed no pod."
        ),
    ),
}


def catalogue(workload: str = "") -> dict[str, Metric]:
    """The metrics by name, as `workload` (`NAME` or `NAME:VARIANT`) measures them; in the order to show them."""
    return _GENERAL | {metric.name: metric for metric in _VARIANTS.get(workload.partition(":")[0], ())}


def variants() -> tuple[tuple[str, Metric], ...]:
    """The definitions that hold for one workload only."""
    return tuple((workload, metric) for workload, changed in _VARIANTS.items() for metric in changed)

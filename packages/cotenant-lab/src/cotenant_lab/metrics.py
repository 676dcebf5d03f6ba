"""Definitions of every figure the lab reports.

The same word (success, utilisation, fairness) means different things in different papers, so a table without
definitions cannot be trusted. One record per field of `Measures`, with its unit, which direction is better, its exact
definition and what determines it: a figure that the policy cannot influence must not be read as a merit. The command
line, the report and the documentation all print these records.
Limits: definitions that differ for a workload are in `metrics_by_workload.py`.
"""

from __future__ import annotations

from cotenant_lab.metric import Metric

METRICS: tuple[Metric, ...] = (
    Metric(
        "success",
        "Success",
        "success",
        "fraction",
        "higher",
        "policy",
        "Pods started within 600 s of becoming ready (services from t = 0), over all pods of the workload, "
        "those that never started included. Nearly every policy reads 100 % below saturation.",
    ),
    Metric(
        "utilisation",
        "Utilisation, requested",
        "requested",
        "fraction",
        "neither",
        "load",
        "Time mean over [1 h, H] of requested CPU / CPU capacity. It follows from the load, and rises when a "
        "policy is bad, because slowed pods stay longer: no merit. Above 1 where batch is fitted by predicted "
        "use.",
    ),
    Metric(
        "utilisation_used",
        "Utilisation, CPU in use",
        "used",
        "fraction",
        "neither",
        "load",
        "Time mean over [1 h, H] of CPU really in use / CPU capacity. Follows from the load.",
    ),
    Metric(
        "utilisation_memory",
        "Memory requested",
        "mem req",
        "fraction",
        "neither",
        "load",
        "Time mean over [1 h, H] of requested memory / memory capacity. Follows from the load.",
    ),
    Metric(
        "utilisation_memory_used",
        "Memory in use",
        "mem used",
        "fraction",
        "neither",
        "load",
        "Time mean over [1 h, H] of memory really in use / memory capacity. Follows from the load.",
    ),
    Metric(
        "fragmentation",
        "Fragmentation",
        "fragment",
        "fraction",
        "lower",
        "policy",
        "Every 5 min, summed over nodes: idle requested CPU x the share of 200 pod shapes drawn from the "
        "workload that do not fit that node (CPU and memory); mean over time, as a share of CPU capacity.",
    ),
    Metric(
        "violation",
        "SLO violation",
        "violation",
        "fraction",
        "lower",
        "policy",
        "Core-hours that missed their objective / core-hours demanded. Service: cores x one-minute windows "
        "whose p99 latency is above the objective (a replica without a node counts as violated). Batch: cores x"
        " duration alone of all pods of a job that ended after its deadline or never.",
    ),
    Metric(
        "violation_service",
        "SLO violation, services",
        "V services",
        "fraction",
        "lower",
        "policy",
        "V_LS: the service part of the violation, over the services' core-hours alone.",
    ),
    Metric(
        "violation_batch",
        "SLO violation, batch",
        "V batch",
        "fraction",
        "lower",
        "policy",
        "V_BE: the batch part of the violation, over the batch core-hours alone (duration alone x cores).",
    ),
    Metric(
        "violation_count",
        "SLO violation by pod count",
        "V by count",
        "fraction",
        "lower",
        "policy",
        "The same by number of pods instead of core-hours: for services the violated share of their windows, "
        "for batch the pods of jobs that missed their deadline. A few giant jobs cannot decide this one.",
    ),
    Metric(
        "task_fairness",
        "Per-task fairness",
        "task fair",
        "index",
        "higher",
        "policy",
        "Jain's index over batch pods of x = duration alone / (finish - ready), x = 0 where unfinished. Hardly "
        "moved by the policy below 90 % load.",
    ),
    Metric(
        "dominant_fairness",
        "Dominant-share fairness",
        "dom. share",
        "index",
        "neither",
        "trace",
        "Jain's index over tenants of the time-mean dominant share, the largest over CPU and memory of "
        "requested / cluster capacity. With every request granted it is 1 / (1 + CV^2) of the tenants' demand: "
        "the trace's property.",
    ),
    Metric(
        "granted_fairness",
        "Granted-share fairness",
        "granted",
        "index",
        "higher",
        "policy",
        "Jain's index over tenants of granted / (granted + queued) dominant share, time mean: 1 when every "
        "tenant gets the same part of what it asks for.",
    ),
    Metric(
        "slowdown_p50",
        "Slowdown, median",
        "slow p50",
        "ratio",
        "lower",
        "policy",
        "Median over batch pods of (finish - ready) / duration alone; infinite for a pod that never finished.",
        "batch pods",
    ),
    Metric(
        "slowdown_p95",
        "Slowdown, p95",
        "slow p95",
        "ratio",
        "lower",
        "policy",
        "95th percentile over batch pods of (finish - ready) / duration alone.",
    ),
    Metric(
        "slowdown_p99",
        "Slowdown, p99",
        "slow p99",
        "ratio",
        "lower",
        "policy",
        "99th percentile over batch pods of (finish - ready) / duration alone.",
    ),
    Metric(
        "wait_p99_s",
        "Wait, p99",
        "wait p99",
        "seconds",
        "lower",
        "policy",
        "99th percentile over pods of the seconds from ready to first start; a pod that never started waits to "
        "the end of the run.",
    ),
    Metric(
        "wait_mean_s",
        "Wait, mean",
        "wait mean",
        "seconds",
        "lower",
        "policy",
        "Mean over pods of the seconds from ready to first start; a pod that never started waits to the end of "
        "the run.",
    ),
    Metric(
        "wait_p50_s",
        "Wait, median",
        "wait p50",
        "seconds",
        "lower",
        "policy",
        "Median over pods of the seconds from ready to first start; a pod that never started waits to the end "
        "of the run.",
    ),
    Metric(
        "completion_mean_s",
        "Completion time, mean",
        "JCT mean",
        "seconds",
        "lower",
        "policy",
        "Mean over jobs of end - arrival; a job that never ended is taken to end with the run.",
    ),
    Metric(
        "completion_p50_s",
        "Completion time, median",
        "JCT p50",
        "seconds",
        "lower",
        "policy",
        "Median over jobs of end - arrival; a job that never ended is taken to end with the run.",
    ),
    Metric(
        "completion_p99_s",
        "Completion time, p99",
        "JCT p99",
        "seconds",
        "lower",
        "policy",
        "99th percentile over jobs of end - arrival; a job that never ended is taken to end with the run.",
    ),
    Metric(
        "held_idle",
        "Held but idle",
        "held idle",
        "fraction",
        "lower",
        "policy",
        "What is held on nodes by jobs that do not run, because members are missing, starting or ending, over "
        "all that is held.",
    ),
    Metric(
        "guarantee_missed",
        "Guarantee missed",
        "owed missed",
        "fraction",
        "lower",
        "policy",
        "Over time and teams: what a team requested and was guaranteed but did not hold, over what it requested"
        " and was guaranteed.",
    ),
    Metric(
        "racks_crossed",
        "Racks crossed",
        "crossing",
        "fraction",
        "lower",
        "policy",
        "Runs of jobs of several pods whose pods were not all in one rack, over those that one empty rack could"
        " have held.",
    ),
    Metric(
        "evictions",
        "Evictions",
        "evicted",
        "count",
        "lower",
        "policy",
        "Batch pods that a node evicted for want of memory or lost in a failure. Each starts again from zero "
        "after a pause.",
    ),
    Metric(
        "preemptions",
        "Preemptions",
        "preempted",
        "count",
        "lower",
        "policy",
        "Running pods that the scheduler removed to make room for a pod of higher priority.",
    ),
    Metric(
        "violation_before",
        "Service violation before",
        "before",
        "fraction",
        "neither",
        "load",
        "Workload takeover: core-weighted share of replicas that missed their objective, mean over the half "
        "hour before the policy took over from best-fit.",
    ),
    Metric(
        "violation_recovered",
        "Service violation, recovered",
        "recovered",
        "fraction",
        "lower",
        "policy",
        "The same share, mean from 30 to 90 min after the policy took over.",
    ),
    Metric(
        "violation_fresh",
        "Service violation, placed afresh",
        "afresh",
        "fraction",
        "lower",
        "policy",
        "The same share at the same hours, in a run of the same seed in which the policy placed everything from"
        " the start.",
    ),
    Metric(
        "moved_recovery",
        "Replicas moved to recover",
        "moved 30min",
        "fraction",
        "lower",
        "policy",
        "Moves in the first 30 min after the policy took over / replicas.",
    ),
    Metric(
        "moved_hourly",
        "Replicas moved an hour",
        "moved /h",
        "fraction",
        "lower",
        "policy",
        "Moves an hour from hour 1 to the horizon / replicas, in the run in which the policy placed everything "
        "from the start.",
    ),
    Metric(
        "moved_again",
        "Moved again within an hour",
        "again",
        "count",
        "lower",
        "policy",
        "Moves of a replica that had been moved less than an hour before, after the policy took over.",
    ),
    Metric(
        "first_failure",
        "First failure",
        "first fail",
        "fraction",
        "higher",
        "policy",
        "Load that had arrived when the first pod found no node; undefined where none was refused.",
    ),
    Metric(
        "decision_p50_us",
        "Decision latency, median",
        "decide p50",
        "microseconds",
        "lower",
        "machine",
        "Median wall time of the policy for one placed pod, on the machine named in the report, with the "
        "experiment's other runs side by side. Policies that decide a round at once: the round's time / its "
        "pods.",
        "a placed pod",
    ),
    Metric(
        "decision_p99_us",
        "Decision latency, p99",
        "decide p99",
        "microseconds",
        "lower",
        "machine",
        "99th percentile over placed pods of the same wall time.",
    ),
    Metric(
        "decision_total_s",
        "Decision time, total",
        "decide sum",
        "seconds",
        "lower",
        "machine",
        "Wall time of all decisions of the run together.",
    ),
    Metric(
        "run_s",
        "Time of a run",
        "run",
        "seconds",
        "neither",
        "machine",
        "Wall time of the whole run: workload, world and policy. A property of the machine and the code, never "
        "of a policy's merit.",
    ),
)

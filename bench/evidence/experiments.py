"""The experiments behind docs/results.md, as data: the arguments of `cotenant lab compare`, seeds, and the columns of
their tables.

A figure without a command that reproduces it cannot be verified. Each experiment is one command. Seeds of what was
tuned on the same workload are from 20 on: 0 to 9 were seen during development.
Limits: minutes to half an hour each on two cores; real traces where named.
"""

from __future__ import annotations

from dataclasses import dataclass

Column = tuple[str, str, float, int]  # field or `class:NAME`, heading, scale, decimals


@dataclass(frozen=True, slots=True)
class Experiment:
    """A named comparison: arguments, and the columns of its table."""

    name: str
    title: str
    arguments: tuple[str, ...]
    columns: tuple[Column, ...]
    seeds: str = "10"

    @property
    def command(self) -> str:
        """The command that repeats it."""
        return " ".join(("cotenant lab compare", *self.arguments, "--seeds", self.seeds))


_PERCENT = 100.0
_FOUNDING = (
    ("success", "success %", _PERCENT, 2),
    ("utilisation", "requested CPU %", _PERCENT, 1),
    ("utilisation_used", "used CPU %", _PERCENT, 1),
    ("fragmentation", "fragmentation %", _PERCENT, 2),
    ("violation", "violation %", _PERCENT, 2),
    ("violation_service", "services %", _PERCENT, 2),
    ("violation_batch", "batch %", _PERCENT, 2),
    ("task_fairness", "task fairness", 1.0, 3),
    ("dominant_fairness", "dominant share", 1.0, 3),
    ("slowdown_p99", "p99 slowdown", 1.0, 2),
)
_SHORT = (
    ("success", "success %", _PERCENT, 2),
    ("violation", "violation %", _PERCENT, 2),
    ("violation_service", "services %", _PERCENT, 2),
    ("violation_batch", "batch %", _PERCENT, 2),
    ("fragmentation", "fragmentation %", _PERCENT, 2),
    ("slowdown_p99", "p99 slowdown", 1.0, 2),
)
_OPENB = (
    ("utilisation", "GPUs allocated %", _PERCENT, 2),
    ("fragmentation", "fragment %", _PERCENT, 2),
    ("first_failure", "first refusal at load", 1.0, 3),
    ("class:accepted: cpu-only", "CPU-only accepted %", _PERCENT, 1),
    ("class:accepted: 8 GPUs", "8-GPU accepted %", _PERCENT, 1),
    ("decision_p50_us", "decision p50 us", 1.0, 1),
)
_TIANCHI = (
    ("success", "success %", _PERCENT, 2),
    ("utilisation", "allocated CPU %", _PERCENT, 2),
    ("first_failure", "first failure at load", 1.0, 3),
    ("fragmentation", "fragment %", _PERCENT, 2),
)
_DAG = (
    ("success", "success %", _PERCENT, 2),
    ("violation", "violation, core-hours %", _PERCENT, 2),
    ("violation_count", "by jobs %", _PERCENT, 2),
    ("slowdown_p99", "p99 slowdown", 1.0, 2),
)
_TAKEOVER = (
    ("violation_before", "before %", _PERCENT, 2),
    ("violation_recovered", "min 30 to 90 %", _PERCENT, 2),
    ("violation_fresh", "placed afresh %", _PERCENT, 2),
    ("moved_recovery", "moved in 30 min %", _PERCENT, 2),
    ("moved_hourly", "moved an hour %", _PERCENT, 2),
    ("moved_again", "moved again within an hour", 1.0, 1),
    ("violation_service", "services, run %", _PERCENT, 2),
    ("violation_batch", "batch, run %", _PERCENT, 2),
)
# Pod lists with published results, beside the default one.
OPENB_LISTS = (
    "cpu050", "cpu100", "cpu250", "gpushare40", "gpushare80", "gpuspec10", "gpuspec20", "gpuspec33", "multigpu20",
    "multigpu40", "multigpu50",
)  # fmt: skip
_RIVALS = "edf-least-allocated,edf-paragon,edf-paragon-overcommit,edf-paragon-measured"
_SWEEP = f"cotenant,kube-default,{_RIVALS}"
_ABLATIONS = (
    "cotenant,cotenant-arrival,cotenant-deadline,cotenant-blind,cotenant-no-balance,cotenant-no-tolerance,cotenant-no-moves,"
    "cotenant-no-measurement,cotenant-requests,cotenant-true"
)
# Under the laws of contention nobody declares profiles: what a cluster knows. Sensitivity and pressure are learned, or
# not known.
_LAW_POLICIES = "cotenant-learned,kube-default,edf-least-allocated,edf-paragon-measured,edf-paragon-learned"
LAWS = ("linear", "knee", "queueing")
ERRORS = ("0", "0.2", "0.5", "1.0", "2.0")  # log-normal sd of estimates


def _compare(workload: str, policies: str, *more: str) -> tuple[str, ...]:
    return ("--workload", workload, *(("--policies", policies) if policies else ()), *more)


EXPERIMENTS: tuple[Experiment, ...] = (
    Experiment(
        "mixed",
        "The mixed law, nothing declared",
        _compare(
            "colocation",
            _LAW_POLICIES,
            *("--pressure-law", "mixed", "--no-declared-profiles", "--load", "0.80,0.85,0.90,0.95"),
        ),
        _SHORT,
        "20-29",
    ),
    *(
        Experiment(
            f"law-{law}",
            f"The {law} law at 90 %, nothing declared",
            _compare("colocation", _LAW_POLICIES, "--pressure-law", law, "--no-declared-profiles", "--load", "0.90"),
            _SHORT,
            "20-24",
        )
        for law in LAWS
    ),
    *(
        Experiment(
            f"scale-{law}",
            f"The scale of the {law} law",
            _compare("colocation", "kube-default", "--pressure-law", law, "--load", "0.82"),
            _SHORT,
            "20-24",
        )
        for law in LAWS
    ),
    *(
        Experiment(
            f"estimates-{sd}",
            f"Estimates off by {sd} under the mixed law",
            _compare(
                "colocation",
                "cotenant,cotenant-requests",
                *("--pressure-law", "mixed", "--load", "0.85", "--estimate-error", sd),
            ),
            _SHORT,
            "20-29",
        )
        for sd in ERRORS
    ),
    Experiment(
        "takeover",
        "A badly packed cluster taken over at hour 2, under the mixed law",
        _compare(
            "takeover",
            "cotenant-learned,cotenant-learned-few-moves,cotenant-learned-no-moves,kube-default",
            *("--pressure-law", "mixed", "--no-declared-profiles"),
        ),
        _TAKEOVER,
        "20-29",
    ),
    Experiment("founding", "The founding comparison (77 % of CPU requested)", _compare("founding", ""), _FOUNDING),
    Experiment(
        "colocation",
        "Load swept",
        _compare("colocation", _SWEEP, "--load", "0.80,0.85,0.90,0.95"),
        _SHORT,
    ),
    Experiment("ablation", "Ablation of ours at 90 %", _compare("colocation", _ABLATIONS, "--load", "0.90"), _SHORT),
    Experiment(
        "no-interference",
        "Interference 0x at 85 %",
        _compare("colocation", f"cotenant,kube-default,{_RIVALS}", "--load", "0.85", "--interference", "0"),
        _SHORT,
    ),
    Experiment(
        "double-interference",
        "Interference 2x at 85 %",
        _compare("colocation", f"cotenant,kube-default,{_RIVALS}", "--load", "0.85", "--interference", "2"),
        _SHORT,
    ),
    Experiment(
        "error-half",
        "Estimates off by 0.5 (log-normal sd) at 85 %",
        _compare("colocation", f"cotenant,cotenant-requests,{_RIVALS}", "--load", "0.85", "--estimate-error", "0.5"),
        _SHORT,
    ),
    Experiment(
        "error-whole",
        "Estimates off by 1.0 (log-normal sd) at 85 %",
        _compare("colocation", f"cotenant,cotenant-requests,{_RIVALS}", "--load", "0.85", "--estimate-error", "1.0"),
        _SHORT,
        "5",
    ),
    Experiment(
        "no-qos",
        "Without node QoS at 77 %",
        _compare("founding", f"cotenant,kube-default,founding,{_RIVALS}", "--no-node-qos"),
        _SHORT,
        "5",
    ),
    Experiment(
        "no-failures",
        "Without node failures at 90 %",
        _compare("colocation", f"cotenant,{_RIVALS}", "--load", "0.90", "--no-failures"),
        _SHORT,
        "5",
    ),
    Experiment("openb", "openb, default list, 130 % arrivals", _compare("openb", ""), _OPENB, "20-29"),
    *(
        Experiment(
            f"openb-{name}",
            f"openb, list {name}",
            _compare(f"openb:{name}", "cotenant,fgd,fgd-all-classes"),
            _OPENB,
            "20-29",
        )
        for name in OPENB_LISTS
    ),
    Experiment("tianchi", "Tianchi containers", _compare("tianchi", ""), _TIANCHI),
    Experiment("dag", "DAG jobs at 90 %", _compare("dag:held-out", ""), _DAG, "20-29"),
)
BY_NAME = {experiment.name: experiment for experiment in EXPERIMENTS}

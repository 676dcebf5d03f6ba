"""The experiments behind docs/results.md, as data, and the page generated from them.

    python -m bench.evidence --out runs/evidence            run what is missing, then print the page
    python -m bench.evidence --out runs/evidence --only founding,ablation

Problem: a figure without a command that reproduces it cannot be verified. Choice: each experiment is the arguments of `cotenant lab compare`; a
finished one is not repeated; the page is generated from their JSON. Limits: minutes to half an hour on two cores; real traces where named.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Experiment:
    """A named comparison: arguments, and the columns of its table."""

    name: str
    title: str
    arguments: tuple[str, ...]
    columns: tuple[tuple[str, str, float, int], ...]  # field, heading, scale, decimals


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
_RIVALS = "edf-least-allocated,edf-paragon,edf-paragon-overcommit,edf-paragon-measured"
_SWEEP = f"cotenant,kube-default,{_RIVALS}"
_ABLATIONS = (
    "cotenant,cotenant-arrival,cotenant-deadline,cotenant-blind,cotenant-no-balance,cotenant-no-tolerance,cotenant-no-moves,"
    "cotenant-no-measurement,cotenant-requests,cotenant-true"
)


def _compare(workload: str, policies: str, *more: str) -> tuple[str, ...]:
    return ("--workload", workload, *(("--policies", policies) if policies else ()), *more)


EXPERIMENTS: tuple[Experiment, ...] = (
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
    ),
    Experiment(
        "no-qos",
        "Without node QoS at 77 %",
        _compare("founding", f"cotenant,kube-default,founding,{_RIVALS}", "--no-node-qos"),
        _SHORT,
    ),
    Experiment(
        "no-failures",
        "Without node failures at 90 %",
        _compare("colocation", f"cotenant,{_RIVALS}", "--load", "0.90", "--no-failures"),
        _SHORT,
    ),
    Experiment("openb", "openb, default list, 130 % arrivals", _compare("openb", ""), _OPENB),
    Experiment("tianchi", "Tianchi containers", _compare("tianchi", ""), _TIANCHI),
    Experiment("dag", "DAG jobs at 90 %", _compare("dag", ""), _DAG),
)


def run(experiment: Experiment, folder: Path, seeds: int) -> dict[str, Any]:
    """The experiment's JSON object; it is run only if it is not stored yet."""
    out = folder / experiment.name
    results = out / "results.json"
    if not results.exists():
        command = [sys.executable, "-m", "cotenant", "lab", "compare", *experiment.arguments]
        subprocess.run([*command, "--seeds", str(seeds), "--out", str(out)], check=True, stdout=sys.stderr)
    found: dict[str, Any] = json.loads(results.read_text())
    return found


def _cell(row: dict[str, Any], field: str, scale: float, decimals: int) -> str:
    value, half = row.get(field), row.get(f"{field}_ci")
    if value is None:
        return "–"
    return f"{value * scale:.{decimals}f}" + (f" ±{half * scale:.{decimals}f}" if half is not None else "")


def table(found: dict[str, Any], columns: Sequence[tuple[str, str, float, int]]) -> list[str]:
    """Markdown rows, one per policy and load."""
    sweep = len(found["loads"]) > 1
    head = ["policy", *(["load"] if sweep else []), *(heading for _, heading, _, _ in columns)]
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    for row in found["rows"]:
        name = f"**{row['policy']}**" if row["policy"] == found["ours"] else row["policy"]
        cells = [name, *([f"{row['load']:g}"] if sweep else [])]
        cells += [_cell(row, field, scale, decimals) for field, _, scale, decimals in columns]
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def _paired(found: dict[str, Any]) -> list[str]:
    pairs = [p for p in found["paired"] if p["metric"] == "violation" and p["load"] is not None]
    if not pairs:
        return []
    lines = ["", "Points of violation, the other minus ours, paired by seed with 95 % intervals:", ""]
    for each in pairs:
        other = each["policy"] if each["against"] == found["ours"] else each["against"]
        sign = 1.0 if each["against"] == found["ours"] else -1.0
        half = each["difference_ci"]
        clear = "" if half is None or abs(each["difference"]) <= half else " (excludes zero)"
        shown = "" if half is None else f" ±{half * 100:.2f}"
        lines.append(f"- {other} at {each['load']:g}: {sign * each['difference'] * 100:+.2f}{shown}{clear}")
    return lines


_BEYOND = {None: "", "exact": "", "below": "at most ", "above": "at least "}  # bounds at the ends of the sweep


def _sustained(found: dict[str, Any]) -> list[str]:
    rows = found["sustained_load"]
    if len(found["loads"]) < 2 or not rows:
        return []
    lines = ["", "Sustained load: the largest at which services and batch each violate at most 1 %:", ""]
    lines += ["| policy | mean over seeds | of the mean curves |", "| --- | --- | --- |"]
    for row in rows:
        mean, half = row["sustained_load"], row["sustained_load_ci"]
        shown = (
            "–"
            if mean is None
            else f"{_BEYOND[row['bound']]}{mean:.3f}" + (f" ±{half:.3f}" if half is not None else "")
        )
        of_means = row["of_means"]
        curves = "–" if of_means is None else f"{_BEYOND[row['of_means_bound']]}{of_means:.3f}"
        lines.append(f"| {row['policy']} | {shown} | {curves} |")
    return lines


def page(folder: Path, seeds: int, only: Sequence[str]) -> str:
    """The whole page."""
    lines = ["# Results", "", "Made by `python -m bench.evidence --out runs/evidence`; definitions in metrics.md.", ""]
    for experiment in EXPERIMENTS:
        if only and experiment.name not in only:
            continue
        found = run(experiment, folder, seeds)
        command = "cotenant lab compare " + " ".join(experiment.arguments) + f" --seeds {seeds}"
        lines += [f"## {experiment.title}", "", f"`{command}` ({found['seeds']} paired seeds, ± = 95 % interval)", ""]
        lines += table(found, experiment.columns) + _sustained(found) + _paired(found) + [""]
    return "\n".join(lines)


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("runs/evidence"))
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--only", default="", help="names with commas between")
    given = parser.parse_args()
    print(page(given.out, given.seeds, tuple(filter(None, given.only.split(",")))))


if __name__ == "__main__":
    main()

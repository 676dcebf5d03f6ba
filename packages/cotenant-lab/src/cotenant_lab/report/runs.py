"""The runs that a report carries, for the console's view of the experiment inside the file.

Curves and machines over time explain a difference between two policies, and a mailed file cannot ask a server; all runs
of a comparison are larger than the rest of the page. The console's answers for the focus load and the first seed,
deflated, of at most `MAX_FRAMES` moments; ours first, then by rank, until `MAX_BYTES` are full. What is left out is
said in the page.
Limits: the tables of the view have every load, its curves and maps one run per policy.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import numpy as np

from cotenant.model.results.forms import MachineFrames
from cotenant.model.results.views import MachineFramesView, curve_view, frames_view
from cotenant_lab.comparison import Comparison
from cotenant_lab.comparison_object import to_object
from cotenant_lab.contract import RunResult
from cotenant_lab.report.run_answers import EmbeddedPage, EmbeddedRuns, metric_views

MAX_BYTES = 700_000  # of deflated curves and machines, in base64
MAX_FRAMES = 48  # of the machines of a run


@dataclass(frozen=True, slots=True)
class Carried:
    """The embedded runs, and the policies whose curves and machines had no room."""

    runs: EmbeddedRuns
    left_out: tuple[str, ...]
    has_machines: bool


def carried(comparison: Comparison, results: Mapping[str, Sequence[RunResult]]) -> Carried:
    """The runs that a report of `comparison` carries. `results`: by policy, at its focus load."""
    seed = comparison.seeds[0]
    curves: dict[str, str] = {}
    machines: dict[str, str | None] = {}
    left_out = []
    room = MAX_BYTES
    ranked = [row.policy for row in comparison.rows if row.load == comparison.focus]
    for policy in dict.fromkeys((comparison.ours, *ranked)):
        run = next((run_result for run_result in results.get(policy, ()) if run_result.spec.seed == seed), None)
        if run is None:
            continue
        drawn = _packed([curve_view(series) for series in run.series])
        maps = None if run.machine_frames is None else _packed(_by_column(run.machine_frames))
        size = len(drawn) + len(maps or "")
        if size > room:
            left_out.append(policy)
            continue
        room -= size
        curves[policy], machines[policy] = drawn, maps
    metrics = {name: metric for name, metric in comparison.metrics.items() if name in comparison.measured}
    page = EmbeddedPage(".", 0.0, metric_views(metrics), _results(comparison, seed))
    runs = EmbeddedRuns(_packed(page), comparison.focus, seed, curves, machines)
    return Carried(runs, tuple(left_out), any(machines.values()))


def _by_column(frames: MachineFrames) -> MachineFramesView:
    """The console's view of the machines at some of the moments, with its cells by column, machine and frame."""
    step = -(-len(frames.time_s) // MAX_FRAMES) or 1
    kept = MachineFrames(
        frames.time_s[::step],
        frames.machine,
        frames.cells[::step],
        frames.machines,
        frames.violated[::step],
        frames.used_cpu[::step],
    )
    return replace(frames_view(kept), cells=np.ascontiguousarray(kept.cells.transpose(2, 1, 0)).tobytes())


def _results(comparison: Comparison, seed: int) -> dict[str, object]:
    """Of the object of results.json what the view reads; one seed, since the file has the runs of no other."""
    whole: Any = to_object(comparison)
    kept = {"policy", "role", "load", "seeds"}
    kept |= {f"{name}{end}" for name in comparison.measured for end in ("", "_ci")}
    rows = [{name: _short(value) for name, value in row.items() if name in kept} for row in whole["rows"]]
    paired = [{name: _short(value) for name, value in row.items()} for row in whole["paired"]]
    same = {name: whole[name] for name in ("workload", "seeds", "loads", "ours")}
    return {**same, "seed_list": [seed], "rows": rows, "paired": paired}


def _short(value: object) -> object:
    """Six digits of a number."""
    return float(f"{value:.6g}") if isinstance(value, float) else value


def _packed(answer: object) -> str:
    return base64.b64encode(zlib.compress(msgspec.json.encode(answer), 9)).decode()

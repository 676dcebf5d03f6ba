"""Every built-in workload, loaded by name as on the command line, returns a result that satisfies the contract."""

from __future__ import annotations

import os
from dataclasses import fields
from math import isnan
from pathlib import Path

import pytest

from cotenant_lab import registry
from cotenant_lab.contract import Measures, RunSpec
from cotenant_lab.experiment import check_result
from cotenant_lab.metrics_by_workload import catalogue
from cotenant_lab.registry import BUILT_IN, RegisteredWorkload

TRACES = Path(os.environ.get("COTENANT_TRACES") or Path(__file__).parents[5] / "shared" / "traces")
SMALL = "nodes: 20\nhorizon_h: 1.5\n"
LONGER = "nodes: 12\nhorizon_h: 4\n"  # beyond the take-over and the hour that is judged
LOADS = {
    "founding": 0.77,
    "colocation": 0.8,
    "replay": 0.8,
    "takeover": 0.8,
    "openb": 0.1,
    "tianchi": 0.05,
    "dag": 0.1,
    "training": 0.1,
}


def cheap(entry: RegisteredWorkload, folder: Path) -> RunSpec:
    """A run of our policy that takes seconds."""
    file = None
    if entry.name in ("founding", "colocation", "replay"):
        file = folder / "small.yaml"
        file.write_text(f"base: {entry.name}\n{SMALL}")
    if entry.name == "takeover":
        file = folder / "longer.yaml"
        file.write_text(f"base: colocation\n{LONGER}")
    traces = TRACES / "alibaba-pai2020" if entry.name == "replay" else TRACES
    return RunSpec(
        entry.name, "cotenant", 3, LOADS[entry.name], traces=traces if entry.needs_traces else None, file=file
    )


@pytest.mark.slow
@pytest.mark.parametrize("entry", BUILT_IN, ids=lambda entry: entry.name)
def test_a_built_in_workload_keeps_the_contract(entry: RegisteredWorkload, tmp_path: Path) -> None:
    if entry.needs_traces and not TRACES.is_dir():
        pytest.skip(f"no traces in {TRACES}; set COTENANT_TRACES")
    scenario = registry.scenario(entry.name)
    assert (scenario.name, scenario.headline) == (entry.name, tuple(dict.fromkeys(scenario.headline)))
    assert {"cotenant"} <= set(scenario.default_policies) <= {info.name for info in scenario.policies()}
    spec = cheap(entry, tmp_path)
    scenario.check(spec)
    result = scenario.run(spec)
    check_result(result, spec)
    defined = {field.name for field in fields(Measures) if not isnan(getattr(result.measures, field.name))}
    assert "success" in defined
    assert {*scenario.headline} - {"first_failure"} <= defined <= set(catalogue(entry.name))
    assert result.measures.run_s > 0
    assert 0 < result.measures.utilisation < 2 * spec.load

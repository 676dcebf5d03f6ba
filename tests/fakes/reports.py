"""Comparisons of fake workloads, as a report takes them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from cotenant_lab import experiment, registry, storage
from cotenant_lab.comparison import Comparison, compare
from cotenant_lab.contract import RunResult, RunSpec
from cotenant_lab.experiment import ExperimentPlan
from cotenant_lab.provenance import Provenance

ORIGIN = Provenance("cotenant lab compare --workload fake", "0.1.0", "abc", "3.11", ("numpy 2",), "a machine", 2, 2)
SWEEP = (0.75, 0.85, 0.95)

Made = tuple[Comparison, dict[str, list[RunResult]]]


def made(
    folder: Path, *policies: str, seeds: int = 2, loads: tuple[float, ...] = (0.77,), workload: str = "fake"
) -> Made:
    """A comparison with the runs of its focus load, by policy. Needs the fixture `fake_workloads`."""
    scenario = registry.scenario(workload)
    plan = ExperimentPlan(RunSpec(workload, "", 0, 0.0), policies, tuple(range(seeds)), loads)
    comparison = compare(plan, scenario, experiment.run(plan, folder, jobs=1))
    results = {
        policy: [
            storage.load_result(record)
            for record in comparison.records
            if record.spec.policy == policy and record.spec.load == comparison.focus
        ]
        for policy in policies
    }
    return comparison, results


def renamed(parts: Made, old: str, new: str) -> Made:
    """The same with another name of a policy."""
    comparison, results = parts

    def name(policy: str) -> str:
        return new if policy == old else policy

    other = replace(
        comparison,
        roles={name(policy): role for policy, role in comparison.roles.items()},
        summaries={name(policy): words for policy, words in comparison.summaries.items()},
        policies=tuple(name(policy) for policy in comparison.policies),
        rows=tuple(replace(row, policy=name(row.policy)) for row in comparison.rows),
        paired=tuple(replace(pair, policy=name(pair.policy)) for pair in comparison.paired),
        sustained=tuple(replace(row, policy=name(row.policy)) for row in comparison.sustained),
    )
    return other, {name(policy): runs for policy, runs in results.items()}

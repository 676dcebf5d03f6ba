"""`cotenant lab explain`: one task's decision, as text or JSON."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path

from cotenant.cli import tables
from cotenant.model.errors import InvalidInput
from cotenant_lab import registry, storage
from cotenant_lab.cli.naming import EXPLAIN, as_typed
from cotenant_lab.contract import TaskExplanation
from cotenant_lab.provenance import load_experiment


def explain(folder: Path, task: str, policy: str | None, seed: int | None, load: float | None, json: bool) -> int:
    """Repeat the run with recording on, and print the task's decision."""
    stored = load_experiment(folder)
    plan = stored.plan
    policy = policy if policy is not None else stored.ours
    seed = seed if seed is not None else plan.seeds[0]
    load = load if load is not None else plan.loads[0]
    for name, value, known in (
        ("--policy", policy, plan.policies),
        ("--seed", seed, plan.seeds),
        ("--load", load, plan.loads),
    ):
        if value not in known:
            raise InvalidInput(name, value, f"one of this comparison's: {', '.join(map(str, known))}")
    knobs = tuple((knob, value) for owner, knob, value in plan.overrides if owner == policy)
    spec = replace(plan.base, policy=policy, seed=seed, load=load, overrides=knobs)
    with as_typed(EXPLAIN, plan.overrides):
        found = registry.scenario(spec.workload).explain(spec, task)
    notes = _notes(stored.sources)
    if json:
        where = {"workload": spec.workload, "policy": policy, "seed": seed, "load": load}
        print(storage.encode_object(where | asdict(found) | {"notes": notes}))
    else:
        _print(found, f"{spec.workload}, {policy}, load {load:g}, seed {seed}")
        for note in notes:
            tables.print_line(note)
    return 0


def _notes(sources: str) -> list[str]:
    """Differences between this explanation and the comparison; `sources`: the digest stored with the comparison."""
    present = storage.code_digest()
    if sources == present:
        return []
    return [
        f"the comparison was made with other sources ({sources or 'unknown'}) than this explanation ({present}), "
        "so decisions may differ: run the comparison again to have both from the same sources"
    ]


def _print(found: TaskExplanation, where: str) -> None:
    tables.print_line(f"{found.task}: {found.outcome}", strong=True)
    tables.print_line(f"({where})")
    for line in found.lines:
        tables.print_line(f"  {line}")
    if found.rejected:
        rows = [(f"{count:,}", reason) for reason, count in sorted(found.rejected, key=lambda entry: -entry[1])]
        tables.print_words(("nodes", "rejected because"), rows, right=("nodes",))
    if found.candidates:
        parts = list(dict.fromkeys(name for _, _, scores in found.candidates for name, _ in scores))
        rows_of = [
            (node, _digits(score), *(_digits(dict(scores)[name]) if name in dict(scores) else "–" for name in parts))
            for node, score, scores in found.candidates
        ]
        tables.print_words(("candidate", "score", *parts), rows_of, right=("score", *parts))


def _digits(value: float) -> str:
    return f"{value + 0.0:.4g}"  # adding zero removes the sign of a negative zero

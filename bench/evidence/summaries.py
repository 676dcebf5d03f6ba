"""A summary of an experiment: the figures that pages print, and what made them. One JSON file each in docs/results/.

Pages whose figures were typed by hand drift from the results, and from one another. The few figures that pages need are
kept in the repository with the command, the version, the commit and the digest of the sources that made them; pages are
written from these files only.
Limits: means and intervals, and of single runs the violation only; the rest stays in the experiment's own folder.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from cotenant.model.errors import InvalidInput, Permanent
from cotenant_lab.derived_metrics import SUSTAINED_LOAD
from cotenant_lab.storage import write_json

FOLDER = Path("docs/results")
_DIGITS = 6  # significant; pages show fewer


class Value(msgspec.Struct, frozen=True):
    """A mean over seeds, and half the width of its 95 % interval. None: not defined."""

    mean: float | None
    half: float | None = None


class Row(msgspec.Struct, frozen=True):
    """One policy at one load. `by_class`: further figures of the workload, by name."""

    policy: str
    load: float
    figures: dict[str, Value]
    by_class: dict[str, Value] = {}


class Difference(msgspec.Struct, frozen=True):
    """The policy's violation minus ours, paired by seed, as a fraction."""

    policy: str
    load: float
    value: Value


class SustainedLoad(msgspec.Struct, frozen=True):
    """The largest load at which both classes violate at most 1 %. Bounds: exact, below or above the swept loads."""

    policy: str
    value: Value
    bound: str
    of_means: float | None
    of_means_bound: str
    difference: Value = Value(None)  # to ours, paired by seed; absent in summaries of earlier versions


class UsedAtObjective(msgspec.Struct, frozen=True):
    """CPU in use at the sustained load, as a fraction, and that of ours over it, paired by seed. Bounds as those of
    the sustained load.
    """

    policy: str
    value: Value
    bound: str
    ratio: Value


class Run(msgspec.Struct, frozen=True):
    """The violation of one run, as fractions: of both classes, services, batch."""

    policy: str
    load: float
    seed: int
    violation: float
    service: float
    batch: float


class Summary(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The content of docs/results/NAME.json."""

    name: str
    command: str
    version: str
    commit: str
    sources: str  # digest of the sources that can change a figure; empty where it was not recorded
    seeds: int
    loads: tuple[float, ...]
    ours: str
    rows: tuple[Row, ...]
    paired: tuple[Difference, ...] = ()
    sustained: tuple[SustainedLoad, ...] = ()
    used: tuple[UsedAtObjective, ...] = ()
    runs: tuple[Run, ...] = ()  # absent in summaries of earlier versions
    remark: str = ""  # what a reader must know about how it was made


def summary_path(root: Path, name: str) -> Path:
    """Where the summary of an experiment is kept."""
    return root / FOLDER / f"{name}.json"


def read_summary(root: Path, name: str) -> Summary:
    """The stored summary of an experiment.

    Raises:
        InvalidInput: there is none, or it cannot be read.
    """
    path = summary_path(root, name)
    try:
        return msgspec.json.decode(path.read_bytes(), type=Summary)
    except (OSError, msgspec.MsgspecError) as error:
        hint = f"make it with python -m bench.evidence --only {name}"
        raise InvalidInput(str(path), str(error).partition("\n")[0], "a summary of an experiment", hint) from error


def write_summary(root: Path, summary: Summary) -> None:
    """Store a summary; a complete file or none."""
    write_json(summary_path(root, summary.name), summary)


def summarise(
    name: str,
    command: str,
    found: dict[str, Any],
    experiment: dict[str, Any],
    commit: str,
    records: Sequence[Mapping[str, Any]] = (),
) -> Summary:
    """The summary of a comparison: `found` is its results.json, `experiment` its experiment.json, `records` are the
    rows of its results.parquet.
    """
    rows = [
        Row(
            row["policy"],
            row["load"],
            {
                metric: Value(_short(row[metric]), _short(row[f"{metric}_ci"]))
                for metric in row
                if f"{metric}_ci" in row and row[metric] is not None
            },
            {which: Value(_short(entry["mean"]), _short(entry["ci"])) for which, entry in row["by_class"].items()},
        )
        for row in found["rows"]
    ]
    paired = [
        Difference(pair["policy"], pair["load"], Value(_short(pair["difference"]), _short(pair["difference_ci"])))
        for pair in found["paired"]
        if pair["metric"] == "violation" and pair["load"] is not None and pair["against"] == found["ours"]
    ]
    beyond = {
        pair["policy"]: Value(_short(pair["difference"]), _short(pair["difference_ci"]))
        for pair in found["paired"]
        if pair["metric"] == SUSTAINED_LOAD.name and pair["against"] == found["ours"]
    }
    sustained = [
        SustainedLoad(
            entry["policy"],
            Value(_short(entry["sustained_load"]), _short(entry["sustained_load_ci"])),
            entry["bound"],
            _short(entry["of_means"]),
            entry["of_means_bound"],
            beyond.get(entry["policy"], Value(None)),
        )
        for entry in found["sustained_load"]
    ]
    return Summary(
        name,
        command,
        experiment["provenance"]["cotenant"],
        commit,
        experiment["provenance"]["sources"],
        found["seeds"],
        tuple(found["loads"]),
        found["ours"],
        tuple(rows),
        tuple(paired),
        tuple(sustained),
        tuple(
            UsedAtObjective(
                entry["policy"],
                Value(_short(entry["used"]), _short(entry["used_ci"])),
                entry["bound"],
                Value(_short(entry["ratio"]), _short(entry["ratio_ci"])),
            )
            for entry in found.get("used_at_objective", ())
        ),
        tuple(
            Run(
                record["policy"],
                record["load"],
                record["seed"],
                *(float(f"{record[kind]:.{_DIGITS}g}") for kind in _VIOLATIONS),
            )
            for record in records
            if all(record.get(kind) is not None for kind in _VIOLATIONS)
        ),
    )


_VIOLATIONS = ("violation", "violation_service", "violation_batch")


def _short(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.{_DIGITS}g}")


def commit_of(root: Path) -> str:
    """The commit that is checked out, with a `+` where sources differ from it.

    Raises:
        Permanent: `root` is no git checkout.
    """
    try:
        head = _git(root, "rev-parse", "--short=10", "HEAD")
        return head + ("+" if _git(root, "status", "--porcelain", "--", "packages/*/src") else "")
    except (OSError, subprocess.CalledProcessError) as error:
        raise Permanent(f"a summary names its commit, and {root} is no git checkout: {error}") from error


def _git(root: Path, *words: str) -> str:
    done = subprocess.run(["git", "-C", str(root), *words], check=True, capture_output=True, text=True)
    return done.stdout.strip()

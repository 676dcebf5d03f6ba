"""The page of versions that were tried: docs/matrix.json, which tests write (tests/recording.py), as tables.

    python -m tools.matrix > docs/matrix.md

A cell is what a recorded run says, or "not run". Nothing else is in a cell.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

RECORDS = Path(__file__).parent.parent / "docs" / "matrix.json"
KUBERNETES = tuple(f"1.{minor}" for minor in range(30, 39))
ARCHITECTURES = ("x86_64", "aarch64")
CGROUPS = ("v1", "v1 and v2", "v2")
RUNTIMES = ("containerd", "cri-o", "docker")
OF_KUBERNETES = ("kube-apiserver", "kube-scheduler", "kubelet")
OTHERS = ("nats-server", "prometheus")
NOT_RUN = "not run"
ANY = "any"

_HEAD = """# What ran where

Written by `make docs` from `docs/matrix.json`, which tests against real programs add to:
`COTENANT_RECORD=docs/matrix.json python -m pytest tests/kube tests/node tests/fleet`. A cell has the cases that passed
and failed, the exact version, and the day of the last run. What nobody ran says so; it may work.
"""


@dataclass(frozen=True, slots=True, order=True)
class Run:
    """One part on one machine, as it was last tried."""

    part: str
    version: str
    kernel: str
    cgroup: str
    architecture: str
    passed: int
    failed: int
    date: str

    @property
    def place(self) -> tuple[str, ...]:
        """What a later run replaces."""
        return (self.part, self.version, self.kernel, self.cgroup, self.architecture)


def page(runs: Sequence[Run]) -> str:
    """The whole page."""
    return "\n".join(
        (
            _HEAD,
            "## Kubernetes\n",
            _table("version", KUBERNETES, OF_KUBERNETES, runs, lambda run: _minor(run.version)),
            "## Kernels, hierarchies of groups, runtimes\n",
            _table("kernel, cgroup", _machines(runs), ("kernel", *RUNTIMES), runs, _machine),
            "## Beside them\n",
            _table("version", (ANY,), OTHERS, runs, lambda run: ANY),
        )
    )


def _machine(run: Run) -> str:
    return f"{_minor(run.kernel)}, {run.cgroup}"


def _machines(runs: Iterable[Run]) -> tuple[str, ...]:
    """Kernels of the runs, with each hierarchy."""
    kernels = sorted({_minor(run.kernel) for run in runs}, key=lambda text: [int(part) for part in text.split(".")])
    return tuple(f"{kernel}, {cgroup}" for kernel in kernels for cgroup in CGROUPS)


def _cell(runs: Iterable[Run]) -> str:
    """What the runs say; the last for each version."""
    last: dict[str, Run] = {}
    for run in sorted(runs, key=lambda entry: entry.date):
        last[run.version] = run
    told = [
        f"{run.passed} passed{f', {run.failed} failed' if run.failed else ''} ({run.version}, {run.date})"
        for run in last.values()
    ]
    return "; ".join(told) or NOT_RUN


def _table(
    title: str, rows: Sequence[str], parts: Sequence[str], runs: Sequence[Run], row_of: Callable[[Run], str]
) -> str:
    """A column for each part and architecture."""
    columns = [(part, architecture) for part in parts for architecture in ARCHITECTURES]
    lines = [_line((title, *(", ".join(column) for column in columns))), _line(["---"] * (len(columns) + 1))]
    for row in rows:
        here = [run for run in runs if row_of(run) == row]
        cells = [_cell(run for run in here if (run.part, run.architecture) == column) for column in columns]
        lines.append(_line((row, *cells)))
    return "\n".join(lines) + "\n"


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _minor(version: str) -> str:
    """The first two numbers of a version."""
    return ".".join(version.split("-")[0].split(".")[:2])


def merged(text: str, runs: Iterable[Run]) -> str:
    """The file's text with these runs, each in the place of an earlier one of its kind."""
    known = {run.place: run for run in (Run(**entry) for entry in json.loads(text))}
    known |= {run.place: run for run in runs}
    lines = [json.dumps(asdict(run)) for run in sorted(known.values())]
    return "[\n" + ",\n".join(lines) + "\n]\n"


def read(file: Path = RECORDS) -> tuple[Run, ...]:
    """The recorded runs."""
    return tuple(Run(**entry) for entry in json.loads(file.read_text()))


if __name__ == "__main__":
    print(page(read()), end="")

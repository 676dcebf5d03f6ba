"""The page of versions that were tried: docs/matrix.json, which tests write (tests/recording.py), as tables.

    python -m tools.matrix > docs/matrix.md

A cell is what a recorded run says, or "not run". Nothing else is in a cell.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from tests.recording import Run

RECORDS = Path(__file__).parent.parent / "docs" / "matrix.json"
KUBERNETES = tuple(f"1.{minor}" for minor in range(30, 39))
ARCHITECTURES = ("x86_64", "aarch64")
CGROUPS = ("v1", "v1 and v2", "v2")
RUNTIMES = ("containerd", "cri-o", "docker")
OF_KUBERNETES = ("kube-apiserver", "kube-scheduler", "kubelet")
OTHERS = ("nats-server", "prometheus")
NOT_RUN = "not run"

_HEAD = """# What ran where

Written by `make docs` from `docs/matrix.json`, which tests against real programs add to:
`COTENANT_RECORD=docs/matrix.json python -m pytest tests/kube tests/node tests/fleet`. A cell has the cases that passed
and failed, the exact version, and the day of the last run. What nobody ran says so; it may work.
"""


def page(runs: Sequence[Run]) -> str:
    """The whole page."""
    return "\n".join(
        (
            _HEAD,
            "## Kubernetes\n",
            _table(
                ("version", *(f"{part}, {arch}" for part in OF_KUBERNETES for arch in ARCHITECTURES)),
                KUBERNETES,
                [
                    lambda row, part=part, arch=arch: _cell(
                        run
                        for run in runs
                        if (run.part, run.architecture) == (part, arch) and _minor(run.version) == row
                    )
                    for part in OF_KUBERNETES
                    for arch in ARCHITECTURES
                ],
            ),
            "## Kernels, hierarchies of groups, runtimes\n",
            _table(
                ("kernel, cgroup", *(f"{part}, {arch}" for part in ("kernel", *RUNTIMES) for arch in ARCHITECTURES)),
                _machines(runs),
                [
                    lambda row, part=part, arch=arch: _cell(
                        run
                        for run in runs
                        if (run.part, run.architecture) == (part, arch) and f"{_minor(run.kernel)}, {run.cgroup}" == row
                    )
                    for part in ("kernel", *RUNTIMES)
                    for arch in ARCHITECTURES
                ],
            ),
            "## Beside them\n",
            _table(
                ("program", *ARCHITECTURES),
                OTHERS,
                [
                    lambda row, arch=arch: _cell(run for run in runs if (run.part, run.architecture) == (row, arch))
                    for arch in ARCHITECTURES
                ],
            ),
        )
    )


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


def _table(head: Sequence[str], rows: Sequence[str], columns: Sequence[Callable[[str], str]]) -> str:
    lines = [_line(head), _line(["---"] * len(head))]
    lines += [_line([row, *(column(row) for column in columns)]) for row in rows]
    return "\n".join(lines) + "\n"


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _minor(version: str) -> str:
    """The first two numbers of a version."""
    return ".".join(version.split("-")[0].split(".")[:2])


def read(file: Path = RECORDS) -> tuple[Run, ...]:
    """The recorded runs."""
    return tuple(Run(**entry) for entry in json.loads(file.read_text()))


if __name__ == "__main__":
    print(page(read()), end="")

"""What ran against real programs, kept in a file from which the page of versions is made (tools/matrix.py).

`COTENANT_RECORD=docs/matrix.json pytest ...` adds the run: for each real part that cases met, its version, this
machine, and how many passed and failed. A case that was skipped did not meet it. Cases in emulated machines
(tests/node/guest) have a kernel of their own and are not counted.
"""

from __future__ import annotations

import importlib
import os
import platform
import re
import shutil
import subprocess
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tools.matrix import Run, merged

_VERSION = re.compile(r"\d+\.\d+(?:\.\d+)?(?:[-~+][0-9A-Za-z.~+-]+)?")


@dataclass(frozen=True, slots=True)
class Part:
    """A real program or kernel, the cases that meet it, and how its version is asked for."""

    name: str
    cases: re.Pattern[str]
    version: Callable[[], str]


def _program(*command: str) -> Callable[[], str]:
    def ask() -> str:
        said = subprocess.run(command, capture_output=True, text=True, check=True, timeout=30).stdout
        found = _VERSION.search(said)
        return found[0] if found is not None else ""

    return ask


def _from(variable: str, usual: str) -> str:
    return os.environ.get(variable, "") or usual


def _in(variable: str, program: str) -> str:
    """A program in the folder that a variable names, as the cases look for it; else on the path."""
    return shutil.which(program, path=os.environ.get(variable, "")) or program


def kernel() -> str:
    """The release of this machine's kernel, without what its builder added."""
    return platform.release().split("-")[0]


def _api_server() -> str:
    conftest = importlib.import_module("tests.kube.conftest")
    found = conftest.Kube(Path(conftest.REAL), is_local=False).get("/version")
    return str(found["gitVersion"]).removeprefix("v")


PARTS = (
    Part("kube-apiserver", re.compile(r"^tests/kube/.*\[(?:.*-)?real[-\]]"), _api_server),
    Part(
        "kube-scheduler",
        re.compile(r"^tests/kube/test_upstream_scores\.py.*\[real-"),
        _program(_from("COTENANT_TEST_KUBE_SCHEDULER", "kube-scheduler"), "--version"),
    ),
    Part(
        "kubelet",
        re.compile(r"^tests/node/kubelet/test_real_(?:kubelet|hook)\.py"),
        _program(_from("COTENANT_TEST_KUBELET", "kubelet"), "--version"),
    ),
    Part(
        "containerd",
        re.compile(
            r"^tests/node/(?:test_cri\.py|test_nri\.py.*\[containerd\]|kubelet/test_real_hook\.py.*\[containerd\])"
        ),
        _program(_in("COTENANT_TEST_CONTAINERD", "containerd"), "--version"),
    ),
    Part(
        "cri-o",
        re.compile(r"^tests/node/(?:test_nri|kubelet/test_real_hook)\.py.*\[cri-o\]"),
        _program(_in("COTENANT_TEST_CRIO", "crio"), "--version"),
    ),
    Part("docker", re.compile(r"^tests/node/test_fleet_docker\.py"), _program("dockerd", "--version")),
    Part("nats-server", re.compile(r"^tests/fleet/test_nats\.py"), _program("nats-server", "--version")),
    Part("kernel", re.compile(r"^tests/node/(?!guest/)"), kernel),
)


class Recorder:
    """Counts the cases of one session."""

    def __init__(self, file: Path, parts: Iterable[Part] = PARTS) -> None:
        self._file, self._parts = file, tuple(parts)
        self._outcomes: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note the outcome of a phase of a case."""
        if report.failed:
            self._outcomes[report.nodeid] = "failed"
        elif report.when == "call" and report.passed:
            self._outcomes.setdefault(report.nodeid, "passed")

    def pytest_sessionfinish(self) -> None:
        """Write what was met."""
        found = [run for part in self._parts if (run := self._run(part)) is not None]
        if found:
            self._file.write_text(merged(self._file.read_text() if self._file.exists() else "[]", found))

    def _run(self, part: Part) -> Run | None:
        outcomes = [outcome for case, outcome in self._outcomes.items() if part.cases.search(case)]
        if not outcomes:
            return None
        try:
            version = part.version()
        except (OSError, subprocess.SubprocessError):
            version = ""
        if not version:
            return None
        return Run(
            part.name,
            version,
            kernel(),
            cgroup(),
            platform.machine(),
            outcomes.count("passed"),
            outcomes.count("failed"),
            datetime.now(UTC).date().isoformat(),
        )


def cgroup(root: Path = Path("/sys/fs/cgroup")) -> str:
    """Which hierarchy this machine has."""
    if (root / "cgroup.controllers").exists():
        return "v2"
    return "v1 and v2" if (root / "unified" / "cgroup.procs").exists() else "v1"

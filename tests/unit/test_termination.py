"""A run of pytest that is told to end stops what its fixtures started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.fakes.waiting import eventually, patience

ROOT = Path(__file__).parents[2]
CASE = """
import os, subprocess, sys
import pytest

@pytest.fixture
def server():
    with subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"], start_new_session=True) as process:
        yield process
        process.kill()

def test_it(server):
    with open("pid.part", "w") as file:
        file.write(str(server.pid))
    os.rename("pid.part", "pid")
    server.wait()
"""


@pytest.mark.slow
@pytest.mark.parametrize("workers", [(), ("-n", "1")], ids=["alone", "with a worker"])
def test_what_a_case_started_ends_with_a_run_that_is_told_to_end(tmp_path: Path, workers: tuple[str, ...]) -> None:
    (tmp_path / "test_case.py").write_text(CASE)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.termination", "-p", "no:cacheprovider", *workers]
    run = subprocess.Popen(
        [*command, "test_case.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    server: int | None = None
    try:
        eventually("the case runs", (tmp_path / "pid").exists)
        server = int((tmp_path / "pid").read_text())
        os.killpg(run.pid, signal.SIGTERM)  # as timeout(1) does
        said, _ = run.communicate(timeout=patience(30.0))
        assert run.returncode != 0
        assert "KeyboardInterrupt" in said
        eventually("its server is gone", lambda: not Path(f"/proc/{server}").exists())
    finally:
        if run.poll() is None:
            os.killpg(run.pid, signal.SIGKILL)
            run.communicate()
        if server is not None and Path(f"/proc/{server}").exists():
            os.kill(server, signal.SIGKILL)

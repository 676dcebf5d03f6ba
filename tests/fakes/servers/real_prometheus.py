"""A real Prometheus with the history of a simulated cluster, for a case that is skipped where there is none."""

from __future__ import annotations

import shutil
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.fakes.servers.ports import free_port
from tests.fakes.servers.simulated_exporter import SimulatedCluster
from tests.fakes.waiting import eventually


@contextmanager
def filled(cluster: SimulatedCluster, folder: Path) -> Iterator[str]:
    """A Prometheus with the cluster's history; its URL."""
    program, tool = shutil.which("prometheus"), shutil.which("promtool")
    if program is None or tool is None:
        pytest.skip("no prometheus and promtool: Debian's package prometheus")
    text = folder / "history.txt"
    text.write_text(cluster.text())
    command = [tool, "tsdb", "create-blocks-from", "openmetrics", str(text), str(folder / "data")]
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr
    configuration = folder / "prometheus.yml"
    configuration.write_text("scrape_configs: []\n")
    port = free_port()
    with (folder / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(
            [program, f"--config.file={configuration}", f"--storage.tsdb.path={folder / 'data'}",
             "--storage.tsdb.retention.time=30d", f"--web.listen-address=127.0.0.1:{port}"],
            stdout=log, stderr=log,
        )  # fmt: skip
    try:
        url = f"http://127.0.0.1:{port}"
        eventually("prometheus is ready", lambda: ready(url), tolerated=(OSError,))
        yield url
    finally:
        process.kill()
        process.wait()


def ready(url: str) -> bool:
    with urllib.request.urlopen(f"{url}/-/ready", timeout=5) as answer:
        return bool(answer.status == 200)

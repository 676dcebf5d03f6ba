"""A terminal into a container of a real Docker daemon, by the command in a terminal of its own."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest
from tests.fakes.servers.docker_fleet import Docker, Fleet
from tests.fakes.waiting import Bound, eventually, patience

from cotenant.drivers.cri.exec import words
from cotenant.drivers.docker.client import DockerClient, NotThere
from cotenant.drivers.docker.exec import open_exec

pytestmark = pytest.mark.slow
CONFIGURATION = "functions: [containers, figures, limits, logs, terminals]\n"
GROUP = """services:
  web: {image: 'localhost/cotenant-test:latest', network_mode: host, command: sleep 1000, stop_grace_period: 0s}
"""
SHELL = ("/busybox", "sh")


class Screen:
    """A command in a terminal of its own."""

    def __init__(self, command: list[str], columns: int = 80, rows: int = 24) -> None:
        self._side, inner = pty.openpty()
        self.text = b""
        self.size(columns, rows)
        self.process = subprocess.Popen(
            command, stdin=inner, stdout=inner, stderr=inner, start_new_session=True, close_fds=True
        )
        os.close(inner)

    def size(self, columns: int, rows: int) -> None:
        fcntl.ioctl(self._side, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def type(self, text: str) -> None:
        os.write(self._side, text.encode())

    def until(self, wanted: str) -> None:
        """Read until it is shown."""
        bound = Bound(30.0)
        while wanted.encode() not in self.text:
            assert not bound.reached(), self.text.decode(errors="replace")
            if select.select([self._side], [], [], 0.1)[0]:
                try:
                    self.text += os.read(self._side, 65536)
                except OSError:  # the other side is closed
                    assert wanted.encode() in self.text, self.text.decode(errors="replace")

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self._side)


@pytest.fixture
def guid(docker: Docker, fleet: Fleet, tmp_path: Path) -> str:
    (tmp_path / "agent.yml").write_text(CONFIGURATION)
    assert fleet.run("configure", "edge", "docker", str(tmp_path / "agent.yml")).returncode == 0
    (tmp_path / "one.yml").write_text(GROUP)
    return str(json.loads(fleet.run("up", str(tmp_path / "one.yml"), "--json").stdout)["guids"]["web"])


def test_a_shell_with_its_window_and_its_exit_code_is_recorded(fleet: Fleet, guid: str, tmp_path: Path) -> None:
    screen = Screen(command(tmp_path, guid), 91, 33)
    try:
        screen.until("/ # ")
        screen.type("/busybox stty size\r")
        screen.until("33 91")
        screen.size(50, 20)
        os.kill(screen.process.pid, signal.SIGWINCH)
        screen.type("while [ \"$(/busybox stty size)\" != '20 50' ]; do /busybox sleep 0.1; done; echo re''sized\r")
        screen.until("resized")
        screen.type("read -s secret; echo got ${#secret}; exit 7\r")
        screen.type("hunter2\r")
        screen.until("got 7")
        assert screen.process.wait(patience(60)) == 7
    finally:
        screen.close()
    folder = tmp_path / "state" / "terminals"
    journal = folder / "journal.jsonl"  # the agent's, which is another process
    eventually("its end is recorded", lambda: len(journal.read_text().splitlines()) == 2)
    opened, ended = (json.loads(line) for line in journal.read_text().splitlines())
    assert (opened["what"], opened["operator"], opened["guid"], opened["command"]) == (
        "opened",
        "local",
        guid,
        list(SHELL),
    )
    assert (ended["session"], ended["exitCode"], ended["why"]) == (opened["session"], 7, "the command has ended")
    head, *events = (folder / f"{opened['session']}.cast").read_text().splitlines()
    assert (json.loads(head)["version"], json.loads(head)["width"]) == (2, 91)
    shown = "".join(event[2] for event in map(json.loads, events) if event[1] == "o")
    assert "33 91" in shown
    assert "50x20" in [event[2] for event in map(json.loads, events) if event[1] == "r"]


def test_what_was_left_running_is_hung_up(docker: Docker, fleet: Fleet, guid: str, tmp_path: Path) -> None:
    def running() -> int:
        """By the kernel: podman's `top` is empty where the image has no ps. Its first process reaps nobody, so what
        was killed stays as a zombie, without words.
        """
        inside = namespace(docker.get(f"/containers/{guid}/json")["State"]["Pid"])
        there = [int(folder.name) for folder in Path("/proc").iterdir() if folder.name.isdecimal()]
        return sum(bool(namespace(process) == inside and words(process)) for process in there)

    screen = Screen(command(tmp_path, guid))
    screen.until("/ # ")
    screen.type("trap '' HUP; echo re''ady; while :; do /busybox sleep 1; done\r")
    screen.until("ready")
    assert running() > 1
    fleet.kill(signal.SIGTERM)  # the agent ends, and with it its terminals
    eventually("nothing but the container's own process runs", lambda: running() == 1)
    screen.close()
    fleet.start()


def test_what_docker_refuses_is_said(docker: Docker, fleet: Fleet, guid: str) -> None:
    async def play() -> None:
        client = DockerClient(docker.socket)
        try:
            with pytest.raises(NotThere):
                await open_exec(client, "nobody", SHELL, 80, 24)
            line = await open_exec(client, guid, ("no-such-program",), 80, 24)
            said = b""
            while part := await line.read(4096):
                said += part
            assert b"no-such-program" in said
            assert await line.exit_code() not in (0, None)
            await line.close()
        finally:
            await client.close()

    asyncio.run(play())


def namespace(process: int) -> str:
    """Of its process identifiers; empty where it has ended."""
    try:
        return os.readlink(f"/proc/{process}/ns/pid")
    except OSError:
        return ""


def command(folder: Path, guid: str) -> list[str]:
    words = ["fleet", "exec", guid, "--state-dir", str(folder / "state"), "--", *SHELL]
    return [sys.executable, "-m", "cotenant", *words]

"""Child processes of a benchmark: ended with the block, and a local API server among them."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter

import aiohttp

from bench.kube.load import Server, session


@contextmanager
def child(command: list[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process with its output in a file."""
    with log.open("wb") as out, subprocess.Popen(command, stdout=out, stderr=out) as process:
        try:
            yield process
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()


def until(holds: Callable[[], bool], within_s: float, log: Path) -> None:
    """Wait for something of a process; SystemExit with the end of its log where it does not come."""
    end = perf_counter() + within_s
    while not holds():
        if perf_counter() > end:
            raise SystemExit(f"bench: nothing ready after {within_s:g} s; {log}:\n{log.read_text()[-2000:]}")
        time.sleep(0.05)


@contextmanager
def local_server(folder: Path) -> Iterator[tuple[Path, int]]:
    """An API server in memory without controllers and nodes: its kubeconfig and pid."""
    command = [sys.executable, "-m", "cotenant", "up", "--dir", str(folder / "up"), "--ephemeral", "--bare"]
    with child([*command, "--port", "0"], folder / "up.log") as server:
        kubeconfig = folder / "up" / "kubeconfig"
        until(lambda: kubeconfig.exists() and is_ready(Server.of(kubeconfig)), 300.0, folder / "up.log")
        yield kubeconfig, server.pid


def is_ready(server: Server) -> bool:
    """Whether it answers that it is."""

    async def ask() -> bool:
        try:
            async with session(server) as http, http.get("/readyz") as answer:
                return answer.status == 200
        except aiohttp.ClientError:
            return False

    return asyncio.run(ask())

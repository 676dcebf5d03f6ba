"""The call that a creation waits for, sent to the hook alone over a socket.

The sender has real-time priority, so that its own waiting is not counted.
"""

from __future__ import annotations

import os
import socket
import struct
import time
from pathlib import Path
from typing import Any

from bench.hook import BEST_EFFORT, PODS, HookProcess, uid_of
from cotenant.drivers.nri.messages import PLUGIN_SERVICE, messages


def alone(folder: Path, calls: int) -> list[float]:
    """What each call took, ms."""
    path = folder / "alone.sock"
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen()
        (folder / "alone").mkdir()
        hook = HookProcess(folder / "alone", path)
        hook.start(wait=False)
        try:
            connection = listening.accept()[0]
            _receive(connection)  # the registration
            _send(connection, 2, 1, 2, messages()["Response"]())
            container = {"id": "0" * 64, "pod_sandbox_id": "s", "name": "work", "env": ["PATH=/bin"] * 20}
            pod = {
                "id": "s",
                "uid": uid_of(1),
                "namespace": "shop",
                "name": "batch-1",
                "labels": BEST_EFFORT,
                "linux": {"cgroup_parent": f"/{PODS}/pod{uid_of(1)}"},
            }
            request = messages()["CreateContainerRequest"](pod=pod, container=container).SerializeToString()
            call = messages()["Request"](service=PLUGIN_SERVICE, method="CreateContainer", payload=request)
            os.sched_setscheduler(0, os.SCHED_RR | os.SCHED_RESET_ON_FORK, os.sched_param(1))
            taken = []
            for number in range(calls):
                began = time.perf_counter()
                _send(connection, 1, 2 * number + 1, 1, call)
                _receive(connection)
                taken.append(1000 * (time.perf_counter() - began))
                time.sleep(0.05)  # as creations come, not while the process is still awake from the last
            connection.close()
        finally:
            os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
            hook.end()
    return taken


def _send(connection: socket.socket, number: int, stream: int, type_: int, message: Any) -> None:
    body = message.SerializeToString()
    connection.sendall(struct.pack(">IIIIBB", number, len(body) + 10, len(body), stream, type_, 0) + body)


def _receive(connection: socket.socket) -> None:
    _, length = struct.unpack(">II", _exactly(connection, 8))
    _exactly(connection, length)


def _exactly(connection: socket.socket, count: int) -> bytes:
    found = b""
    while len(found) < count:
        piece = connection.recv(count - len(found))
        if not piece:
            raise SystemExit("the hook closed the connection")
        found += piece
    return found

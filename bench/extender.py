"""Latency of an extender as kube-scheduler sees it, and its cost: one caller over loopback, keep-alive, filter then
prioritize.

The extender is a separate process, as installed; the caller sends requests in the protocol's wire form (compact JSON, a
pod of about 1.5 KB, names rotated and a new pod for each cycle, as with kube-scheduler's sampling). Every node has
reported, and one reports again before each cycle, as 5,000 nodes every 30 s do at 170 pods a second. `busy` of the
nodes lack room. CPU is the server process's on-CPU time per call (user and system, including HTTP), the median over the
calls of each verb; `cpu_ms_call` is the mean of the two. Times are the caller's, in milliseconds. Rows: names mode with
few and with many names, all passing and half refused; full-node mode with few nodes of about 2 KB.
Goals: 0.3 ms CPU per call at 500 names, p99 of 5 ms at 5,000.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from bench.machine import show

GIB = 2**30


class Caller:
    """One keep-alive connection with Nagle's algorithm off, as Go's client has it."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._stream = self._socket.makefile("rb")

    def post(self, path: str, body: bytes) -> tuple[int, bytes]:
        head = (
            f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        self._socket.sendall(head.encode() + body)
        status = int(self._stream.readline().split()[1])
        length = 0
        while (line := self._stream.readline()) != b"\r\n":
            if line.lower().startswith(b"content-length:"):
                length = int(line.split(b":")[1])
        return status, self._stream.read(length)

    def close(self) -> None:
        self._stream.close()
        self._socket.close()


@contextmanager
def running(*arguments: str) -> Iterator[tuple[int, int]]:
    """Start an extender; yields its port and process."""
    command = [
        sys.executable,
        "-m",
        "cotenant",
        "extender",
        "--listen",
        "127.0.0.1:0",
        "--log-level",
        "error",
        *arguments,
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            if not line.startswith("listening on "):
                raise RuntimeError("the extender did not start")
            yield int(line.rsplit(":", 1)[1]), process.pid
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait()


def cpu_ns(pid: int) -> int:
    """On-CPU nanoseconds of all threads of a process."""
    tasks = Path(f"/proc/{pid}/task")
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks.iterdir())


def a_pod(number: int, cpu: str) -> dict[str, Any]:
    managed: dict[str, Any] = {f"f:field-{i}": {"f:nested": {}} for i in range(25)}
    return {
        "metadata": {
            "name": f"web-{number}",
            "namespace": "default",
            "uid": f"00000000-0000-0000-0000-{number:012d}",
            "labels": {"app": "web"},
            "managedFields": [{"manager": "kubectl", "operation": "Update", "apiVersion": "v1", "fieldsV1": managed}],
        },
        "spec": {
            "containers": [
                {"name": "main", "image": "main:1", "resources": {"requests": {"cpu": cpu, "memory": "500Mi"}}}
            ],
            "schedulerName": "default-scheduler",
            "priority": 0,
        },
        "status": {"phase": "Pending", "qosClass": "Burstable"},
    }


def a_node(name: str) -> dict[str, Any]:
    amounts = {"cpu": "8", "memory": "32Gi", "pods": "110"}
    images = [{"names": [f"image-{i}@sha256:{'0' * 64}"], "sizeBytes": 10**8} for i in range(12)]
    return {
        "metadata": {"name": name, "resourceVersion": "5", "labels": {"kubernetes.io/hostname": name}},
        "spec": {},
        "status": {"allocatable": amounts, "capacity": amounts, "images": images},
    }


def report(caller: Caller, name: str, cpu_used: float) -> None:
    body = {
        "node_name": name,
        "cpu_allocatable": 8.0,
        "cpu_used": cpu_used,
        "memory_allocatable": 32.0 * GIB,
        "memory_used": 8.0 * GIB,
        "tail_latency_p99": 40.0,
        "timestamp": time.time(),
    }
    status, answer = caller.post("/metrics/report", json.dumps(body).encode())
    if status != 204:
        raise RuntimeError(f"{status} {answer.decode()}")


def cycle(number: int, names: list[str], full: bool) -> bytes:
    """The filter request of one cycle: the names from another start, as in kube-scheduler's round robin."""
    start = (number * 37) % len(names)
    rotated = names[start:] + names[:start]
    args = {
        "Pod": a_pod(number, "2"),
        "Nodes": {"metadata": {}, "items": [a_node(name) for name in rotated]} if full else None,
        "NodeNames": None if full else rotated,
    }
    return json.dumps(args, separators=(",", ":")).encode()


def measure(port: int, pid: int, nodes: int, busy: float, full: bool, cycles: int) -> dict[str, Any]:
    caller = Caller(port)
    names = [f"node-{i:05d}" for i in range(nodes)]
    for i, name in enumerate(names):
        report(caller, name, 7.5 if i < busy * nodes else 2.0)
    bodies = [cycle(number, names, full) for number in range(cycles + 20)]
    took: dict[str, list[float]] = {"filter": [], "prioritize": []}
    cpu: dict[str, list[float]] = {"filter": [], "prioritize": []}
    for number, body in enumerate(bodies):
        passing = b""
        again = number % nodes
        report(caller, names[again], 7.5 if again < busy * nodes else 2.0)
        for verb in took:
            if verb == "prioritize":
                left = json.loads(passing)
                args = json.loads(body) | {"Nodes": left["Nodes"], "NodeNames": left["NodeNames"]}
                body = json.dumps(args, separators=(",", ":")).encode()
            before, begun = cpu_ns(pid), time.perf_counter()
            status, answer = caller.post(f"/{verb}", body)
            ended = time.perf_counter()
            if status != 200:
                raise RuntimeError(f"{verb}: {status}")
            passing = answer
            if number >= 20:  # warm by then
                took[verb].append((ended - begun) * 1000.0)
                cpu[verb].append((cpu_ns(pid) - before) / 1e6)
    caller.close()
    both = took["filter"] + took["prioritize"]
    return {
        "mode": "full nodes" if full else "names",
        "nodes": nodes,
        "busy": busy,
        "calls": len(both),
        "cpu_ms_call": round((median(cpu["filter"]) + median(cpu["prioritize"])) / 2, 3),
        "cpu_ms_filter": round(median(cpu["filter"]), 3),
        "cpu_ms_prioritize": round(median(cpu["prioritize"]), 3),
        "p50_ms": round(float(np.percentile(both, 50)), 2),
        "p99_ms": round(float(np.percentile(both, 99)), 2),
        "p99_ms_filter": round(float(np.percentile(took["filter"], 99)), 2),
        "kb_request": round(len(bodies[0]) / 1000, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench.extender", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cycles", type=int, default=1000, help="filter and prioritize pairs with few names")
    parser.add_argument("--few", type=int, default=500, help="names, and nodes in full-node mode")
    parser.add_argument("--many", type=int, default=5_000, help="names")
    parser.add_argument("--json", action="store_true", help="one JSON object on one line")
    arguments = parser.parse_args()
    cycles = arguments.cycles
    cases = [
        (arguments.few, 0.0, False, cycles),
        (arguments.few, 0.5, False, cycles),
        (arguments.many, 0.0, False, max(1, cycles // 4)),
        (arguments.many, 0.5, False, max(1, cycles // 4)),
        (arguments.few, 0.0, True, max(1, cycles // 10)),
    ]
    rows = []
    for nodes, busy, full, count in cases:
        with running() as (port, pid):
            rows.append(measure(port, pid, nodes, busy, full, count))
    show(rows, arguments.json, [f"caller and server share {os.cpu_count()} CPUs"])


if __name__ == "__main__":
    main()

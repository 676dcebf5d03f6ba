"""Redis beside batch under each scheduler of one kernel, at low and at high load: run inside a guest, one JSON object
on standard output.

What a kernel's tick, preemption model and scheduler bring shows in the delay of single requests while the CPU is wanted
by others, and in what a request costs while there are many. One CPU; batch is one task in user mode and one that is in
the kernel for long (it reads zeroes by 32 MiB). Low load: a request every `PERIOD_S`, its latency counted from when it
was due. High load: redis-benchmark's connections, for `HIGH_S`; requests are Redis's own count.
Limits: client and server share the CPU and the group of the service; one run an arm, so the clock must be the guest's
instructions for figures that repeat.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from cotenant.drivers.ebpf.zone_scheduler import ZoneSchedulers
from cotenant.model.errors import Permanent
from cotenant.model.zones.setting import USUAL_MODES
from cotenant.model.zones.table import ZoneClass, ZoneRow
from cotenant_lab.experiments.site.task_group import TaskGroup, end

TREE = Path("/sys/fs/cgroup")
SOCKET = "/run/redis.sock"
PERIOD_S = 0.005
SETTLE, SAMPLES = 20, 200
HIGH_SETTLE_S, HIGH_S = 0.2, 0.6
CONNECTIONS = 8
ZEROES = 32 << 20
ALONE, FAIR, WEIGHTS = "alone", "fair", "weights"
_GET = b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n"
_STATS = b"*2\r\n$4\r\nINFO\r\n$5\r\nstats\r\n"


def measure() -> dict[str, dict[str, object]]:
    """Every arm by name: `alone` without batch, `fair`, `weights` (`cpu.idle` for batch), and our schedulers."""
    cpu = max(os.sched_getaffinity(0))
    (TREE / "cgroup.subtree_control").write_text("+cpu")
    service, batch = TaskGroup(TREE / "service", cpu), TaskGroup(TREE / "batch", cpu)
    found: dict[str, dict[str, object]] = {}
    with _redis(service):
        found[ALONE] = _arm(service, batch)
        with _batch(batch):
            found[FAIR] = _arm(service, batch)
            batch.set("cpu.idle", "1")
            try:
                found[WEIGHTS] = _arm(service, batch)
            finally:
                batch.set("cpu.idle", "0")
            with ZoneSchedulers("kernels", USUAL_MODES) as zone:
                zone.maps.put(service.id, ZoneRow(ZoneClass.SERVICE))
                zone.maps.put(batch.id, ZoneRow(ZoneClass.BATCH))
                for mode in USUAL_MODES:
                    zone.switch(mode)
                    found[mode.value] = _arm(service, batch)
                    if not zone.verify():
                        raise Permanent(f"{mode.shown} ended during the measurement: {zone.maps.last_exit()}")
                zone.remove()
    return found


def _arm(service: TaskGroup, batch: TaskGroup) -> dict[str, object]:
    used, start_s = batch.used_us(), time.perf_counter()
    latencies = _low(service)
    batch_cpus = (batch.used_us() - used) / 1e6 / (time.perf_counter() - start_s)
    requests_per_s, per_cpu_s = _high(service)
    return {
        "latencies_ms": latencies,
        "batch_cpus": round(batch_cpus, 4),
        "requests_per_s": round(requests_per_s, 1),
        "requests_per_cpu_s": round(per_cpu_s, 1),
    }


@contextmanager
def _redis(service: TaskGroup) -> Iterator[None]:
    options = f"--port 0 --unixsocket {SOCKET} --save '' --appendonly no --dir /run --logfile /dev/null".split()
    words = ["redis-server", *(word.strip("'") for word in options)]
    server = service.start(lambda: os.execvp(words[0], words))
    try:
        deadline_s = time.perf_counter() + 60
        while not Path(SOCKET).exists():
            if time.perf_counter() > deadline_s:
                raise Permanent("redis-server did not start")
            time.sleep(0.05)
        with _connected() as peer:
            peer.sendall(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n")
            peer.recv(64)
        yield
    finally:
        end(server)


@contextmanager
def _batch(group: TaskGroup) -> Iterator[None]:
    def in_kernel() -> None:
        room = bytearray(ZEROES)
        with open("/dev/zero", "rb", buffering=0) as zeroes:
            while True:
                zeroes.readinto(room)

    with group.burning(1):
        reader = group.start(in_kernel)
        try:
            yield
        finally:
            end(reader)


def _low(service: TaskGroup) -> list[float]:
    """Latencies in milliseconds, sorted."""

    def client() -> str:
        found = []
        with _connected() as peer:
            start_s = time.perf_counter()
            for number in range(SETTLE + SAMPLES):
                due_s = start_s + (number + 1) * PERIOD_S
                time.sleep(max(0.0, due_s - time.perf_counter()))
                peer.sendall(_GET)
                peer.recv(64)
                found.append((time.perf_counter() - due_s) * 1e3)
        return " ".join(f"{latency:.4f}" for latency in found[SETTLE:])

    return sorted(float(word) for word in _told(service, client).split())


def _high(service: TaskGroup) -> tuple[float, float]:
    """Requests a second, and a second of the service's CPU time."""
    words = ["redis-benchmark", "-s", SOCKET, "-t", "get", "-n", "1000000000", "-c", str(CONNECTIONS), "-q"]

    def flood() -> None:
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, 1)
        os.execvp(words[0], words)

    flooding = service.start(flood)
    try:
        time.sleep(HIGH_SETTLE_S)
        before, used, start_s = _served(), service.used_us(), time.perf_counter()
        time.sleep(HIGH_S)
        number, used = _served() - before, service.used_us() - used
        return number / (time.perf_counter() - start_s), number / max(used, 1) * 1e6
    finally:
        end(flooding)


def _served() -> int:
    """Commands that Redis has carried out."""
    with _connected() as peer:
        peer.sendall(_STATS)
        text = b""
        while b"total_commands_processed:" not in text or not text.endswith(b"\r\n"):
            text += peer.recv(1 << 16)
    return int(text.partition(b"total_commands_processed:")[2].split()[0])


def _connected() -> socket.socket:
    peer = socket.socket(socket.AF_UNIX)
    peer.connect(SOCKET)
    return peer


def _told(group: TaskGroup, body: Callable[[], str]) -> str:
    """What a process of the group says."""
    reading, writing = os.pipe()

    def said() -> None:
        os.close(reading)
        with os.fdopen(writing, "w") as out:
            out.write(body())

    pid = group.start(said)
    os.close(writing)
    with open(reading) as lines:
        text = lines.read()
    end(pid)
    return text


if __name__ == "__main__":
    json.dump(measure(), sys.stdout)

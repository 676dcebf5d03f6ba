"""The program of a zone's guest: groups, weights, schedulers, pods and commands, by requests from the host.

The guest's root is read-only, its network reaches the host only where the zone says so, and Python starts slowly under
emulation. One process of the standard library, started by the initial root, which answers JSON lines on a virtio-serial
port: `{"id", "do", ...}` with `{"id", "ok"}` or `{"id", "error"}`. Each request has a thread, so that a long command
delays no reading. Kernel schedulers are those of the host's package, imported when one is asked for.
Limits: the output of a command is kept to `MAX_OUTPUT` bytes a stream.
"""

from __future__ import annotations

import asyncio
import json
import os
import platform
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from cotenant.model.json_object import JsonObject, JsonValue
from cotenant.services.zones import vm_guest_monitor
from cotenant.services.zones.vm_guest_memory import GuestMemory, delegate
from cotenant.services.zones.vm_guest_pods import GuestPods

TREE = Path("/sys/fs/cgroup")
PORTS = Path("/sys/class/virtio-ports")
PORT_NAME = "cotenant.agent"
MAX_OUTPUT = 1 << 20
LONGEST_COMMAND_S = 600.0
_COARSE_CLOCK = 6  # CLOCK_MONOTONIC_COARSE, whose resolution is a tick
_PREEMPTION = Path("/sys/kernel/debug/sched/preempt")


class Guest:
    """The state of this guest's zone."""

    def __init__(self, tree: Path = TREE, pods: GuestPods | None = None) -> None:
        self.tree = tree
        self.pods = pods or GuestPods(tree)
        self.rows: dict[str, JsonObject] = {}
        self.memory = GuestMemory(tree)
        self._reclaiming: threading.Thread | None = None
        self.schedulers: Any = None  # services/zones/backends.RootBackend, once one is asked for
        self._lock = threading.Lock()

    def carry_out(self, request: JsonObject) -> JsonValue:
        """The answer to one request. Raises what goes wrong."""
        if request["do"] == "exec":
            return self.execute(request["group"], request["command"])
        if request["do"] == "reclaim":
            self.reclaim([(group, amount) for group, amount in request["steps"]])
            return None
        with self._lock:
            match request["do"]:
                case "attach":
                    self.put(request["rows"])
                    self.attach(request["mode"], tuple(request["modes"]), request.get("exclusive"))
                    return self.reading()
                case "read":
                    self.put(request["rows"])
                    return self.reading()
                case "detach":
                    self.attach(None)
                    return None
                case "pods":
                    self.pods.start(request["pods"])
                    return None
        raise ValueError(f"unknown request {request['do']}")

    def put(self, rows: dict[str, JsonObject]) -> None:
        """The rows of all groups: groups that do not exist are made, and weights written."""
        for group, row in rows.items():
            if self.rows.get(group) == row:
                continue
            folder = self.tree
            for part in group.split("/"):
                delegate(folder)
                folder = folder / part
                folder.mkdir(exist_ok=True)
            (folder / "cpu.idle").write_text("1" if row["class"] == "batch" else "0")
            if row["class"] != "batch":
                (folder / "cpu.weight").write_text(str(row["weight"] or 100))
        self.rows = rows
        self.memory.protect(rows)
        if self.schedulers is not None:
            self.schedulers.put(self._kernel_rows())

    def attach(self, mode: str | None, modes: tuple[str, ...] = (), exclusive: JsonObject | None = None) -> None:
        """Run this scheduler of our own; None: the kernel's fair class with the rows' weights. `exclusive`: fields
        of `ExclusiveCpus`.
        """
        if mode is None:
            if self.schedulers is not None:
                asyncio.run(self.schedulers.detach())
                self.schedulers = None
            return
        from cotenant.model.zones.setting import Backend, ExclusiveCpus, ZoneMode, ZoneSetting
        from cotenant.services.zones.backends import RootBackend

        if self.schedulers is None:
            chosen = tuple(ZoneMode(name) for name in modes)
            self.schedulers = RootBackend("guest", chosen, self.tree, ExclusiveCpus(**(exclusive or {})))
            self.schedulers.put(self._kernel_rows())
        asyncio.run(self.schedulers.attach(ZoneSetting(Backend.ROOT, ZoneMode(mode))))

    def reading(self) -> JsonObject:
        """CPU time of each group, and what the scheduler reports."""
        used = {}
        for group in self.rows:
            first = (self.tree / group / "cpu.stat").read_text().split()
            used[group] = int(first[1])
        also = {
            "cpuUs": used,
            "pods": self.pods.shown(),
            "counters": vm_guest_monitor.counters(),
            "resources": self.memory.counted(self.rows),
        }
        if self.schedulers is None:
            return {**also, "runs": None, "late": {}, "exit": None}
        from cotenant.drivers.ebpf.sched_ext import read_state

        asyncio.run(self.schedulers.refresh())
        state, last = read_state(), self.schedulers.last_exit()
        found = None if last is None else [last.at_us, last.kind, last.reason, last.message]
        runs = (state.name or "").removeprefix("cotenant_") if state.state == "enabled" else ""
        return {**also, "runs": runs, "late": self.schedulers.late(), "exit": found}

    def reclaim(self, steps: list[tuple[str, int]]) -> None:
        """Begin these steps; none while earlier ones are under way, which may last where memory is hard to find."""
        if self._reclaiming is None or not self._reclaiming.is_alive():
            self._reclaiming = threading.Thread(target=self.memory.reclaim, args=(steps,), daemon=True)
            self._reclaiming.start()

    def execute(self, group: str, command: list[str]) -> JsonObject:
        """Run a command in a group and wait."""
        procs = self.tree / group / "cgroup.procs"
        joining = ["/bin/sh", "-c", 'echo $$ > "$1" && shift && exec "$@"', "sh", str(procs)]
        process = subprocess.Popen(
            [*joining, *command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        kept: list[bytes] = [b"", b""]

        def drain(at: int, stream: Any) -> None:
            while data := stream.read(1 << 16):
                kept[at] += data[: MAX_OUTPUT - len(kept[at])]

        drains = [
            threading.Thread(target=drain, args=(at, stream), daemon=True)
            for at, stream in enumerate((process.stdout, process.stderr))
        ]
        for thread in drains:
            thread.start()
        try:
            status = process.wait(LONGEST_COMMAND_S)
        except subprocess.TimeoutExpired:
            process.kill()
            status = process.wait()
        for thread in drains:
            thread.join(5)
        texts = [text.decode(errors="replace") for text in kept]
        return {"exit": status if status >= 0 else 128 - status, "stdout": texts[0], "stderr": texts[1]}

    def _kernel_rows(self) -> JsonObject:
        from cotenant.model.zones.table import ThreadRow, ZoneClass, ZoneRow

        def threads(row: JsonObject) -> tuple[ThreadRow, ...]:
            return tuple(ThreadRow(name, ZoneClass[kind.upper()], slice_us) for name, kind, slice_us in row["threads"])

        return {
            group: ZoneRow(
                ZoneClass[row["class"].upper()], row["weight"], row["sliceUs"], row["lateUs"], threads=threads(row)
            )
            for group, row in self.rows.items()
        }


def serve(port: Path, guest: Guest) -> None:
    """Answer requests until the host closes the port for good."""
    lock = threading.Lock()
    with port.open("r+b", buffering=0) as line:

        def send(value: JsonObject) -> None:
            data = json.dumps(value).encode() + b"\n"
            with lock:
                while data:
                    data = data[line.write(data) or 0 :]

        def answer(request: JsonObject) -> None:
            try:
                send({"id": request["id"], "ok": guest.carry_out(request)})
            except Exception as error:  # every failure is the request's
                send({"id": request["id"], "error": f"{type(error).__name__}: {error}"[:2000]})

        send({"id": 0, "ok": greeting()})
        rest = b""
        while True:
            data = line.read(1 << 16)
            if not data:
                time.sleep(0.1)  # no host is connected
                continue
            *requests, rest = (rest + data).split(b"\n")
            for text in requests:
                threading.Thread(target=answer, args=(json.loads(text),), daemon=True).start()


def greeting() -> dict[str, Any]:
    """What the guest is: its kernel, the preemption model that is in force, and the timer's ticks a second."""
    try:
        # the model in force is in brackets
        preempt = _PREEMPTION.read_text().partition("(")[2].partition(")")[0]
    except OSError:
        preempt = ""
    hz = round(1 / time.clock_getres(_COARSE_CLOCK))
    return {"kernel": platform.release(), "python": platform.python_version(), "preempt": preempt, "hz": hz}


def port_of(ports: Path = PORTS) -> Path:
    """The device of the host's port. Raises `LookupError`."""
    for path in ports.iterdir():
        if (path / "name").read_text().strip() == PORT_NAME:
            return Path("/dev") / path.name
    raise LookupError(f"no virtio-serial port {PORT_NAME}")


if __name__ == "__main__":
    os.chdir("/")
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    print("cotenant: agent of the guest", flush=True)
    serve(port_of(), Guest())

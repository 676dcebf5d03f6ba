"""Pods inside a zone's guest: their roots, their programs, and whether they are ready.

A root is the image (of the host, read-only) below a layer in the guest's memory, so that a program may write and the
image stays as it was packed. Each pod has a thread that starts its program, asks its probe and starts the program again
when it ends: a service always, batch only after a failure, with growing pauses. Standard library only.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cotenant.services.zones import vm_guest_container
from cotenant.services.zones.vm_guest_memory import delegate

IMAGES = Path("/zone/images")
PLACE = Path("/run/pods")
LONGEST_PAUSE_S = 60.0
_STEADY_S = 30.0  # a program that ran this long begins with a short pause again
_LOG_BYTES = 16 << 10


@dataclass(slots=True)
class PodState:
    """What is known of one pod. `exit`: of the program's last end; `was_ready`: since its last start."""

    running: bool = False
    ready: bool = False
    was_ready: bool = False
    restarts: int = 0
    exit: int | None = None
    failed_probes: int = 0
    log: bytearray = field(default_factory=bytearray)

    def shown(self) -> dict[str, Any]:
        """For the host."""
        text = bytes(self.log).decode(errors="replace")
        return {
            "running": self.running,
            "ready": self.ready,
            "restarts": self.restarts,
            "exit": self.exit,
            "log": text.splitlines()[-20:],
        }


class GuestPods:
    """All pods of this guest. `run`: starts a command as `subprocess.Popen`; `mount`: runs mount(8); `pause_s`: before
    a program that ended is started again, doubled each time.
    """

    def __init__(
        self,
        tree: Path,
        place: Path = PLACE,
        images: Path = IMAGES,
        run: Callable[..., subprocess.Popen[bytes]] = subprocess.Popen,
        mount: Callable[..., None] | None = None,
        pause_s: float = 1.0,
    ) -> None:
        self._pause_s = pause_s
        self._tree = tree
        self._place = place
        self._images = images
        self._run = run
        self._mount = mount or _mount
        self._states: dict[str, PodState] = {}

    def start(self, specs: Iterable[dict[str, Any]]) -> None:
        """Start each pod. Raises what goes wrong with a root or a group; programs that fail are their pod's state."""
        for spec in specs:
            root = self._root(spec)
            self._group(spec)
            state = self._states[spec["name"]] = PodState()
            threading.Thread(target=self._supervise, args=(spec, root, state), daemon=True).start()

    def shown(self) -> dict[str, Any]:
        """Every pod's state."""
        return {name: state.shown() for name, state in self._states.items()}

    def _root(self, spec: dict[str, Any]) -> Path:
        base = self._place / spec["name"]
        base.mkdir(parents=True)
        self._mount("-t", "tmpfs", "-o", f"size={spec['writesMib']}m", "tmpfs", str(base))
        for name in ("upper", "work", "root"):
            (base / name).mkdir()
        lower, root = self._images / spec["name"], base / "root"
        # the root folder of an overlay has the owner and mode of the upper layer
        folder = lower.stat()
        os.chown(base / "upper", folder.st_uid, folder.st_gid)
        (base / "upper").chmod(folder.st_mode & 0o7777)
        options = f"lowerdir={lower},upperdir={base / 'upper'},workdir={base / 'work'}"
        self._mount("-t", "overlay", "-o", options, "overlay", str(root))
        for volume in spec["volumes"]:
            target = _inside(root, volume["path"])
            if volume["host"]:
                source = Path(volume["host"])
            else:
                source = self._place.parent / "volumes" / volume["name"]
                if not source.exists():
                    source.mkdir(parents=True)
                    self._mount("-t", "tmpfs", "-o", f"size={volume['mib']}m,mode=1777", "tmpfs", str(source))
            if source.is_dir():
                target.mkdir(parents=True, exist_ok=True)
            else:
                target.parent.mkdir(parents=True, exist_ok=True)
                target.touch()
            self._mount("-o", "bind", str(source), str(target))
        return root

    def _group(self, spec: dict[str, Any]) -> None:
        (self._tree / "cgroup.subtree_control").write_text("+cpu +memory +pids")
        delegate(self._tree)
        group = self._tree / spec["name"]
        group.mkdir(exist_ok=True)
        (group / "pids.max").write_text(str(spec["processes"]))
        if spec["memoryMib"]:
            (group / "memory.max").write_text(str(spec["memoryMib"] << 20))
        if spec["cpuMilli"]:
            (group / "cpu.max").write_text(f"{spec['cpuMilli'] * 100} 100000")

    def _supervise(self, spec: dict[str, Any], root: Path, state: PodState) -> None:
        pause_s = self._pause_s
        while True:
            started_s = time.monotonic()
            state.exit = self._one_run(spec, root, state)
            if spec["kind"] == "batch" and state.exit == 0:
                return
            if time.monotonic() - started_s >= _STEADY_S:
                pause_s = self._pause_s
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
            state.restarts += 1

    def _one_run(self, spec: dict[str, Any], root: Path, state: PodState) -> int:
        inner = {name: spec[name] for name in ("name", "command", "env", "user", "workdir")}
        inner |= {"root": str(root), "procs": str(self._tree / spec["name"] / "cgroup.procs")}
        program = [sys.executable, "-S", "-I", vm_guest_container.__file__, json.dumps(inner)]
        try:
            process = self._run(
                program, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, bufsize=0
            )
        except OSError as error:  # as where command and environment are longer than the kernel takes
            state.log[:] = f"the pod's program was not started: {error.strerror}".encode()
            return vm_guest_container.NOT_STARTED
        state.running, state.ready, state.was_ready, state.failed_probes = True, spec["probe"] is None, False, 0
        reading = threading.Thread(target=_keep_tail, args=(process.stdout, state.log), daemon=True)
        reading.start()
        probe = spec["probe"]
        while True:
            try:
                status = process.wait(None if probe is None else probe["periodS"])
                break
            except subprocess.TimeoutExpired:
                assert probe is not None
                self._ask(probe, state)
                if probe["restart"] and state.failed_probes >= probe["failures"]:
                    process.terminate()
                    try:
                        status = process.wait(5)
                    except subprocess.TimeoutExpired:
                        self._kill(spec["name"])
                        status = process.wait()
                    break
        state.running = state.ready = False
        self._kill(spec["name"])  # what it started and left
        reading.join(5)
        return status if status >= 0 else 128 - status

    def _ask(self, probe: dict[str, Any], state: PodState) -> None:
        if answers(probe["port"], probe["path"], probe["timeoutS"]):
            state.ready, state.was_ready, state.failed_probes = True, True, 0
        elif state.was_ready:  # a program that still starts fails no probe
            state.failed_probes += 1
            state.ready = state.ready and state.failed_probes < probe["failures"]

    def _kill(self, name: str) -> None:
        try:
            (self._tree / name / "cgroup.kill").write_text("1")
        except OSError:
            return


def answers(port: int, path: str, timeout_s: float) -> bool:
    """Whether the port takes a connection, and, with a path, answers a GET with 200 to 399."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout_s) as peer:
            if not path:
                return True
            peer.sendall(f"GET {path} HTTP/1.0\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
            head = b""
            while b"\n" not in head and len(head) < 1024:
                data = peer.recv(1024)
                if not data:
                    break
                head += data
    except OSError:
        return False
    words = head.split(b"\n", 1)[0].split()
    return len(words) >= 2 and words[0].startswith(b"HTTP/") and words[1].isdigit() and 200 <= int(words[1]) < 400


def _inside(root: Path, path: str) -> Path:
    """A path of the pod, in its root. Raises `ValueError` where a link of the image is on the way."""
    target = root
    for part in Path(path).parts[1:]:
        target = target / part
        if target.is_symlink():
            raise ValueError(f"volume {path}: {part} is a link in the image")
    return target


def _keep_tail(stream: Any, log: bytearray) -> None:
    while data := stream.read(1 << 12):
        log += data
        del log[: max(0, len(log) - _LOG_BYTES)]


def _mount(*words: str) -> None:
    done = subprocess.run(["mount", *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise OSError(f"mount {' '.join(words)}: {done.stderr.strip()}")

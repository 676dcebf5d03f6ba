"""What the runtime hook costs a container's creation, and what it is worth: a real containerd under load, with
`cotenant nri` and without.

Needs root, cgroups of its own (below cotenant-bench-nri) and containerd 1.7 or later (`COTENANT_TEST_CONTAINERD`,
bench/containerd.py). The pods are best effort by label and request a whole CPU, so a kubelet would give them 1024
shares. Three parts:

    weights     pods one after another with the hook and without, by turns; another process looks at their groups all
                the time, and counts those that it saw at another weight than the least while a process of the workload
                ran in them (runc's own start does not count)
    creation    containers created by turns with the hook connected and not; and the same call sent to the hook alone
                over a socket, which is all that the runtime waits for (the sender has real-time priority, so that its
                own waiting is not counted)
    killed      kill -9 of the hook, started again each time, while containers are created: all must start
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from bench.containerd import NotHere, Pod, Runtime, containerd, remove_everywhere
from bench.machine import show
from cotenant.drivers.cgroup.layout import Hierarchy, detect
from cotenant.drivers.nri.messages import PLUGIN_SERVICE, messages
from cotenant.drivers.nri.state_file import read_state

GROUP = "cotenant-bench-nri"
BEST_EFFORT = {"koordinator.sh/qosClass": "BE"}
OF_A_CPU = {"cpu_shares": 1024, "cpu_period": 100_000}
LEAST = {"cpu.shares": "2", "cpu.weight": "1"}
_COMMAND = (sys.executable, "-c", "import sys; from cotenant.cli.main import main; sys.exit(main())", "nri")
PARTS = ("weights", "creation", "killed")
_BY_TURNS = 10


class HookProcess:
    """`cotenant nri` as a process."""

    def __init__(
        self, folder: Path, runtime_socket: Path, listen: str = "", pages: str = "", **settings: object
    ) -> None:
        """`listen`: where its agent would be; `pages`: its own; `settings`: further ones of `runtime_hook`."""
        self.state = folder / "nri.json"
        self._config = folder / "agent.json"
        hook = {"socket": str(runtime_socket), "state_file": str(self.state), "listen": pages, **settings}
        config = {"mode": "act", "writable": [GROUP], "listen": listen, "runtime_hook": hook}
        self._config.write_text(json.dumps(config))  # which is YAML, too
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, *, wait: bool = True) -> None:
        self.process = subprocess.Popen([*_COMMAND, f"--config={self._config}", "--log-level=error"])
        while wait and not ((state := read_state(self.state)) and state.runtime):
            if self.process.poll() is not None:
                raise SystemExit("the hook did not start")
            time.sleep(0.02)

    def end(self, by: signal.Signals = signal.SIGTERM) -> None:
        if self.process is not None:
            self.process.send_signal(by)
            self.process.wait()
            self.process = None


@contextmanager
def load(processes: int) -> Iterator[None]:
    """Busy processes beside what is measured."""
    with ExitStack() as stack:
        for _ in range(processes):
            spinning = subprocess.Popen([sys.executable, "-c", "while True: pass"])
            stack.callback(spinning.wait)
            stack.callback(spinning.kill)
        yield


def cpu_tree() -> tuple[Hierarchy, str]:
    """The tree of the CPU controller, and its file of the weight."""
    tree = detect().by_controller["cpu"]
    return tree, "cpu.shares" if tree.version == 1 else "cpu.weight"


def watch() -> None:
    """Look at all containers' groups until standard input closes; then print, by group, the weights seen while a
    process of the workload ran.
    """
    tree, name = cpu_tree()
    ended = threading.Event()

    def wait() -> None:
        sys.stdin.read()
        ended.set()

    threading.Thread(target=wait, daemon=True).start()
    seen: dict[str, set[str]] = {}
    looks = 0
    while not ended.is_set():
        looks += 1
        for pod in _folders(f"{tree.path}/{GROUP}/kubepods/burstable"):
            for container in _folders(pod):
                try:
                    programs = [
                        Path(f"/proc/{pid}/comm").read_text()
                        for pid in Path(container, "cgroup.procs").read_text().split()
                    ]
                    if any(not program.startswith("runc") for program in programs):
                        seen.setdefault(os.path.basename(container), set()).add(
                            Path(container, name).read_text().strip()
                        )
                except OSError:  # gone meanwhile
                    continue
        time.sleep(0.001)
    print(json.dumps({"looks": looks, "seen": {group: sorted(weights) for group, weights in seen.items()}}))


def _folders(path: str) -> list[str]:
    try:
        return [entry.path for entry in os.scandir(path) if entry.is_dir()]
    except OSError:
        return []


def weights(runtime: Runtime, hook: HookProcess, pods: int) -> Iterator[dict[str, Any]]:
    """Part one."""
    _, name = cpu_tree()
    looking = subprocess.Popen(
        [sys.executable, "-m", "bench.nri", "--watch"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    made: dict[bool, list[str]] = {True: [], False: []}

    def one(hooked: bool, number: int) -> None:
        pod = _pod(runtime, f"w{int(hooked)}", number)
        container = runtime.container(pod, OF_A_CPU)
        runtime.start(container)
        made[hooked].append(container)
        time.sleep(0.02)  # the watcher looks several times
        runtime.remove(pod)

    _by_turns(hook, pods, one)
    told = json.loads(looking.communicate()[0])
    for hooked, containers in made.items():
        found = [set(told["seen"].get(container, ())) for container in containers]
        yield {
            "part": "weights",
            "hook": "on" if hooked else "off",
            "containers": len(containers),
            "seen": sum(bool(group) for group in found),
            "at_another_weight": sum(bool(group - {LEAST[name]}) for group in found),
            "looks": told["looks"],
        }


def creation(runtime: Runtime, hook: HookProcess, containers: int) -> Iterator[dict[str, Any]]:
    """Part two."""
    taken: dict[bool, list[float]] = {True: [], False: []}
    pod = _pod(runtime, "c", 0)

    def one(hooked: bool, number: int) -> None:
        began = time.perf_counter()
        container = runtime.container(pod, OF_A_CPU, name=f"c{int(hooked)}-{number}")
        taken[hooked].append(1000 * (time.perf_counter() - began))
        runtime.ask("RemoveContainer", container_id=container)

    _by_turns(hook, containers, one)
    runtime.remove(pod)
    for hooked, group in taken.items():
        yield _times("creation", "on" if hooked else "off", group)


def alone(folder: Path, calls: int) -> dict[str, Any]:
    """The same call to the hook over a socket, from a stand-in for the runtime."""
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
                "uid": _uid(1),
                "namespace": "shop",
                "name": "batch-1",
                "labels": BEST_EFFORT,
                "linux": {"cgroup_parent": f"/{GROUP}/kubepods/burstable/pod{_uid(1)}"},
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
    return _times("creation", "the call alone", taken)


def killed(runtime: Runtime, hook: HookProcess, containers: int) -> dict[str, Any]:
    """Part three."""
    tree, name = cpu_tree()
    ended = threading.Event()
    kills = 0

    def kill() -> None:
        nonlocal kills
        while not ended.is_set():
            hook.start()
            ended.wait(0.03 * (kills % 11))  # at another moment of a creation each time
            hook.end(signal.SIGKILL)
            kills += 1

    killing = threading.Thread(target=kill)
    killing.start()
    started, least, longest = 0, 0, 0.0
    try:
        for number in range(containers):
            began = time.perf_counter()
            pod = _pod(runtime, "k", number)
            container = runtime.container(pod, OF_A_CPU)
            runtime.start(container)
            longest = max(longest, time.perf_counter() - began)
            started += 1
            text = Path(
                tree.path, GROUP, "kubepods/burstable", f"pod{pod.config['metadata']['uid']}", container, name
            ).read_text()
            least += text.strip() == LEAST[name]
            runtime.remove(pod)
    finally:
        ended.set()
        killing.join()
    return {
        "part": "killed",
        "containers": containers,
        "started": started,
        "kills": kills,
        "with_first_values": least,
        "longest_ms": round(1000 * longest, 1),
    }


def _by_turns(hook: HookProcess, count: int, one: Callable[[bool, int], None]) -> None:
    """`count` with the hook and as many without, in blocks of ten."""
    for block in range(0, count, _BY_TURNS):
        for hooked in (True, False) if block // _BY_TURNS % 2 == 0 else (False, True):
            if hooked:
                hook.start()
            time.sleep(0.5)  # what it took to start and to end is over
            for number in range(block, min(count, block + _BY_TURNS)):
                one(hooked, number)
            hook.end()


def _pod(runtime: Runtime, prefix: str, number: int) -> Pod:
    uid = _uid(number)
    return runtime.pod(uid, f"{prefix}-{number}", f"{GROUP}/kubepods/burstable/pod{uid}", BEST_EFFORT, {})


def _uid(number: int) -> str:
    return f"00000000-0000-0000-0000-{number:012d}"


def _times(part: str, which: str, taken: Sequence[float]) -> dict[str, Any]:
    ordered = sorted(taken)
    return {
        "part": part,
        "hook": which,
        "containers": len(taken),
        "median_ms": round(median(ordered), 2),
        "p99_ms": round(ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))], 2),
    }


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


def measure(parts: Sequence[str], pods: int, calls: int, busy: int) -> Iterator[dict[str, Any]]:
    """These parts, in order."""
    with tempfile.TemporaryDirectory(prefix="cotenant-bench-") as name:
        folder = Path(name)
        try:
            with containerd(folder, folder / "nri.sock") as runtime, load(busy):
                hook = HookProcess(folder, folder / "nri.sock")
                try:
                    if "weights" in parts:
                        yield from weights(runtime, hook, pods)
                    if "creation" in parts:
                        yield from creation(runtime, hook, pods)
                        yield alone(folder, calls)
                    if "killed" in parts:
                        yield killed(runtime, hook, pods)
                finally:
                    hook.end()
        finally:
            remove_everywhere(GROUP)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench.nri", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pods", type=int, default=100)
    parser.add_argument("--calls", type=int, default=500)
    parser.add_argument("--part", action="append", choices=PARTS, help="only this part; may be given several times")
    parser.add_argument("--busy", type=int, default=4, help="busy processes beside it")
    parser.add_argument("--watch", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    given = parser.parse_args()
    if given.watch:
        watch()
        return
    try:
        rows = list(measure(given.part or PARTS, given.pods, given.calls, given.busy))
    except NotHere as error:
        raise SystemExit(str(error)) from None
    show(rows, given.json, (f"{given.busy} busy processes beside it; the weight of best effort is the least.",))


if __name__ == "__main__":
    main()

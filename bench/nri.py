"""What the runtime hook costs a container's creation, and what it is worth: a real containerd or CRI-O under load, with
`cotenant nri` and without.

Needs root, cgroups of its own (below cotenant-bench-nri) and containerd 1.7 or later (`COTENANT_TEST_CONTAINERD`,
bench/containerd.py) or, with `--cri-o`, CRI-O (`COTENANT_TEST_CRIO`, bench/crio.py). Four parts:

    weights     containers one after another with the hook and without, by turns: the first process of each says its own
                weight, and another process looks at their groups all the time, and counts those that it saw at another
                weight than the least while a process of the workload ran in them (runc's own start does not count)
    creation    containers created and started by turns with the hook connected, with a plugin that does nothing, with
                none, with none again, which says what the machine itself differs, and with none where the least weight
                is asked for, which is the weight's own part of a start; then with the hook between two plugins that do
                nothing, and what the runtime says that it waited for each (containerd 2.4); and the call to the hook
                alone
    killed      kill -9 of the hook, started again each time, while containers are created: all must start
    hangs       SIGSTOP of the hook: the runtime waits for its own limit once and parts with it; what `cotenant node
                status` says then, and how soon after SIGCONT it is back
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from bench.containerd import NotHere, Runtime, containerd, remove_everywhere
from bench.crio import crio
from bench.hook import GROUP, LEAST, OF_A_CPU, PODS, HookProcess, cpu_tree, pod_of
from bench.hook_alone import alone
from bench.machine import show
from bench.nri_creation import OFF, ON, creation, in_blocks, times_of
from cotenant.drivers.cgroup.layout import detect
from cotenant.drivers.nri.state_file import read_state
from cotenant.services.nodeview.capabilities import capabilities

PARTS = ("weights", "creation", "killed", "hangs")
_HANGING = 10  # containers while it hangs


@contextmanager
def load(processes: int) -> Iterator[None]:
    """Busy processes beside what is measured."""
    with ExitStack() as stack:
        for _ in range(processes):
            spinning = subprocess.Popen([sys.executable, "-c", "while True: pass"])
            stack.callback(spinning.wait)
            stack.callback(spinning.kill)
        yield


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
        for pod in _folders(f"{tree.path}/{PODS}"):
            for container in _folders(pod):
                try:
                    running = Path(container, "cgroup.procs").read_text().split()
                    # By its file: runc's first process has a name of its own only after a while.
                    if any(os.path.basename(os.readlink(f"/proc/{pid}/exe")) == "busybox" for pid in running):
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
    """With which weight a workload's first instructions run."""
    tree, name = cpu_tree()
    looking = subprocess.Popen(
        [sys.executable, "-m", "bench.nri", "--watch"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    own = r"own=$(/busybox sed -n 's/^[0-9]*:\(.*,\)*cpu\(,.*\)*://p' /proc/self/cgroup)"
    say = f"{own}; /busybox cat /tree$own/{name} 2>/dev/null || /busybox cat /sys/fs/cgroup/{name}"
    command = ("/busybox", "sh", "-c", f"{say}; exec /busybox sleep 600")
    made: dict[str, list[str]] = {ON: [], OFF: []}
    said: dict[str, list[str]] = {ON: [], OFF: []}

    pod = pod_of(runtime, "w", 0)

    def one(arm: str, number: int) -> None:
        called = f"{arm}-{number}"
        container = runtime.container(pod, OF_A_CPU, command, called, mounts={"/tree": tree.path})
        runtime.start(container)
        made[arm].append(container)
        for _ in range(500):
            if text := runtime.log_of(pod, called):
                said[arm].append(text.split()[0])
                break
            time.sleep(0.02)
        time.sleep(0.02)  # the watcher looks several times
        runtime.end_container(container)

    list(in_blocks({ON: hook}, pods, (ON, OFF), one))
    runtime.remove(pod)
    told = json.loads(looking.communicate()[0])
    for arm, containers in made.items():
        found = [set(told["seen"].get(f"{runtime.prefix}{container}", ())) for container in containers]
        yield {
            "part": "weights",
            "hook": arm,
            "containers": len(containers),
            "said_own": len(said[arm]),
            "said_another_weight": sum(text != LEAST[name] for text in said[arm]),
            "seen": sum(bool(group) for group in found),
            "seen_at_another": sum(bool(group - {LEAST[name]}) for group in found),
            "looks": told["looks"],
        }


def killed(runtime: Runtime, hook: HookProcess, containers: int) -> dict[str, Any]:
    """Kill it again and again while containers are created."""
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

    pod = pod_of(runtime, "k", 0)
    killing = threading.Thread(target=kill)
    killing.start()
    started, least, longest = 0, 0, 0.0
    try:
        for number in range(containers):
            began = time.perf_counter()
            container = runtime.container(pod, OF_A_CPU, name=f"k{number}")
            runtime.start(container)
            longest = max(longest, time.perf_counter() - began)
            started += 1
            text = Path(tree.path, runtime.group_of(pod, container), name).read_text()
            least += text.strip() == LEAST[name]
            runtime.end_container(container)
    finally:
        ended.set()
        killing.join()
    runtime.remove(pod)
    return {
        "part": "killed",
        "containers": containers,
        "started": started,
        "kills": kills,
        "with_first_values": least,
        "longest_ms": round(1000 * longest, 1),
    }


def hangs(runtime: Runtime, hook: HookProcess, containers: int) -> dict[str, Any]:
    """Stop it and let it run again."""
    hook.start()
    assert hook.process is not None
    layout = detect()

    def lacks() -> str:
        return next(found.needs for found in capabilities(layout, hook.state) if "runtime hook" in found.what)

    before = lacks()
    pod = pod_of(runtime, "h", 0)
    hook.process.send_signal(signal.SIGSTOP)
    stopped = time.perf_counter()
    taken = []
    for number in range(containers):
        began = time.perf_counter()
        runtime.start(runtime.container(pod, OF_A_CPU, name=f"h{number}"))
        taken.append(1000 * (time.perf_counter() - began))
    while not ((state := read_state(hook.state)) and state.hangs):
        time.sleep(0.05)
    seen_s, said = time.perf_counter() - stopped, lacks()
    hook.process.send_signal(signal.SIGCONT)
    went_on = time.perf_counter()
    while lacks() != before:
        time.sleep(0.01)
    back_s = time.perf_counter() - went_on
    hook.end()
    runtime.remove(pod)
    return {
        "part": "hangs",
        "containers": containers,
        "started": len(taken),
        "first_ms": round(taken[0], 1),
        "others_longest_ms": round(max(taken[1:]), 1),
        "seen_after_s": round(seen_s, 1),
        "back_after_s": round(back_s, 2),
        "said_meanwhile": said,
    }


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def measure(
    parts: Sequence[str], pods: int, calls: int, busy: int, with_crio: bool = False
) -> Iterator[dict[str, Any]]:
    """These parts, in order."""
    port = _free_port()
    with tempfile.TemporaryDirectory(prefix="cotenant-bench-") as name:
        folder = Path(name)
        at = folder / "nri.sock"
        try:
            with crio(folder, at) if with_crio else containerd(folder, at, port) as runtime, load(busy):
                hook = HookProcess(folder, at)
                try:
                    if "weights" in parts:
                        yield from weights(runtime, hook, pods)
                    if "creation" in parts:
                        yield from creation(runtime, hook, at, pods, port)
                        yield {"part": "creation", **times_of("the call alone", alone(folder, calls))}
                    if "killed" in parts:
                        yield killed(runtime, hook, pods)
                    if "hangs" in parts:
                        yield hangs(runtime, hook, _HANGING)
                finally:
                    hook.end(signal.SIGKILL)
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
    parser.add_argument("--cri-o", action="store_true", help="CRI-O instead of containerd")
    parser.add_argument("--watch", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    given = parser.parse_args()
    if given.watch:
        watch()
        return
    try:
        rows = list(measure(given.part or PARTS, given.pods, given.calls, given.busy, given.cri_o))
    except NotHere as error:
        raise SystemExit(str(error)) from None
    show(rows, given.json, (f"{given.busy} busy processes beside it; the weight of best effort is the least.",))


if __name__ == "__main__":
    main()

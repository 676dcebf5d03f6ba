"""What is said of GPUs, tried on one: NVML's facts against nvidia-smi's, a lease of MPS, and two CUDA processes.

    python -m bench.gpu                 # under ten minutes; without an NVIDIA GPU it says so and ends

1. `nvidia-smi -q -x` and our NVML reader name the same cards, memory and processes.
2. A keeper that holds `mps.threads` dies by kill -9; the next one gives back what stood before.
3. A service of small kernels beside offline work of large ones (bench/gpu_load.py): alone, sharing time, and as
   clients of an MPS daemon with the offline client at `--percent` of the threads. Lines: p99 <= 1.1 times alone, with
   >= 50 % of what the offline work does alone.

MPS daemons are this script's own, in a folder of its own, and are ended. Nothing else of the card is set, unless with
`--power`: a limit of the power is held at 90 % and given back, which needs root.
Limits: one card, the first; **its parts are tested with recordings, and no run on a GPU was made so far.**
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.machine import show
from cotenant.drivers.gpu.knobs import GpuKnobs
from cotenant.drivers.gpu.mps import PROGRAM, MpsControl
from cotenant.drivers.gpu.mps_knobs import MpsKnobs
from cotenant.drivers.gpu.nvidia_smi import read_nvidia_smi
from cotenant.drivers.gpu.nvml import GpuReader
from cotenant.drivers.leasefile.audit import AuditTrail
from cotenant.drivers.leasefile.file import LeaseFile
from cotenant.engine.node.interfaces import KnobPort
from cotenant.model.devices.gpu_use import GpuUse
from cotenant.model.errors import CotenantError, Transient, Unsupported
from cotenant.model.machine.counters import GpuCounters
from cotenant.model.machine.knob import Knob, KnobScope, KnobTarget, LeaseState, SetKnob
from cotenant.model.machine.node_decision import Reason
from cotenant.services.knobs.executor import Clock, LeaseExecutor
from cotenant.services.knobs.rules import KnobRules

P99_LINE, OFFLINE_LINE = 1.1, 0.5
_CLOSE_BYTES = 64 << 20  # memory in use moves between two readings
_WHY = Reason("bench", "bench.gpu")


@dataclass(frozen=True, slots=True)
class Shared:
    """The service and the offline work in one arm. None: it did not run."""

    arm: str
    p99_us: int | None = None
    launches_per_s: float | None = None


def differences(told: Sequence[GpuUse], read: Sequence[GpuCounters]) -> list[str]:
    """What nvidia-smi and our reader do not agree on, a sentence each."""
    cards = {use.uuid: use for use in told if not use.instance}
    alone = sorted(cards.keys() ^ {gpu.uuid for gpu in read})
    found = [f"{uuid}: only {'nvidia-smi' if uuid in cards else 'our reader'} names it" for uuid in alone]
    for gpu in read:
        use = cards.get(gpu.uuid)
        if use is None:
            continue
        if use.memory_total_bytes is not None and abs(use.memory_total_bytes - gpu.memory_total_bytes) > _CLOSE_BYTES:
            found.append(f"{gpu.uuid}: memory {use.memory_total_bytes} and {gpu.memory_total_bytes} bytes")
        if use.memory_used_bytes is not None and abs(use.memory_used_bytes - gpu.memory_used_bytes) > _CLOSE_BYTES:
            # nvidia-smi leaves out what the driver reserves, NVML's first form counts it
            found.append(f"{gpu.uuid}: memory in use {use.memory_used_bytes} and {gpu.memory_used_bytes} bytes")
        if use.bus != gpu.bus:
            found.append(f"{gpu.uuid}: at {use.bus} and {gpu.bus}")
        if {process.pid for process in use.processes} != {pid for pid, _ in gpu.processes}:
            found.append(f"{gpu.uuid}: processes differ")
    return found


def given_back(
    make: Callable[[], KnobPort], scope: KnobScope, wish: SetKnob, rules: KnobRules, folder: Path
) -> list[str]:
    """Hold in a process that dies by kill -9, restore in this one; what did not hold, a sentence each. `make` gives a
    port, one for each process: NVML does not survive a fork.
    """
    before = _read(make, wish.target)
    pid = os.fork()
    if pid == 0:
        try:
            keeper, _ = _keeper(make(), scope, rules, folder)
            keeper.hold([wish])
        finally:
            os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(pid, 0)
    stood, found = _read(make, wish.target), []
    if stood != wish.value:
        found.append(f"{wish.target}: {stood} stood after a keeper held {wish.value}")
    keeper, file = _keeper(make(), scope, rules, folder)
    with closing(file):
        answers = keeper.restart(file.found.leases)
    found += [f"{answer.target}: {answer.state} {answer.detail}" for answer in answers if not _is_over(answer.state)]
    after = _read(make, wish.target)
    if after != before:
        found.append(f"{wish.target}: {before} stood before, {after} after")
    return found


def _read(make: Callable[[], KnobPort], target: KnobTarget) -> str:
    port = make()
    try:
        return port.read(target)
    finally:
        if isinstance(port, GpuKnobs):
            port.close()


def _is_over(state: LeaseState) -> bool:
    return state is LeaseState.RESTORED


def _keeper(port: KnobPort, scope: KnobScope, rules: KnobRules, folder: Path) -> tuple[LeaseExecutor, LeaseFile]:
    file = LeaseFile(folder, "bench")
    return LeaseExecutor({scope: port}, file, AuditTrail(folder), Clock(lambda: 0, lambda: 0.0), rules), file


def shared(arm: str, service: Mapping[str, object] | None, offline: Mapping[str, object] | None) -> Shared:
    """What both processes said at their end. Raises ValueError where a service answered fewer than a hundred times."""
    p99_us = launches = None
    if service is not None:
        latencies = sorted(service["latencies_us"])  # type: ignore[call-overload]
        if len(latencies) < 100:
            raise ValueError(f"{arm}: {len(latencies)} answers are too few for a p99")
        p99_us = latencies[-(len(latencies) // 100) - 1]
    if offline is not None:
        launches = float(offline["launches"]) / float(offline["seconds"])  # type: ignore[arg-type]
    return Shared(arm, p99_us, launches)


def verdicts(alone: Shared, offline_alone: Shared, beside: Shared) -> list[dict[str, object]]:
    """The two lines for one way of sharing. Raises ValueError where a figure is missing."""
    if not (alone.p99_us and beside.p99_us and offline_alone.launches_per_s and beside.launches_per_s is not None):
        raise ValueError(f"{beside.arm}: a figure is missing")
    slower = beside.p99_us / alone.p99_us
    kept = beside.launches_per_s / offline_alone.launches_per_s
    return [
        {"what": f"p99 of the service / alone, {beside.arm}", "measured": round(slower, 3), "line": P99_LINE,
         "ok": slower <= P99_LINE},
        {"what": f"offline work / alone, {beside.arm}", "measured": round(kept, 3), "line": OFFLINE_LINE,
         "ok": kept >= OFFLINE_LINE},
    ]  # fmt: skip


def missing() -> str:
    """Why nothing can be tried here; empty where a GPU is."""
    reader = GpuReader()
    try:
        found = reader.read()
    except (Unsupported, Transient) as error:
        return str(error)
    finally:
        reader.close()
    return "" if found else "NVML lists no GPU"


@contextmanager
def own_daemon(folder: Path) -> Iterator[Path]:
    """An MPS control daemon of this script's own."""
    pipe = folder / "mps"
    pipe.mkdir()
    environment = {**os.environ, "CUDA_MPS_PIPE_DIRECTORY": str(pipe), "CUDA_MPS_LOG_DIRECTORY": str(pipe)}
    subprocess.run([PROGRAM, "-d"], env=environment, check=True, timeout=30, capture_output=True)
    try:
        yield pipe
    finally:
        MpsControl(pipe).ask("quit")


def together(arm: str, kinds: Sequence[str], seconds: float, environments: Mapping[str, Mapping[str, str]]) -> Shared:
    """Both processes at once, begun before they are measured."""
    started = {}
    for kind in kinds:
        command = [sys.executable, "-m", "bench.gpu_load", kind, "--seconds", str(seconds)]
        environment = {**os.environ, **environments.get(kind, {})}
        started[kind] = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
    said: dict[str, Mapping[str, object]] = {}
    for kind, process in started.items():
        out, _ = process.communicate(timeout=seconds + 120)
        if process.returncode != 0:
            raise SystemExit(f"{arm}: the {kind} process ended with status {process.returncode}")
        said[kind] = json.loads(out.splitlines()[-1])
    return shared(arm, said.get("service"), said.get("offline"))


def measured(seconds: float, percent: int, pipe: Path) -> tuple[list[Shared], list[dict[str, object]]]:
    """All arms, and what they come to."""
    client = {"CUDA_MPS_PIPE_DIRECTORY": str(pipe)}
    held = {"service": client, "offline": {**client, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": str(percent)}}
    none = {kind: {"CUDA_MPS_PIPE_DIRECTORY": str(pipe / "none")} for kind in ("service", "offline")}
    alone = together("alone", ["service"], seconds, none)
    offline = together("offline alone", ["offline"], seconds, none)
    sliced = together("sharing time", ["offline", "service"], seconds, none)
    limited = together(f"MPS, offline at {percent} %", ["offline", "service"], seconds, held)
    return [alone, offline, sliced, limited], verdicts(alone, offline, limited)


def main() -> None:
    """Run what this machine can."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=30.0, help="of an arm")
    parser.add_argument("--percent", type=int, default=50, help="of the threads, for the offline client")
    parser.add_argument("--power", action="store_true", help="also hold a limit of the power")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    why = missing()
    if why:
        show([], given.json, [f"skipped: {why}"])
        return
    rows: list[dict[str, object]] = []
    notes: list[str] = []
    _facts(rows)
    with tempfile.TemporaryDirectory(prefix="bench-gpu-") as scratch:
        folder = Path(scratch)
        if given.power:
            _tried("power", rows, lambda: _power(folder / "power"))
        try:
            with own_daemon(folder) as pipe:
                _tried("MPS", rows, lambda: _mps(pipe, folder / "state"))
                arms, found = measured(given.seconds, given.percent, pipe)
                rows += found
                notes += [f"{arm.arm}: p99 {arm.p99_us} us, {arm.launches_per_s} launches a second" for arm in arms]
        except FileNotFoundError:
            notes.append(f"MPS skipped: no {PROGRAM}")
    show(rows, given.json, notes)
    if not all(row["ok"] for row in rows):
        raise SystemExit(1)


def _facts(rows: list[dict[str, object]]) -> None:
    smi = subprocess.run(["nvidia-smi", "-q", "-x"], check=True, timeout=60, capture_output=True, text=True).stdout
    with closing(GpuReader()) as reader:
        found = differences(read_nvidia_smi(smi), reader.read())
    rows.append({"what": "NVML as nvidia-smi", "measured": "; ".join(found), "line": "", "ok": not found})


def _tried(what: str, rows: list[dict[str, object]], act: Callable[[], list[str]]) -> None:
    try:
        found = act()
    except CotenantError as error:
        found = [str(error)]
    rows.append(
        {"what": f"{what}: given back after kill -9", "measured": "; ".join(found), "line": "", "ok": not found}
    )


def _mps(pipe: Path, folder: Path) -> list[str]:
    wish = SetKnob(KnobTarget("default", Knob.MPS_THREADS), "30", _WHY)
    return given_back(lambda: MpsKnobs(MpsControl(pipe)), KnobScope.MPS, wish, KnobRules((), mps=True), folder)


def _power(folder: Path) -> list[str]:
    with closing(GpuReader()) as reader:
        uuid = reader.read()[0].uuid
    target = KnobTarget(uuid, Knob.GPU_POWER)
    value = str(int(_read(GpuKnobs, target)) * 9 // 10)
    return given_back(
        GpuKnobs, KnobScope.GPU, SetKnob(target, value, _WHY), KnobRules((), gpus=frozenset({uuid})), folder
    )


if __name__ == "__main__":
    main()

"""The cost of holding leases: a batch taken, renewed, changed and restored, in one process and over the keeper's
socket.

The knobs are cpu.max of groups that are plain folders, which cost about as much as cgroup files and need no rights; the
state file is on the disk of the temporary folder. `syncs` is the number of disk syncs per batch. Over the socket, the
CPU time is that of the keeper process.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from time import process_time
from typing import Any

from bench.machine import show
from cotenant.drivers.leasefile.audit import AuditTrail
from cotenant.drivers.leasefile.file import LeaseFile
from cotenant.model.errors import Transient
from cotenant.model.machine.knob import GiveBack, Knob, KnobTarget, LeaseAnswer, LeaseState, SetKnob
from cotenant.model.machine.node_decision import DecisionTerm, Reason
from cotenant.services.knobs.client import KeeperClient
from cotenant.services.knobs.executor import LeaseExecutor
from cotenant.services.knobs.host import CLOCK, machine_knobs
from cotenant.services.knobs.rules import KnobRules

REASON = Reason(
    "cpu-suppress",
    "budget 3.2 CPU = 16 x 65 % - 6.1 services - 1.1 system",
    (
        DecisionTerm("capacity", 16_000, "mCPU"),
        DecisionTerm("services", -6100, "mCPU"),
        DecisionTerm("system", -1100, "mCPU"),
    ),
)


def folders(leases: int) -> Path:
    root = Path(tempfile.mkdtemp(prefix="cotenant-bench-"))
    for group in ("", *(f"be/pod{number}" for number in range(leases))):
        (root / "tree" / group).mkdir(parents=True)
        (root / "tree" / group / "cgroup.controllers").write_text("cpu\n")
        (root / "tree" / group / "cpu.max").write_text("max 100000\n")
    return root


def settings(leases: int, quota_us: int) -> list[SetKnob]:
    value = f"{quota_us} 100000"
    return [SetKnob(KnobTarget(f"be/pod{number}", Knob.CPU_MAX), value, REASON) for number in range(leases)]


def here(root: Path, leases: int, repeats: int) -> Iterator[dict[str, Any]]:
    file = LeaseFile(root / "state", "bench")
    with machine_knobs(root / "tree") as machine:
        executor = LeaseExecutor(machine.ports, file, AuditTrail(root / "state"), CLOCK, KnobRules(("be",)))

        def act(what: str, times: int, one: Callable[[int], tuple[LeaseAnswer, ...]]) -> dict[str, Any]:
            syncs, taken = file.syncs, []
            for number in range(times):
                start = process_time()
                answers = one(number)
                taken.append(process_time() - start)
                if {answer.state for answer in answers} - {LeaseState.HELD, LeaseState.RESTORED}:
                    raise AssertionError(f"{what}: {answers[0]}")
            return _row("one process", what, leases, median(taken), (file.syncs - syncs) / times)

        yield act("take", 1, lambda number: executor.hold(settings(leases, 20_000)))
        yield act("renew", repeats, lambda number: executor.hold(settings(leases, 20_000)))
        yield act("change", repeats, lambda number: executor.hold(settings(leases, 30_000 + number)))
        yield act("put back", 1, lambda number: executor.give_all_back(REASON))
    file.close()


def over_the_socket(root: Path, leases: int, repeats: int) -> Iterator[dict[str, Any]]:
    async def use(keeper: subprocess.Popen[bytes]) -> list[dict[str, Any]]:
        client = KeeperClient(root / "run/keeper.sock")
        await _awake(client)
        rows = []
        for what, times, quota_us in (("take", 1, 20_000), ("renew", repeats, 20_000)):
            before = _cpu_s(keeper.pid)
            for _ in range(times):
                await client.hold(settings(leases, quota_us))
            rows.append(_row("two processes", what, leases, (_cpu_s(keeper.pid) - before) / times, None))
        before = _cpu_s(keeper.pid)
        await client.give_back([GiveBack(setting.target, REASON) for setting in settings(leases, 20_000)])
        rows.append(_row("two processes", "put back", leases, _cpu_s(keeper.pid) - before, None))
        await client.close()
        return rows

    with _keeper(root) as keeper:
        yield from asyncio.run(use(keeper))


@contextmanager
def _keeper(root: Path) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "cotenant", "keeper", "--root", "be", "--log-level", "error"]
    places = {"--cgroup-root": "tree", "--state-dir": "kept", "--socket": "run/keeper.sock"}
    arguments = [word for name, place in places.items() for word in (name, str(root / place))]
    keeper = subprocess.Popen([*command, *arguments])
    try:
        yield keeper
    finally:
        keeper.terminate()
        keeper.wait()


async def _awake(client: KeeperClient) -> None:
    for _ in range(200):
        try:
            await client.leases()
            return
        except Transient:
            await asyncio.sleep(0.05)
    raise AssertionError("the keeper does not come up")


def _cpu_s(pid: int) -> float:
    """CPU time of a process so far, from its schedstat: the clock ticks of its stat are too coarse."""
    return sum(int(path.read_text().split()[0]) for path in Path(f"/proc/{pid}/task").glob("*/schedstat")) / 1e9


def _row(where: str, what: str, leases: int, seconds: float, syncs: float | None) -> dict[str, Any]:
    return {
        "where": where,
        "batch": what,
        "leases": leases,
        "cpu_ms": round(seconds * 1e3, 2),
        "us_each": round(seconds * 1e6 / leases, 1),
        "syncs": syncs,
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.keeper", description=__doc__)
    parser.add_argument("--leases", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=50)
    parser.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    given = parser.parse_args()
    root = folders(given.leases)
    try:
        rows = [*here(root, given.leases, given.repeats), *over_the_socket(root, given.leases, given.repeats)]
    finally:
        shutil.rmtree(root)
    show(rows, given.json, ("CPU time of one core.",))


if __name__ == "__main__":
    main()

"""A zone on a real kernel whose service grows where batch has the memory: batch is reclaimed first, the service waits
less, and everything is back afterwards, also where the keeper is killed meanwhile.

The machine is a group with a bound (`memory.high`), with swap on the guest's disk: batch's memory is cold and not on
any disk, so that whoever finds no free page has to write one out first. The service grows step by step all the time.
"""

from __future__ import annotations

import asyncio
import mmap
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from tests.fakes.waiting import eventually

from cotenant.drivers.cgroup.counters import CgroupReader
from cotenant.drivers.cgroup.knobs import CgroupKnobs
from cotenant.drivers.cgroup.layout import CgroupLayout
from cotenant.drivers.leasefile.audit import AuditTrail
from cotenant.drivers.leasefile.file import LeaseFile
from cotenant.engine.zones.zone import ZoneLimits
from cotenant.model.errors import InvalidInput
from cotenant.model.json_object import JsonObject
from cotenant.model.machine.knob import KnobScope
from cotenant.model.zones.setting import Backend
from cotenant.policy.zone.deciding import ZoneConfig
from cotenant.services.knobs.executor import Clock, LeaseExecutor
from cotenant.services.knobs.local_keeper import LocalKeeper
from cotenant.services.knobs.rules import KnobRules
from cotenant.services.zones.backends import WeightsBackend
from cotenant.services.zones.definition import ZoneDefinition
from cotenant.services.zones.groups import GroupClass, ZoneGroup
from cotenant.services.zones.protection import guard
from cotenant.services.zones.runner import ZoneRunner
from cotenant.services.zones.state_file import read_state, state_of, write_state

ROOT = Path("/sys/fs/cgroup")
TOP = "zone-memory"
MIB = 1 << 20
BATCH_MIB, SPARE_MIB, GROWTH_MIB = 96, 4, 44
PAUSE_S, STEP = 0.05, MIB // 8  # the service grows by 2.5 MiB a second
PERIOD_S = 0.5
SWAP = "/dev/vda"
KNOBS = ("memory.low", "cpu.idle", "cpu.weight")

pytestmark = pytest.mark.skipif(not Path(SWAP).exists(), reason="there is no disk for swap: it is the guest's")


def touched(size: int) -> mmap.mmap:
    memory = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    for at in range(0, size, mmap.PAGESIZE):
        memory[at] = 1
    return memory


def forked(body: Callable[[], object], group: str = "") -> int:
    """A process in a group; the test's own where there is none."""
    pid = os.fork()
    if pid:
        return pid
    try:
        if group:
            (ROOT / group / "cgroup.procs").write_text(str(os.getpid()))
        body()
    finally:
        os._exit(0)


def ended(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    with suppress(ChildProcessError):
        os.waitpid(pid, 0)


@pytest.fixture
def groups() -> Iterator[Path]:
    """The machine's group with a service's and a batch job's, and swap."""
    subprocess.run(["mkswap", SWAP], check=True, capture_output=True)
    subprocess.run(["swapon", SWAP], check=True)
    top = ROOT / TOP
    try:
        (ROOT / "cgroup.subtree_control").write_text("+cpu +memory")
        top.mkdir()
        (top / "cgroup.subtree_control").write_text("+cpu +memory")
        for name in ("web", "batch"):
            (top / name).mkdir()
        # not memory.max: where the disk is slower than the service, that ends in a kill instead of a wait
        (top / "memory.high").write_text(str((BATCH_MIB + SPARE_MIB) * MIB))
        (top / "web" / "memory.low").write_text("8192")
        (top / "web" / "cpu.weight").write_text("120")
        yield top
    finally:
        for name in ("web", "batch", ""):
            with suppress(OSError):
                (top / name).rmdir()
        subprocess.run(["swapoff", SWAP], check=True)


def settings(top: Path) -> dict[str, str]:
    return {f"{name}/{knob}": (top / name / knob).read_text() for name in ("web", "batch") for knob in KNOBS}


def number(path: Path) -> int:
    return int(path.read_text())


def in_stat(path: Path, name: str) -> int:
    return next(int(line.split()[1]) for line in path.read_text().splitlines() if line.split()[0] == name)


def zone_in_a_keeper(layout: CgroupLayout, folder: Path) -> None:
    """What the keeper's process is made of, until it gets SIGTERM."""

    async def main() -> None:
        stop = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
        file = LeaseFile(folder / "leases", "this boot")
        with CgroupKnobs(layout) as knobs, CgroupReader(layout) as reader:
            executor = LeaseExecutor(
                {KnobScope.CGROUP: knobs},
                file,
                AuditTrail(folder / "leases"),
                Clock(lambda: time.monotonic_ns() // 1000, time.time),
                KnobRules((f"{TOP}",)),
            )
            keeper = LocalKeeper(executor)
            await keeper.start(file.found.leases)
            (folder / "restored").write_text("")
            definition = ZoneDefinition(
                "shop",
                (ZoneGroup(f"{TOP}/web", GroupClass.SERVICE), ZoneGroup(f"{TOP}/batch", GroupClass.BATCH)),
                policy=ZoneConfig(calm_s=2.0),
                limits=ZoneLimits(canary_s=1.0, dwell_s=0.5, ban_s=1.0),
            )
            log = (folder / "log").open("a", buffering=1)
            said = lambda text: print(f"{time.monotonic():.2f} {text}", file=log)  # noqa: E731
            guarded = guard(layout.version("memory"), keeper, said, said)
            assert guarded is not None
            waits, protection = guarded
            zone = definition.machine(root=False)

            def used() -> dict[str, int]:
                found = reader.read(list(zone.rows))
                waits.seen(found)
                return {counters.group: counters.cpu_us or 0 for counters in found}

            runner = ZoneRunner(zone, {Backend.WEIGHTS: WeightsBackend(keeper)}, used, log=said)
            runner.resources = lambda: waits.latest
            runner.protect, runner.reclaim = protection.protect, protection.reclaim

            def write() -> None:
                said(f"{zone.state} {waits.latest}")
                write_state(folder, state_of(zone, time.monotonic(), time.time(), runner.last))

            await runner.run(stop, PERIOD_S, None, write)
            await keeper.stop()
            file.close()

    asyncio.run(main())


@pytest.mark.on_request("a minute and more of a guest of its own: beside other cases the service may have grown before")
def test_batch_is_reclaimed_first_the_service_waits_less_and_all_is_back(
    groups: Path, layout: CgroupLayout, tmp_path: Path
) -> None:
    web, batch = groups / "web", groups / "batch"
    (tmp_path / "leases").mkdir(mode=0o700)
    before = settings(groups)
    ready, go = os.pipe(), os.pipe()

    def cold() -> None:
        memory = touched(BATCH_MIB * MIB)
        os.write(ready[1], b"1")
        signal.pause()
        memory.close()

    def grows() -> None:
        os.read(go[0], 1)
        kept = []
        for _ in range(GROWTH_MIB * MIB // STEP):
            kept.append(touched(STEP))
            time.sleep(PAUSE_S)
        (tmp_path / "grown").write_text("")
        signal.pause()

    pids = [forked(cold, f"{TOP}/batch"), forked(grows, f"{TOP}/web")]
    try:
        os.read(ready[0], 1)
        pids.append(forked(lambda: zone_in_a_keeper(layout, tmp_path)))
        keeper = pids[-1]

        def kept() -> JsonObject | None:
            """The change to reclaim that proved itself."""
            with suppress(InvalidInput):
                history = read_state(tmp_path, "shop")["history"]
                return next((one for one in history if one["rule"] == "zone-reclaim" and one["kept"]), None)
            return None

        def told() -> str:
            return (tmp_path / "log").read_text() if (tmp_path / "log").exists() else "nothing was logged"

        eventually("the zone is active", lambda: "active" in told(), 600)
        os.write(go[1], b"1")
        eventually("reclaim helped, or there was nothing to help", lambda: kept() or (tmp_path / "grown").exists(), 600)
        log = told()
        assert in_stat(groups / "memory.events", "oom_kill") == 0, log
        assert kept() is not None, log  # services waited less than before it
        assert number(web / "memory.low") >= MIB, log
        # batch was reclaimed first
        taken = in_stat(batch / "memory.stat", "pgsteal")
        assert taken >= 4 * MIB // mmap.PAGESIZE, log
        assert 20 * in_stat(web / "memory.stat", "pgsteal") <= taken, log
        # killed while it holds all of this, the next one begins by putting it back
        os.kill(keeper, signal.SIGKILL)
        os.waitpid(keeper, 0)
        assert number(web / "memory.low") >= MIB
        (tmp_path / "restored").unlink()
        pids[-1] = keeper = forked(lambda: zone_in_a_keeper(layout, tmp_path))
        eventually("the next keeper has restored", lambda: (tmp_path / "restored").exists(), 600)
        eventually("its zone is active", lambda: told().count("created\n") == 0 and "active" in told()[len(log) :], 600)
        os.kill(keeper, signal.SIGTERM)
        os.waitpid(keeper, 0)
        pids.pop()
        assert settings(groups) == before, told()
    finally:
        for pid in pids:
            ended(pid)

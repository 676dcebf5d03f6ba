"""A virtual machine that takes a service's CPU is named by its group, and its vCPU's time is told from its devices'.

The guest is a boot sector that jumps to itself, so nothing needs to be installed in it.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.fakes.node.keeper_process import KeeperProcess
from tests.fakes.waiting import becomes, eventually

from cotenant.drivers.cgroup.layout import CgroupLayout
from cotenant.drivers.cgroup.tree import Groups
from cotenant.drivers.qemu.backend import thread_times
from cotenant.drivers.qemu.processes import find_machines
from cotenant.engine.vms.cost import MachineCost, machine_cost
from cotenant.model.machine.knob import Knob, KnobTarget, SetKnob
from cotenant.model.machine.node_decision import Reason
from cotenant.model.vms.host_machine import HostMachine
from cotenant.services.knobs.client import KeeperClient

from .test_keeper_waits import SPIN, keeper, read

__all__ = ["keeper"]

pytestmark = pytest.mark.slow
QEMU = "qemu-system-x86_64"
BOOT_SECTOR = b"\xeb\xfe".ljust(510, b"\0") + b"\x55\xaa"


@pytest.fixture
def machine(groups: Groups, group: str, tmp_path: Path) -> Iterator[int]:
    """The process of a machine whose one vCPU is always busy, on the last CPU and in the group `hog`."""
    if shutil.which(QEMU) is None:
        pytest.skip(f"no {QEMU}: Debian's qemu-system-x86")
    disk = tmp_path / "spin.img"
    disk.write_bytes(BOOT_SECTOR)
    options = ["-accel", "tcg,thread=multi", "-m", "64", "-display", "none", "-nodefaults", "-no-user-config"]
    command = [QEMU, "-name", "guest=spin,debug-threads=on", *options, "-drive", f"file={disk},format=raw"]
    groups.make(f"{group}/hog")
    cpu = max(os.sched_getaffinity(0))
    process = subprocess.Popen(command, preexec_fn=lambda: os.sched_setaffinity(0, {cpu}))
    try:
        groups.move(process.pid, f"{group}/hog")
        yield process.pid
    finally:
        process.kill()
        process.wait()


def vcpu_of(pid: int) -> int:
    """The thread of the first vCPU; 0 while none has that name."""
    return next((thread for thread, name, _ in thread_times(Path(f"/proc/{pid}")) if name.startswith("CPU 0/")), 0)


def found(pid: int) -> HostMachine:
    (machine,) = (machine for machine in find_machines() if machine.pid == pid)
    return machine


def test_a_busy_machine_is_the_culprit_and_its_vcpu_costs_it(
    groups: Groups, group: str, keeper: KeeperProcess, machine: int
) -> None:
    victim, hog = f"{group}/victim", f"{group}/hog"
    with ExitStack() as started:
        spin = [sys.executable, "-c", SPIN, str(max(os.sched_getaffinity(0)))]
        process = subprocess.Popen(spin, stdout=subprocess.PIPE)
        started.callback(process.wait)
        started.callback(process.kill)
        groups.move(process.pid, victim)
        before = found(machine)

        def blamed_us() -> int:
            blame = read(keeper, victim).blame
            return sum(entry.ran_us for entry in blame if entry.culprit == hog)

        eventually("the machine's group is named", lambda: blamed_us() > 20_000)

        def cost() -> MachineCost | None:
            found_cost = machine_cost(before, found(machine), None, 1.0)
            return found_cost if found_cost.vcpus and found_cost.vcpus[0].cpus > 0.2 else None

        paid = eventually("its vCPU ran", cost)
    assert paid is not None
    assert (paid.name, paid.accelerator, len(paid.vcpus)) == ("spin", "TCG", 1)
    assert paid.group.endswith(hog)
    assert paid.vcpus[0].cpus > paid.device_cpus
    assert paid.vcpus[0].stolen > 0.0  # it shares its CPU with the service


def test_a_vcpu_in_a_group_of_its_own_is_held_there_and_its_devices_are_not(
    groups: Groups, group: str, layout: CgroupLayout, keeper: KeeperProcess, machine: int
) -> None:
    """The group per vCPU is made as libvirt makes it (version 1)."""
    cpu = layout.by_controller["cpu"]
    if cpu.version != 1:
        pytest.skip("threads have groups of their own in version 1 only, unless a subtree is threaded")
    vcpu = f"{group}/hog/vcpu0"
    groups.make(vcpu)
    thread = eventually("its vCPU has its thread's name", lambda: vcpu_of(machine))
    folder = Path(cpu.path) / group / "hog"
    (folder / "vcpu0" / "tasks").write_text(str(thread))
    assert found(machine).group.endswith(f"{group}/hog")  # the machine's group is its process's

    async def hold() -> str:
        client = KeeperClient(keeper.path)
        try:
            # less than it takes at once, and for longer than a busy machine makes the case last
            wish = SetKnob(KnobTarget(vcpu, Knob.CPU_MAX), "1000 100000", Reason("test", "a bit"), 600_000_000)
            (answer,) = await client.hold([wish])
            return answer.state.value
        finally:
            await client.close()

    def throttled(where: Path) -> int:
        return int(dict(line.split() for line in (where / "cpu.stat").read_text().splitlines())["nr_throttled"])

    assert asyncio.run(hold()) == "held"
    eventually("the vCPU is throttled", lambda: throttled(folder / "vcpu0") >= 5)
    assert throttled(folder) == 0
    assert groups.threads(vcpu) == (thread,)

    def elsewhere() -> int:
        """Threads of the machine that are not in its group; of its disk's threads one may end meanwhile."""
        return len(found(machine).threads) - len(groups.threads(f"{group}/hog"))

    becomes("the others are where they were", elsewhere, 1)

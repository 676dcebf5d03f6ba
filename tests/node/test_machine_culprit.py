"""A virtual machine that takes a service's CPU is named by its group, and its vCPU's time is told from its devices'.

The guest is a boot sector that jumps to itself, so nothing needs to be installed in it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.fakes.node.keeper_process import KeeperProcess
from tests.fakes.waiting import eventually

from cotenant.drivers.cgroup.tree import Groups
from cotenant.drivers.qemu.processes import find_machines
from cotenant.engine.vms.cost import MachineCost, machine_cost
from cotenant.model.vms.host_machine import HostMachine

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

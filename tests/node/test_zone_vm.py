"""A zone in a virtual machine on this host: booted under whatever works here, asked for commands and schedulers,
and gone without a trace.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.fakes.node.busy_host import unhurried
from tests.fakes.waiting import patience
from tests.unit.services.zones.test_runner import MemoryKeeper

from cotenant.drivers.ebpf.libbpf import objects_folder
from cotenant.drivers.qemu.kernel import zone_kernel
from cotenant.drivers.qemu.machine import missing
from cotenant.drivers.qemu.packages import GuestUnavailable
from cotenant.drivers.qemu.processes import find_machines
from cotenant.engine.vms.cost import machine_cost
from cotenant.model.errors import Unsupported
from cotenant.services.zones.host import ZoneHost
from cotenant.services.zones.log_file import read_log
from cotenant.services.zones.opening import this_host
from cotenant.services.zones.state_file import read_state

__all__ = ["unhurried"]
BOX = """
zone: box
groups:
  - {group: web, kind: service, weight: 400, late_ms: 10}
  - {group: batch, kind: batch}
vm: {memory_mib: 512}
limits: {canary_s: 0.1}
start: latency
modes: [latency]
period_ms: 200
"""
# the status of memory.reclaim is EAGAIN where less is found
PROTECT = """cd /sys/fs/cgroup
echo 1048576 > web/memory.low; cat web/memory.low; (echo 4096 > batch/memory.reclaim) 2> /dev/null
cut -d ' ' -f 1 web/memory.pressure | head -n 1; cut -d ' ' -f 1 batch/io.pressure | head -n 1
test -w batch/memory.reclaim"""


@pytest.mark.slow
@pytest.mark.usefixtures("unhurried")
def test_a_zone_in_a_virtual_machine(tmp_path: Path) -> None:
    if lack := missing():
        pytest.skip(f"a virtual machine needs {lack}")
    try:
        zone_kernel()
    except GuestUnavailable as error:
        pytest.skip(f"no kernel for a guest: {error}")

    try:
        host = this_host()
    except Unsupported as error:
        pytest.skip(str(error))

    async def main() -> None:
        zones = ZoneHost(MemoryKeeper(), host, tmp_path, ("zones",))
        probe = Path(f"/etc/cotenant-{tmp_path.name}")
        try:
            state = await zones.create(BOX, "box.yaml")
            machine = Path(f"/proc/{state['vm']['pid']}")
            assert "qemu" in (machine / "comm").read_text()
            (seen,) = (found for found in find_machines() if found.pid == state["vm"]["pid"])
            assert (seen.name, len(seen.vcpus)) == ("zone-box", 1)
            found = await zones.execute(
                "box",
                "web",
                [
                    "sh",
                    "-c",
                    # of the host's root, not of a file system that the guest mounts over it (/tmp, /run)
                    f"cat /proc/self/cgroup /sys/fs/cgroup/web/cpu.weight; mount -o remount,rw /; echo > {probe}",
                ],
            )
            assert found["stdout"] == "0::/web\n400\n"
            assert (
                "Read-only file system" in found["stderr"]
            )  # this host's kernel refuses it, whatever the guest mounts
            assert found["exit"] != 0
            kept = await zones.execute("box", "web", ["sh", "-c", PROTECT])
            # what the guest's program writes, on the guest's kernel: protected, reclaimed, and pressure is counted
            assert kept["stdout"].split() == ["1048576", "some", "some"], kept
            async with asyncio.timeout(patience(60)):
                while not (front := read_state(tmp_path, "box")["monitors"].get("frontEnd")):
                    await asyncio.sleep(0.05)
            pressed = ("cpu_pressure", "memory_pressure", "io_pressure", "steal_cpus")
            assert None not in [front[name] for name in pressed]  # the guest's kernel counts them
            (after,) = (found for found in find_machines() if found.pid == seen.pid)
            cost = machine_cost(seen, after, None, 1.0)  # it worked for what was asked of it
            assert sum(vcpu.cpus for vcpu in cost.vcpus) > 0
            assert cost.cpus > cost.device_cpus
            if (objects_folder() / "zone_latency.bpf.o").is_file():
                async with asyncio.timeout(patience(60)):
                    while read_state(tmp_path, "box")["state"] != "active":
                        await asyncio.sleep(0.05)
                assert (await zones.switch("box", "root/latency"))["setting"] == "root/latency"
                ops = await zones.execute("box", "batch", ["cat", "/sys/kernel/sched_ext/root/ops"])
                assert ops["stdout"].strip() == "cotenant_latency"
        finally:
            await zones.stop()
            written = probe.exists()
            probe.unlink(missing_ok=True)
        assert not written
        assert not machine.exists()
        assert not (tmp_path / "vm/box").exists()

    try:
        asyncio.run(main())
    except Exception:
        print("\n".join(entry["text"] for entry in read_log(tmp_path, "box", 60)))
        raise

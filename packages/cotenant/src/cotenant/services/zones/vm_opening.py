"""A zone in a virtual machine, opened: accelerator, host group, machine, guest, and the zone's loop over it.

Whether KVM runs a stock kernel shows only when one boots (opening /dev/kvm succeeds where nested virtualisation does
not work), and a machine that does not come up must leave nothing. KVM is tried once per kernel and boot of this host,
for `PROBE_S`, until the guest's first line; else TCG. QEMU and virtiofsd are members of one host group, made here and
removed at the end. The zone's engine runs on the host; its back ends are the guest's.
Limits: one outcome of the probe for all zones; a guest has one chance to start.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import os
import shlex
import shutil
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from cotenant.drivers.qemu.archive import archive
from cotenant.drivers.qemu.kernel import kept_kernel
from cotenant.drivers.qemu.machine import Machine, MachineSpec, missing
from cotenant.drivers.qemu.packages import Kernel
from cotenant.model.errors import CotenantError, Permanent, Transient, Unsupported
from cotenant.model.json_object import JsonObject
from cotenant.model.zones.setting import Backend
from cotenant.model.zones.state import ZoneChange
from cotenant.services.running import cancelled
from cotenant.services.zones import vm_guest_agent as guest_agent
from cotenant.services.zones.definition import BackendChoice, VmDefinition, ZoneDefinition
from cotenant.services.zones.opening import Host
from cotenant.services.zones.runner import ZoneRunner
from cotenant.services.zones.vm_backend import GuestBackend, GuestState
from cotenant.services.zones.vm_link import GuestLink

PROBE_S = 10.0
AGENT_WITHIN_S = 150.0
FIRST_LINE = "cotenant: the guest has booted"
_INIT = f"""#!/busybox sh
/busybox mkdir -p /proc /sys /dev /host
/busybox mount -t proc proc /proc
/busybox mount -t devtmpfs dev /dev
/busybox echo "{FIRST_LINE}"
/busybox mount -t virtiofs -o ro host /host
/busybox mount -t proc proc /host/proc
/busybox mount -t sysfs sys /host/sys
/busybox mount -t devtmpfs dev /host/dev
/busybox mount -t tmpfs tmpfs /host/run
@own_tmp@
/busybox mount -t cgroup2 cgroup2 /host/sys/fs/cgroup
/busybox mount -t bpf bpf /host/sys/fs/bpf
/busybox cp /agent.py /run-agent /host/run/
/busybox chroot /host /bin/sh /run/run-agent
/busybox sync
/busybox poweroff -f
"""


def check_vm() -> Kernel:
    """The kernel of guests on this host. Raises `Unsupported` with what is missing."""
    if lack := missing():
        raise Unsupported("a zone in a virtual machine", lack)
    kernel = kept_kernel()
    if kernel is None:
        raise Unsupported("a zone in a virtual machine", "a kernel for guests: `cotenant zone kernel` fetches one")
    return kernel


@asynccontextmanager
async def opened_vm(
    definition: ZoneDefinition,
    host: Host,
    folder: Path,
    changed: Callable[[ZoneChange], None],
    log: Callable[[str], None],
) -> AsyncIterator[ZoneRunner]:
    """The runner of a zone in a machine that has started. `folder`: of the host's zones. Raises where the machine
    or its agent does not start.
    """
    vm = definition.vm
    assert vm is not None
    kernel = check_vm()
    started_s = time.monotonic()
    with _host_group(host, vm, folder / f"{definition.zone}.groups") as procs:
        machine, link = None, GuestLink()
        try:
            place, initrd = folder / "vm" / definition.zone, _initrd()

            def make(accel: str, console: Callable[[str], None]) -> Machine:
                spec = MachineSpec(definition.zone, kernel.image, place, vm.memory_mib, vm.cpus, accel, procs)
                return Machine(spec, initrd, console)

            outcome = folder / f"kvm.{kernel.version}"
            machine = await first_booted(_accelerators(outcome), make, log)
            outcome.write_text("yes" if machine.spec.accel == "kvm" else "no")
            hello = await link.open(machine.agent_socket, AGENT_WITHIN_S)
            log(
                f"the guest answers: Linux {hello['kernel']}, Python {hello['python']}, after "
                f"{time.monotonic() - started_s:.1f} s"
            )
            state = GuestState(link)
            backends = {
                backend: GuestBackend(state, backend, definition.modes, definition.exclusive)
                for backend in (Backend.ROOT, Backend.WEIGHTS)
            }
            root = definition.backend is not BackendChoice.WEIGHTS
            runner = ZoneRunner(definition.machine(root=root), backends, lambda: state.used_us, changed, log=log)
            runner.details = {
                "vm": {
                    "pid": machine.pid,
                    "accelerator": machine.spec.accel,
                    "kernel": hello["kernel"],
                    "memoryMib": vm.memory_mib,
                    "cpus": vm.cpus,
                    "group": vm.group,
                    "bootSeconds": round(time.monotonic() - started_s, 1),
                }
            }
            runner.execute = _executor(link)
            yield runner
        finally:
            with contextlib.suppress(CotenantError, OSError):
                await link.close()
            if machine is not None:
                with contextlib.suppress(Transient):
                    await machine.control("quit")
                await machine.stop()


def _accelerators(outcome: Path) -> tuple[str, ...]:
    """What is tried, in order. `outcome`: of the probe of KVM with this kernel, where there was one."""
    known = outcome.read_text() if outcome.exists() else ""
    return ("tcg",) if known == "no" or not os.access("/dev/kvm", os.R_OK | os.W_OK) else ("kvm", "tcg")


def _executor(link: GuestLink) -> Callable[[str, list[str]], Any]:
    async def execute(group: str, command: list[str]) -> JsonObject:
        found: JsonObject = await link.ask("exec", guest_agent.LONGEST_COMMAND_S + 10, group=group, command=command)
        return found

    return execute


async def first_booted(
    accelerators: Sequence[str], make: Callable[[str, Callable[[str], None]], Machine], log: Callable[[str], None]
) -> Machine:
    """The machine under the first accelerator whose guest prints its first line; `make` takes accelerator and
    console. Raises `Permanent` where none does, or what ends the start under the last one.
    """
    for accel in accelerators:
        last = accel == accelerators[-1]
        booted = asyncio.Event()

        def console(line: str, booted: asyncio.Event = booted) -> None:
            if FIRST_LINE in line:
                booted.set()
            log(f"console: {line}")

        machine = make(accel, console)
        within_s = AGENT_WITHIN_S if last else PROBE_S
        try:
            await machine.start()
            if await _boots(machine, booted, within_s):
                log(f"the machine runs under {accel}")
                return machine
        except Transient:
            # QEMU can end before its sockets exist, as where KVM refuses a register
            if last:
                raise
        except BaseException:
            await machine.stop()
            raise
        await machine.stop()
        if not last:
            log(f"{accel} does not boot the guest here within {within_s:g} s: {accelerators[-1]} is tried")
    raise Permanent("the machine did not boot; the zone's log has its console")


async def _boots(machine: Machine, booted: asyncio.Event, within_s: float) -> bool:
    """Whether the guest's first line came before the machine ended."""
    waits = [asyncio.create_task(machine.wait()), asyncio.create_task(booted.wait())]
    try:
        await asyncio.wait(waits, timeout=within_s, return_when=asyncio.FIRST_COMPLETED)
    finally:
        await cancelled(waits)
    return booted.is_set()


@contextlib.contextmanager
def _host_group(host: Host, vm: VmDefinition, record: Path) -> Iterator[tuple[Path, ...]]:
    """The files through which processes become members of the machine's group, in every tree of the host. Groups
    that were made, also by a process that was killed (`record`), are removed at the end.
    """
    made = [Path(line) for line in record.read_text().splitlines()] if record.exists() else []
    procs: list[Path] = []
    try:
        if vm.group:
            for tree in sorted({hierarchy.path for hierarchy in host.layout.by_controller.values()}):
                group = Path(tree) / vm.group
                if not group.is_dir() and group.parent.is_dir():
                    group.mkdir()
                    made.append(group)
                    record.write_text("\n".join(map(str, made)))
                if group.is_dir():
                    procs.append(group / "cgroup.procs")
            if not procs:
                raise Permanent(f"group {vm.group} cannot be made: its parent does not exist")
        yield tuple(procs)
    finally:
        for group in made:
            with contextlib.suppress(OSError):
                group.rmdir()
        record.unlink(missing_ok=True)


def _initrd() -> bytes:
    """The first root: busybox, the agent, and what starts it with this host's Python and this package."""
    spec = importlib.util.find_spec("cotenant")
    assert spec is not None
    assert spec.origin is not None
    source = Path(spec.origin).parents[1]
    run = (
        "cd /run && exec env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/run TMPDIR=/run"
        f" PYTHONPATH={shlex.quote(str(source))} PYTHONDONTWRITEBYTECODE=1 {shlex.quote(sys.executable)} -u "
        "/run/agent.py\n"
    )
    # a temporary folder of the guest's own, unless Python or this package is in this host's
    in_tmp = any(path.is_relative_to("/tmp") for path in (source, Path(sys.executable), Path(sys.base_prefix)))
    own_tmp = "" if in_tmp else "/busybox mount -t tmpfs tmpfs /host/tmp"
    busybox = Path(str(shutil.which("busybox"))).read_bytes()
    return archive(
        {
            "init": (_INIT.replace("@own_tmp@", own_tmp).encode(), 0o755),
            "busybox": (busybox, 0o755),
            "agent.py": (Path(guest_agent.__file__).read_bytes(), 0o644),
            "run-agent": (run.encode(), 0o644),
        }
    )

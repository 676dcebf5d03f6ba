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
import os
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from cotenant.drivers.qemu.kernel import kept_kernel
from cotenant.drivers.qemu.kernel_build import built_kernel, built_ticks
from cotenant.drivers.qemu.machine import Forward, MachineSpec, VirtualMachine, missing
from cotenant.drivers.qemu.packages import Kernel
from cotenant.model.errors import CotenantError, Permanent, Transient, Unsupported
from cotenant.model.json_object import JsonObject
from cotenant.model.zones.setting import Backend
from cotenant.model.zones.state import ZoneChange
from cotenant.model.zones.zone_reading import MachineSigns
from cotenant.policy.zone.kernel_choice import USUAL_HZ, chosen_kernel
from cotenant.services.running import cancelled
from cotenant.services.zones import vm_guest_agent as guest_agent
from cotenant.services.zones.agent_view import ZoneAgentView
from cotenant.services.zones.definition import BackendChoice, ZoneDefinition
from cotenant.services.zones.opening import ZoneSupport
from cotenant.services.zones.runner import ZoneRunner
from cotenant.services.zones.vm_backend import GuestBackend, GuestState
from cotenant.services.zones.vm_definition import PACKAGE, KernelDefinition, KernelPreemption
from cotenant.services.zones.vm_host_group import GROUPS_SUFFIX, host_group
from cotenant.services.zones.vm_images import beside, checked, unpack_images
from cotenant.services.zones.vm_link import GuestLink
from cotenant.services.zones.vm_monitor import monitored
from cotenant.services.zones.vm_pod_names import span_environment, told_of
from cotenant.services.zones.vm_root import FIRST_LINE, first_root, shared_paths

PROBE_S = 10.0
AGENT_WITHIN_S = 150.0
PODS_WITHIN_S = 120.0
MACHINES = "vm"  # the folder of machines' folders, below that of the host's zones


def check_vm(definition: ZoneDefinition, source: str) -> Kernel:
    """The kernel of the zone's guest on this host. `source`: the place of its file. Raises `Unsupported` with what is
    missing, `InvalidInput`.
    """
    assert definition.vm is not None
    wanted = definition.vm.kernel
    if lack := missing():
        raise Unsupported("a zone in a virtual machine", lack)
    if wanted.file:
        image = checked(beside(wanted.file, source), wanted.sha256, "vm.kernel.file")
        return Kernel(image.name, image, ())
    if wanted.hz and wanted.hz != USUAL_HZ and not wanted.package:
        built = built_kernel(wanted.hz)
        if built is None:
            command = f"`cotenant zone kernel --hz {wanted.hz}` builds it"
            raise Unsupported("a zone in a virtual machine", f"a kernel with {wanted.hz} ticks a second: {command}")
        checked(built.image, wanted.sha256, "vm.kernel.sha256")
        return built
    package = wanted.package or PACKAGE
    kernel = kept_kernel(package)
    if kernel is None:
        option = f" --package {package}" if wanted.package else ""
        raise Unsupported("a zone in a virtual machine", f"its kernel: `cotenant zone kernel{option}` fetches it")
    checked(kernel.image, wanted.sha256, "vm.kernel.sha256")
    return kernel


def kernel_for(definition: ZoneDefinition) -> tuple[ZoneDefinition, str]:
    """The zone with what `backend: auto` chooses for its kernel where its author says nothing, and why; "" where
    nothing is chosen. A kernel of the author's own is left as it is.
    """
    assert definition.vm is not None
    stated = definition.vm.kernel
    if definition.backend is not BackendChoice.AUTO or stated != KernelDefinition():
        return definition, ""
    choice = chosen_kernel(definition.rows().values(), built_ticks())
    kernel = replace(stated, preempt=KernelPreemption(choice.preempt), hz=choice.hz)
    return replace(definition, vm=replace(definition.vm, kernel=kernel)), choice.reason.text


@asynccontextmanager
async def opened_vm(
    definition: ZoneDefinition,
    host: ZoneSupport,
    folder: Path,
    source: str,
    agent: str | None,
    changed: Callable[[ZoneChange], None],
    log: Callable[[str], None],
) -> AsyncIterator[ZoneRunner]:
    """The runner of a zone in a machine that has started. `folder`: of the host's zones; `source`: the place of the
    zone's file; `agent`: of the host, which knows the burn rates of its pods. Raises where the machine or its agent
    does not start.
    """
    definition, why = kernel_for(definition)
    if why:
        log(f"its kernel: {why}")
    vm = definition.vm
    assert vm is not None
    kernel = check_vm(definition, source)
    started_s = time.monotonic()
    async with contextlib.AsyncExitStack() as exits:
        procs = exits.enter_context(host_group(host.layout, vm, folder / f"{definition.zone}{GROUPS_SUFFIX}"))
        machine, link = None, GuestLink()
        try:
            place, network = folder / MACHINES / definition.zone, bool(definition.pods)
            volumes = [volume.host for pod in definition.pods for volume in pod.volumes if volume.host]
            shared = shared_paths((*vm.host_paths, *volumes))
            initrd = first_root(kernel.modules, network, shared)
            about = {pod.name: told_of(pod, definition.zone, vm.namespace) for pod in definition.pods}
            pods: list[JsonObject] = []
            on_disk = [0]

            def fill(making: Path) -> list[tuple[str, Path]]:
                told = {name: span_environment(name, entry) for name, entry in about.items()}
                folders, pods[:], on_disk[0] = unpack_images(definition.pods, source, making, vm.disk_mib, told)
                return folders

            def make(accel: str, console: Callable[[str], None]) -> VirtualMachine:
                spec = MachineSpec(
                    *(definition.zone, kernel.image, place, vm.memory_mib, vm.cpus, accel, procs),
                    shared=shared,
                    cmdline=vm.kernel.command_line,
                    network=network,
                    forwards=_forwards(definition),
                    outbound=vm.outbound,
                )
                return VirtualMachine(spec, initrd, console, fill)

            outcome = folder / f"kvm.{kernel.version}"
            machine = await first_booted(_accelerators(outcome), make, log)
            outcome.write_text("yes" if machine.spec.accel == "kvm" else "no")
            hello = await link.open(machine.agent_socket, AGENT_WITHIN_S)
            log(
                f"the guest answers: Linux {hello['kernel']}, Python {hello['python']}, after "
                f"{time.monotonic() - started_s:.1f} s"
            )
            _check_kernel(vm.kernel, hello)
            monitor = await exits.enter_async_context(monitored(machine))
            state = GuestState(link, about, log, monitor.seen)
            backends = {
                backend: GuestBackend(state, backend, definition.modes, definition.exclusive)
                for backend in (Backend.ROOT, Backend.WEIGHTS)
            }
            root = definition.backend is not BackendChoice.WEIGHTS
            runner = ZoneRunner(definition.machine(root=root), backends, lambda: state.used_us, changed, log=log)
            details = {
                "pid": machine.pid,
                "accelerator": machine.spec.accel,
                "kernel": hello["kernel"],
                "preempt": hello["preempt"],
                "hz": hello["hz"],
                "memoryMib": vm.memory_mib,
                "cpus": vm.cpus,
                "group": vm.group,
                "cpuMilli": vm.cpu_milli,
                "diskMib": vm.disk_mib,
                "diskBytes": on_disk[0],
                "kernelChosen": why,
                "bootSeconds": round(time.monotonic() - started_s, 1),
            }
            runner.details = {"vm": details, "pods": state.pods, "monitors": monitor.figures}
            runner.signs = lambda: MachineSigns(vm.cpus, monitor.softirq_cpus)
            runner.resources, runner.reclaim = lambda: state.waits.latest, state.reclaim
            runner.execute = _executor(link)
            if agent is not None and definition.pods:
                runner.burns = ZoneAgentView(agent, definition, lambda group: True).pod_burns
            if pods:
                await link.ask("pods", PODS_WITHIN_S, pods=pods)
            yield runner
        finally:
            with contextlib.suppress(CotenantError, OSError):
                await link.close()
            if machine is not None:
                with contextlib.suppress(Transient):
                    await machine.control("quit")
                await machine.stop()


def _forwards(definition: ZoneDefinition) -> tuple[Forward, ...]:
    return tuple(
        Forward(port.address, port.host, port.container) for pod in definition.pods for port in pod.ports if port.host
    )


def _check_kernel(wanted: KernelDefinition, hello: JsonObject) -> None:
    """Refuse a guest whose kernel is not what the zone's file says. Raises `Permanent`."""
    if wanted.preempt is not None and hello["preempt"] != wanted.preempt.value:
        raise Permanent(
            f"the guest's kernel runs preempt={hello['preempt'] or 'unknown'} and not {wanted.preempt.value}: Linux "
            f"{hello['kernel']} does not know it"
        )
    if wanted.hz and hello["hz"] != wanted.hz:
        raise Permanent(f"the guest's kernel has {hello['hz']} ticks a second and not {wanted.hz}: another kernel")


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
    accelerators: Sequence[str],
    make: Callable[[str, Callable[[str], None]], VirtualMachine],
    log: Callable[[str], None],
) -> VirtualMachine:
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


async def _boots(machine: VirtualMachine, booted: asyncio.Event, within_s: float) -> bool:
    """Whether the guest's first line came before the machine ended."""
    waits = [asyncio.create_task(machine.wait()), asyncio.create_task(booted.wait())]
    try:
        await asyncio.wait(waits, timeout=within_s, return_when=asyncio.FIRST_COMPLETED)
    finally:
        await cancelled(waits)
    return booted.is_set()

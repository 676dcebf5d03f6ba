"""Runs and prints the commands of `cotenant vm`."""

from __future__ import annotations

import asyncio
from math import isfinite

import msgspec

from cotenant.cli.tables import print_line, print_words
from cotenant.model.cluster.class_names import CLASSES
from cotenant.model.errors import InvalidInput
from cotenant.model.printable import printable
from cotenant.model.quantities import whole
from cotenant.model.vms.machine import Machine, MachineSize, MachineVerb
from cotenant.services.vms import command
from cotenant.services.vms.command import MachineLocation, connected

_MIB = 1 << 20
_MAX_VCPUS = 4096


def every(where: MachineLocation, everywhere: bool, json: bool) -> int:
    """Print the list."""

    async def run() -> list[Machine]:
        async with connected(where) as platform:
            return await platform.machines(everywhere)

    found = asyncio.run(run())
    if json:
        print(msgspec.json.encode({"machines": found}).decode())
        return 0
    rows = [
        (
            machine.namespace,
            machine.name,
            machine.state.value,
            machine.node or "-",
            _size(machine.size),
            machine.class_name or "-",
            machine.why or machine.pending,
        )
        for machine in found
    ]
    print_words(("namespace", "name", "state", "node", "size", "class", ""), rows)
    return 0


def show(where: MachineLocation, name: str, json: bool) -> int:
    """Print one machine."""

    async def run() -> Machine:
        async with connected(where) as platform:
            return await platform.machine(name)

    machine = asyncio.run(run())
    if json:
        print(msgspec.json.encode(machine).decode())
        return 0
    print_line(f"{machine.key}: {machine.state.value}" + (f", {machine.why}" if machine.why else ""), strong=True)
    print_line(f"size {_size(machine.size)}, class {machine.class_name or 'none'}")
    if machine.node:
        print_line(f"on {machine.node}" + (f" in pod {machine.pod}" if machine.pod else ""))
    if machine.group:
        print_line(f"server group {machine.group}")
    if machine.pending:
        print_line(machine.pending)
    if machine.pod:
        print_line(f"why its pod is where it is, or waits: cotenant explain pod {machine.namespace}/{machine.pod}")
    return 0


def change(where: MachineLocation, verb: str, name: str, waits: bool, timeout_s: float) -> int:
    """Tell a machine a verb."""
    return _change(where, MachineVerb(verb), name, MachineSize(), waits, timeout_s)


def resize(
    where: MachineLocation, name: str, flavor: str, vcpus: int, memory: str, waits: bool, timeout_s: float
) -> int:
    """Give it another size."""
    if not 0 <= vcpus <= _MAX_VCPUS:
        raise InvalidInput("--vcpus", vcpus, f"1 to {_MAX_VCPUS}")
    memory_mib = whole(memory, "--memory") // _MIB if memory else 0
    if memory and memory_mib < 1:
        raise InvalidInput("--memory", memory, "at least 1Mi")
    return _change(where, MachineVerb.RESIZE, name, MachineSize(vcpus, memory_mib, flavor), waits, timeout_s)


def set_class(where: MachineLocation, name: str, class_name: str) -> int:
    """Give it a class."""
    if class_name not in (*CLASSES, "none"):
        raise InvalidInput("CLASS", class_name, f"{', '.join(CLASSES)} or none")
    wanted = "" if class_name == "none" else class_name

    async def run() -> str:
        async with connected(where) as platform:
            return await platform.set_class(await platform.machine(name), wanted)

    _say(f"{name} has class {class_name}: {asyncio.run(run())}")
    return 0


def _change(
    where: MachineLocation, verb: MachineVerb, name: str, to: MachineSize, waits: bool, timeout_s: float
) -> int:
    if not (isfinite(timeout_s) and timeout_s > 0):
        raise InvalidInput("--timeout-s", timeout_s, "seconds above 0")

    async def run() -> int:
        async with connected(where) as platform:
            outcome = await command.change(platform, verb, name, to, timeout_s if waits else 0.0, _say)
        if outcome.failure:
            _say(f"{name}: {outcome.failure}")
            return 1
        machine = outcome.machine
        if not waits:
            _say(f"{machine.key}: {verb.value} was asked for")
        else:
            said = f"{machine.key} is {machine.state.value}" + (f" on {machine.node}" if machine.node else "")
            _say(said + (f", {_size(machine.size)}" if verb is MachineVerb.RESIZE else ""))
            if machine.pending and verb is MachineVerb.RESIZE and not where.cloud:
                _say(f"{machine.pending} (`cotenant vm restart {machine.name}`)")
        return 0

    return asyncio.run(run())


def _size(size: MachineSize) -> str:
    parts = [f"{size.vcpus} vCPU" if size.vcpus else "", f"{size.memory_mib} MiB" if size.memory_mib else ""]
    numbers = ", ".join(part for part in parts if part)
    if size.flavor:
        return f"{size.flavor} ({numbers})" if numbers else size.flavor
    return numbers or "-"


def _say(line: str) -> None:
    print(printable(line), flush=True)

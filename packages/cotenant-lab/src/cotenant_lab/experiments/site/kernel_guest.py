"""A guest that runs one program of the experiments on a given kernel and hands back its JSON, on a clock that counts
instructions.

A kernel's preemption model and tick are measured on that kernel, and a busy host must not show in the figures. The
machine is that of zones (drivers/qemu) with the host's root, read-only, so that the guest has this interpreter and
programs of this host.
Limits: TCG: no caches, 250 million instructions a second, which several CPUs share in turns.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from cotenant.drivers.qemu.guest_root import WHOLE
from cotenant.drivers.qemu.machine import MachineSpec, VirtualMachine
from cotenant.drivers.qemu.packages import Kernel
from cotenant.model.errors import Permanent
from cotenant.model.json_object import JsonObject
from cotenant.services.zones.vm_link import GuestLink
from cotenant.services.zones.vm_root import first_root

BOOTS_WITHIN_S = 1200.0  # of this host's time, however busy it is
RUNS_WITHIN_S = 3600.0
MEMORY_MIB = 768


@dataclass(frozen=True, slots=True)
class GuestRun:
    """What came of it. `preempt`, `hz`: as the guest itself says; `result`: empty where it runs another model than was
    asked for.
    """

    kernel: str
    preempt: str
    hz: int
    result: JsonObject


async def run_in_guest(
    kernel: Kernel,
    preempt: str,
    module: str,
    say: Callable[[str], None],
    cpus: int = 1,
    threads: int = 1,
    words: Sequence[str] = (),
) -> GuestRun:
    """Boot with this preemption model, run `python -m MODULE WORDS` where the kernel took it, power off. `cpus` in
    cores of so many `threads`. Raises `Permanent` with what it said where it fails.
    """
    with tempfile.TemporaryDirectory(prefix="cotenant-kernels-") as folder:
        spec = MachineSpec(
            *("kernels", kernel.image, Path(folder) / "machine", MEMORY_MIB, cpus, "tcg"),
            cmdline=f"nokaslr mitigations=off preempt={preempt}",
            counted=True,
            threads=threads,
        )
        console: list[str] = []
        machine = VirtualMachine(spec, first_root(kernel.modules, network=False, shared=(WHOLE,)), console.append)
        link = GuestLink()
        try:
            await machine.start()
            hello = await link.open(machine.agent_socket, BOOTS_WITHIN_S)
            say(f"Linux {hello['kernel']}, preempt={hello['preempt']}, {hello['hz']} ticks a second")
            if hello["preempt"] != preempt:
                return GuestRun(hello["kernel"], hello["preempt"], hello["hz"], {})
            path = f"PYTHONPATH={os.pathsep.join(filter(None, sys.path))}"
            command = ["env", path, os.path.realpath(sys.executable), "-S", "-m", module, *words]
            done = await link.ask("exec", RUNS_WITHIN_S, group="", command=command)
            if done["exit"]:
                raise Permanent(f"{module} in the guest: {done['stderr'].strip()[-500:]}")
            return GuestRun(hello["kernel"], hello["preempt"], hello["hz"], json.loads(done["stdout"]))
        except Permanent as error:
            said = f"; its console: {' '.join(console[-5:])}" if console else ""
            raise Permanent(f"{error}{said}") from error
        finally:
            await link.close()
            await machine.stop()

"""Virtual machines that run on this host, whoever started them: QEMU's processes, their vCPU threads and their groups.

A vCPU's thread is known by its name, `CPU 3/KVM`, which QEMU gives where it was started with `debug-threads=on`, as
libvirt, KubeVirt and Nova do. The process and its group are the kernel's word; the machine's name is from the command
line, so whoever started it chose it.
Limits: of a QEMU without `debug-threads=on` the vCPUs are not told from its other threads.

Source: QEMU 7.2, util/qemu-thread-posix.c, accel/kvm/kvm-accel-ops.c; kernel drivers/vhost (threads `vhost-PID`).
"""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

from cotenant.drivers.kubelet.pod_of_process import uid_of_pod
from cotenant.drivers.qemu.backend import thread_times
from cotenant.model.vms.host_machine import HostMachine, ThreadTime

_PROC = Path("/proc")
_VCPU = re.compile(r"CPU (\d+)/(\w+)")
_VHOST = re.compile(r"vhost-(\d+)(?:-\d+)?")
_MAX_BYTES = 64 << 10


def find_machines(proc: Path = _PROC) -> tuple[HostMachine, ...]:
    """All that run now, by process id. What ends meanwhile is left out."""
    qemus: list[Path] = []
    kernel_us: dict[int, int] = {}  # run by vhost threads that stand beside the processes, as before Linux 6.4
    for process in sorted((path for path in proc.iterdir() if path.name.isdigit()), key=lambda path: int(path.name)):
        if (process / "exe").is_symlink() and _program(process).startswith("qemu-"):
            qemus.append(process)
        elif (of := _VHOST.fullmatch(_text(process / "comm").strip())) and _is_of_the_kernel(process):
            kernel_us[int(of[1])] = kernel_us.get(int(of[1]), 0) + sum(t.run_us for _, _, t in thread_times(process))
    found = (_machine(process, kernel_us.get(int(process.name), 0), proc) for process in qemus)
    return tuple(machine for machine in found if machine is not None)


def _machine(process: Path, kernel_us: int, proc: Path) -> HostMachine | None:
    vcpus: dict[int, ThreadTime] = {}
    accelerator, threads, other_us, vhost_us = "", [], 0, kernel_us
    for thread, name, times in thread_times(process):
        threads.append(thread)
        if vcpu := _VCPU.fullmatch(name):
            vcpus[int(vcpu[1])], accelerator = times, vcpu[2]
        elif name.startswith("vhost-"):
            vhost_us += times.run_us
        else:
            other_us += times.run_us
    if not threads:
        return None
    pid = int(process.name)
    return HostMachine(
        pid, _name(process), uid_of_pod(pid, proc), _group(process), accelerator,
        tuple(sorted(threads)), dict(sorted(vcpus.items())), other_us, vhost_us,
    )  # fmt: skip


def _program(process: Path) -> str:
    try:
        return (process / "exe").readlink().name
    except OSError:
        return ""


def _is_of_the_kernel(process: Path) -> bool:
    """A child of kthreadd: anybody may give a process of theirs such a name."""
    words = _text(process / "stat").rpartition(")")[2].split()
    return words[1:2] == ["2"]


def _name(process: Path) -> str:
    """`-name guest=web,...` or `-name web,...`; the process id where there is none."""
    for option, value in pairwise(_text(process / "cmdline").split("\0")):
        if option in ("-name", "--name"):
            parts = value.split(",")
            guest = [part.removeprefix("guest=") for part in parts if part.startswith("guest=") or "=" not in part]
            return (guest[0] if guest else "") or process.name
    return process.name


def _group(process: Path) -> str:
    unified = ""
    for line in _text(process / "cgroup").splitlines():
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        if "cpu" in controllers.split(","):
            return path
        if not controllers:
            unified = path
    return unified


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(_MAX_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""

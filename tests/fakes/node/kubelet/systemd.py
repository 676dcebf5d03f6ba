"""The driver `systemd` on cgroup v2: every group is a unit, set by D-Bus first and by its files after that.

A group of a slice is systemd's; what the kubelet asks for goes through `SetUnitProperties`, upon which systemd writes
every file of the unit that it knows anew, and opencontainers' manager then writes the same files itself. The real
calls, by `busctl`, in that order.
Source: github.com/opencontainers/cgroups as vendored by Kubernetes 1.36, systemd/{common,v2}.go.
Limits: systemd 244 or newer.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from tests.fakes.node.kubelet.groups import V2Groups
from tests.fakes.node.kubelet.pods import Resources, weight_of
from tests.fakes.node.kubelet.writes import Failed
from tests.fakes.waiting import eventually

INFINITY = (1 << 64) - 1
_MANAGER = ("org.freedesktop.systemd1", "/org/freedesktop/systemd1", "org.freedesktop.systemd1.Manager")


class Property:
    """One property of a unit, as `busctl` takes it."""

    def __init__(self, name: str, signature: str, *words: object) -> None:
        self.name = name
        self.words = (name, signature, *(str(word) for word in words))

    def __str__(self) -> str:
        return f"{self.name}={' '.join(self.words[2:])}"


def cpu_bits(cpus: str) -> Property:
    """A list as "0-1,4" as systemd's mask: bytes, the lowest first."""
    mask = 0
    for part in cpus.split(","):
        first, _, last = part.partition("-")
        for cpu in range(int(first), int(last or first) + 1):
            mask |= 1 << cpu
    data = mask.to_bytes((mask.bit_length() + 7) // 8, "little")
    return Property("AllowedCPUs", "ay", len(data), *data)


def rounded_quota(quota_us: int, period_us: int) -> tuple[int, int]:
    """(microseconds per second for systemd, the quota for the file): systemd counts whole percents, so a quota is
    rounded up to one.
    """
    if quota_us <= 0:
        return INFINITY, quota_us
    per_second = quota_us * 1_000_000 // period_us
    if per_second % 10_000:
        per_second = (per_second // 10_000 + 1) * 10_000
        return per_second, per_second * period_us // 1_000_000
    return per_second, quota_us


def properties_of(resources: Resources) -> list[Property]:
    """What is asked of systemd for these values, in the library's order."""
    found: list[Property] = []
    if resources.memory_bytes:
        found.append(Property("MemoryMax", "t", INFINITY if resources.memory_bytes < 0 else resources.memory_bytes))
    if resources.cpu_shares:
        found.append(Property("CPUWeight", "t", weight_of(resources.cpu_shares)))
    period = resources.cpu_period_us
    if period:
        found.append(Property("CPUQuotaPeriodUSec", "t", period))
    if resources.cpu_quota_us or period:
        found.append(Property("CPUQuotaPerSecUSec", "t", rounded_quota(resources.cpu_quota_us, period or 100_000)[0]))
    if resources.pids is not None:
        found.append(Property("TasksMax", "t", resources.pids if resources.pids > 0 else INFINITY))
    if resources.cpus:
        found.append(cpu_bits(resources.cpus))
    names = {
        "memory.min": "MemoryMin",
        "memory.low": "MemoryLow",
        "memory.high": "MemoryHigh",
        "memory.swap.max": "MemorySwapMax",
    }
    for file, value in resources.unified:
        if file in names:
            found.append(Property(names[file], "t", INFINITY if value == "max" else value))
    return found


def slice_path(name: Sequence[str]) -> str:
    """A group's folder below the tree's root, by its names from the top."""
    parts = [part.replace("-", "_") for part in name]
    return "/".join(f"{'-'.join(parts[: depth + 1])}.slice" for depth in range(len(parts)))


class SystemdGroups(V2Groups):
    """Slices for the kubelet's groups and pods, scopes for containers."""

    def path(self, name: Sequence[str]) -> str:
        return slice_path(name)

    def container_path(self, pod: Sequence[str], container_id: str) -> str:
        return f"{self.path(pod)}/{self.scope(container_id)}"

    def scope(self, container_id: str) -> str:
        return f"cri-containerd-{container_id}.scope"

    def create(self, name: Sequence[str], resources: Resources) -> None:
        path = self.path(name)
        above = self.path(name[:-1]).rpartition("/")[2] if len(name) > 1 else "-.slice"
        self._start_unit(path, [Property("Wants", "as", 1, above)], may_exist=True)
        with suppress(Failed):  # the kubelet only logs it
            self._set_unit(path, resources)

    def update(self, name: Sequence[str], resources: Resources) -> None:
        self._set_unit(self.path(name), resources)

    def remove(self, name: Sequence[str]) -> None:
        self._stop_unit(self.path(name).rpartition("/")[2])
        super().remove(name)

    def start_container(self, pod: Sequence[str], container_id: str, pid: int, resources: Resources) -> None:
        path = self.container_path(pod, container_id)
        slice_ = self.path(pod).rpartition("/")[2]
        self._start_unit(
            path, [Property("Slice", "s", slice_), Property("Delegate", "b", "true"), Property("PIDs", "au", 1, pid)]
        )
        self._set_unit(path, resources)

    def update_container(self, pod: Sequence[str], container_id: str, resources: Resources) -> None:
        self._set_unit(self.container_path(pod, container_id), resources)

    def remove_container(self, pod: Sequence[str], container_id: str) -> None:
        self._stop_unit(self.scope(container_id))
        super().remove_container(pod, container_id)

    def reload(self) -> None:
        """`systemctl daemon-reload`, by an administrator or a package."""
        self._call("Reload", "")

    def _start_unit(self, path: str, properties: list[Property], may_exist: bool = False) -> None:
        unit = path.rpartition("/")[2]
        accounting = [Property(f"{kind}Accounting", "b", "true") for kind in ("Memory", "CPU", "IO", "Tasks")]
        asked = [*properties, *accounting, Property("DefaultDependencies", "b", "false")]
        words = [str(len(asked)), *(word for property_ in asked for word in property_.words)]
        error = self._call("StartTransientUnit", "ssa(sv)a(sa(sv))", unit, "replace", *words, "0", unit=unit)
        if error and not (may_exist and "already" in error):
            raise Failed(f"unable to start unit {unit!r}: {error}")
        # the kubelet waits for the end of systemd's job
        eventually(f"{unit} is there", lambda: (self.root / path).is_dir())
        self.make(path)

    def _set_unit(self, path: str, resources: Resources) -> None:
        unit = path.rpartition("/")[2]
        asked = properties_of(resources)
        words = [str(len(asked)), *(word for property_ in asked for word in property_.words)]
        error = self._call("SetUnitProperties", "sba(sv)", unit, "true", *words, unit=unit)
        if error:
            raise Failed(f"unable to set unit properties: {error}")
        self.set(path, rounded(resources))

    def _stop_unit(self, unit: str) -> None:
        self._call("StopUnit", "ss", unit, "replace", unit=unit, may_fail=True)

    def _call(self, method: str, signature: str, *words: str, unit: str = "", may_fail: bool = False) -> str:
        """What systemd said against it; "" if nothing."""
        call = ["busctl", "--system", "call", "--", *_MANAGER, method, *([signature] if signature else []), *words]
        done = subprocess.run(
            call, capture_output=True, text=True, check=False, env={**os.environ, "SYSTEMD_COLORS": "0"}
        )
        said = done.stderr.strip() if done.returncode else ""
        expected = may_fail or "already" in said
        self.recorder.told(f"{method} {unit}".strip(), " ".join(words), said, bool(said) and expected)
        return said


def rounded(resources: Resources) -> Resources:
    """With the quota that systemd can express, which is then written to the file, too."""
    if not resources.cpu_quota_us:
        return resources
    return replace(resources, cpu_quota_us=rounded_quota(resources.cpu_quota_us, resources.cpu_period_us or 100_000)[1])


def runs_here(root: Path) -> bool:
    """Whether systemd is this machine's first process and its groups are on cgroup v2 at `root`."""
    return Path("/run/systemd/system").is_dir() and (root / "cgroup.controllers").exists()

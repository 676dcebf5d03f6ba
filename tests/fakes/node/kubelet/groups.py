"""Groups as the kubelet and runc make and set them: opencontainers' managers `fs` and `fs2`, over plain files.

The order of writes and what becomes of their errors is the library's: a first error ends a `set`, except that a period
that does not fit the old quota is written again after it. Source: github.com/opencontainers/cgroups as vendored by
Kubernetes 1.36, fs/{fs,cpu,cpuset,memory,pids,hugetlb}.go and fs2/{fs2,cpu,cpuset,memory,pids,hugetlb,create}.go; runc
1.1 has the same order. Limits: no devices, freezer, block I/O or real time.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from tests.fakes.node.kubelet.pods import Resources, weight_of
from tests.fakes.node.kubelet.writes import Failed, Recorder
from tests.fakes.waiting import eventually

HUGE_PAGES = Path("/sys/kernel/mm/hugepages")
NEEDED_V1 = (
    "cpu",
    "cpuacct",
    "cpuset",
    "memory",
    "pids",
    "systemd",
)  # those without which a group does not exist for the kubelet
NEEDED_V2 = ("cpu", "cpuset", "memory", "hugetlb", "pids")


class GroupManager(Protocol):
    """A driver. `name`: the parts from the kubelet's root down, without the driver's own spelling."""

    version: int
    recorder: Recorder

    def path(self, name: Sequence[str]) -> str:
        """Below the tree's root, as this driver spells it."""

    def container_path(self, pod: Sequence[str], container_id: str) -> str:
        """A container's, in a pod's group."""

    def folders(self, path: str) -> list[Path]:
        """The group in every tree."""

    def exists(self, name: Sequence[str]) -> bool: ...

    def create(self, name: Sequence[str], resources: Resources) -> None:
        """Raises `Failed`."""

    def update(self, name: Sequence[str], resources: Resources) -> None:
        """Raises `Failed`."""

    def remove(self, name: Sequence[str]) -> None: ...

    def start_container(self, pod: Sequence[str], container_id: str, pid: int, resources: Resources) -> None:
        """runc's part: the process into the group, then the group's values. Raises `Failed`."""

    def update_container(self, pod: Sequence[str], container_id: str, resources: Resources) -> None:
        """Raises `Failed`."""

    def remove_container(self, pod: Sequence[str], container_id: str) -> None: ...


def plain_path(name: Sequence[str]) -> str:
    return "/".join(name)


def page_sizes() -> tuple[str, ...]:
    """As in names of files: "2MB", "1GB"."""
    kib = sorted(
        int(path.name.removeprefix("hugepages-").removesuffix("kB")) for path in HUGE_PAGES.glob("hugepages-*")
    )
    return tuple(f"{size >> 20}GB" if size >> 20 else f"{size >> 10}MB" for size in kib)


def remove_folders(folders: Sequence[Path]) -> None:
    """With all below, once their processes are gone."""

    def gone(folder: Path) -> bool:
        for inner, _, _ in os.walk(folder, topdown=False):
            with suppress(FileNotFoundError):
                os.rmdir(inner)
        return not folder.exists()

    for folder in folders:
        eventually(f"{folder} can be removed", lambda folder=folder: gone(folder), tolerated=(OSError,))


def enter(recorder: Recorder, folder: Path, pid: int | None) -> None:
    """A process into a group; None makes the group only."""
    if pid is not None:
        recorder.write(folder, "cgroup.procs", str(pid))


class V1Groups:
    """The driver `cgroupfs` on cgroup v1. `trees`: mounted folders by controller; `systemd` and `unified` are the
    named tree and hybrid's v2.
    """

    version = 1

    def __init__(self, recorder: Recorder, trees: dict[str, Path]) -> None:
        self.recorder = recorder
        self._trees = trees

    def path(self, name: Sequence[str]) -> str:
        return plain_path(name)

    def container_path(self, pod: Sequence[str], container_id: str) -> str:
        return f"{plain_path(pod)}/{container_id}"

    def folders(self, path: str) -> list[Path]:
        return [tree / path for tree in dict.fromkeys(self._trees.values())]

    def exists(self, name: Sequence[str]) -> bool:
        return all((self._trees[entry] / plain_path(name)).is_dir() for entry in NEEDED_V1 if entry in self._trees)

    def create(self, name: Sequence[str], resources: Resources) -> None:
        self._apply(plain_path(name), None, resources)
        with suppress(Failed):  # the kubelet only logs it
            self._set(plain_path(name), resources)

    def update(self, name: Sequence[str], resources: Resources) -> None:
        self._set(plain_path(name), resources)

    def remove(self, name: Sequence[str]) -> None:
        remove_folders(self.folders(plain_path(name)))

    def start_container(self, pod: Sequence[str], container_id: str, pid: int, resources: Resources) -> None:
        path = self.container_path(pod, container_id)
        self._apply(path, pid, resources)
        self._set(path, resources)

    def update_container(self, pod: Sequence[str], container_id: str, resources: Resources) -> None:
        self._set(self.container_path(pod, container_id), resources)

    def remove_container(self, pod: Sequence[str], container_id: str) -> None:
        remove_folders(self.folders(self.container_path(pod, container_id)))

    def _apply(self, path: str, pid: int | None, resources: Resources) -> None:
        for controller in ("cpuset", *(name for name in self._trees if name != "cpuset")):
            tree = self._trees.get(controller)
            if tree is None:
                continue
            folder = tree / path
            if controller == "cpuset":
                self._fill_cpuset(tree, folder.parent)
                folder.mkdir(exist_ok=True)
                self._set_cpuset(folder, resources)
                self._fill_cpuset(tree, folder)
            folder.mkdir(parents=True, exist_ok=True)
            enter(self.recorder, folder, pid)

    def _fill_cpuset(self, tree: Path, folder: Path) -> None:
        """A group without CPUs or memory nodes gets its parent's, from the top down."""
        if folder == tree:
            return
        self._fill_cpuset(tree, folder.parent)
        folder.mkdir(exist_ok=True)
        for file in ("cpuset.cpus", "cpuset.mems"):
            if not (folder / file).read_text().strip():
                self.recorder.write(folder, file, (folder.parent / file).read_text())

    def _set_cpuset(self, folder: Path, resources: Resources) -> None:
        if resources.cpus:
            self.recorder.write(folder, "cpuset.cpus", resources.cpus)

    def _set(self, path: str, resources: Resources) -> None:
        write = self.recorder.write
        if "cpuset" in self._trees:
            self._set_cpuset(self._trees["cpuset"] / path, resources)
        if resources.memory_bytes:
            write(self._trees["memory"] / path, "memory.limit_in_bytes", str(resources.memory_bytes))
        self._set_cpu(self._trees["cpu"] / path, resources)
        if resources.pids is not None and "pids" in self._trees:
            write(self._trees["pids"] / path, "pids.max", str(resources.pids) if resources.pids > 0 else "max")
        if resources.huge_page_bytes is not None and "hugetlb" in self._trees:
            for size in page_sizes():
                for kind in ("", ".rsvd"):
                    file = f"hugetlb.{size}{kind}.limit_in_bytes"
                    write(
                        self._trees["hugetlb"] / path,
                        file,
                        str(resources.huge_page_bytes),
                        lambda number: number == errno.ENOENT,
                    )

    def _set_cpu(self, folder: Path, resources: Resources) -> None:
        write = self.recorder.write
        if resources.cpu_shares:
            write(folder, "cpu.shares", str(resources.cpu_shares))
            stands = int((folder / "cpu.shares").read_text())
            if stands != resources.cpu_shares:
                self.recorder.told(str(folder / "cpu.shares"), f"reads {stands}", "ERANGE")
                raise Failed(
                    f"the {'minimum' if stands > resources.cpu_shares else 'maximum'} allowed cpu-shares is {stands}"
                )
        again = False
        if resources.cpu_period_us:
            fits_later = bool(resources.cpu_quota_us)
            period = str(resources.cpu_period_us)
            again = not write(folder, "cpu.cfs_period_us", period, lambda number: fits_later and number == errno.EINVAL)
        if resources.cpu_quota_us:
            write(folder, "cpu.cfs_quota_us", str(resources.cpu_quota_us))
            if again:
                write(folder, "cpu.cfs_period_us", str(resources.cpu_period_us))


class V2Groups:
    """The driver `cgroupfs` on cgroup v2."""

    version = 2

    def __init__(self, recorder: Recorder, root: Path) -> None:
        self.recorder = recorder
        self.root = root

    def path(self, name: Sequence[str]) -> str:
        return plain_path(name)

    def container_path(self, pod: Sequence[str], container_id: str) -> str:
        return f"{self.path(pod)}/{container_id}"

    def folders(self, path: str) -> list[Path]:
        return [self.root / path]

    def exists(self, name: Sequence[str]) -> bool:
        try:
            has = (self.root / self.path(name) / "cgroup.controllers").read_text().split()
        except OSError:
            return False
        return {entry for entry in self._available() if entry in NEEDED_V2} <= set(has)

    def create(self, name: Sequence[str], resources: Resources) -> None:
        self.make(self.path(name))
        with suppress(Failed):  # the kubelet only logs it
            self.set(self.path(name), resources)

    def update(self, name: Sequence[str], resources: Resources) -> None:
        self.set(self.path(name), resources)

    def remove(self, name: Sequence[str]) -> None:
        remove_folders(self.folders(self.path(name)))

    def start_container(self, pod: Sequence[str], container_id: str, pid: int, resources: Resources) -> None:
        path = self.container_path(pod, container_id)
        self.make(path)
        enter(self.recorder, self.root / path, pid)
        self.set(path, resources)

    def update_container(self, pod: Sequence[str], container_id: str, resources: Resources) -> None:
        self.set(self.container_path(pod, container_id), resources)

    def remove_container(self, pod: Sequence[str], container_id: str) -> None:
        remove_folders(self.folders(self.container_path(pod, container_id)))

    def make(self, path: str) -> None:
        """The group and all above it, with every controller handed down."""
        every = " ".join(f"+{name}" for name in self._available())
        at = self.root
        for part in path.split("/"):
            # refused as a whole, each is tried alone; what is still refused shows when a value is set
            if not self.recorder.write(at, "cgroup.subtree_control", every, lambda number: True):
                for name in every.split():
                    self.recorder.write(at, "cgroup.subtree_control", name, lambda number: True)
            at = at / part
            at.mkdir(exist_ok=True)

    def set(self, path: str, resources: Resources) -> None:
        """Raises `Failed`."""
        write, folder = self.recorder.write, self.root / path
        if resources.pids is not None:
            write(folder, "pids.max", str(resources.pids) if resources.pids > 0 else "max")
        if resources.memory_bytes:
            write(folder, "memory.max", "max" if resources.memory_bytes < 0 else str(resources.memory_bytes))
        if resources.cpu_shares:
            write(folder, "cpu.weight", str(weight_of(resources.cpu_shares)))
        if resources.cpu_quota_us or resources.cpu_period_us:
            quota = str(resources.cpu_quota_us) if resources.cpu_quota_us > 0 else "max"
            write(folder, "cpu.max", f"{quota} {resources.cpu_period_us or 100_000}")
        if resources.cpus:
            write(folder, "cpuset.cpus", resources.cpus)
        if resources.huge_page_bytes is not None and "hugetlb" in self._available():
            for size in page_sizes():
                for kind in ("", ".rsvd"):
                    file = f"hugetlb.{size}{kind}.max"
                    write(folder, file, str(resources.huge_page_bytes), lambda number: number == errno.ENOENT)
        for file, value in resources.unified:
            write(folder, file, value)

    def _available(self) -> list[str]:
        return (self.root / "cgroup.controllers").read_text().split()

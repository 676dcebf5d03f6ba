"""A node for cases beside the kubelet: its trees, the stand-in, its runtime, and what stands in best-effort groups."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.fakes.node.kubelet.groups import GroupManager, V1Groups, V2Groups, remove_folders
from tests.fakes.node.kubelet.kubelet import Kubelet, Settings
from tests.fakes.node.kubelet.pods import Container, Pod, Qos
from tests.fakes.node.kubelet.runtime import Runtime
from tests.fakes.node.kubelet.systemd import SystemdGroups
from tests.fakes.node.kubelet.writes import Recorder, Write

MIB = 1 << 20
DEFAULTS = Settings()
SERVICE = Container(cpu_request_m=200, memory_request_bytes=64 * MIB)
SLEEPS = ("sleep", "1000000")


def uid(number: int) -> str:
    return f"{number:08x}-1111-2222-3333-444444444444"


@dataclass(slots=True)
class KubeletNode:
    """`root`: the folder with the trees, as an agent is told it."""

    root: Path
    groups: GroupManager
    settings: Settings = DEFAULTS
    kubelet: Kubelet = field(init=False)
    runtime: Runtime = field(init=False)
    _next: int = 0

    def __post_init__(self) -> None:
        self.runtime = Runtime(self.groups)
        self.kubelet = Kubelet(self.groups, self.runtime, self.settings)

    @property
    def failures(self) -> list[Write]:
        """Writes of the kubelet that failed."""
        return self.groups.recorder.failures

    def restart(self, settings: Settings | None = None) -> None:
        """Raises `Failed` where the kubelet does not start."""
        self.kubelet = self.kubelet.restarted()
        if settings is not None:
            self.kubelet = Kubelet(self.groups, self.runtime, settings, self.kubelet.pods, now_s=self.kubelet.now_s)
        self.kubelet.start()

    def ensure(self) -> None:
        """The kubelet runs with the node's settings, whatever a case has left."""
        if not self.kubelet.runs or self.kubelet.settings != self.settings:
            self.restart(self.settings)

    def add(self, *containers: Container, command: Sequence[str] = SLEEPS) -> str:
        """A pod; of the class BestEffort where nothing is given. Its UID."""
        self._next += 1
        self.runtime.command = command
        self.kubelet.add(Pod(uid(self._next), containers or (Container(),)))
        return uid(self._next)

    def best_effort(self) -> list[str]:
        """UIDs of the pods of that class."""
        return [pod.uid for pod in self.kubelet.pods.values() if pod.qos is Qos.BEST_EFFORT]

    def has_quota(self, pod: str) -> bool:
        """Whether anything from the class's group down to the pod's container bounds its CPU time."""
        return any(_quota(folder) for folder in self._above(pod))

    def cores_of(self, pod: str) -> float | None:
        """The CPU time that the smallest quota from the class's group down to the pod's container permits; None
        without one.
        """
        return min((cores for folder in self._above(pod) if (cores := _cores(folder)) is not None), default=None)

    def is_idle(self, group: str) -> bool:
        """Whether a group is in the idle class, or gone."""
        return all((folder / "cpu.idle").read_text().strip() == "1" for folder in self._cpu(group))

    def weight_of_class(self) -> str:
        """What the kubelet's last write to the best-effort class left."""
        (folder,) = self._cpu(self.kubelet.path_of(Qos.BEST_EFFORT))
        return (folder / ("cpu.weight" if self.groups.version == 2 else "cpu.shares")).read_text().strip()

    def end(self) -> None:
        """Every pod and group of the kubelet."""
        self.runtime.stop_all()
        for pod in (*self.kubelet.pods, *self.kubelet.ended):
            self.kubelet.ended.setdefault(pod, self.kubelet.pods.pop(pod, self.kubelet.ended.get(pod, Pod(pod))))
            self.kubelet.destroy(pod)
        for qos in (Qos.BEST_EFFORT, Qos.BURSTABLE):
            self.groups.remove((*self.settings.root, qos.value))
        self.groups.remove(self.settings.root)

    def _above(self, pod: str) -> list[Path]:
        groups = self.kubelet.path_of(Qos.BEST_EFFORT), self.kubelet.pod_path(pod), self.runtime.path(pod, "main")
        return [folder for group in groups for folder in self._cpu(group)]

    def _cpu(self, group: str) -> list[Path]:
        return [folder for folder in self.groups.folders(group) if (folder / "cpu.idle").exists()]


def _quota(folder: Path) -> bool:
    return _cores(folder) is not None


def _cores(folder: Path) -> float | None:
    """The group's own quota."""
    if (folder / "cpu.max").exists():
        quota, period = (folder / "cpu.max").read_text().split()
    elif (folder / "cpu.cfs_quota_us").exists():
        quota, period = ((folder / name).read_text().strip() for name in ("cpu.cfs_quota_us", "cpu.cfs_period_us"))
    else:
        return None
    return None if quota in ("max", "-1") else int(quota) / int(period)


@contextmanager
def trees_alone(top: str, folder: Path) -> Iterator[dict[str, Path]]:
    """One group of each of this machine's v1 trees, mounted in `folder` as if it were the whole tree: another
    kubelet's groups are not seen there.
    """
    machine = Path("/sys/fs/cgroup")
    with ExitStack() as stack:
        trees: dict[str, Path] = {}
        for tree in sorted(path for path in machine.iterdir() if path.is_dir() and not path.is_symlink()):
            stack.callback(remove_folders, [tree / top])
            (tree / top).mkdir(exist_ok=True)
            for file in ("cpuset.cpus", "cpuset.mems"):
                if (tree / file).exists():
                    (tree / top / file).write_text((tree / file).read_text())
            trees[tree.name] = folder / tree.name
            trees[tree.name].mkdir()
            subprocess.run(["mount", "--bind", str(tree / top), str(trees[tree.name])], check=True)
            stack.callback(subprocess.run, ["umount", "--lazy", str(trees[tree.name])], check=True)
        yield trees


@contextmanager
def apart_on(name: str, cpu: int, shares: str) -> Iterator[list[Path]]:
    """Groups of this machine's v1 trees for what is not on the node: on one CPU, with so much weight."""
    machine = Path("/sys/fs/cgroup")
    folders = [machine / tree / name for tree in ("cpu", "cpuset")]
    for folder in folders:
        folder.mkdir()
    try:
        (folders[0] / "cpu.shares").write_text(shares)
        (folders[1] / "cpuset.mems").write_text((machine / "cpuset" / "cpuset.mems").read_text())
        (folders[1] / "cpuset.cpus").write_text(str(cpu))
        yield folders
    finally:
        remove_folders(folders)


@contextmanager
def v1_node(top: str, folder: Path, settings: Settings = DEFAULTS) -> Iterator[KubeletNode]:
    """A node of its own on this machine's v1 trees."""
    with trees_alone(top, folder) as trees:
        node = KubeletNode(folder, V1Groups(Recorder(), trees), settings)
        try:
            yield node
        finally:
            node.end()


@contextmanager
def v2_node(systemd: bool, settings: Settings = DEFAULTS) -> Iterator[KubeletNode]:
    """A node on this machine's only tree."""
    root = Path("/sys/fs/cgroup")
    groups = SystemdGroups(Recorder(), root) if systemd else V2Groups(Recorder(), root)
    node = KubeletNode(root, groups, settings)
    try:
        yield node
    finally:
        node.end()

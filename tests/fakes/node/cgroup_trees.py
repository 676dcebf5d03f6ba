"""Cgroup trees as plain folders, with the files and texts that kernels give, and a tree that takes writes as a kernel
does.

Facts from Linux 6.18 (v1) and 6.1 to 7.2 (v2). Plain files do not vanish under open descriptors, list no tasks and
refuse nothing; `KernelTree` adds the refusals and side effects that matter to knobs. What only a kernel can show is in
tests/node.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path

from cotenant.drivers.cgroup.files import CgroupTree
from cotenant.drivers.cgroup.layout import CgroupLayout, detect
from cotenant.model.cpus.cpulist import parse_cpus

STALLS = "some avg10=0.00 avg60=0.00 avg300=0.00 total={some}\nfull avg10=0.00 avg60=0.00 avg300=0.00 total={full}\n"
V1_NO_LIMIT = "9223372036854771712"
V1: dict[str, dict[str, str]] = {
    "cpu": {
        "cgroup.procs": "",
        "tasks": "",
        "cpu.shares": "1024\n",
        "cpu.cfs_quota_us": "-1\n",
        "cpu.cfs_period_us": "100000\n",
        "cpu.cfs_burst_us": "0\n",
        "cpu.idle": "0\n",
        "cpu.stat": "nr_periods 10\nnr_throttled 4\nthrottled_time 5000000\nnr_bursts 0\nburst_time 0\n",
    },
    "cpuacct": {"cgroup.procs": "", "cpuacct.usage": "7000000\n"},
    "cpuset": {"cgroup.procs": "", "cpuset.cpus": "\n", "cpuset.mems": "\n"},
    "memory": {
        "cgroup.procs": "",
        "memory.limit_in_bytes": f"{V1_NO_LIMIT}\n",
        "memory.usage_in_bytes": "8192000\n",
        "memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n",
        "memory.stat": "cache 5\ninactive_file 1\nworkingset_refault_anon 1\ntotal_cache "
        "9\ntotal_workingset_refault_anon 30\n"
        "total_workingset_refault_file 12\ntotal_inactive_file 192000\ntotal_active_file 0\n",
    },
    "blkio": {
        "cgroup.procs": "",
        "blkio.reset_stats": "",
        "blkio.bfq.weight": "100\n",
        "blkio.throttle.io_service_bytes_recursive": "254:0 Read 4096\n254:0 Write 512\n254:0 Sync 4608\n254:0 Async "
        "0\n"
        "254:0 Discard 0\n254:0 Total 4608\n8:0 Read 4\n8:0 Write 8\nTotal 4620\n",
        "blkio.throttle.read_bps_device": "",
        "blkio.throttle.write_bps_device": "",
        "blkio.throttle.read_iops_device": "",
        "blkio.throttle.write_iops_device": "",
    },
    "pids": {"cgroup.procs": "", "pids.current": "3\n", "pids.max": "max\n"},
    "freezer": {
        "cgroup.procs": "",
        "freezer.state": "THAWED\n",
        "freezer.self_freezing": "0\n",
        "freezer.parent_freezing": "0\n",
    },
}
PRESSURE = {
    "cpu.pressure": STALLS.format(some=1500, full=0),
    "memory.pressure": STALLS.format(some=20, full=10),
    "io.pressure": STALLS.format(some=40, full=30),
}
UNIFIED = {
    "cgroup.procs": "",
    "cgroup.threads": "",
    "cgroup.controllers": "\n",
    "cgroup.subtree_control": "\n",
    "cgroup.events": "populated 1\nfrozen 0\n",
    "cgroup.freeze": "0\n",
    "cpu.stat": "usage_usec 9\nuser_usec 4\nsystem_usec 5\n",
    **PRESSURE,
}
V2 = {
    **UNIFIED,
    "cgroup.controllers": "cpuset cpu io memory pids\n",
    "cpu.stat": "usage_usec 7000\nuser_usec 4000\nsystem_usec 3000\nnr_periods 10\nnr_throttled 4\nthrottled_usec "
    "5000\nnr_bursts 0\n",
    "cpu.max": "max 100000\n",
    "cpu.max.burst": "0\n",
    "cpu.weight": "100\n",
    "cpu.idle": "0\n",
    "cpuset.cpus": "\n",
    "cpuset.mems": "\n",
    "memory.current": "8192000\n",
    "memory.min": "0\n",
    "memory.low": "0\n",
    "memory.high": "max\n",
    "memory.max": "max\n",
    "memory.reclaim": "",
    "memory.events": "low 0\nhigh 0\nmax 0\noom 0\noom_kill 2\noom_group_kill 0\n",
    "memory.stat": "anon 8000000\nfile 192000\nworkingset_refault_anon 30\nworkingset_refault_file 12\ninactive_file "
    "192000\nactive_file 0\n",
    "io.stat": "254:0 rbytes=4096 wbytes=512 rios=1 wios=1 dbytes=0 dios=0\n8:0 rbytes=4 wbytes=8 rios=1 wios=1 "
    "dbytes=0 dios=0\n",
    "io.max": "\n",
    "io.weight": "default 100\n",
    "pids.current": "3\n",
    "pids.max": "max\n",
}
JOINED = ("cpu,cpuacct", "cpuset", "memory", "blkio", "pids", "freezer")
KINDS = ("v1", "joined", "v2", "hybrid")
DEVICE = "254:0"


class CgroupTrees:
    """Trees of one kind under `root`: "v1", "joined" (as CentOS 7 mounts them, with links), "v2" or "hybrid"."""

    def __init__(self, root: Path, kind: str) -> None:
        self.root = root
        self.kind = kind
        self.files: dict[str, dict[str, str]] = {}
        if kind == "v2":
            self.files = {".": V2}
        else:
            names = JOINED if kind == "joined" else tuple(V1)
            self.files = {name: {k: v for one in name.split(",") for k, v in V1[one].items()} for name in names}
        if kind == "hybrid":
            self.files["unified"] = UNIFIED
        for name in self.files:
            self._fill(root / name, self.files[name])
        if kind == "joined":
            os.symlink("cpu,cpuacct", root / "cpu")
            os.symlink("cpu,cpuacct", root / "cpuacct")
        if kind != "v2":
            (root / "cpuset/cpuset.cpus").write_text("0-1\n")
            (root / "cpuset/cpuset.mems").write_text("0\n")

    @property
    def layout(self) -> CgroupLayout:
        return detect(str(self.root), mountinfo=str(self.root / "none"))

    def add(self, group: str) -> None:
        """The group, and its parents, in every tree."""
        parts = group.split("/")
        for name, files in self.files.items():
            for depth in range(len(parts)):
                folder = self.root.joinpath(name, *parts[: depth + 1])
                self._fill(folder, files)
                if name == "cpuset":
                    # whoever makes a v1 group has to do this
                    for file in ("cpuset.cpus", "cpuset.mems"):
                        (folder / file).write_text((folder.parent / file).read_text())

    def remove(self, group: str) -> None:
        for name in self.files:
            for folder, _, files in os.walk(self.root / name / group, topdown=False):
                for file in files:
                    os.unlink(os.path.join(folder, file))
                os.rmdir(folder)

    def path(self, group: str, file: str) -> Path:
        """The one file of that name, in the controller's tree."""
        found = [self.root / name / group / file for name, files in self.files.items() if file in files]
        # hybrid: cpu.stat stands in two trees
        return found[0]

    def say(self, group: str, file: str, text: str) -> None:
        self.path(group, file).write_text(text)

    @staticmethod
    def _fill(folder: Path, files: dict[str, str]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            if not (folder / name).exists():
                (folder / name).write_text(text)


class KernelTree(CgroupTree):
    """Takes writes as a kernel does."""

    def write(self, group: str, name: str, text: str) -> None:
        os.close(self.open(group, name, os.O_WRONLY))
        check = getattr(self, "_" + name.replace(".", "_"), None)
        stored = text.strip() if check is None else check(group, text.strip())
        if name.startswith("blkio.throttle.") or name == "io.max":
            stored = self._merged(self.read(group, name), stored)
        super().write(group, name, stored + "\n")

    def _refuse(self, code: int) -> OSError:
        return OSError(code, os.strerror(code))

    def _put(self, group: str, name: str, text: str) -> None:
        if self.has(group, name):
            super().write(group, name, text + "\n")

    def _cpu_idle(self, group: str, text: str) -> str:
        if text != self.read(group, "cpu.idle"):
            self._put(group, "cpu.shares", "3" if text == "1" else "1024")
            self._put(group, "cpu.weight", "0" if text == "1" else "100")
        return text

    def _freezer_state(self, group: str, text: str) -> str:
        """What stands is of the group and of all above it."""
        self._put(group, "freezer.self_freezing", "1" if text == "FROZEN" else "0")
        self._freeze_below(group)
        return self.read(group, "freezer.state")

    def _freeze_below(self, group: str) -> None:
        parent = group.rpartition("/")[0]
        above = "1" if parent and self.read(parent, "freezer.state") == "FROZEN" else "0"
        self._put(group, "freezer.parent_freezing", above)
        is_frozen = "1" in (above, self.read(group, "freezer.self_freezing"))
        self._put(group, "freezer.state", "FROZEN" if is_frozen else "THAWED")
        for name in self.children(group):
            self._freeze_below(f"{group}/{name}")

    def _cpu_shares(self, group: str, text: str) -> str:
        if self.read(group, "cpu.idle") == "1":
            raise self._refuse(errno.EINVAL)
        return str(min(262144, max(2, int(text))))

    def _cpu_weight(self, group: str, text: str) -> str:
        if not 1 <= int(text) <= 10000:
            raise self._refuse(errno.ERANGE)
        if self.read(group, "cpu.idle") == "1":
            raise self._refuse(errno.EINVAL)
        return text

    def _cpu_max(self, group: str, text: str) -> str:
        quota, period = text.split()
        if quota != "max" and int(quota) < int(self.read(group, "cpu.max.burst")):
            raise self._refuse(errno.EINVAL)
        return f"{quota} {period}"

    def _cpu_max_burst(self, group: str, text: str) -> str:
        quota = self.read(group, "cpu.max").split()[0]
        if quota != "max" and int(text) > int(quota):
            raise self._refuse(errno.EINVAL)
        return text

    def _cpu_cfs_burst_us(self, group: str, text: str) -> str:
        quota = int(self.read(group, "cpu.cfs_quota_us"))
        if quota >= 0 and int(text) > quota:
            raise self._refuse(errno.EINVAL)
        return text

    def _cpu_cfs_quota_us(self, group: str, text: str) -> str:
        quota, period = int(text), int(self.read(group, "cpu.cfs_period_us"))
        self._check_bandwidth(group, quota, period)
        return text

    def _cpu_cfs_period_us(self, group: str, text: str) -> str:
        self._check_bandwidth(group, int(self.read(group, "cpu.cfs_quota_us")), int(text))
        return text

    def _check_bandwidth(self, group: str, quota: int, period: int) -> None:
        if quota < 0:
            return
        if int(self.read(group, "cpu.cfs_burst_us")) > quota:
            raise self._refuse(errno.EINVAL)
        parent, _, _ = group.rpartition("/")
        above = (
            int(self.read(parent, "cpu.cfs_quota_us")) / int(self.read(parent, "cpu.cfs_period_us")) if parent else -1
        )
        below = [f"{group}/{name}" for name in self.children(group)]
        shares = [int(self.read(c, "cpu.cfs_quota_us")) / int(self.read(c, "cpu.cfs_period_us")) for c in below]
        if 0 <= above < quota / period or any(share > quota / period for share in shares):
            raise self._refuse(errno.EINVAL)

    def _cpuset_cpus(self, group: str, text: str) -> str:
        if not text and self.read(group, "cpuset.cpus") and self.read(group, "cgroup.procs"):
            raise self._refuse(errno.ENOSPC)
        if not self.has(group, "cpu.max"):  # v1
            parent, _, _ = group.rpartition("/")
            if not set(parse_cpus(text)) <= set(parse_cpus(self.read(parent, "cpuset.cpus"))):
                raise self._refuse(errno.EACCES)
        return text

    def _memory_limit_in_bytes(self, group: str, text: str) -> str:
        return V1_NO_LIMIT if int(text) < 0 else str(int(text) // 4096 * 4096)

    def _merged(self, stood: str, line: str) -> str:
        lines = {told.split()[0]: told for told in stood.splitlines() if told.strip()}
        device, *said = line.split()
        if device != DEVICE:
            raise self._refuse(errno.ENODEV)
        lines[device] = line
        if all(word == "0" or word.endswith("=max") for word in said):
            del lines[device]
        return "\n".join(lines[key] for key in sorted(lines))

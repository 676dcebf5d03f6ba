"""Schedulers of single cgroups (Linux 7.3), beside one another under the scheduler `cotenant_parent`.

A root scheduler takes over the machine, so one zone at a time can have one, and its failure affects all tasks. The
first zone attaches a parent that gives turns and pins its link, so that it outlives each zone; a zone attaches its
scheduler to its own cgroup. The kernel ejects a broken one alone: its tasks run under the parent, other zones go on.
The last zone that ends removes the parent. Every attach is read back from /sys/kernel/sched_ext/root: an attach that
failed inside the kernel returns success.
Limits: where every zone was killed, the parent stays and serves all tasks in turn until a zone starts and ends again;
two zones that end and start at the same moment may find no parent, and the one that starts is refused.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from cotenant.drivers.ebpf import sched_ext
from cotenant.drivers.ebpf.digests import check_digest
from cotenant.drivers.ebpf.libbpf import LoadedObject, objects_folder, possible_cpus, version
from cotenant.drivers.ebpf.zone_scheduler import BPF_FILES, ZoneSchedulers
from cotenant.model.errors import Permanent, Transient, Unsupported
from cotenant.model.zones.apart import ApartTable
from cotenant.model.zones.setting import ZoneMode
from cotenant.model.zones.table import SchedulerState

PARENT = "cotenant_parent"
OLDEST_FOR_ARENA = (1, 4)  # the first libbpf that maps arenas
ATTACHES = 200  # of one loaded object: the kernel takes about four pages of its arena each time
_OPERATIONS = "zone_scheduler"
_CGROUP = struct.Struct("=Q")  # the first member of the operations
_CID_WORDS = 17  # of `every_cid` in bpf/zone_parent.bpf.c
_CIDS = struct.Struct(f"=IIII{_CID_WORDS}Q")
_MAX_CPUS = 1024


def check_sub_schedulers(release: str, found: tuple[int, int]) -> None:
    """Raises `Unsupported` where the kernel or libbpf is too old for sub-schedulers."""
    if not sched_ext.has_sub_schedulers(release):
        raise Unsupported("a scheduler for one cgroup", f"Linux 7.3 or later (this is {release})")
    if found < OLDEST_FOR_ARENA:
        wanted, has = (".".join(map(str, pair)) for pair in (OLDEST_FOR_ARENA, found))
        raise Unsupported("a scheduler for one cgroup", f"libbpf {wanted} or later (found {has}): pip install pylibbpf")


def every_cid(cpus: int) -> bytes:
    """The kernel's mask of all CPUs, as laid out in bpf/zone_parent.bpf.c."""
    if not 1 <= cpus <= _MAX_CPUS:
        raise Unsupported("a scheduler for one cgroup", f"a machine with 1 to {_MAX_CPUS} CPUs")
    words = [(1 << max(0, min(64, cpus - 64 * at))) - 1 for at in range(_CID_WORDS)]
    return _CIDS.pack(0, cpus, _CID_WORDS, 0, *words)


class Parent:
    """The scheduler above those of all zones. Its link is pinned below `bpf_files`."""

    def __init__(
        self, bpf_files: Path = BPF_FILES, read_state: Callable[[], SchedulerState] = sched_ext.read_state
    ) -> None:
        self._pin = bpf_files / "cotenant-parent"
        self._read_state = read_state

    def ensure(self) -> None:
        """Attach it unless it runs. Raises `Transient` while another root scheduler runs, `Permanent` where the
        kernel does not run it afterwards.
        """
        state = self._read_state()
        if state.runs(PARENT):
            return
        if state.name is not None:
            raise Transient(f"the root scheduler is {state.name}; zones need {PARENT} in its place")
        self._pin.unlink(missing_ok=True)  # of one that the kernel ejected
        path = objects_folder() / "zone_parent.bpf.o"
        check_digest(path)
        with LoadedObject(path, lambda _: None, attach=False) as loaded:
            loaded.set_variables("zone_arena", every_cid(possible_cpus()))
            loaded.attach_struct_ops(_OPERATIONS)
            state = self._read_state()
            if not state.runs(PARENT):
                raise Permanent(
                    f"attached {PARENT}, but the kernel reports {state.state}, {state.name or 'no scheduler'}"
                )
            loaded.pin_links(self._pin)

    def release(self, children: Callable[[], dict[int, str]] = sched_ext.sub_schedulers) -> None:
        """Return the machine to the fair class, unless some zone still has a scheduler. Idempotent."""
        if not children():
            self._pin.unlink(missing_ok=True)


class SubSchedulers(ZoneSchedulers):
    """The schedulers of one zone for one cgroup, of which at most one is attached. `cgroup`: its id, the inode of its
    folder.

    Otherwise as `ZoneSchedulers`. Raises `Unsupported` with what is missing.
    """

    _object = "sub_"

    def __init__(
        self,
        name: str,
        cgroup: int,
        modes: Sequence[ZoneMode],
        *,
        bpf_files: Path = BPF_FILES,
        starved_ms: int = 1000,
        own_cpus: Sequence[int] = (),
        siblings: Mapping[int, int] = MappingProxyType({}),
        apart: ApartTable | None = None,
        read_state: Callable[[], SchedulerState] = sched_ext.read_state,
    ) -> None:
        read_state()
        check_sub_schedulers(os.uname().release, version())
        self._cgroup = cgroup
        self._parent = Parent(bpf_files, read_state)
        self._attaches = dict.fromkeys(modes, 0)
        super().__init__(
            name,
            modes,
            bpf_files=bpf_files,
            starved_ms=starved_ms,
            own_cpus=own_cpus,
            siblings=siblings,
            apart=apart,
            read_state=read_state,
        )

    def _prepare(self, loaded: LoadedObject) -> None:
        loaded.set_variables(_OPERATIONS, _CGROUP.pack(self._cgroup))

    def attach(self, mode: ZoneMode) -> None:
        """As `ZoneSchedulers`; attaches the parent first where there is none."""
        if self._attaches.get(mode, 0) >= ATTACHES:
            self._loaded[mode].close()
            self._loaded[mode] = self._load(mode)
            self._attaches[mode] = 0
        self._parent.ensure()
        try:
            super().attach(mode)
        except BaseException:
            self._parent.release()
            raise
        self._attaches[mode] += 1

    def verify(self) -> bool:
        """Whether the kernel runs for this cgroup what this process attached."""
        held = self._attached
        return held is not None and sched_ext.sub_schedulers().get(self._cgroup) == held.shown

    def _reported(self) -> str:
        own = sched_ext.sub_schedulers().get(self._cgroup, "no scheduler")
        return f"{own} for this cgroup, root: {super()._reported()}"

    def close(self) -> None:
        """As `ZoneSchedulers`; the parent ends with the last zone."""
        super().close()
        self._parent.release()

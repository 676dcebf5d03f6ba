"""Kernel schedulers of Control Zones from user space: load, attach, verify, switch, rows, late dispatches, the reason
of an exit.

The kernel can not replace one scheduler by another in one step (EBUSY, EOPNOTSUPP), and what a zone knows must survive
the change. All schedulers of a zone are loaded beforehand and share pinned maps, so a switch is a detach and an attach,
7 ms under instruction counting (urgency.py); the fair class runs the tasks in between. Every attach is read back from
/sys/kernel/sched_ext.
Limits: one scheduler for the whole machine (no sub-schedulers); when this process ends, however it ends, the kernel
returns to the fair class; pinned maps stay until `ZoneSchedulers.remove`. Schedulers of single cgroups:
`sub_scheduler.py`.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType, TracebackType

from cotenant.drivers.ebpf import sched_ext, zone_layout
from cotenant.drivers.ebpf.digests import check_digest
from cotenant.drivers.ebpf.libbpf import LoadedObject, objects_folder, possible_cpus, version
from cotenant.drivers.ebpf.pinned import PinnedMap
from cotenant.drivers.ebpf.ring import RingReader
from cotenant.drivers.ebpf.urgency import rcu_threads, urgent
from cotenant.model.errors import InvalidInput, Permanent, Unsupported
from cotenant.model.zones.apart import ApartTable
from cotenant.model.zones.setting import ZoneMode
from cotenant.model.zones.table import LateDispatch, SchedulerExit, SchedulerState, ThreadRow, ZoneClass, ZoneRow

OLDEST = (1, 2)  # the first libbpf with the section .struct_ops.link
BPF_FILES = Path("/sys/fs/bpf")
PINNED = ("zone_policy", "zone_threads", "zone_late", "zone_counts", "zone_exit")
_SCHEDULER = "zone_scheduler"


def check_version(found: tuple[int, int]) -> None:
    """Raises `Unsupported` for a libbpf that cannot attach our schedulers."""
    if found < OLDEST:
        wanted, has = (".".join(map(str, pair)) for pair in (OLDEST, found))
        raise Unsupported(
            "a kernel scheduler of its own",
            f"libbpf {wanted} or later (found {has}): pip install pylibbpf, or the system's from backports",
        )


class ZoneMaps:
    """The pinned maps of a zone: its rows, late dispatches, counters and the last exit. Usable while schedulers
    come and go. `apart`: numbers the rows' parties.
    """

    def __init__(self, folder: Path, apart: ApartTable) -> None:
        self._apart = apart
        self._rows = PinnedMap(folder / "zone_policy", zone_layout.KEY.size, zone_layout.ROW.size)
        self._threads = PinnedMap(folder / "zone_threads", zone_layout.THREAD.size, zone_layout.ROW.size)
        self._of_threads: dict[int, tuple[ThreadRow, ...]] = {}
        self._exit = PinnedMap(folder / "zone_exit", zone_layout.INDEX.size, zone_layout.EXIT.size)
        self._cpus = possible_cpus()
        self._counts = PinnedMap(folder / "zone_counts", zone_layout.INDEX.size, zone_layout.COUNT.size * self._cpus)
        self._events = PinnedMap(folder / "zone_late", 0, 0)
        self._ring = RingReader(self._events.fd, zone_layout.RING_BYTES)

    def put(self, cgroup: int, row: ZoneRow) -> None:
        """Set the row of a cgroup (its id: the inode of its folder). Takes effect at the task's next dispatch."""
        party = self._apart.number(row.party)
        wanted = zone_layout.pack_threads(cgroup, row, party)
        for key, value in wanted.items():
            self._threads.put(key, value)
        self._rows.put(zone_layout.KEY.pack(cgroup), zone_layout.pack_row(row, party))
        before = self._of_threads.pop(cgroup, ())
        for key in zone_layout.pack_threads(cgroup, replace(row, threads=before)).keys() - wanted.keys():
            self._threads.drop(key)
        if row.threads:
            self._of_threads[cgroup] = row.threads

    def drop(self, cgroup: int) -> None:
        """Remove a row: tasks of this cgroup are of the system class again."""
        self._rows.drop(zone_layout.KEY.pack(cgroup))
        gone = ZoneRow(ZoneClass.SYSTEM, threads=self._of_threads.pop(cgroup, ()))
        for key in zone_layout.pack_threads(cgroup, gone):
            self._threads.drop(key)

    def get(self, cgroup: int) -> ZoneRow | None:
        """The row of a cgroup."""
        value = self._rows.get(zone_layout.KEY.pack(cgroup))
        if value is None:
            return None
        return replace(zone_layout.unpack_row(value), threads=self._of_threads.get(cgroup, ()))

    def late(self) -> tuple[LateDispatch, ...]:
        """Late dispatches since the last call, oldest first. One reader at a time."""
        return tuple(zone_layout.unpack_late(record) for record in self._ring.drain())

    def counts(self) -> dict[str, int]:
        """Counters since the maps were made, summed over CPUs."""
        found = {}
        for number, name in enumerate(zone_layout.COUNTS):
            value = self._counts.get(zone_layout.INDEX.pack(number)) or b""
            found[name] = sum(struct.unpack(f"={self._cpus}Q", value))
        return found

    def last_exit(self) -> SchedulerExit | None:
        """How the last scheduler ended; None where none has."""
        value = self._exit.get(zone_layout.INDEX.pack(0))
        return None if value is None else zone_layout.unpack_exit(value)

    def fileno(self) -> int:
        """A descriptor that is readable when `late` has events."""
        return self._events.fd

    def close(self) -> None:
        """Close the descriptors; the maps stay."""
        self._ring.close()
        for pinned_map in (self._rows, self._threads, self._exit, self._counts, self._events):
            pinned_map.close()


class ZoneSchedulers:
    """The loaded schedulers of one zone, of which at most one is attached; a context manager that detaches and unloads.

    `name`: of the zone, one path component; its maps are pinned in a folder of this name below `bpf_files`.
    `starved_ms`: the bound on a task's wait behind others that come first; `own_cpus`: CPUs of services under the
    exclusive scheduler; `siblings`: the other thread of each CPU's core, for the siblings scheduler; `apart`: the rules
    of the apart scheduler. Raises `Unsupported` with what is missing.
    """

    _object = ""  # begins the names of the objects of this kind of scheduler, after "zone_"

    def __init__(
        self,
        name: str,
        modes: Sequence[ZoneMode],
        *,
        bpf_files: Path = BPF_FILES,
        starved_ms: int = 1000,
        own_cpus: Sequence[int] = (),
        siblings: Mapping[int, int] = MappingProxyType({}),
        apart: ApartTable | None = None,
        read_state: Callable[[], SchedulerState] = sched_ext.read_state,
    ) -> None:
        if not name or name != os.path.basename(name) or name.startswith("."):
            raise InvalidInput("zone", name, "a name without slashes that does not start with a dot")
        self._read_state = read_state
        self._starved_ms = starved_ms
        self._own_cpus = tuple(own_cpus)
        self._siblings = dict(siblings)
        self._apart = apart or ApartTable()
        self._rcu = rcu_threads()
        read_state()
        check_version(version())
        self.folder = bpf_files / f"cotenant-zone-{name}"
        self._attached: ZoneMode | None = None
        self._loaded: dict[ZoneMode, LoadedObject] = {}
        try:
            self.folder.mkdir(mode=0o700, exist_ok=True)
            if modes:  # names that a process which was killed had put, and nobody would drop
                (self.folder / "zone_threads").unlink(missing_ok=True)
            for mode in modes:
                self._loaded[mode] = self._load(mode)
            self.maps = ZoneMaps(self.folder, self._apart)
        except OSError as error:
            self._unload()
            raise Unsupported("a kernel scheduler of its own", f"a BPF file system at {bpf_files}: {error}") from error
        except BaseException:
            self._unload()
            raise

    def _load(self, mode: ZoneMode) -> LoadedObject:
        def prepare(loaded: LoadedObject) -> None:
            for name in PINNED:
                loaded.pin(name, self.folder / name)
            if mode in (ZoneMode.LATENCY, ZoneMode.THROUGHPUT, ZoneMode.WEIGHTED):
                loaded.set_variables(".rodata", zone_layout.STARVED.pack(self._starved_ms * 1_000_000))
            if mode is ZoneMode.EXCLUSIVE:
                constants = zone_layout.pack_exclusive(self._starved_ms * 1_000_000, possible_cpus(), self._own_cpus)
                loaded.set_variables(".rodata", constants)
            if mode is ZoneMode.SIBLINGS:
                constants = zone_layout.pack_siblings(self._starved_ms * 1_000_000, possible_cpus(), self._siblings)
                loaded.set_variables(".rodata", constants)
            if mode is ZoneMode.APART:
                rules = zone_layout.pack_apart(self._starved_ms * 1_000_000, possible_cpus(), self._apart)
                loaded.set_variables(".data", rules)
            self._prepare(loaded)

        path = objects_folder() / f"zone_{self._object}{mode.value}.bpf.o"
        check_digest(path)
        return LoadedObject(path, prepare, attach=False)

    def _prepare(self, loaded: LoadedObject) -> None:
        """Between opening and loading; for subclasses."""

    @property
    def attached(self) -> ZoneMode | None:
        """The mode whose link this process holds; the kernel may have ejected it (`verify`)."""
        return self._attached

    def attach(self, mode: ZoneMode) -> None:
        """Attach and verify. Raises `Transient` while another scheduler is attached, `Permanent` where the kernel
        does not run it afterwards.
        """
        self._check_loaded(mode)
        with urgent(self._rcu):
            self._loaded[mode].attach_struct_ops(_SCHEDULER)
        self._attached = mode
        if not self.verify():
            reported = self._reported()
            self.detach()
            raise Permanent(f"attached {mode.shown}, but the kernel reports {reported}")

    def _reported(self) -> str:
        state = self._read_state()
        return f"{state.state}, {state.name or 'no scheduler'}"

    def verify(self) -> bool:
        """Whether the kernel runs what this process attached."""
        return self._attached is not None and self._read_state().runs(self._attached.shown)

    def detach(self) -> None:
        """Return the tasks to the fair class. Idempotent."""
        if self._attached is not None:
            with urgent(self._rcu):
                self._loaded[self._attached].detach()
            self._attached = None

    def switch(self, mode: ZoneMode) -> None:
        """Detach what is attached, attach `mode`, verify. Raises as `attach`; the fair class runs the tasks then."""
        self._check_loaded(mode)
        with urgent(self._rcu):
            self.detach()
            self.attach(mode)

    def _check_loaded(self, mode: ZoneMode) -> None:
        if mode not in self._loaded:
            raise InvalidInput("mode", mode.value, f"one that was loaded: {', '.join(self._loaded) or 'none'}")

    def remove(self) -> None:
        """Detach, unload, and remove the pinned maps."""
        self.close()
        for name in PINNED:
            (self.folder / name).unlink(missing_ok=True)
        if self.folder.exists():
            self.folder.rmdir()

    def close(self) -> None:
        """Detach and unload; the pinned maps stay. Idempotent."""
        self.detach()
        if self._loaded:
            self.maps.close()
        self._unload()

    def _unload(self) -> None:
        for loaded_object in self._loaded.values():
            loaded_object.close()
        self._loaded = {}

    def __enter__(self) -> ZoneSchedulers:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

"""How a zone's settings reach the kernel: cgroup weights through the keeper, or a kernel scheduler that this process
holds.

The zone's engine asks for a setting, and what that takes differs by host. One interface. *Weights* are leases of the
keeper, renewed with each reading: `cpu.idle` for batch groups, `cpu.weight` for services whose row has a weight; if
this process dies they expire. *Root* loads the schedulers here, with rows for each group and all groups below it; if
this process dies the kernel returns to the fair class. *Sub* does the same for the one cgroup that contains the zone's
groups, beside other zones (Linux 7.3).
Limits: both need cgroup v2 for the CPU controller and root's privileges; groups that appear get their row with the next
reading.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Protocol

from cotenant.drivers.ebpf import sched_ext
from cotenant.drivers.ebpf.libbpf import objects_folder, version
from cotenant.drivers.ebpf.sub_scheduler import SubSchedulers, check_sub_schedulers
from cotenant.drivers.ebpf.zone_scheduler import BPF_FILES, ZoneSchedulers
from cotenant.drivers.proc.topology import read_topology
from cotenant.engine.node.interfaces import Keeper
from cotenant.model.errors import Permanent, Transient, Unsupported
from cotenant.model.machine.knob import GiveBack, Knob, KnobTarget, LeaseState, SetKnob
from cotenant.model.machine.node_decision import Reason
from cotenant.model.machine.run_queue import RunQueueReading
from cotenant.model.zones.apart import ApartTable
from cotenant.model.zones.setting import USUAL_MODES, ExclusiveCpus, ZoneMode, ZoneSetting
from cotenant.model.zones.table import LateDispatch, SchedulerExit, ZoneClass, ZoneRow
from cotenant.policy.zone.cores import own_cpus, siblings_of

TTL_US = 30_000_000
_REASON = Reason("zone-weights", "weights of a Control Zone")


class BackendLost(Permanent):
    """The back end is gone with all tasks of the zone, as a virtual machine that ended: no other back end can take
    over.
    """


class LateEvents(Protocol):
    """Late dispatches that wait to be read by `ZoneBackend.late`."""

    def fileno(self) -> int:
        """Readable while there are some."""
        ...

    @property
    def newest_us(self) -> int:
        """When the last one that was read was dispatched, on the monotonic clock; 0: none was."""
        ...


class ZoneBackend(Protocol):
    """One back end. All methods raise `CotenantError` where the host refuses; the zone's engine then takes the next
    one.
    """

    async def attach(self, setting: ZoneSetting) -> None:
        """Run this setting, in place of what ran."""
        ...

    def runs(self, setting: ZoneSetting) -> bool:
        """Whether the kernel runs it, as read back."""
        ...

    def put(self, rows: Mapping[str, ZoneRow]) -> None:
        """The rows of all groups."""
        ...

    async def refresh(self) -> None:
        """Renew what expires, and follow groups that came or went."""
        ...

    def late(self) -> Mapping[str, tuple[int, int]] | None:
        """Late dispatches by group since the last call: number and longest in microseconds; None where this back
        end does not count them.
        """
        ...

    def events(self) -> LateEvents | None:
        """Late dispatches as they come; None where this back end does not report them."""
        ...

    def last_exit(self) -> SchedulerExit | None:
        """Why the kernel ended the scheduler."""
        ...

    async def detach(self) -> None:
        """Return to the fair class. Idempotent."""
        ...


class WaitCounter(Protocol):
    """Counts late waits of groups under the fair class: the run-queue probe."""

    def watch(self, groups: Mapping[str, int | None]) -> None:
        """These groups, each with its threshold in microseconds."""
        ...

    def read(self) -> RunQueueReading:
        """All counters, each since its group was first watched."""
        ...


def can_load() -> bool:
    """Whether this host can load kernel schedulers: the kernel, the privilege and the built objects."""
    return sched_ext.supported() and os.geteuid() == 0 and _built(*(mode.value for mode in USUAL_MODES))


def can_load_sub() -> bool:
    """Whether this host can load schedulers for single cgroups."""
    if not can_load() or not _built("parent", *(f"sub_{mode.value}" for mode in USUAL_MODES)):
        return False
    try:
        check_sub_schedulers(os.uname().release, version())
    except Unsupported:
        return False
    return True


def _built(*names: str) -> bool:
    return all((objects_folder() / f"zone_{name}.bpf.o").is_file() for name in names)


class WeightsBackend:
    """Leases of `cpu.idle` and `cpu.weight`. `waits`: what counts late dispatches; without it there are none to see."""

    def __init__(self, keeper: Keeper, waits: WaitCounter | None = None) -> None:
        self._keeper = keeper
        self._waits = waits
        self._late: dict[str, int] = {}
        self._rows: dict[str, ZoneRow] = {}
        self._held: set[KnobTarget] = set()

    async def attach(self, setting: ZoneSetting) -> None:
        """As the Protocol."""
        await self._hold()

    def runs(self, setting: ZoneSetting) -> bool:
        """As the Protocol: the keeper reads each knob back."""
        return setting.mode is None and (bool(self._held) or not self._wanted())

    def put(self, rows: Mapping[str, ZoneRow]) -> None:
        """As the Protocol; written with the next `refresh` where the setting runs."""
        self._rows = dict(rows)
        if self._waits is not None:
            self._waits.watch({group: row.late_us for group, row in rows.items() if row.late_us})

    async def refresh(self) -> None:
        """As the Protocol."""
        await self._hold()

    def late(self) -> dict[str, tuple[int, int]] | None:
        """As the Protocol; the longest wait is not known (0)."""
        if self._waits is None:
            return None
        counted = {
            group_waits.group: group_waits.late
            for group_waits in self._waits.read().groups
            if group_waits.group in self._rows
        }
        found = {group: (max(0, number - self._late.get(group, 0)), 0) for group, number in counted.items()}
        self._late = counted
        return found

    def events(self) -> None:
        """The probe of waits counts them, and is read once a period."""

    def last_exit(self) -> None:
        """Weights are not ejected."""

    async def detach(self) -> None:
        """As the Protocol."""
        held, self._held = sorted(self._held), set()
        if held:
            await self._keeper.give_back([GiveBack(target, _REASON) for target in held])

    def _wanted(self) -> list[SetKnob]:
        wanted = []
        for group, row in sorted(self._rows.items()):
            if row.zone_class is ZoneClass.BATCH:
                wanted.append(SetKnob(KnobTarget(group, Knob.CPU_IDLE), "1", _REASON, TTL_US))
            elif row.weight:
                wanted.append(SetKnob(KnobTarget(group, Knob.CPU_WEIGHT), str(row.weight), _REASON, TTL_US))
        return wanted

    async def _hold(self) -> None:
        wanted = self._wanted()
        answers = await self._keeper.hold(wanted)
        self._held |= {answer.target for answer in answers if answer.state is LeaseState.HELD}
        refused = [answer for answer in answers if answer.state in (LeaseState.REFUSED, LeaseState.YIELDED)]
        if refused:
            await self.detach()
            raise Permanent(f"{refused[0].target}: {refused[0].detail or refused[0].state}")
        stale = self._held - {wish.target for wish in wanted}
        if stale:
            self._held -= stale
            await self._keeper.give_back([GiveBack(target, _REASON) for target in sorted(stale)])


class RootBackend:
    """One kernel scheduler for the machine, held by this process. `tree`: where cgroup v2 is mounted; `exclusive`:
    of the exclusive scheduler; `apart`: the rules of the apart scheduler.
    """

    def __init__(
        self,
        name: str,
        modes: tuple[ZoneMode, ...],
        tree: Path,
        exclusive: ExclusiveCpus | None = None,
        bpf_files: Path = BPF_FILES,
        apart: ApartTable | None = None,
    ) -> None:
        self._bpf_files = bpf_files
        self._apart = apart
        self._name = name
        self._modes = modes
        self._tree = tree
        self._exclusive = exclusive or ExclusiveCpus()
        self._schedulers: ZoneSchedulers | None = None
        self._rows: dict[str, ZoneRow] = {}
        self._groups: Mapping[int, str] = {}  # id of a group or of one below it -> the zone's group
        self._written: dict[int, ZoneRow] = {}
        self._newest_us = 0

    async def attach(self, setting: ZoneSetting) -> None:
        """As the Protocol; the first call loads all schedulers."""
        if setting.mode is None:
            raise Permanent(f"{setting} is not a setting of a kernel scheduler")
        if self._schedulers is None:
            self._schedulers = self._load()
            self._write()
        self._schedulers.switch(setting.mode)

    def runs(self, setting: ZoneSetting) -> bool:
        """As the Protocol."""
        held = self._schedulers
        return held is not None and held.attached is setting.mode and held.verify()

    def put(self, rows: Mapping[str, ZoneRow]) -> None:
        """As the Protocol; takes effect at each task's next dispatch. Groups below those that stay are looked for
        by `refresh`.
        """
        known = rows.keys() == self._rows.keys()
        self._rows = dict(rows)
        if known and self._schedulers is not None:
            self._put(self._groups)
        else:
            self._write()

    async def refresh(self) -> None:
        """As the Protocol."""
        self._write()

    def late(self) -> dict[str, tuple[int, int]]:
        """As the Protocol."""
        found: dict[str, tuple[int, int]] = {}
        for event in self._events():
            self._newest_us = event.at_us
            group = self._groups.get(event.cgroup)
            if group is not None:
                number, worst = found.get(group, (0, 0))
                found[group] = number + 1, max(worst, event.waited_us)
        return found

    def events(self) -> RootBackend | None:
        """As the Protocol."""
        return None if self._schedulers is None else self

    def fileno(self) -> int:
        """As `LateEvents`."""
        assert self._schedulers is not None
        return self._schedulers.maps.fileno()

    @property
    def newest_us(self) -> int:
        """As `LateEvents`."""
        return self._newest_us

    def last_exit(self) -> SchedulerExit | None:
        """As the Protocol."""
        return None if self._schedulers is None else self._schedulers.maps.last_exit()

    async def detach(self) -> None:
        """As the Protocol; also unloads the schedulers and removes their maps."""
        if self._schedulers is not None:
            self._schedulers.remove()
            self._schedulers = None
            self._written = {}

    def _load(self) -> ZoneSchedulers:
        return ZoneSchedulers(
            self._name,
            self._modes,
            bpf_files=self._bpf_files,
            own_cpus=self._own_cpus(),
            siblings=self._siblings(),
            apart=self._apart,
        )

    def _siblings(self) -> dict[int, int]:
        return siblings_of(read_topology()) if ZoneMode.SIBLINGS in self._modes else {}

    def _own_cpus(self) -> tuple[int, ...]:
        return own_cpus(read_topology(), self._exclusive) if ZoneMode.EXCLUSIVE in self._modes else ()

    def _events(self) -> tuple[LateDispatch, ...]:
        return () if self._schedulers is None else self._schedulers.maps.late()

    def _write(self) -> None:
        """Write rows that changed, and drop those of groups that are gone."""
        if self._schedulers is None:
            return
        maps = self._schedulers.maps
        groups: dict[int, str] = {}
        for group in self._rows:
            groups.update((number, group) for number in self._members(group))
        for number in self._written.keys() - groups.keys():
            maps.drop(number)
            del self._written[number]
        self._put(groups)

    def _put(self, groups: Mapping[int, str]) -> None:
        """Write the rows that changed, of these ids of groups."""
        assert self._schedulers is not None
        maps = self._schedulers.maps
        for number, group in groups.items():
            if self._written.get(number) != self._rows[group]:
                maps.put(number, self._rows[group])
                self._written[number] = self._rows[group]
        self._groups = groups

    def _members(self, group: str) -> Iterator[int]:
        """The ids of the group and of all below it; none where it does not exist."""
        for folder, _, _ in os.walk(self._tree / group):
            try:
                yield os.stat(folder).st_ino
            except FileNotFoundError:
                continue


class SubBackend(RootBackend):
    """A kernel scheduler for one cgroup, held by this process. `group`: the one that contains all of the zone's,
    below `tree`.
    """

    def __init__(
        self,
        name: str,
        modes: tuple[ZoneMode, ...],
        tree: Path,
        group: str,
        exclusive: ExclusiveCpus | None = None,
        bpf_files: Path = BPF_FILES,
        apart: ApartTable | None = None,
    ) -> None:
        super().__init__(name, modes, tree, exclusive, bpf_files, apart)
        self._group = group

    def _load(self) -> ZoneSchedulers:
        try:
            number = os.stat(self._tree / self._group).st_ino
        except OSError as error:
            raise Transient(f"group {self._group}: {error.strerror}") from error
        return SubSchedulers(
            self._name,
            number,
            self._modes,
            bpf_files=self._bpf_files,
            own_cpus=self._own_cpus(),
            siblings=self._siblings(),
            apart=self._apart,
        )

"""Run-queue waits of chosen cgroups, the groups that ran meanwhile, and events for late waits: the user-space side of
bpf/runqueue.bpf.c.

A node must know which groups a service waits for, at negligible cost. The kernel side counts each group separately;
this side says which are watched, reads all counters in a few system calls, adds groups up to those above them, and
resolves ids to paths.
Limits: a group that appears below a watched one is counted from the next `watch` on; a new culprit reads as unknown for
up to five seconds, and for good if its group is gone by then.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType

from cotenant.drivers.ebpf import layout
from cotenant.drivers.ebpf.digests import check_digest
from cotenant.drivers.ebpf.groups import CgroupIndex
from cotenant.drivers.ebpf.layout import RawWaits
from cotenant.drivers.ebpf.libbpf import LoadedObject, objects_folder, possible_cpus
from cotenant.drivers.ebpf.ring import RingReader
from cotenant.model.errors import InvalidInput
from cotenant.model.machine.knob import Vanished
from cotenant.model.machine.run_queue import Blame, GroupWaits, LateWait, NoCulprit, RunQueueReading, WaitHistogram

OBJECT = "runqueue.bpf.o"
_PAIRS_KEPT = 12_000  # of the kernel side's 16384; above this, pairs of gone groups are dropped
_CARRIED_KEPT = 4_000
_LISTING_GAP_US = 5_000_000  # minimum time between two listings of the whole tree


class RunQueue:
    """The running probe; a context manager that removes it from the kernel.

    `root` is where the tree with the CPU controller is mounted, `version` whether that is cgroup 1 or 2. For v2, groups
    may also be those of a tree without controllers. `everyone` also watches groups that were not named. `quiet_us`:
    minimum time between two late-wait events of one group on one CPU. Raises `Unsupported` with what is missing.
    """

    def __init__(
        self, root: str, version: int, *, everyone: bool = False, quiet_us: int = 10_000, path: Path | None = None
    ) -> None:
        if version not in (1, 2):
            raise InvalidInput("cgroup version", version, "1 or 2")
        self._index = CgroupIndex(root)
        self._owners: dict[str, int] = {}  # watched group -> its id
        self._named: dict[int, str] = {}  # id -> watched group; also of a group that has vanished since
        self._members: dict[int, tuple[int, int]] = {}  # id -> the id that it is counted under, threshold in us
        self._carried: dict[str, RawWaits] = {}  # counters of gone watched groups, by the group above
        self._carried_blame: dict[tuple[str, int], int] = {}
        # Resolved pairs of ids, while they are valid.
        self._resolved: dict[tuple[int, int], tuple[tuple[str, str | NoCulprit], ...]] = {}
        self._last_blame: dict[tuple[str, str | NoCulprit], Blame] = {}
        self._listed_us: int | None = None
        self._cpus = possible_cpus()

        def prepare(loaded: LoadedObject) -> None:
            loaded.set_variables(".rodata", layout.CONSTANTS.pack(version == 1, everyone, quiet_us * 1000))
            loaded.resize("timelines", self._cpus)

        path = path or objects_folder() / OBJECT
        check_digest(path)
        self._object = LoadedObject(path, prepare)
        try:
            self._watch_table = self._object.table("watched", layout.KEY.size, layout.WATCH.size * self._cpus)
            self._waits_table = self._object.table("waited", layout.KEY.size, layout.WAITS.size * self._cpus)
            self._blame_table = self._object.table("blamed", layout.PAIR.size, layout.NANOSECONDS.size)
            self._ring = RingReader(self._object.table("events", 0, 0).fd, layout.RING_BYTES)
        except BaseException:
            self._object.close()
            raise

    def watch(self, groups: Mapping[str, int | None]) -> None:
        """Watch exactly these groups, each with all below it: path to the wait in microseconds above which `late`
        reports it, or None.

        A late wait is reported for the deepest named group. Counters of groups that stay continue, also when one below
        them is removed; those of groups no longer named are dropped. A group that does not exist is left out, and
        counted once it is named again and exists.
        """
        owners: dict[str, int] = {}
        members: dict[int, tuple[int, int]] = {}
        for group, late_us in groups.items():
            try:
                ids = self._index.members(group, groups)
            except Vanished:
                continue
            owners[group] = ids[0]
            members.update((member, (ids[0], late_us or 0)) for member in ids)
        for group, owner in self._owners.items():
            if owners.get(group) != owner:
                self._retire(group, owner, owners)
        self._carried = {group: sums for group, sums in self._carried.items() if group in owners}
        self._carried_blame = {pair: ran_ns for pair, ran_ns in self._carried_blame.items() if pair[0] in owners}
        for group, owner in owners.items():
            if self._owners.get(group) != owner:
                self._waits_table.put(layout.KEY.pack(owner), bytes(layout.WAITS.size * self._cpus))
        for member in self._members.keys() - members.keys():
            self._watch_table.drop(layout.KEY.pack(member))
        for member, (owner, late_us) in members.items():
            if self._members.get(member) != (owner, late_us):
                value = layout.WATCH.pack(owner, late_us * 1000, *([0] * (1 + 2 * layout.CHANGES)))
                self._watch_table.put(layout.KEY.pack(member), value * self._cpus)
        if owners != self._owners:
            self._resolved.clear()
        self._owners, self._members = owners, members
        self._named = {owner: group for group, owner in owners.items()}

    def read(self) -> RunQueueReading:
        """All counters now, each since its group was first watched; blame in no order."""
        at_us = time.monotonic_ns() // 1000
        raw = {layout.KEY.unpack(key)[0]: layout.sum_over_cpus(value) for key, value in self._waits_table.entries()}
        pairs: dict[tuple[int, int], int] = {}
        for keys, values in self._blame_table.batches():
            sums = (ran_ns for (ran_ns,) in layout.NANOSECONDS.iter_unpack(values))
            pairs.update(zip(layout.PAIR.iter_unpack(keys), sums, strict=True))
        if len(self._resolved) > 2 * _PAIRS_KEPT:
            self._resolved.clear()
        new = {group for pair in pairs.keys() - self._resolved.keys() for group in pair} | raw.keys()
        self._look_up(new)
        if len(pairs) > _PAIRS_KEPT:
            self._drop_gone(pairs)
        lost_ns, dropped = layout.LOST.unpack(self._object.variables(".bss", layout.LOST.size))
        return RunQueueReading(at_us, self._groups(raw), self._blame(pairs), lost_ns // 1000, dropped)

    def late(self) -> tuple[LateWait, ...]:
        """Late waits since the last call, oldest first."""
        events = []
        for record in self._ring.drain():
            at_ns, victim, culprit, wait_ns, culprit_ns, cpu, pid = layout.LATE.unpack(record)
            self._look_up({victim, culprit})
            path = self._path(victim)
            if path is not None:
                events.append(
                    LateWait(at_ns // 1000, path, self._culprit(culprit), wait_ns // 1000, culprit_ns // 1000, cpu, pid)
                )
        return tuple(events)

    def fileno(self) -> int:
        """A descriptor that is readable when `late` has events: for poll, select, or an event loop's add_reader."""
        return self._ring.fd

    def programs(self) -> tuple[tuple[str, int], ...]:
        """Name and file descriptor of the loaded programs, for `cost.costs`."""
        return self._object.programs()

    def close(self) -> None:
        """Remove the probe from the kernel. Idempotent."""
        self._ring.close()
        self._object.close()

    def __enter__(self) -> RunQueue:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _groups(self, raw: Mapping[int, RawWaits]) -> tuple[GroupWaits, ...]:
        sums: dict[str, RawWaits] = {}
        for owner, own in raw.items():
            path = self._path(owner)
            if path is not None:
                for group in self._above(path):
                    sums[group] = sums.get(group, RawWaits()).plus(own)
        for path, carried in self._carried.items():
            for group in self._above(path):
                sums[group] = sums.get(group, RawWaits()).plus(carried)
        return tuple(
            GroupWaits(
                group,
                WaitHistogram(found.number, found.wait_ns // 1000, found.buckets),
                found.throttled_ns // 1000,
                found.late,
            )
            for group, found in sorted(sums.items())
        )

    def _blame(self, pairs: Mapping[tuple[int, int], int]) -> tuple[Blame, ...]:
        sums: dict[tuple[str, str | NoCulprit], int] = {}
        for pair, ran_ns in pairs.items():
            targets = self._resolved.get(pair)
            if targets is None:
                targets = self._targets(self._path(pair[0]), pair[1])
                if not any(self._is_open(group_id) for group_id in pair):
                    self._resolved[pair] = targets
            for target in targets:
                sums[target] = sums.get(target, 0) + ran_ns
        for (path, culprit), ran_ns in self._carried_blame.items():
            for target in self._targets(path, culprit):
                sums[target] = sums.get(target, 0) + ran_ns
        self._last_blame = {target: self._same(target, ran_ns // 1000) for target, ran_ns in sums.items()}
        return tuple(self._last_blame.values())

    def _same(self, target: tuple[str, str | NoCulprit], ran_us: int) -> Blame:
        """Reuse the previous value: most pairs do not change between two readings."""
        before = self._last_blame.get(target)
        return before if before is not None and before.ran_us == ran_us else Blame(*target, ran_us)

    def _targets(self, victim: str | None, culprit: int) -> tuple[tuple[str, str | NoCulprit], ...]:
        """The entries that a pair of ids counts for: the group itself, and the watched groups that contain it."""
        if victim is None:
            return ()
        culprit_path = self._culprit(culprit)
        return tuple((group, culprit_path) for group in self._above(victim))

    def _above(self, path: str) -> Iterator[str]:
        """The group itself, and the watched groups that contain it."""
        yield path
        while path:
            path = path.rpartition("/")[0]
            if path in self._owners:
                yield path

    def _culprit(self, group_id: int) -> str | NoCulprit:
        if group_id == layout.IDLE:
            return NoCulprit.IDLE
        path = self._path(group_id)
        return NoCulprit.UNKNOWN if path is None else path

    def _path(self, group_id: int) -> str | None:
        return self._named.get(group_id) or self._index.path(group_id)

    def _look_up(self, ids: set[int]) -> None:
        """List the tree again where an id has no path yet, but not too often; an id without one even then is
        recorded as gone.
        """
        now_us = time.monotonic_ns() // 1000
        if self._listed_us is not None and now_us - self._listed_us < _LISTING_GAP_US:
            return
        if any(self._is_open(group_id) for group_id in ids):
            self._index.refresh(ids)
            self._resolved.clear()
            self._listed_us = now_us

    def _is_open(self, group_id: int) -> bool:
        """Whether a listing may resolve this id."""
        return group_id not in (layout.IDLE, layout.UNKNOWN) and self._index.is_new(group_id)

    def _retire(self, group: str, owner: int, staying: Mapping[str, int]) -> None:
        """Drop a group's counters, moving them to the nearest watched group above it where there is one."""
        successor = next((above for above in self._above(group) if above != group and above in staying), None)
        key = layout.KEY.pack(owner)
        value = self._waits_table.get(key)
        if successor is not None and value is not None:
            self._carried[successor] = self._carried.get(successor, RawWaits()).plus(layout.sum_over_cpus(value))
            self._carried[successor] = self._carried[successor].plus(self._carried.get(group, RawWaits()))
        blamed = {
            (group, culprit): ran_ns for (victim, culprit), ran_ns in self._carried_blame.items() if victim == group
        }
        self._waits_table.drop(key)
        for pair, ran in self._blame_table.entries():
            victim, culprit = layout.PAIR.unpack(pair)
            if victim == owner:
                blamed[group, culprit] = blamed.get((group, culprit), 0) + layout.NANOSECONDS.unpack(ran)[0]
                self._blame_table.drop(pair)
        if successor is None:
            return
        for (_, culprit), ran_ns in blamed.items():
            full = len(self._carried_blame) >= _CARRIED_KEPT
            to = (successor, layout.UNKNOWN if full and (successor, culprit) not in self._carried_blame else culprit)
            self._carried_blame[to] = self._carried_blame.get(to, 0) + ran_ns

    def _drop_gone(self, pairs: Mapping[tuple[int, int], int]) -> None:
        self._index.refresh({group for pair in pairs for group in pair})
        self._resolved.clear()
        for victim, culprit in pairs:
            if culprit not in (layout.IDLE, layout.UNKNOWN) and self._index.path(culprit) is None:
                self._blame_table.drop(layout.PAIR.pack(victim, culprit))

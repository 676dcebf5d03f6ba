"""The counters in a group's files.

Of a dozen texts per group, one or two change each second, and parsing all of them again costs more than reading the
files. Each group of fields (CPU, memory, I/O, pressure, limit) is parsed again only where one of its texts changed, and
otherwise taken from the group's last counters.
Limits: bytes that pass through device-mapper count once per layer, as kubelet counts them.

Source of the working set: kubelet (usage less inactive file pages); of fields: see parsing.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import eq

from cotenant.drivers.cgroup import parsing
from cotenant.drivers.cgroup.layout import CgroupLayout
from cotenant.drivers.proc.pressure import parse_pressure
from cotenant.model.machine.counters import GroupCounters, Pressure, Stall

Texts = Sequence[bytes | None]  # in the order of the reader's files; None where there is none
_NOTHING = GroupCounters("")


class Figures:
    """Parses the texts of one layout's groups. `slots`: the index of each file among them."""

    def __init__(self, layout: CgroupLayout, slots: Mapping[str, int], garbage: Callable[[int], None]) -> None:
        """`garbage(slot)`: a text existed without a valid number."""
        self._slots = slots
        self._garbage = garbage
        self._nanoseconds = layout.version("cpuacct") == 1
        self._v1_memory = layout.version("memory") == 1
        self._v1_io = layout.version("io") == 1
        self._usage = self._of("usage")
        # on v2 usage and throttling are in one file
        self._throttling = self._of("throttling") or self._usage
        self._memory = self._of("memory", "memory.stat")
        self._stalls = self._of("cpu.pressure"), self._of("memory.pressure"), self._of("io.pressure")
        self._quota = self._of("quota", "period")
        self._rest = self._of("oom", "io", "pids")

    def _of(self, *names: str) -> tuple[int, ...]:
        return tuple(self._slots[name] for name in names if name in self._slots)

    def read(self, group: str, texts: Texts, before: Texts, last: GroupCounters | None) -> GroupCounters:
        """Parse these texts. `last` is the result of `before`; None at the first reading."""
        known = last or _NOTHING
        same = [False] * len(texts) if last is None else list(map(eq, texts, before))

        def is_unchanged(slots: tuple[int, ...]) -> bool:
            return all(map(same.__getitem__, slots))

        throttled = (
            (known.periods, known.throttled_periods, known.throttled_us)
            if is_unchanged(self._throttling)
            else self._read_throttling(texts)
        )
        memory = (
            (known.memory_bytes, known.working_set_bytes, known.refaults)
            if is_unchanged(self._memory)
            else self._read_memory(texts)
        )
        rest = (
            (known.oom_kills, known.io_read_bytes, known.io_written_bytes, known.tasks)
            if is_unchanged(self._rest)
            else self._read_rest(texts)
        )
        stalls = [
            stall if is_unchanged(slots) else self._read_stall(texts, slots)
            for slots, stall in zip(
                self._stalls, (known.pressure.cpu, known.pressure.memory, known.pressure.io), strict=True
            )
        ]
        return GroupCounters(
            group,
            cpu_us=known.cpu_us if is_unchanged(self._usage) else self._read_usage(texts),
            periods=throttled[0],
            throttled_periods=throttled[1],
            throttled_us=throttled[2],
            memory_bytes=memory[0],
            working_set_bytes=memory[1],
            refaults=memory[2],
            oom_kills=rest[0],
            io_read_bytes=rest[1],
            io_written_bytes=rest[2],
            tasks=rest[3],
            pressure=Pressure(*stalls),
            cpu_m_limit=known.cpu_m_limit if is_unchanged(self._quota) else self._read_limit(texts),
        )

    def _text(self, texts: Texts, name: str) -> bytes | None:
        slot = self._slots.get(name, -1)
        return texts[slot] if slot >= 0 else None

    def _checked(self, texts: Texts, name: str, value: int | None) -> int | None:
        """Report a text that exists without a valid value."""
        if value is None and self._text(texts, name) is not None:
            self._garbage(self._slots[name])
        return value

    def _read_usage(self, texts: Texts) -> int | None:
        """CPU time used, microseconds."""
        usage = self._text(texts, "usage")
        if usage is None:
            return None
        used = parsing.number(usage) if self._nanoseconds else parsing.field(usage, b"usage_usec ")
        self._checked(texts, "usage", used)
        return used // 1000 if used is not None and self._nanoseconds else used

    def _read_throttling(self, texts: Texts) -> tuple[int | None, int | None, int | None]:
        """Periods, throttled periods, and throttled microseconds."""
        text = texts[self._throttling[0]] if self._throttling else None
        periods = None if text is None else parsing.field(text, b"nr_periods ")
        if periods is None or text is None:
            return None, None, None
        throttled_us = parsing.field(text, b"throttled_usec ")
        if throttled_us is None:
            nanoseconds = parsing.field(text, b"throttled_time ")
            throttled_us = None if nanoseconds is None else nanoseconds // 1000
        return periods, parsing.field(text, b"nr_throttled "), throttled_us

    def _read_memory(self, texts: Texts) -> tuple[int | None, int | None, int | None]:
        """Charged bytes, the working set, and refaults."""
        memory, stat = self._text(texts, "memory"), self._text(texts, "memory.stat")
        charged = None if memory is None else self._checked(texts, "memory", parsing.number(memory))
        if stat is None:
            return charged, None, None
        above = b"total_" if self._v1_memory else b""
        inactive = self._checked(texts, "memory.stat", parsing.field(stat, above + b"inactive_file "))
        refaults = parsing.total(
            stat,
            above + b"workingset_refault_anon ",
            above + b"workingset_refault_file ",
            above + b"workingset_refault ",
        )
        return charged, None if charged is None or inactive is None else max(0, charged - inactive), refaults

    def _read_rest(self, texts: Texts) -> tuple[int | None, int | None, int | None, int | None]:
        """Out-of-memory kills, bytes read and written, tasks."""
        oom, io, pids = self._text(texts, "oom"), self._text(texts, "io"), self._text(texts, "pids")
        moved = None
        if io is not None:
            moved = parsing.throttle_bytes(io) if self._v1_io else parsing.io_stat(io)
            self._checked(texts, "io", None if moved is None else 0)
        return (
            None if oom is None else parsing.field(oom, b"oom_kill "),
            None if moved is None else moved.read_bytes,
            None if moved is None else moved.written_bytes,
            None if pids is None else self._checked(texts, "pids", parsing.number(pids)),
        )

    def _read_stall(self, texts: Texts, slots: tuple[int, ...]) -> Stall | None:
        text = texts[slots[0]] if slots else None
        stall = None if text is None else parse_pressure(text)
        if stall is None and text is not None:
            self._garbage(slots[0])
        return stall

    def _read_limit(self, texts: Texts) -> int | None:
        quota, period = self._text(texts, "quota"), self._text(texts, "period")
        if quota is None or ("period" in self._slots and period is None):
            return None
        readable, limit_m = parsing.cpu_max_m(quota) if period is None else parsing.cfs_m(quota, period)
        if not readable:
            self._garbage(self._slots["quota"])
        return limit_m

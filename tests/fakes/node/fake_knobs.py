"""Knobs in memory that behave as a kernel's do, and misbehave when told to. Meets the contract of
engine/node/interfaces.KnobPort.

As the kernel: values are refused outside their ranges, memory is rounded down to pages, cpu.idle pins the weight and
forgets it, a burst is never above its quota, and `raw` is not the canonical text (so code that mixes the two up fails
here). A test may remove a group, write from outside, and have the next operations fail.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping

from cotenant.model.errors import InvalidInput, Transient, Unsupported
from cotenant.model.machine.counters import Gap
from cotenant.model.machine.knob import UNLIMITED, Knob, KnobScope, KnobTarget, Vanished
from cotenant.model.machine.knob_values import canonical, parse_cpu_max, parse_io_max

PAGE = 4096
DEFAULTS = {
    Knob.CPU_MAX: "max 100000",
    Knob.CPU_BURST: "0",
    Knob.CPU_WEIGHT: "100",
    Knob.CPU_IDLE: "0",
    Knob.CPUSET_CPUS: "",
    Knob.CGROUP_FREEZE: "0",
    Knob.MEMORY_MIN: "0",
    Knob.MEMORY_LOW: "0",
    Knob.MEMORY_HIGH: "max",
    Knob.MEMORY_MAX: "max",
    Knob.IO_WEIGHT: "default 100",
    Knob.IO_MAX: "",
    Knob.SCHEMATA: "L3:0=ff",
    Knob.RATE: "0 0",
}


class FakeKnobs:
    """`FakeKnobs(["kubepods/a"])`; `lacking` says which knobs this machine has not, and what it would take."""

    def __init__(self, groups: Iterable[str] = (), lacking: Mapping[Knob, str] | None = None) -> None:
        self.groups = set(groups)
        self.lacking = dict(lacking or {})
        self.values: dict[KnobTarget, str] = {}
        self.reclaimed_bytes: dict[str, int] = defaultdict(int)
        self.journal: list[
            tuple[str, KnobTarget, str]
        ] = []  # ("write" or "restore", target, value or raw): those that went through
        self._failures: dict[tuple[str, KnobTarget], list[Exception]] = defaultdict(list)

    # what a test does to it

    def add(self, group: str) -> None:
        """A group appears, with every knob at its default."""
        self.groups.add(group)

    def remove(self, group: str) -> None:
        """A group and those below it vanish; should it come back, its knobs stand at their defaults."""
        gone = {name for name in self.groups if name == group or name.startswith(group + "/")}
        self.groups -= gone
        self.values = {target: value for target, value in self.values.items() if target.group not in gone}

    def set_outside(self, target: KnobTarget, value: str) -> None:
        """Somebody else turns the knob; not in the journal."""
        self._set(target, value)

    def fail(self, operation: str, target: KnobTarget, *errors: Exception) -> None:
        """The next calls of `operation` ("read", "raw", "write", "restore") on the target raise these, one each."""
        self._failures[operation, target].extend(errors)

    def snapshot(self) -> dict[KnobTarget, str]:
        """Every knob that does not stand at its default."""
        return {target: value for target, value in self.values.items() if value != DEFAULTS[target.knob]}

    # the port

    def supported(self, knob: Knob) -> Gap | None:
        return Gap(str(knob), self.lacking[knob]) if knob in self.lacking else None

    def read(self, target: KnobTarget) -> str:
        self._enter("read", target)
        if not target.knob.undoable:
            raise Unsupported(f"reading {target.knob}", "a knob that keeps a value")
        return self._value(target)

    def raw(self, target: KnobTarget) -> str:
        self._enter("raw", target)
        kept = [str(target.knob), self._value(target)]
        if target.knob is Knob.CPU_IDLE:
            kept.append(self._value(KnobTarget(target.group, Knob.CPU_WEIGHT)))
        return json.dumps(kept)

    def write(self, target: KnobTarget, value: str) -> None:
        self._enter("write", target)
        self._set(target, value)
        self.journal.append(("write", target, value))

    def restore(self, target: KnobTarget, raw: str) -> None:
        self._enter("restore", target)
        try:
            kept = json.loads(raw)
        except ValueError:
            kept = None
        if not isinstance(kept, list) or kept[:1] != [str(target.knob)]:
            raise InvalidInput(f"raw value of {target}", raw, "what raw() gave for this knob")
        if target.knob is Knob.CPU_WEIGHT and self._idle(target.group):
            raise Transient(f"{target}: cpu.idle pins the weight")
        if target.knob is Knob.IO_MAX:
            self.values[target] = kept[1]
        elif target.knob is not Knob.MEMORY_RECLAIM:
            try:
                self._set(target, kept[1])
            except InvalidInput as error:
                raise Transient(str(error)) from error
        if target.knob is Knob.CPU_IDLE and kept[1] == "0":
            self._set(KnobTarget(target.group, Knob.CPU_WEIGHT), kept[2])
        self.journal.append(("restore", target, raw))

    def _enter(self, operation: str, target: KnobTarget) -> None:
        if self._failures[operation, target]:
            raise self._failures[operation, target].pop(0)
        if target.knob in self.lacking:
            raise Unsupported(str(target.knob), self.lacking[target.knob])
        if target.group not in self.groups:
            raise Vanished(f"{target}: no such group")

    def _value(self, target: KnobTarget) -> str:
        if target.knob is Knob.CPU_WEIGHT and self._idle(target.group):
            return "1"
        return self.values.get(target, DEFAULTS.get(target.knob, ""))

    def _idle(self, group: str) -> bool:
        return self._value(KnobTarget(group, Knob.CPU_IDLE)) == "1"

    def _set(self, target: KnobTarget, value: str) -> None:
        group, knob = target.group, target.knob
        if knob.scope is not KnobScope.CGROUP:
            self.values[target] = value
            return
        text = canonical(knob, value)
        match knob:
            case Knob.CPU_WEIGHT if self._idle(group):
                raise InvalidInput(str(target), value, "cpu.idle to be 0", "an idle group has no weight")
            case Knob.CPU_IDLE if text != self._value(target):
                self.values.pop(KnobTarget(group, Knob.CPU_WEIGHT), None)
            case Knob.CPU_MAX:
                quota_us = parse_cpu_max(text).quota_us
                if quota_us is not None and quota_us < int(self._value(KnobTarget(group, Knob.CPU_BURST))):
                    raise InvalidInput(str(target), value, "a quota not below the burst")
            case Knob.CPU_BURST:
                quota_us = parse_cpu_max(self._value(KnobTarget(group, Knob.CPU_MAX))).quota_us
                if quota_us is not None and int(text) > quota_us:
                    raise InvalidInput(str(target), value, "a burst not above the quota")
            case Knob.MEMORY_RECLAIM:
                self.reclaimed_bytes[group] += int(text)
                return
            case Knob.MEMORY_MIN | Knob.MEMORY_LOW | Knob.MEMORY_HIGH | Knob.MEMORY_MAX if text != UNLIMITED:
                text = str(int(text) // PAGE * PAGE)
            case Knob.IO_MAX:
                stood = {limits.device: limits for limits in parse_io_max(self._value(target))}
                stood.update({limits.device: limits for limits in parse_io_max(text)})
                kept = "\n".join(str(limits) for limits in stood.values() if not limits.unlimited)
                text = canonical(knob, kept)
        self.values[target] = text

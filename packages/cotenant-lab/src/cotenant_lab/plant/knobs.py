"""Knobs of simulated groups, with the kernel's rules and the canonical values of real ones.

The agent's engine and the engine of leases must see on a simulated node what they see on a real one, including pinned
weights and refused bursts. A `KnobPort` over a table, with the kernel's rules for CPU; other knobs are `Unsupported`,
as on a machine without them.
Limits: no hierarchy rule of cpusets (as in cgroup v2: a CPU that the parent lacks has no effect and is not refused).
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from cotenant.model.cpus.cpulist import parse_cpus
from cotenant.model.errors import InvalidInput, Transient, Unsupported
from cotenant.model.machine.counters import Gap
from cotenant.model.machine.knob import UNLIMITED, Knob, KnobTarget, Vanished
from cotenant.model.machine.knob_values import canonical, parse_cpu_max

DEFAULTS = {
    Knob.CPU_MAX: f"{UNLIMITED} 100000",
    Knob.CPU_BURST: "0",
    Knob.CPU_WEIGHT: "100",
    Knob.CPU_IDLE: "0",
    Knob.CPUSET_CPUS: "",
}
_NEEDS = "a plant that models more than CPU"


class PlantKnobs:
    """Implements `engine.node.interfaces.KnobPort`. `cpus`: number of CPUs of the machine."""

    def __init__(self, cpus: int, groups: Iterable[str] = ()) -> None:
        self._cpus = cpus
        self._values: dict[str, dict[Knob, str]] = {}
        self.version = 0  # grows with every change, so that derived values can be cached
        for group in groups:
            self.add(group)

    def add(self, group: str) -> None:
        """Add a group and its parents, with every knob at its default."""
        parts = group.split("/")
        for depth in range(1, len(parts) + 1):
            self._values.setdefault("/".join(parts[:depth]), dict(DEFAULTS))
        self.version += 1

    def remove(self, group: str) -> None:
        """Remove a group and all below it."""
        for name in [name for name in self._values if name == group or name.startswith(group + "/")]:
            del self._values[name]
        self.version += 1

    def groups(self) -> tuple[str, ...]:
        """Parents before children."""
        return tuple(sorted(self._values))

    def value(self, group: str, knob: Knob) -> str:
        """The current value; the group must exist."""
        return self._values[group][knob]

    def supported(self, knob: Knob) -> Gap | None:
        """Only CPU knobs are supported."""
        return None if knob in DEFAULTS else Gap(str(knob), _NEEDS)

    def read(self, target: KnobTarget) -> str:
        """As the Protocol."""
        group = self._group(target)
        if target.knob is Knob.CPU_WEIGHT and group[Knob.CPU_IDLE] == "1":
            return "1"  # what the kernel shows while idle pins it
        return group[target.knob]

    def raw(self, target: KnobTarget) -> str:
        """As the Protocol: the knob, its value, and for idle also the weight, which the kernel resets."""
        kept = [str(target.knob), self.read(target)]
        if target.knob is Knob.CPU_IDLE:
            kept.append(self.read(KnobTarget(target.group, Knob.CPU_WEIGHT)))
        return json.dumps(kept)

    def write(self, target: KnobTarget, value: str) -> None:
        """As the Protocol."""
        group = self._group(target)
        value = canonical(target.knob, value)
        self._check(target, group, value)
        if target.knob is Knob.CPU_IDLE and value != group[Knob.CPU_IDLE]:
            group[Knob.CPU_WEIGHT] = DEFAULTS[Knob.CPU_WEIGHT]
        group[target.knob] = value
        self.version += 1

    def restore(self, target: KnobTarget, raw: str) -> None:
        """As the Protocol."""
        group = self._group(target)
        try:
            kept = json.loads(raw)
        except ValueError:
            kept = None
        if not isinstance(kept, list) or kept[:1] != [str(target.knob)]:
            raise InvalidInput(f"raw value of {target}", raw, "what raw() gave for this knob")
        if target.knob is Knob.CPU_WEIGHT and group[Knob.CPU_IDLE] == "1":
            raise Transient(f"{target}: cpu.idle pins the weight")
        try:
            self.write(target, kept[1])
        except InvalidInput as error:
            raise Transient(str(error)) from error
        if target.knob is Knob.CPU_IDLE and kept[1] == "0":
            group[Knob.CPU_WEIGHT] = kept[2]

    def _group(self, target: KnobTarget) -> dict[Knob, str]:
        if target.knob not in DEFAULTS:
            raise Unsupported(str(target.knob), _NEEDS)
        group = self._values.get(target.group)
        if group is None:
            raise Vanished(f"{target}: no such group")
        return group

    def _check(self, target: KnobTarget, group: dict[Knob, str], value: str) -> None:
        match target.knob:
            case Knob.CPU_WEIGHT if group[Knob.CPU_IDLE] == "1":
                raise InvalidInput(f"{target}", value, "no weight while cpu.idle is set")
            case Knob.CPU_MAX:
                quota_us = parse_cpu_max(value).quota_us
                if quota_us is not None and int(group[Knob.CPU_BURST]) > quota_us:
                    raise InvalidInput(f"{target}", value, f"a quota not below the burst of {group[Knob.CPU_BURST]} us")
            case Knob.CPU_BURST:
                quota_us = parse_cpu_max(group[Knob.CPU_MAX]).quota_us
                if quota_us is not None and int(value) > quota_us:
                    raise InvalidInput(f"{target}", value, f"a burst not above the quota of {quota_us} us")
            case Knob.CPUSET_CPUS if value and parse_cpus(value)[-1] >= self._cpus:
                raise InvalidInput(f"{target}", value, f"CPUs below {self._cpus}")
            case _:
                pass

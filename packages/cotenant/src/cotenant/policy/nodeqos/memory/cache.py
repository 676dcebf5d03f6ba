"""Partitioning of the last-level cache and of memory bandwidth by QoS class.

Best effort that streams through memory evicts the services' cache lines, and no CPU knob helps. Koordinator's classes
as resctrl groups. A class has a range of the cache in percent, converted to a mask of ways, and a share of memory
bandwidth: percent on Intel, an absolute amount on AMD. Best effort has 0..30 % of the cache by default. A class without
restrictions gets no group, since hardware has few; its tasks stay in the root group.
Limits: fixed by configuration; the agent moves tasks into groups (`group_of`). Masks are contiguous and have at least
the hardware's minimum number of ways.

Source: Koordinator, pkg/koordlet/qosmanager/plugins/resctrl (formulas, defaults); Linux,
Documentation/filesystems/resctrl.rst.
"""

from __future__ import annotations

from dataclasses import dataclass

from cotenant.model.cluster.qos import QoSClass
from cotenant.model.errors import InvalidInput
from cotenant.model.machine.cache_partition import Bandwidth, CacheHardware
from cotenant.model.machine.knob import Knob, KnobTarget, SetKnob
from cotenant.model.machine.node_decision import DecisionTerm, Reason
from cotenant.model.machine.node_state import NodeState
from cotenant.model.machine.verdict import PolicyVerdict
from cotenant.policy.nodeqos.available import available
from cotenant.policy.nodeqos.percentages import check_percent

RULE = "cache-qos"
AMD_FULL = 160  # maximum of one die, in eighths of GB/s, as measured upstream
AMD_UNLIMITED = 2048


@dataclass(frozen=True, slots=True)
class ClassCache:
    """A class's range of the cache and its share of memory bandwidth, percent. `InvalidInput` where the range is
    empty.
    """

    start_percent: int = 0
    end_percent: int = 100
    bandwidth_percent: int = 100

    def __post_init__(self) -> None:
        check_percent("cache start", self.start_percent, 0, 100)
        check_percent("cache end", self.end_percent, 0, 100)
        check_percent("memory bandwidth", self.bandwidth_percent, 1, 100)
        if self.end_percent <= self.start_percent:
            raise InvalidInput("cache end percent", self.end_percent, f"more than the start, {self.start_percent}")


UNRESTRICTED = ClassCache()


@dataclass(frozen=True, slots=True)
class CacheConfig:
    """Koordinator's defaults; acts only where `hardware` is known."""

    hardware: CacheHardware | None = None
    lsr: ClassCache = UNRESTRICTED  # also LSE
    ls: ClassCache = UNRESTRICTED
    best_effort: ClassCache = ClassCache(end_percent=30)


@dataclass(frozen=True, slots=True)
class CacheMemory:
    """No state between calls."""


def decide(state: NodeState, config: CacheConfig, memory: CacheMemory) -> tuple[PolicyVerdict, CacheMemory]:
    """The schemata of every restricted class. They depend on the configuration only."""
    if config.hardware is None:
        return PolicyVerdict(
            (Reason(RULE, "this machine cannot partition its cache, or its cache hardware is unknown"),)
        ), memory
    hardware = config.hardware
    desired = (_schemata(name, settings, hardware) for name, settings in _classes(config) if settings != UNRESTRICTED)
    knobs, lacking = available(state, RULE, desired)
    reasons = (*(knob.reason for knob in knobs), *lacking) or (Reason(RULE, "no class is restricted"),)
    return PolicyVerdict(reasons, knobs), memory


def group_of(qos: QoSClass, config: CacheConfig) -> str:
    """The resctrl group for a pod's tasks; "" = the root, without restrictions."""
    name = {QoSClass.LSE: "LSR", QoSClass.LSR: "LSR", QoSClass.LS: "LS", QoSClass.BE: "BE"}.get(qos, "")
    restricted = {group for group, settings in _classes(config) if settings != UNRESTRICTED}
    return name if config.hardware is not None and name in restricted else ""


def mask(settings: ClassCache, hardware: CacheHardware) -> int:
    """The ways of a class as bits: contiguous, at least the hardware's minimum."""
    first = -(-hardware.ways * settings.start_percent // 100)
    end = -(-hardware.ways * settings.end_percent // 100)
    end = min(hardware.ways, max(end, first + hardware.min_ways))
    first = max(0, min(first, end - hardware.min_ways))
    return (1 << end) - (1 << first)


def bandwidth(settings: ClassCache, hardware: CacheHardware) -> int:
    """The value for the memory bandwidth line: percent in whole steps, or eighths of GB/s."""
    if hardware.bandwidth is Bandwidth.ABSOLUTE:
        if settings.bandwidth_percent >= 100:
            return AMD_UNLIMITED
        return max(1, AMD_FULL * settings.bandwidth_percent // 100)
    steps = -(-settings.bandwidth_percent // hardware.step_percent)
    return min(100, max(hardware.min_percent, steps * hardware.step_percent))


def _classes(config: CacheConfig) -> tuple[tuple[str, ClassCache], ...]:
    return (("LSR", config.lsr), ("LS", config.ls), ("BE", config.best_effort))


def _schemata(name: str, settings: ClassCache, hardware: CacheHardware) -> SetKnob:
    bits = mask(settings, hardware)
    lines = ["L3:" + ";".join(f"{domain}={bits:x}" for domain in sorted(hardware.cache_domains))]
    terms = [DecisionTerm("ways", bits.bit_count()), DecisionTerm("of", hardware.ways)]
    text = f"class {name} has {bits.bit_count()} of {hardware.ways} ways of the cache"
    if hardware.bandwidth is not Bandwidth.NONE and hardware.bandwidth_domains:
        amount = bandwidth(settings, hardware)
        lines.append("MB:" + ";".join(f"{domain}={amount}" for domain in sorted(hardware.bandwidth_domains)))
        unit = "%" if hardware.bandwidth is Bandwidth.PERCENT else "GB/s / 8"
        terms.append(DecisionTerm("memory bandwidth", amount, unit))
        text += f" and {settings.bandwidth_percent} % of memory bandwidth"
    return SetKnob(KnobTarget(name, Knob.SCHEMATA), "\n".join(lines), Reason(RULE, text, tuple(terms)))

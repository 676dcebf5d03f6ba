"""The files of each knob per cgroup version, and the conversion of its values.

The same setting is another file, another unit and another range on v1. One table, and pure functions in both
directions. A translation need not be exact, since a restore writes the raw text.
Limits: memory.min, low, high and reclaim have no v1 form: v1's soft limit says where reclaim begins when the whole
machine is short, and protects no group.

Source: kernel/sched/core.c `sched_weight_from_cgroup` and its inverse for cpu.weight, so that 100 and v1's 1024 are the
same share (runc's conversion, which kubelet's groups on v2 were created with, maps the range instead and makes 1024 a
weight of 39); systemd's `BFQ_WEIGHT` and `CGROUP_WEIGHT_IO_TO_BLKIO` (src/basic/cgroup-util.h) for I/O weights;
Documentation/admin-guide/cgroup-v1/blkio-controller.rst.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from cotenant.model.errors import InvalidInput
from cotenant.model.machine.knob import UNLIMITED, Knob
from cotenant.model.machine.knob_values import DEVICE_LIMITS, CpuMax, DeviceLimits
from cotenant.model.whole_number import whole_number

USUAL_WEIGHT, USUAL_SHARES = 100, 1024
MIN_SHARES, MAX_SHARES = 2, 262_144
MAX_BFQ_WEIGHT, USUAL_BFQ_WEIGHT = 1000, 100
MIN_CFQ_WEIGHT, MAX_CFQ_WEIGHT, USUAL_CFQ_WEIGHT = 10, 1000, 500
MAX_WEIGHT = 10_000
V1_UNLIMITED_BYTES = (2**63 - 1) // 65_536 * 65_536  # what limit_in_bytes reads without a limit, with the largest pages
_V2_MEMORY = "the memory controller on cgroup v2; v1 has no such protection or throttling"


@dataclass(frozen=True, slots=True)
class KnobFiles:
    """The files of a knob. `v1` is empty where v1 has none; `any_of`: the files are alternatives, of which a
    machine has some.
    """

    controller: str  # its v2 name
    witness: tuple[str, str]  # a file that every group has if the controller is enabled, on v1 and v2
    v1: tuple[str, ...]
    v2: tuple[str, ...]
    needs: str  # what is required where the files are missing
    any_of: bool = False
    is_core: bool = False  # v2 has it in every group, without a controller

    def files(self, version: int) -> tuple[str, ...]:
        """The files of one version."""
        return self.v1 if version == 1 else self.v2


V1_FROZEN = "FROZEN"
V1_THAWED = "THAWED"
_CPU = ("cpu.shares", "cpu.weight")
_MEMORY = ("memory.limit_in_bytes", "memory.max")
_IO = ("blkio.reset_stats", "io.stat")
_BANDWIDTH = "a kernel with CFS bandwidth control (CONFIG_CFS_BANDWIDTH)"
THROTTLE_FILES = tuple(
    f"blkio.throttle.{way}_{unit}_device"
    for way, unit in (("read", "bps"), ("write", "bps"), ("read", "iops"), ("write", "iops"))
)

FILES: Mapping[Knob, KnobFiles] = {
    Knob.CPU_MAX: KnobFiles("cpu", _CPU, ("cpu.cfs_quota_us", "cpu.cfs_period_us"), ("cpu.max",), _BANDWIDTH),
    Knob.CPU_BURST: KnobFiles("cpu", _CPU, ("cpu.cfs_burst_us",), ("cpu.max.burst",), f"Linux 5.14 and {_BANDWIDTH}"),
    Knob.CPU_WEIGHT: KnobFiles("cpu", _CPU, ("cpu.shares",), ("cpu.weight",), "a kernel with CONFIG_FAIR_GROUP_SCHED"),
    Knob.CPU_IDLE: KnobFiles("cpu", _CPU, ("cpu.idle",), ("cpu.idle",), "Linux 5.15"),
    Knob.CPUSET_CPUS: KnobFiles(
        "cpuset", ("cpuset.mems",) * 2, ("cpuset.cpus",), ("cpuset.cpus",), "the cpuset controller"
    ),
    Knob.MEMORY_MIN: KnobFiles("memory", _MEMORY, (), ("memory.min",), _V2_MEMORY),
    Knob.MEMORY_LOW: KnobFiles("memory", _MEMORY, (), ("memory.low",), _V2_MEMORY),
    Knob.MEMORY_HIGH: KnobFiles("memory", _MEMORY, (), ("memory.high",), _V2_MEMORY),
    Knob.MEMORY_RECLAIM: KnobFiles("memory", _MEMORY, (), ("memory.reclaim",), f"Linux 5.19 and {_V2_MEMORY}"),
    Knob.MEMORY_MAX: KnobFiles("memory", _MEMORY, ("memory.limit_in_bytes",), ("memory.max",), "the memory controller"),
    Knob.IO_WEIGHT: KnobFiles(
        "io",
        _IO,
        ("blkio.bfq.weight", "blkio.weight"),
        ("io.weight", "io.bfq.weight"),
        "a kernel with BFQ or I/O cost control (CONFIG_BFQ_GROUP_IOSCHED, CONFIG_BLK_CGROUP_IOCOST)",
        any_of=True,
    ),
    # freezer.state is written, and shows what the group above does too; freezer.self_freezing what was written
    Knob.CGROUP_FREEZE: KnobFiles(
        "freezer",
        ("freezer.state", "cgroup.events"),
        ("freezer.self_freezing", "freezer.state"),
        ("cgroup.freeze",),
        "the freezer controller of cgroup v1, or cgroup v2 with Linux 5.2",
        is_core=True,
    ),
    Knob.IO_MAX: KnobFiles(
        "io", _IO, THROTTLE_FILES, ("io.max",), "a kernel with I/O throttling (CONFIG_BLK_DEV_THROTTLING)"
    ),
}


def v1_frozen(text: str) -> str:
    """What is written to freezer.state for a canonical value, or for what freezer.self_freezing shows."""
    return V1_THAWED if text == "0" else V1_FROZEN


def shares_of(weight: int) -> int:
    """v1's cpu.shares for a cpu.weight. The minimum weight maps to the minimum of shares, so that the minimum never
    raises.
    """
    if weight <= 1:
        return MIN_SHARES
    return min(MAX_SHARES, (weight * USUAL_SHARES + USUAL_WEIGHT // 2) // USUAL_WEIGHT)


def parse_shares(text: str) -> int:
    """Parse cpu.shares."""
    shares = whole_number(text)
    if shares is None:
        raise InvalidInput("cpu.shares", text, "a number")
    return shares


def weight_of_shares(shares: int) -> int:
    """The cpu.weight nearest to v1's cpu.shares."""
    return min(MAX_WEIGHT, max(1, (shares * USUAL_WEIGHT + USUAL_SHARES // 2) // USUAL_SHARES))


def bfq_weight_of(weight: int) -> int:
    """BFQ's weight, 1 to 1000: the same up to the default 100, the rest of the range above it."""
    if weight <= USUAL_WEIGHT:
        return weight
    spread = (weight - USUAL_WEIGHT) * (MAX_BFQ_WEIGHT - USUAL_BFQ_WEIGHT)
    return USUAL_BFQ_WEIGHT + spread // (MAX_WEIGHT - USUAL_WEIGHT)


def weight_of_bfq(bfq_weight: int) -> int:
    """The smallest io.weight that maps to BFQ's weight."""
    if bfq_weight <= USUAL_BFQ_WEIGHT:
        return max(1, bfq_weight)
    spread = (bfq_weight - USUAL_BFQ_WEIGHT) * (MAX_WEIGHT - USUAL_WEIGHT)
    return min(MAX_WEIGHT, USUAL_WEIGHT - -spread // (MAX_BFQ_WEIGHT - USUAL_BFQ_WEIGHT))


def cfq_weight_of(weight: int) -> int:
    """v1's blkio.weight, 10 to 1000, default 500."""
    return min(MAX_CFQ_WEIGHT, max(MIN_CFQ_WEIGHT, weight * USUAL_CFQ_WEIGHT // USUAL_WEIGHT))


def weight_of_cfq(cfq_weight: int) -> int:
    """The io.weight that corresponds to v1's blkio.weight."""
    return max(1, cfq_weight * USUAL_WEIGHT // USUAL_CFQ_WEIGHT)


def io_weight_text(file: str, weight: int) -> str:
    """The text to write into one of the files of io.weight."""
    if file == "io.weight":
        return f"default {weight}"
    return str(cfq_weight_of(weight) if file == "blkio.weight" else bfq_weight_of(weight))


def io_weight_of(file: str, text: str) -> int:
    """The io.weight from one of its files. Lines of single devices are ignored."""
    for line in text.splitlines():
        words = line.split()
        weight = whole_number(words[-1]) if words and (len(words) == 1 or words[0] == "default") else None
        if weight is not None:
            if file == "io.weight":
                return weight
            return weight_of_cfq(weight) if file == "blkio.weight" else weight_of_bfq(weight)
    raise InvalidInput(file, text, "a line with the default weight")


def cpu_max_of(quota: str, period: str) -> CpuMax:
    """v1's two files as one value: a quota below 0 means no limit."""
    try:
        quota_us, period_us = int(quota), int(period)
    except ValueError:
        raise InvalidInput("cpu.cfs_quota_us and cpu.cfs_period_us", f"{quota} {period}", "two numbers") from None
    return CpuMax(None if quota_us < 0 else quota_us, period_us)


def memory_max_of(text: str) -> str:
    """v1's limit_in_bytes as memory.max."""
    limit_bytes = whole_number(text)
    if limit_bytes is None:
        raise InvalidInput("memory.limit_in_bytes", text, "bytes")
    return UNLIMITED if limit_bytes >= V1_UNLIMITED_BYTES else text


def device_limits_of(texts: Iterable[str]) -> tuple[DeviceLimits, ...]:
    """v1's four throttle files, in the order of `THROTTLE_FILES`, as limits per device."""
    found: dict[str, dict[str, int | None]] = {}
    for name, text in zip(DEVICE_LIMITS, texts, strict=True):
        for line in text.splitlines():
            device, _, amount = line.partition(" ")
            limit = whole_number(amount.strip())
            if limit is None:
                raise InvalidInput("blkio.throttle", line, '"MAJOR:MINOR N"')
            found.setdefault(device, {})[name] = limit
    return tuple(DeviceLimits(device, **limits) for device, limits in found.items())


def throttle_lines(limits: DeviceLimits) -> tuple[str, ...]:
    """The lines for v1's four throttle files for one device; 0 clears."""
    amounts = (limits.rbps, limits.wbps, limits.riops, limits.wiops)
    return tuple(f"{limits.device} {0 if amount is None else amount}" for amount in amounts)

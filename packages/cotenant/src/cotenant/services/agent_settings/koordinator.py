"""Settings that co-location users already have, as ours: a NodeSLO, or the data of the ConfigMap
`slo-controller-config`.

A node's strategies have been tuned for years under Koordinator's names, and retyping them makes mistakes. A pure
function from the document to `PolicySettings`; absent settings take Koordinator's own defaults, and settings without a
counterpart here are listed, so that they are not believed to be in force. A negative group identity of best-effort work
becomes the idle class, its nearest counterpart of the mainline kernel.
Limits: strategies of single nodes (nodeStrategies) and host applications are not taken; other group identities, core
scheduling, memory watermarks and memory reaping, features of other kernels, have no counterpart.

    threshold   -> best_effort_cpu.suppress, cpu_eviction, memory_eviction       resource-threshold-config
    memory QoS  -> memory;  resctrl QoS -> cache;  cpu QoS -> best_effort_cpu.idle   resource-qos-config
    block I/O   -> io.best_effort_weight, io.service_weight                         resource-qos-config
    CPU burst   -> burst                                                         cpu-burst-config

Source: Koordinator, apis/slo/v1alpha1 (NodeSLO) and its defaults.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import msgspec

from cotenant.engine.node.policies import DEFAULT_POLICIES, PolicySettings
from cotenant.model.document import split_refusal
from cotenant.model.errors import InvalidInput
from cotenant.model.machine.use_targets import BEST_EFFORT_TARGET_PERCENT
from cotenant.policy.nodeqos.burst.config import BurstConfig, BurstPolicy
from cotenant.policy.nodeqos.cpu.best_effort import BestEffortCpuConfig
from cotenant.policy.nodeqos.cpu.suppression import SuppressConfig, SuppressionForm
from cotenant.policy.nodeqos.eviction.cpu import CpuEvictionConfig
from cotenant.policy.nodeqos.eviction.goals import BestEffortMemoryTrigger
from cotenant.policy.nodeqos.eviction.memory import MemoryEvictionConfig
from cotenant.policy.nodeqos.eviction.satisfaction import SatisfactionOf, SatisfactionTrigger
from cotenant.policy.nodeqos.io.disk import IoConfig
from cotenant.policy.nodeqos.memory.cache import CacheConfig, ClassCache
from cotenant.policy.nodeqos.memory.protection import ClassMemory, MemoryQosConfig

SECOND_US = 1_000_000
USUAL_WEIGHT = 100  # Koordinator's ioWeightPercent 100 is the usual weight
# The keys of slo-controller-config and the part of a NodeSLO that each stands for.
PARTS = {
    "resource-threshold-config": "resourceUsedThresholdWithBE",
    "resource-qos-config": "resourceQOSStrategy",
    "cpu-burst-config": "cpuBurstStrategy",
    "system-config": "systemStrategy",
}


class _Part(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Unknown fields are skipped; null is absent."""


class Threshold(_Part, frozen=True):
    """resourceUsedThresholdWithBE."""

    enable: bool | None = None
    cpu_suppress_threshold_percent: int | None = None
    cpu_suppress_min_percent: int | None = None
    cpu_suppress_policy: SuppressionForm | None = None
    memory_evict_threshold_percent: int | None = None
    memory_evict_lower_percent: int | None = None
    satisfaction_upper: int | None = msgspec.field(default=None, name="cpuEvictBESatisfactionUpperPercent")
    satisfaction_lower: int | None = msgspec.field(default=None, name="cpuEvictBESatisfactionLowerPercent")
    satisfaction_used: int | None = msgspec.field(default=None, name="cpuEvictBEUsageThresholdPercent")
    cpu_evict_time_window_seconds: int | None = None
    cpu_evict_policy: SatisfactionOf | None = None


class CpuQos(_Part, frozen=True):
    """cpuQOS of a class."""

    enable: bool | None = None
    group_identity: int | None = None
    sched_idle: int | None = None
    core_expeller: bool | None = None


class MemoryQos(_Part, frozen=True):
    """memoryQOS of a class."""

    enable: bool | None = None
    min_limit_percent: int | None = None
    low_limit_percent: int | None = None
    throttling_percent: int | None = None
    wmark_ratio: int | None = None
    wmark_min_adj: int | None = None


class ResctrlQos(_Part, frozen=True):
    """resctrlQOS of a class."""

    enable: bool | None = None
    cat_range_start_percent: int | None = None
    cat_range_end_percent: int | None = None
    mba_percent: int | None = None


class IoCfg(_Part, frozen=True):
    """ioCfg of one block device or volume."""

    io_weight_percent: int | None = None
    read_iops: int | None = msgspec.field(default=None, name="readIOPS")
    write_iops: int | None = msgspec.field(default=None, name="writeIOPS")
    read_bps: int | None = msgspec.field(default=None, name="readBPS")
    write_bps: int | None = msgspec.field(default=None, name="writeBPS")


class BlkioBlock(_Part, frozen=True):
    """One of blkioQOS.blocks."""

    name: str = ""
    io_cfg: IoCfg | None = None


class BlkIoQos(_Part, frozen=True):
    """blkioQOS of a class."""

    enable: bool | None = None
    blocks: tuple[BlkioBlock, ...] | None = None


class NetworkQos(_Part, frozen=True):
    """networkQOS of a class."""

    enable: bool | None = None


class ClassQos(_Part, frozen=True):
    """The strategies of one QoS class."""

    cpu: CpuQos | None = msgspec.field(default=None, name="cpuQOS")
    memory: MemoryQos | None = msgspec.field(default=None, name="memoryQOS")
    resctrl: ResctrlQos | None = msgspec.field(default=None, name="resctrlQOS")
    blkio: BlkIoQos | None = msgspec.field(default=None, name="blkioQOS")
    network: NetworkQos | None = msgspec.field(default=None, name="networkQOS")


class QosStrategy(_Part, frozen=True):
    """resourceQOSStrategy."""

    lsr_class: ClassQos | None = None
    ls_class: ClassQos | None = None
    be_class: ClassQos | None = None
    system_class: ClassQos | None = None
    cgroup_root: ClassQos | None = None


class BurstStrategy(_Part, frozen=True):
    """cpuBurstStrategy."""

    policy: BurstPolicy | None = None
    cpu_burst_percent: int | None = None
    cfs_quota_burst_percent: int | None = None
    cfs_quota_burst_period_seconds: int | None = None
    share_pool_threshold_percent: int | None = None


class NodeSlo(_Part, frozen=True):
    """The used parts of a NodeSLO's spec."""

    threshold: Threshold | None = msgspec.field(default=None, name="resourceUsedThresholdWithBE")
    qos: QosStrategy | None = msgspec.field(default=None, name="resourceQOSStrategy")
    burst: BurstStrategy | None = msgspec.field(default=None, name="cpuBurstStrategy")
    system: dict[str, object] | None = msgspec.field(default=None, name="systemStrategy")
    host_applications: tuple[dict[str, object], ...] | None = None


def read_node_slo(document: object, where: str = "node_slo") -> NodeSlo:
    """A NodeSLO from the object, its spec, the ConfigMap `slo-controller-config`, or that one's data. Raises
    `InvalidInput` with the field.
    """
    if not isinstance(document, Mapping):
        raise InvalidInput(where, repr(document)[:60], "a NodeSLO or the data of slo-controller-config")
    spec = document.get("spec", document)
    data = document.get("data", document)
    if isinstance(data, Mapping) and data.keys() & PARTS.keys():
        spec = {PARTS[key]: _cluster_strategy(data[key], f"{where}: {key}") for key in data.keys() & PARTS.keys()}
    try:
        return msgspec.convert(spec, NodeSlo, strict=True)
    except msgspec.ValidationError as error:
        said, path = split_refusal(error)
        raise InvalidInput(f"{where}: {path}".rstrip(": "), "refused", said) from None


def policies_of(slo: NodeSlo, base: PolicySettings = DEFAULT_POLICIES) -> PolicySettings:
    """Convert to our settings; fields that are absent keep their value of `base`. Raises `InvalidInput` for figures
    out of range.
    """
    cpu = base.best_effort_cpu or BestEffortCpuConfig()
    found = base
    if slo.threshold is not None:
        cpu = replace(cpu, suppress=_suppress(slo.threshold, cpu.suppress))
        found = replace(
            found, memory_eviction=_memory_eviction(slo.threshold), cpu_eviction=_cpu_eviction(slo.threshold)
        )
    if slo.qos is not None:
        best_effort = slo.qos.be_class or ClassQos()
        given = best_effort.cpu
        if given is not None and (given.sched_idle is not None or given.group_identity is not None):
            # On other kernels the idle class is what the group identity of best-effort work is for.
            yields = given.sched_idle == 1 or (given.group_identity or 0) < 0
            cpu = replace(cpu, idle=bool(given.enable) and yields)
        found = replace(found, memory=_memory(slo.qos), cache=_cache(slo.qos, found.cache), io=_io(slo.qos, found.io))
    if slo.burst is not None:
        found = replace(found, burst=_burst(slo.burst))
    return replace(found, best_effort_cpu=cpu)


def not_taken(slo: NodeSlo) -> tuple[str, ...]:
    """Settings without a counterpart here, by path."""
    return tuple(_not_taken(slo))


def _cluster_strategy(text: object, where: str) -> object:
    if not isinstance(text, str):
        raise InvalidInput(where, repr(text)[:60], "JSON as text, as a ConfigMap has it")
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        raise InvalidInput(where, str(error), "JSON") from None
    if not isinstance(value, Mapping) or not isinstance(value.get("clusterStrategy", {}), Mapping):
        raise InvalidInput(where, text[:60], "an object with clusterStrategy")
    return value.get("clusterStrategy", {})


def _suppress(given: Threshold, base: SuppressConfig) -> SuppressConfig:
    return replace(
        base,
        enabled=bool(given.enable),
        threshold_percent=_or(given.cpu_suppress_threshold_percent, BEST_EFFORT_TARGET_PERCENT),
        min_percent=given.cpu_suppress_min_percent,
        form=given.cpu_suppress_policy or SuppressionForm.CPUSET,
    )


def _memory_eviction(given: Threshold) -> MemoryEvictionConfig | None:
    if not given.enable:
        return None
    threshold = _or(given.memory_evict_threshold_percent, 70)
    return MemoryEvictionConfig(best_effort=BestEffortMemoryTrigger(threshold, given.memory_evict_lower_percent))


def _cpu_eviction(given: Threshold) -> CpuEvictionConfig | None:
    """Off unless both marks are set, as upstream."""
    if not given.enable or given.satisfaction_lower is None or given.satisfaction_upper is None:
        return None
    return CpuEvictionConfig(
        satisfaction=SatisfactionTrigger(
            lower_percent=given.satisfaction_lower,
            upper_percent=given.satisfaction_upper,
            used_percent=_or(given.satisfaction_used, 90),
            measured_against=given.cpu_evict_policy or SatisfactionOf.REAL_LIMIT,
        ),
        window_us=_or(given.cpu_evict_time_window_seconds, 60) * SECOND_US,
    )


def _memory(given: QosStrategy) -> MemoryQosConfig | None:
    classes = {
        name: ClassMemory(
            min_percent=_or(part.memory.min_limit_percent, 0),
            low_percent=_or(part.memory.low_limit_percent, 0),
            throttling_percent=_or(part.memory.throttling_percent, 0),
        )
        for name, part in _classes(given)
        if part.memory is not None and part.memory.enable
    }
    if not classes:
        return None
    alone = ClassMemory()
    return MemoryQosConfig(
        lsr=classes.get("lsr", alone), ls=classes.get("ls", alone), best_effort=classes.get("best_effort", alone)
    )


def _cache(given: QosStrategy, base: CacheConfig | None) -> CacheConfig | None:
    usual = {"lsr": 100, "ls": 100, "best_effort": 30}
    classes = {
        name: ClassCache(
            start_percent=_or(part.resctrl.cat_range_start_percent, 0),
            end_percent=_or(part.resctrl.cat_range_end_percent, usual[name]),
            bandwidth_percent=_or(part.resctrl.mba_percent, 100),
        )
        for name, part in _classes(given)
        if part.resctrl is not None and part.resctrl.enable
    }
    if not classes:
        return base
    base = base or CacheConfig()
    return replace(
        base,
        lsr=classes.get("lsr", base.lsr),
        ls=classes.get("ls", base.ls),
        best_effort=classes.get("best_effort", base.best_effort),
    )


def _io(given: QosStrategy, base: IoConfig | None) -> IoConfig | None:
    weights: dict[str, int] = {}
    for name, part in _classes(given):
        if part.blkio is None or not part.blkio.enable:
            continue
        for block in part.blkio.blocks or ():
            if block.io_cfg is not None and block.io_cfg.io_weight_percent is not None:
                weights[name] = max(1, block.io_cfg.io_weight_percent * USUAL_WEIGHT // 100)
    if not weights:
        return base
    base = base or IoConfig()
    return replace(
        base,
        best_effort_weight=weights.get("best_effort", base.best_effort_weight),
        service_weight=weights.get("ls", base.service_weight),
    )


def _burst(given: BurstStrategy) -> BurstConfig:
    return BurstConfig(
        policy=given.policy or BurstPolicy.NONE,
        burst_percent=_or(given.cpu_burst_percent, 1000),
        quota_burst_percent=_or(given.cfs_quota_burst_percent, 300),
        quota_burst_period_s=_or(given.cfs_quota_burst_period_seconds, -1),
        pool_threshold_percent=_or(given.share_pool_threshold_percent, 50),
    )


def _classes(given: QosStrategy) -> Iterator[tuple[str, ClassQos]]:
    for name, part in (("lsr", given.lsr_class), ("ls", given.ls_class), ("best_effort", given.be_class)):
        if part is not None:
            yield name, part


def _not_taken(slo: NodeSlo) -> Iterator[str]:
    if slo.system:
        yield "systemStrategy"
    if slo.host_applications:
        yield "hostApplications"
    if slo.qos is None:
        return
    for name, part in (
        ("lsrClass", slo.qos.lsr_class),
        ("lsClass", slo.qos.ls_class),
        ("beClass", slo.qos.be_class),
        ("systemClass", slo.qos.system_class),
        ("cgroupRoot", slo.qos.cgroup_root),
    ):
        if part is None:
            continue
        where = f"resourceQOSStrategy.{name}"
        is_ours = name in ("lsrClass", "lsClass", "beClass")
        if part.cpu is not None and part.cpu.enable:
            if part.cpu.group_identity and not (name == "beClass" and part.cpu.group_identity < 0):
                yield f"{where}.cpuQOS.groupIdentity"
            if part.cpu.core_expeller:
                yield f"{where}.cpuQOS.coreExpeller"
        if part.memory is not None and part.memory.enable:
            if not is_ours:
                yield f"{where}.memoryQOS"
            elif part.memory.wmark_ratio or part.memory.wmark_min_adj:
                yield f"{where}.memoryQOS.wmark"
        if part.network is not None and part.network.enable:
            yield f"{where}.networkQOS"
        if part.blkio is not None and part.blkio.enable:
            yield from _blkio_not_taken(name, f"{where}.blkioQOS", part.blkio)
        if part.resctrl is not None and part.resctrl.enable and not is_ours:
            yield f"{where}.resctrlQOS"


def _blkio_not_taken(name: str, where: str, given: BlkIoQos) -> Iterator[str]:
    for block in given.blocks or ():
        io = block.io_cfg or IoCfg()
        limits = (io.read_iops, io.write_iops, io.read_bps, io.write_bps)
        if any(limits) or name not in ("beClass", "lsClass"):
            yield f"{where}.blocks[{block.name}]"


def _or(value: int | None, default: int) -> int:
    return default if value is None else value

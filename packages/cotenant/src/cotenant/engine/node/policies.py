"""The node policies, their settings, and the knobs that each needs to read.

Policies are separate modules, and the agent, the lab and the command line must run the same ones in the same order. A
table of entries; a policy is a pure `decide` with its settings and its first memory; settings of None switch it off.
Limits: the order here is the order in which ties are resolved and evictions are taken.

Source of the defaults: Koordinator's gates (suppress, burst and batch resources on, evictions off); what its defaults
leave off is off here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cotenant.engine.node.gpu_lending import policy as gpu_lending
from cotenant.engine.node.gpu_lending.settings import GpuLendingSettings
from cotenant.engine.node.recovery import policy as recovery
from cotenant.engine.node.recovery.settings import RecoverySettings
from cotenant.model.machine.knob import Knob, KnobTarget
from cotenant.model.machine.node_state import NodeState
from cotenant.model.machine.verdict import PolicyVerdict
from cotenant.policy.interference import antagonist
from cotenant.policy.interference import settings as interference
from cotenant.policy.interference.attribution import held
from cotenant.policy.nodeqos import batch_resources
from cotenant.policy.nodeqos.burst import config as burst_config
from cotenant.policy.nodeqos.burst import policy as burst
from cotenant.policy.nodeqos.cpu import best_effort as best_effort_cpu
from cotenant.policy.nodeqos.cpu import own_cpus
from cotenant.policy.nodeqos.eviction import cpu as eviction_cpu
from cotenant.policy.nodeqos.eviction import memory as eviction_memory
from cotenant.policy.nodeqos.eviction import memory_pressure
from cotenant.policy.nodeqos.io import disk as io
from cotenant.policy.nodeqos.io import network
from cotenant.policy.nodeqos.memory import cache, reclaim
from cotenant.policy.nodeqos.memory import protection as memory

SECOND_US = 1_000_000
_BURST = burst_config.BurstConfig()  # pods may ask for more by annotation
_SUPPRESS_AND_GUARD = best_effort_cpu.BestEffortCpuConfig()
_OWN_CPUS = own_cpus.OwnCpusConfig()
_BATCH = batch_resources.BatchResourcesConfig()


@dataclass(frozen=True, slots=True)
class PolicySettings:
    """Each policy's settings; None = off."""

    best_effort_cpu: best_effort_cpu.BestEffortCpuConfig | None = _SUPPRESS_AND_GUARD
    own_cpus: own_cpus.OwnCpusConfig | None = _OWN_CPUS  # no effect where no pod has own CPUs
    batch_resources: batch_resources.BatchResourcesConfig | None = _BATCH  # no effect where no pod requests them
    burst: burst_config.BurstConfig | None = _BURST
    interference: interference.InterferenceSettings | None = None
    antagonists_leave: bool = False  # evict repeat offenders
    recovery: RecoverySettings | None = None
    memory: memory.MemoryQosConfig | None = None
    reclaim: reclaim.ReclaimConfig | None = None
    io: io.IoConfig | None = None
    network: network.NetworkConfig | None = None
    cache: cache.CacheConfig | None = None
    cpu_eviction: eviction_cpu.CpuEvictionConfig | None = None
    memory_eviction: eviction_memory.MemoryEvictionConfig | None = None
    memory_pressure: memory_pressure.MemoryPressureConfig | None = None
    gpu_lending: GpuLendingSettings | None = None


DEFAULT_POLICIES = PolicySettings()


def _nothing(state: NodeState) -> tuple[KnobTarget, ...]:
    return ()


@dataclass(frozen=True, slots=True)
class NodePolicy:
    """One policy. `memory` is its own frozen value, opaque to all others."""

    name: str
    decide: Callable[[NodeState, Any, Any], tuple[PolicyVerdict, object]]
    config: Any
    memory: Any  # before its first decision
    lifts: str = ""  # when a knob that it holds is released, as the end of "it is released when ..."
    reads: Callable[[NodeState], tuple[KnobTarget, ...]] = (
        _nothing  # the knobs that it reads, for the pods that are here
    )
    every_us: int = 0  # minimum interval of its decisions; in between its last verdict stays in force. 0 = every sample
    urgent: bool = False  # decides at once when a group is under pressure
    may_evict: bool = True  # else its evictions become reasons
    log_every_text: bool = False  # its reasons are few: each new text of one is logged, not only each new rule


def _best_effort_knob(knob: Knob) -> Callable[[NodeState], tuple[KnobTarget, ...]]:
    def reads(state: NodeState) -> tuple[KnobTarget, ...]:
        return tuple(KnobTarget(entry.pod.group, knob) for entry in state.best_effort_pods if entry.pod.group)

    return reads


def _cpu_policies(settings: PolicySettings) -> tuple[NodePolicy, ...]:
    return (
        NodePolicy(
            "best-effort-cpu",
            best_effort_cpu.decide,
            settings.best_effort_cpu,
            best_effort_cpu.BestEffortCpuMemory(),
            "services use less CPU, or have been well within their objectives for a while",
            best_effort_cpu.reads,
            urgent=True,
        ),
        NodePolicy(
            "own-cpus",
            own_cpus.decide,
            settings.own_cpus,
            own_cpus.OwnCpusMemory(),
            "the pod leaves, or is given other CPUs; the shared pool when no pod has CPUs of its own",
            own_cpus.reads,
        ),
        NodePolicy(
            "batch-resources",
            batch_resources.decide,
            settings.batch_resources,
            batch_resources.BatchResourcesMemory(),
            "the pod ends, or no longer has batch or mid resources",
        ),
        NodePolicy(
            "interference",
            antagonist.decide,
            settings.interference,
            antagonist.CauseHistory(),
            "the cap's time is over, or its victim leaves",
            may_evict=settings.antagonists_leave,
            log_every_text=True,
        ),
        NodePolicy(
            "recovery",
            recovery.decide,
            settings.recovery,
            recovery.RecoveryMemory(),
            "the time of its lease is over, its proof fails, or its victim leaves",
            held.reads,
            log_every_text=True,
        ),
        NodePolicy(
            "cpu-burst",
            burst.decide,
            settings.burst,
            burst.BurstMemory(),
            "the container is no longer throttled, its tokens are spent, or the shared CPUs are busy",
            burst.reads,
        ),
    )


def _other_policies(settings: PolicySettings) -> tuple[NodePolicy, ...]:
    return (
        NodePolicy(
            "memory-qos",
            memory.decide,
            settings.memory,
            memory.MemoryQosMemory(),
            "the pod's request or its class's percentages change",
            every_us=10 * SECOND_US,
        ),
        NodePolicy(
            "memory-reclaim",
            reclaim.decide,
            settings.reclaim,
            reclaim.ReclaimMemory(),
            "the group's tasks wait for memory longer than tolerated",
            _best_effort_knob(Knob.MEMORY_HIGH),
        ),
        NodePolicy(
            "io-qos", io.decide, settings.io, io.IoMemory(), "services have not waited for the disk for a while"
        ),
        NodePolicy(
            "network-qos",
            network.decide,
            settings.network,
            network.NetworkMemory(),
            "services send less",
        ),
        NodePolicy(
            "cache-qos",
            cache.decide,
            settings.cache,
            cache.CacheMemory(),
            "its class's share of the cache is configured again",
            every_us=10 * SECOND_US,
        ),
        NodePolicy(
            "memory-pressure",
            memory_pressure.decide,
            settings.memory_pressure,
            memory_pressure.MemoryPressureMemory(),
            reads=_best_effort_knob(Knob.MEMORY_LOW),
        ),
        NodePolicy(
            "memory-eviction",
            eviction_memory.decide,
            settings.memory_eviction,
            eviction_memory.MemoryEvictionMemory(),
        ),
        NodePolicy(
            "cpu-eviction",
            eviction_cpu.decide,
            settings.cpu_eviction,
            eviction_cpu.CpuEvictionMemory(),
            reads=eviction_cpu.reads,
        ),
        NodePolicy(
            gpu_lending.RULE,
            gpu_lending.decide,
            settings.gpu_lending,
            gpu_lending.GpuLendingMemory(),
            "its share fits beside the model server again, or it leaves",
            gpu_lending.reads,
            log_every_text=True,
        ),
    )


def enabled_policies(settings: PolicySettings) -> tuple[NodePolicy, ...]:
    """The policies that are switched on, in order."""
    policies = (*_cpu_policies(settings), *_other_policies(settings))
    return tuple(policy for policy in policies if policy.config is not None)

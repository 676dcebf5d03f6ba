"""Weights, quotas and memory limits of pods with batch or mid resources.

A kubelet computes groups from native requests and limits. A pod that requests batch-cpu and batch-memory has none: its
groups get the least weight, no quota and no memory limit, so batch pods share CPU equally whatever they requested, and
one that leaks memory takes it from others. What the kubelet would write if the amounts were native, on the pod's group
and its containers': cpu.weight from the request, cpu.max and memory.max from the limits; on the pod only where every
container has such a limit: the kubelet, which resizes native ones in place, would find ours in its way. Containers with
native amounts keep the kubelet's values. Beside a service that requests no CPU, and so has the least weight in the same
class, batch pods keep theirs, which is the least too. Where the node's CPUs are
faster than the reference (its CPU normalization ratio is above 1) quotas are divided by the ratio, since batch CPU is
lent multiplied by it.
Limits: on cgroup v2 older runtimes convert shares to smaller weights than the kernel does, so a pod with native and
batch CPU has more weight than native pods beside it. A container that already uses more memory than its limit is
reclaimed from, and killed by the kernel where that is not enough, as with a limit from the start.

Source: Koordinator, pkg/koordlet/runtimehooks/hooks/batchresource (BE pods and batch resources only); kubelet,
MilliCPUToQuota; kernel/sched/core.c (cpu.weight 100 is 1024 shares, those of one CPU).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from cotenant.model.cluster.qos import KubernetesQoS, QoSClass
from cotenant.model.errors import InvalidInput
from cotenant.model.machine.knob import Knob, KnobTarget, SetKnob
from cotenant.model.machine.knob_values import MAX_BYTES, CpuMax
from cotenant.model.machine.node_decision import DecisionTerm, Reason
from cotenant.model.machine.node_pod import NOT_EXTENDED, NodePod, NodePodPhase
from cotenant.model.machine.node_state import NodeState
from cotenant.model.machine.verdict import PolicyVerdict
from cotenant.policy.nodeqos.available import available
from cotenant.policy.nodeqos.burst.normalise import REFERENCE_MILLI, scaled_quota_us
from cotenant.policy.nodeqos.wording import cpu, size

RULE = "batch-resources"
MIN_QUOTA_US = 1000  # the kernel's minimum
MIN_WEIGHT, MAX_WEIGHT, WEIGHT_PER_CPU = 1, 10_000, 100


@dataclass(frozen=True, slots=True)
class BatchResourcesConfig:
    """Which of the knobs are set."""

    weight: bool = True
    quota: bool = True
    memory: bool = True
    period_us: int = 100_000
    page_bytes: int = 4096

    def __post_init__(self) -> None:
        if not 1000 <= self.period_us <= 1_000_000:
            raise InvalidInput("period_us", self.period_us, "1000 to 1000000")
        if self.page_bytes <= 0:
            raise InvalidInput("page size", self.page_bytes, "a number of bytes above 0")


@dataclass(frozen=True, slots=True)
class BatchResourcesMemory:
    """The desired values by pod: they change only when the pod does, or the ratio."""

    ratio_milli: int = REFERENCE_MILLI
    of_pod: Mapping[str, tuple[NodePod, tuple[SetKnob, ...]]] = field(default_factory=dict)


def decide(
    state: NodeState, config: BatchResourcesConfig, memory: BatchResourcesMemory
) -> tuple[PolicyVerdict, BatchResourcesMemory]:
    """The desired values of all pods with batch or mid resources."""
    found: dict[str, tuple[NodePod, tuple[SetKnob, ...]]] = {}
    ratio = max(REFERENCE_MILLI, state.cpu_ratio_milli)
    known = memory.of_pod if memory.ratio_milli == ratio else {}
    services = _services_parents(state)
    for entry in state.pods:
        pod = entry.pod
        if pod.extended == NOT_EXTENDED or pod.phase is NodePodPhase.OVER or not pod.group:
            continue
        kept = known.get(pod.uid)
        found[pod.uid] = kept if kept is not None and kept[0] == pod else (pod, tuple(desired(pod, config, ratio)))
    light = {pod.group for pod, _ in found.values() if _parent(pod.group) in services}
    wanted = [
        knob
        for _, knobs in found.values()
        for knob in knobs
        if knob.target.knob is not Knob.CPU_WEIGHT or knob.target.group not in light
    ]
    kept_knobs, lacking = available(state, RULE, wanted)
    text = f"{len(found)} pods have batch or mid resources" if found else "no pod has batch or mid resources"
    reasons = [Reason(RULE, text)]
    if light and config.weight:
        reasons.append(Reason(RULE, f"{len(light)} of them keep the least weight, beside a service that has it, too"))
    return PolicyVerdict((*reasons, *lacking), kept_knobs), BatchResourcesMemory(ratio, found)


def _services_parents(state: NodeState) -> frozenset[str]:
    """The groups directly below which a service stands that the kubelet counts as best effort, and that is one by
    more than its label.
    """
    pods = (
        entry.pod
        for entry in state.pods
        if entry.pod.kubernetes_qos is KubernetesQoS.BEST_EFFORT and not entry.is_unconfirmed
    )
    return frozenset(
        _parent(pod.group) for pod in pods if pod.group and not pod.best_effort and pod.qos is not QoSClass.SYSTEM
    )


def _parent(group: str) -> str:
    return group.rpartition("/")[0]


def desired(pod: NodePod, config: BatchResourcesConfig, ratio_milli: int = REFERENCE_MILLI) -> list[SetKnob]:
    """The values of one pod: its own group's, then its containers'. `ratio_milli`: how much faster the CPUs are."""
    whole = pod.extended
    amounts = (whole.cpu_request_m, whole.cpu_limit_m, whole.memory_limit_bytes)
    knobs = _group(pod.group, pod.key, config, ratio_milli, *amounts)
    for container in pod.containers:
        if container.group and container.group != pod.group:
            knobs += _group(
                container.group,
                f"{pod.key}/{container.name}",
                config,
                ratio_milli,
                container.cpu_request_m if container.extended_cpu else None,
                container.cpu_limit_m or None if container.extended_cpu else None,
                container.memory_limit_bytes or None if container.extended_memory else None,
            )
    return knobs


def weight_of(cpu_m: int) -> int:
    """cpu.weight for a request in milli-CPU."""
    return min(MAX_WEIGHT, max(MIN_WEIGHT, (cpu_m * WEIGHT_PER_CPU + 500) // 1000))


def quota_of(cpu_m: int, period_us: int, ratio_milli: int = REFERENCE_MILLI) -> int:
    """The quota per period for a limit in milli-CPU, microseconds."""
    return max(MIN_QUOTA_US, scaled_quota_us(cpu_m * period_us // 1000, ratio_milli))


def _group(
    group: str,
    of: str,
    config: BatchResourcesConfig,
    ratio_milli: int,
    request_m: int | None,
    limit_m: int | None,
    memory_bytes: int | None,
) -> list[SetKnob]:
    knobs: list[SetKnob] = []
    if config.weight and request_m is not None:
        weight = weight_of(request_m)
        text = f"weight {weight} of {of}, which requests {cpu(request_m)} of batch or mid resources"
        terms = (DecisionTerm("request", request_m, "mCPU"), DecisionTerm(Knob.CPU_WEIGHT, weight))
        knobs.append(SetKnob(KnobTarget(group, Knob.CPU_WEIGHT), str(weight), Reason(RULE, text, terms)))
    if config.quota and limit_m is not None:
        quota = quota_of(limit_m, config.period_us, ratio_milli)
        text = f"{of} is limited to {cpu(limit_m)} of batch or mid resources"
        limits: tuple[DecisionTerm, ...] = (DecisionTerm("limit", limit_m, "mCPU"),)
        if ratio_milli != REFERENCE_MILLI:
            text += f", on CPUs {ratio_milli / 1000:g} x as fast as the reference"
            limits = (*limits, DecisionTerm("machine's speed", quota * 1000 // config.period_us - limit_m, "mCPU"))
        reason = Reason(RULE, text, limits)
        knobs.append(SetKnob(KnobTarget(group, Knob.CPU_MAX), str(CpuMax(quota, config.period_us)), reason))
    if config.memory and memory_bytes is not None:
        pages = max(1, min(memory_bytes, MAX_BYTES) // config.page_bytes)
        text = f"{of} is limited to {size(memory_bytes)} of batch or mid memory"
        reason = Reason(RULE, text, (DecisionTerm("limit", memory_bytes, "bytes"),))
        knobs.append(SetKnob(KnobTarget(group, Knob.MEMORY_MAX), str(pages * config.page_bytes), reason))
    return knobs

"""Memory QoS: guaranteed memory (min), best-effort protection (low), and throttling (high).

The kernel may reclaim from any group, also from a service that uses less than it requested. Koordinator's formulas per
container and QoS class, in percent of the request: min = request x min%, low = request x low%, high = request +
throttling% x (limit - request), in whole pages and never below the request. Protection is effective only if every
ancestor group has it too, so pods get the sum of their containers and their ancestor groups the sum of theirs. A pod
may override this by the annotation `koordinator.sh/memoryQOS`; a best-effort pod, whose memory is lent, only downwards.
Limits: 0 % means the knob is not set; a container without a limit counts the node's memory as its limit. Watermark
knobs of vendor kernels are not used.

Source: Koordinator, pkg/koordlet/qosmanager/plugins/cgreconcile (formulas and defaults); Linux, cgroup-v2.rst
(hierarchical protection).
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace

import msgspec

from cotenant.model.cluster.qos import QoSClass
from cotenant.model.errors import InvalidInput
from cotenant.model.machine.knob import Knob, KnobTarget, SetKnob
from cotenant.model.machine.knob_values import MAX_BYTES
from cotenant.model.machine.node_decision import DecisionTerm, Reason
from cotenant.model.machine.node_pod import NodeContainer, NodePod, NodePodPhase
from cotenant.model.machine.node_state import NodeState
from cotenant.model.machine.verdict import PolicyVerdict
from cotenant.policy.nodeqos.available import available
from cotenant.policy.nodeqos.percentages import check_percent
from cotenant.policy.nodeqos.wording import size

RULE = "memory-qos"
MEMORY_QOS = "koordinator.sh/memoryQOS"  # annotation on pods: JSON
PAGE_BYTES = 4096


@dataclass(frozen=True, slots=True)
class ClassMemory:
    """Percentages of one QoS class, relative to the request (`throttling`: to the range from request to limit). 0 = do
    not set the knob.

    `InvalidInput` unless each is in 0..100.
    """

    min_percent: int = 0
    low_percent: int = 0
    throttling_percent: int = 0

    def __post_init__(self) -> None:
        for name in ("min", "low", "throttling"):
            check_percent(f"memory {name}", getattr(self, f"{name}_percent"), 0, 100)


UNSET = ClassMemory()


@dataclass(frozen=True, slots=True)
class MemoryQosConfig:
    """Koordinator's defaults set nothing."""

    lsr: ClassMemory = UNSET  # also LSE
    ls: ClassMemory = UNSET
    best_effort: ClassMemory = UNSET
    allocatable_bytes: int | None = None  # the limit of containers without one; None = all of the node's memory
    page_bytes: int = PAGE_BYTES

    def __post_init__(self) -> None:
        if self.page_bytes <= 0:
            raise InvalidInput("page size", self.page_bytes, "a number of bytes above 0")
        if self.allocatable_bytes is not None and self.allocatable_bytes < 0:
            raise InvalidInput("allocatable memory", self.allocatable_bytes, "0 or more bytes")


@dataclass(frozen=True, slots=True)
class MemoryQosMemory:
    """No state between calls."""


@dataclass(frozen=True, slots=True)
class ProtectionAmounts:
    """Desired values of one group, bytes; 0 (None for `high`) = do not set."""

    min_bytes: int = 0
    low_bytes: int = 0
    high_bytes: int | None = None


NOTHING = ProtectionAmounts()


def decide(state: NodeState, config: MemoryQosConfig, memory: MemoryQosMemory) -> tuple[PolicyVerdict, MemoryQosMemory]:
    """The knobs of every container, pod and ancestor group with percentages."""
    knobs: list[SetKnob] = []
    reasons: list[Reason] = []
    above: dict[str, ProtectionAmounts] = {}
    limit = config.allocatable_bytes if config.allocatable_bytes is not None else state.host.memory_total_bytes
    for entry in state.pods:
        pod = entry.pod
        if pod.phase is NodePodPhase.OVER or not pod.group:
            continue
        chosen, wrong = class_memory(pod, config)
        if wrong:
            reasons.append(Reason(RULE, f"{pod.key}: {wrong}"))
        if chosen == UNSET:
            continue
        total = NOTHING
        for container in pod.containers:
            amounts = container_amounts(container, chosen, limit, config.page_bytes)
            total = _sum(total, amounts)
            if container.group and container.group != pod.group:
                knobs += _group_knobs(container.group, amounts, f"{pod.key}/{container.name}", container)
        knobs += _group_knobs(pod.group, replace(total, high_bytes=None), pod.key, None)
        parent, _, _ = pod.group.rpartition("/")
        while parent:
            above[parent] = _sum(above.get(parent, NOTHING), total)
            parent, _, _ = parent.rpartition("/")
    for group, total in sorted(above.items()):
        knobs += _group_knobs(group, replace(total, high_bytes=None), f"the pods below {group}", None)
    if not reasons:
        text = f"{len(knobs)} knobs set from the percentages of the classes" if knobs else "no class has percentages"
        reasons.append(Reason(RULE, text))
    kept, lacking = available(state, RULE, knobs)
    return PolicyVerdict((*reasons, *lacking), kept), memory


def container_amounts(
    container: NodeContainer, chosen: ClassMemory, without_limit_bytes: int, page_bytes: int = PAGE_BYTES
) -> ProtectionAmounts:
    """One container's amounts. `without_limit_bytes`: the limit assumed where it has none."""
    request = container.memory_request_bytes
    limit = container.memory_limit_bytes or without_limit_bytes
    high = None
    if chosen.throttling_percent > 0:
        wanted = request + chosen.throttling_percent * max(0, limit - request) // 100
        # A value below the request would throttle what was requested.
        high = max(wanted // page_bytes, -(-request // page_bytes)) * page_bytes
        if not 0 < high <= MAX_BYTES:
            high = None  # neither a request nor a limit, or one that no memory reaches
    return ProtectionAmounts(request * chosen.min_percent // 100, request * chosen.low_percent // 100, high)


def class_memory(pod: NodePod, config: MemoryQosConfig) -> tuple[ClassMemory, str]:
    """A pod's percentages by its annotation and class, and the error in the annotation ("" = none)."""
    match pod.qos:
        case QoSClass.LSE | QoSClass.LSR:
            chosen = config.lsr
        case QoSClass.LS | QoSClass.SYSTEM:
            chosen = config.ls if pod.qos is QoSClass.LS else UNSET
        case QoSClass.BE:
            chosen = config.best_effort
        case _:
            chosen = UNSET
    written = pod.annotations.get(MEMORY_QOS)
    if written is None:
        return chosen, ""
    own = _read(written)
    if isinstance(own, str):
        return chosen, own
    if own.policy == "none":
        return UNSET, ""
    fields = {
        "min_percent": own.minLimitPercent,
        "low_percent": own.lowLimitPercent,
        "throttling_percent": own.throttlingPercent,
    }
    try:
        wanted = replace(chosen, **{name: value for name, value in fields.items() if value is not None})
    except InvalidInput as error:
        return chosen, f"annotation {MEMORY_QOS}: {error}"
    if not pod.best_effort:
        return wanted, ""
    # Its memory is lent: what it keeps from being reclaimed is its class's to say, or services would be reclaimed.
    kept = replace(
        wanted,
        min_percent=min(wanted.min_percent, chosen.min_percent),
        low_percent=min(wanted.low_percent, chosen.low_percent),
    )
    return kept, "" if kept == wanted else f"annotation {MEMORY_QOS}: a best-effort pod keeps no more than its class"


class _Written(msgspec.Struct, frozen=True):
    """The annotation's supported fields; those for vendor kernels are ignored."""

    policy: str = ""  # "none" sets nothing for the pod; "default" and "auto" start from the class
    minLimitPercent: int | None = None  # noqa: N815
    lowLimitPercent: int | None = None  # noqa: N815
    throttlingPercent: int | None = None  # noqa: N815


@functools.lru_cache(maxsize=1024)
def _read(text: str) -> _Written | str:
    try:
        return msgspec.json.decode(text, type=_Written)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        return f"annotation {MEMORY_QOS} is invalid ({error}); the class applies"


def _sum(one: ProtectionAmounts, other: ProtectionAmounts) -> ProtectionAmounts:
    """At most what a knob takes: one pod's absurd request must not cost its neighbours the protection above them."""
    return ProtectionAmounts(
        min(MAX_BYTES, one.min_bytes + other.min_bytes), min(MAX_BYTES, one.low_bytes + other.low_bytes)
    )


def _group_knobs(group: str, amounts: ProtectionAmounts, who: str, container: NodeContainer | None) -> list[SetKnob]:
    wanted = (
        (Knob.MEMORY_MIN, amounts.min_bytes or None, "is not reclaimed"),
        (Knob.MEMORY_LOW, amounts.low_bytes or None, "is reclaimed last"),
        (Knob.MEMORY_HIGH, amounts.high_bytes, "is the threshold above which it is throttled"),
    )
    request = () if container is None else (DecisionTerm("request", container.memory_request_bytes, "bytes"),)
    return [
        SetKnob(
            KnobTarget(group, knob),
            str(value),
            Reason(RULE, f"{size(value)} of {who} {what}", (*request, DecisionTerm(knob, value, "bytes"))),
        )
        for knob, value, what in wanted
        if value is not None
    ]

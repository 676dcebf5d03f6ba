"""Eviction on memory pressure: memory is available by level, but tasks stall on it.

A node can thrash for minutes below any mark of memory in use, and the kernel kills only when nothing is left. Oomd's
rule. A detector must hold for a time without interruption: best effort stalls on memory most of the time and the kernel
reclaimed recently, or a service stalls nearly all of the time. Then one best-effort pod is evicted, followed by a pause
for recovery. The victim: the pod that uses more than half of what best effort uses beyond its guarantees; else the one
that grew fastest among the largest; else the largest. A pod that sees no pressure is never chosen: evicting it would
free nothing that others wait for.
Limits: full pressure (all tasks stalled), as a share of the tick; swap is not considered.

Source: oomd (facebookincubator/oomd), docs of pressure_above, memory_reclaim, kill_by_memory_size_or_growth: their
sample figures.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cotenant.model.errors import InvalidInput
from cotenant.model.machine.knob import Knob, KnobTarget
from cotenant.model.machine.node_decision import DecisionTerm, EvictPod, Reason
from cotenant.model.machine.node_pod import NodePodPhase
from cotenant.model.machine.node_state import PPM, NodeState, PodUse
from cotenant.model.machine.verdict import PolicyVerdict
from cotenant.policy.nodeqos.eviction.goals import Currency, EvictionTrigger
from cotenant.policy.nodeqos.eviction.memory import used_bytes
from cotenant.policy.nodeqos.eviction.victims import candidate
from cotenant.policy.nodeqos.wording import percent, seconds, size

RULE = f"evict:{EvictionTrigger.MEMORY_PRESSURE}"
_DECAY = 4  # of the average that growth is measured against


@dataclass(frozen=True, slots=True)
class MemoryPressureConfig:
    """oomd's sample figures. Pressures in millionths of the time."""

    best_effort_ppm: int = 600_000
    best_effort_for_us: int = 30_000_000
    reclaimed_within_us: int = 10_000_000  # maximum age of the last refault after reclaim
    service_ppm: int = 800_000
    service_for_us: int = 60_000_000
    pause_us: int = 15_000_000
    large_ppm: int = 500_000  # share of best effort's memory: a pod above it is evicted first
    growth_ppm: int = 1_250_000  # relative to a pod's own average: the largest pods above it are evicted next
    largest_ppm: int = 200_000  # share of the pods, by size, that counts as the largest

    def __post_init__(self) -> None:
        for name in ("best_effort_ppm", "service_ppm", "large_ppm", "largest_ppm"):
            if not 0 < getattr(self, name) <= PPM:
                raise InvalidInput(f"memory pressure {name}", getattr(self, name), "1 to 1000000")
        for name in ("best_effort_for_us", "service_for_us", "pause_us", "reclaimed_within_us", "growth_ppm"):
            if getattr(self, name) < 0:
                raise InvalidInput(f"memory pressure {name}", getattr(self, name), "0 or more")


@dataclass(frozen=True, slots=True)
class MemoryPressureMemory:
    """Since when the detectors hold (None = they do not), and each pod's average use."""

    best_effort_since_us: int | None = None
    service_since_us: int | None = None
    reclaimed_at_us: int | None = None
    evicted_at_us: int | None = None
    averages: tuple[tuple[str, int], ...] = ()  # uid, bytes


def decide(
    state: NodeState, config: MemoryPressureConfig, memory: MemoryPressureMemory
) -> tuple[PolicyVerdict, MemoryPressureMemory]:
    """Evict at most one pod. The reason gives the detectors' readings."""
    best_effort = _pressure(state, best_effort=True)
    service = _pressure(state, best_effort=False)
    pods = [entry for entry in state.best_effort_pods if entry.pod.phase is NodePodPhase.RUNNING]
    began = state.at_us - state.interval_us
    reclaimed = any((entry.use.refaults_per_s or 0) > 0 for entry in pods)
    after = MemoryPressureMemory(
        _since(memory.best_effort_since_us, best_effort, config.best_effort_ppm, began),
        _since(memory.service_since_us, service, config.service_ppm, began),
        state.at_us if reclaimed else memory.reclaimed_at_us,
        memory.evicted_at_us,
        memory.averages if state.alarms else _averages(memory, pods),
    )
    holds = _holds(state.at_us, after, config)
    seen = f"best effort stalls {_share(best_effort)}, services at most {_share(service)} of the time"
    if holds is None:
        return PolicyVerdict((Reason(RULE, f"{seen}: not long enough"),)), after
    if after.evicted_at_us is not None and state.at_us - after.evicted_at_us < config.pause_us:
        return PolicyVerdict((Reason(RULE, f"{holds}; pause after the last eviction"),)), after
    found = _victim(state, pods, dict(memory.averages), config)
    if found is None:
        return PolicyVerdict((Reason(RULE, f"{holds}; no best-effort pod that sees pressure is eligible"),)), after
    entry, why = found
    used = used_bytes(entry.use) or 0
    reason = Reason(RULE, f"{holds}; {entry.pod.key} {why}", (DecisionTerm("in use", used, "bytes"),))
    eviction = EvictPod(entry.pod.uid, entry.pod.key, reason, frees_memory_bytes=used)
    paused = MemoryPressureMemory(None, None, after.reclaimed_at_us, state.at_us, after.averages)
    return PolicyVerdict((reason,), evictions=(eviction,)), paused


def _pressure(state: NodeState, *, best_effort: bool) -> int | None:
    """Full memory stall of best effort (its group, or the worst of its pods), or of the worst service."""
    if best_effort and state.best_effort is not None and state.best_effort.memory_full_stall_ppm is not None:
        return state.best_effort.memory_full_stall_ppm
    entries = state.best_effort_pods if best_effort else state.services
    known = [entry.use.memory_full_stall_ppm for entry in entries if entry.use.memory_full_stall_ppm is not None]
    return max(known, default=None)


def _since(since_us: int | None, seen_ppm: int | None, threshold_ppm: int, began_us: int) -> int | None:
    """Since when the stall has been above the threshold; a tick without a measurement ends the period."""
    if seen_ppm is None or seen_ppm <= threshold_ppm:
        return None
    return began_us if since_us is None else since_us


def _holds(at_us: int, memory: MemoryPressureMemory, config: MemoryPressureConfig) -> str | None:
    """The detector that holds, as a clause for the reason."""
    since = memory.best_effort_since_us
    recent = memory.reclaimed_at_us is not None and at_us - memory.reclaimed_at_us <= config.reclaimed_within_us
    if since is not None and recent and at_us - since >= config.best_effort_for_us:
        return (
            f"best effort has stalled on memory over {percent(config.best_effort_ppm)} of the time for "
            f"{seconds(at_us - since)}"
        )
    since = memory.service_since_us
    if since is not None and at_us - since >= config.service_for_us:
        return (
            f"a service has stalled on memory over {percent(config.service_ppm)} of the time for "
            f"{seconds(at_us - since)}"
        )
    return None


def _victim(
    state: NodeState, pods: Sequence[PodUse], averages: dict[str, int], config: MemoryPressureConfig
) -> tuple[PodUse, str] | None:
    """The victim and the reason: by size beyond its guarantee, by growth, or by size."""
    sized: list[tuple[int, PodUse]] = []
    total = 0
    for entry in pods:
        one = candidate(entry.pod, 0, used_bytes(entry.use))
        if one is None or one.used is None:
            continue
        beyond = max(0, one.used - _low(state, entry))
        total += beyond
        if one.allowed is not None and EvictionTrigger.MEMORY_PRESSURE.value not in one.allowed:
            continue
        if (entry.use.memory_stall_ppm or 0) > 0 and one.frees(Currency.USED) > 0:
            sized.append((beyond, entry))
    if not sized:
        return None
    sized.sort(key=lambda pair: (-pair[0], pair[1].pod.key))
    beyond, largest = sized[0]
    if beyond * PPM > config.large_ppm * total:
        return largest, f"has {size(beyond)} of the {size(total)} that best effort has beyond its guarantees"
    grown = [
        (used * PPM // average, entry)
        for _, entry in sized[: max(1, -(-len(sized) * config.largest_ppm // PPM))]
        if (average := averages.get(entry.pod.uid, 0)) > 0 and (used := used_bytes(entry.use) or 0) > 0
    ]
    grown = [pair for pair in grown if pair[0] > config.growth_ppm]
    if grown:
        growth, fastest = max(grown, key=lambda pair: (pair[0], pair[1].pod.key))
        return fastest, f"has grown to {growth * 100 // PPM} % of its average"
    return largest, f"is the largest with {size(beyond)} beyond its guarantee"


def _low(state: NodeState, entry: PodUse) -> int:
    """A pod's guaranteed memory, bytes; 0 where unknown."""
    text = state.knobs.get(KnobTarget(entry.pod.group, Knob.MEMORY_LOW), "0") if entry.pod.group else "0"
    return int(text) if text.isdigit() else 0


def _averages(memory: MemoryPressureMemory, pods: Sequence[PodUse]) -> tuple[tuple[str, int], ...]:
    before = dict(memory.averages)
    after: list[tuple[str, int]] = []
    for entry in pods:
        used = used_bytes(entry.use)
        if used is not None:
            old = before.get(entry.pod.uid, used)
            after.append((entry.pod.uid, old + (used - old) // _DECAY))
    return tuple(after)


def _share(ppm: int | None) -> str:
    return "an unknown share" if ppm is None else percent(ppm)

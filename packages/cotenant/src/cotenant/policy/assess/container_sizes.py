"""A container's requests and limits from what its use stays below, within everything that has a say.

    request = what use stays below at the stated risk
    limit   = the highest measured of any replica and a reserve, where a limit is set; of CPU only ever raised, because
              a history of means over a step does not show the bursts that a limit throttles
    equal   where the container is Guaranteed: one without the other would change the pod's QoS class

Then, in this order and each with its sentence: what the program was told of memory, what an autoscaler goes by, and the
bounds of the namespace. What is not set stays unset: a request that nobody wrote is not invented, except where none of
the four is set at all, when requests are recommended. Amounts are rounded up, to 10m and to 1 MiB.
Limits: bursts within a step, and memory between two scrapes, are covered by the reserves only.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

import numpy as np

from cotenant.model.assess.history import Float32
from cotenant.model.errors import InvalidInput
from cotenant.model.resources import CPU_NAME, MEMORY_NAME
from cotenant.model.sizes.container import ContainerSize
from cotenant.model.sizes.recommendation import PastWeek, SizeBasis
from cotenant.policy.assess.heap_floor import MIB, NOTHING_TOLD, HeapFloor

LIMIT_RESERVE_PCT = 20
MIN_CPU_M, CPU_STEP_M = 10, 10
MIN_MEMORY_BYTES = 16 * MIB


@dataclass(frozen=True, slots=True)
class ContainerBounds:
    """What a namespace allows for one container; None = anything. `name` says by what, such as `LimitRange web`."""

    name: str
    min_cpu_m: int | None = None
    max_cpu_m: int | None = None
    min_memory_bytes: int | None = None
    max_memory_bytes: int | None = None
    max_cpu_ratio: float | None = None  # limit over request
    max_memory_ratio: float | None = None


@dataclass(frozen=True, slots=True)
class HeldResources:
    """Resources that somebody else goes by, with a sentence each; "" = free."""

    cpu: str = ""
    memory: str = ""


def held_by_autoscaler(name: str, resources: Collection[str]) -> HeldResources:
    """What stays as it is where an autoscaler of replicas goes by these resources."""
    said = f"stays: HorizontalPodAutoscaler {name} scales by it, and another request would change its replicas"
    return HeldResources(
        f"CPU {said}" if CPU_NAME in resources else "", f"memory {said}" if MEMORY_NAME in resources else ""
    )


def container_size(
    now: ContainerSize,
    cpu: SizeBasis,
    memory: SizeBasis,
    floor: HeapFloor = NOTHING_TOLD,
    held: HeldResources | None = None,
    bounds: Iterable[ContainerBounds] = (),
) -> tuple[ContainerSize, tuple[str, ...]]:
    """What to set, and sentences on what kept, raised or capped it."""
    held = held or HeldResources()
    why: list[str] = []
    is_blank = now == ContainerSize()
    found = ContainerSize(
        _cpu_request(now, cpu, is_blank),
        None,
        _memory_request(now, memory, is_blank),
        None,
    )
    found = _with_limits(found, now, cpu, memory)
    found = _floored(found, now, floor, why)
    if held.cpu:
        found = replace(found, cpu_request_m=now.cpu_request_m, cpu_limit_m=now.cpu_limit_m)
        why.append(held.cpu)
    if held.memory:
        memory_now = {"memory_request_bytes": now.memory_request_bytes, "memory_limit_bytes": now.memory_limit_bytes}
        found = replace(found, **memory_now)
        why.append(held.memory)
    for bound in bounds:
        found = _bounded(found, bound, why)
    was_m, then_m = now.cpu_request_m or 0, found.cpu_request_m or 0
    if now.is_guaranteed and was_m and was_m % 1000 == 0 and then_m % 1000:
        why.append("no whole number of CPUs: a kubelet whose CPU manager is static gives it none of its own any more")
    for basis, resource in ((cpu, "CPU"), (memory, "memory")):
        if basis.left_out:
            why.append(f"{basis.left_out} values of {resource} above what its node has were left out: counters jumped")
    return found, tuple(why)


def _cpu_request(now: ContainerSize, cpu: SizeBasis, is_blank: bool) -> int | None:
    if now.cpu_request_m is None and not is_blank:
        return None
    wanted = cpu.highest * (1 + LIMIT_RESERVE_PCT / 100) if now.is_guaranteed else cpu.amount
    return up(max(wanted, MIN_CPU_M), CPU_STEP_M)


def _memory_request(now: ContainerSize, memory: SizeBasis, is_blank: bool) -> int | None:
    if now.memory_request_bytes is None and not is_blank:
        return None
    wanted = memory.highest * (1 + LIMIT_RESERVE_PCT / 100) if now.is_guaranteed else memory.amount
    return up(max(wanted * MIB, MIN_MEMORY_BYTES), MIB)


def _with_limits(found: ContainerSize, now: ContainerSize, cpu: SizeBasis, memory: SizeBasis) -> ContainerSize:
    cpu_limit, memory_limit = None, None
    reserve = 1 + LIMIT_RESERVE_PCT / 100
    if now.cpu_limit_m is not None:
        cpu_limit = max(now.cpu_limit_m, up(cpu.highest * reserve, CPU_STEP_M), found.cpu_request_m or 0)
    if now.memory_limit_bytes is not None:
        wanted = up(max(memory.highest * reserve * MIB, MIN_MEMORY_BYTES), MIB)
        memory_limit = max(wanted, found.memory_request_bytes or 0)
    if now.is_guaranteed:
        cpu_limit, memory_limit = found.cpu_request_m, found.memory_request_bytes
    return replace(found, cpu_limit_m=cpu_limit, memory_limit_bytes=memory_limit)


def _floored(found: ContainerSize, now: ContainerSize, floor: HeapFloor, why: list[str]) -> ContainerSize:
    request, limit = found.memory_request_bytes, found.memory_limit_bytes
    min_request, min_limit = floor.bytes, floor.bytes
    if floor.keeps_all:
        min_request = max(min_request, now.memory_request_bytes or 0)
        min_limit = max(min_limit, now.memory_limit_bytes or 0)
    if floor.keeps_limit:
        min_limit = max(min_limit, now.memory_limit_bytes or 0)
        told = up(floor.share * (now.memory_limit_bytes or 0), 1)
        min_request = max(min_request, min(told, now.memory_request_bytes or 0))
        if now.is_guaranteed:
            min_request = min_limit
    raised_request = None if request is None else up(max(request, min_request), 1)
    raised_limit = None if limit is None else max(limit, min_limit, raised_request or 0)
    if (raised_request, raised_limit) != (request, limit):
        why.append(floor.why)
    return replace(found, memory_request_bytes=raised_request, memory_limit_bytes=raised_limit)


def _bounded(found: ContainerSize, bound: ContainerBounds, why: list[str]) -> ContainerSize:
    cpu_request, cpu_limit = _within(
        found.cpu_request_m, found.cpu_limit_m, bound.min_cpu_m, bound.max_cpu_m, bound.max_cpu_ratio
    )
    memory_request, memory_limit = _within(
        found.memory_request_bytes,
        found.memory_limit_bytes,
        bound.min_memory_bytes,
        bound.max_memory_bytes,
        bound.max_memory_ratio,
    )
    kept = ContainerSize(cpu_request, cpu_limit, memory_request, memory_limit)
    if kept != found:
        why.append(f"{bound.name} does not allow {differing(found, kept)}")
    return kept


def _within(
    request: int | None, limit: int | None, least: int | None, most: int | None, ratio: float | None
) -> tuple[int | None, int | None]:
    if least is not None:
        request = None if request is None else max(request, least)
        limit = None if limit is None else max(limit, least)
    if most is not None:
        request = None if request is None else min(request, most)
        limit = None if limit is None else min(limit, most)
    if ratio is not None and request and limit is not None and limit > ratio * request:
        request = min(limit, -int(-limit // ratio))  # requests are raised: a lower limit would kill
    return request, limit


def differing(before: ContainerSize, after: ContainerSize) -> str:
    """The amounts of `before` that are others in `after`, in words."""
    found = []
    for name, field, unit, scale in _WORDS:
        was = getattr(before, field)
        if was != getattr(after, field):
            found.append(f"{name} {'unset' if was is None else f'{was / scale:g} {unit}'}")
    return ", ".join(found)


_WORDS = (
    ("a CPU request of", "cpu_request_m", "cores", 1000),
    ("a CPU limit of", "cpu_limit_m", "cores", 1000),
    ("a memory request of", "memory_request_bytes", "MiB", MIB),
    ("a memory limit of", "memory_limit_bytes", "MiB", MIB),
)


def up(amount: float, step: int) -> int:
    """The next multiple of the step."""
    if not np.isfinite(amount):
        raise InvalidInput("amount", amount, "a finite number")
    return int(-(-amount // step)) * step


def past_week(cpu_m: Float32, memory_mib: Float32, step_s: float, size: ContainerSize) -> PastWeek:
    """What the last week of these replicas (rows) would have been at a size."""
    columns = max(1, round(7 * 86_400 / step_s))
    cpu, memory = cpu_m[:, -columns:], memory_mib[:, -columns:]
    minutes = step_s / 60.0

    def over(use: Float32, amount: float | None) -> float:
        if amount is None:
            return 0.0
        with np.errstate(invalid="ignore"):
            return float((use > amount).sum()) * minutes

    def mib(amount: int | None) -> float | None:
        return None if amount is None else amount / MIB

    return PastWeek(
        float((~np.isnan(cpu) | ~np.isnan(memory)).sum()) * minutes,
        over(cpu, size.cpu_request_m),
        over(cpu, size.cpu_limit_m),
        over(memory, mib(size.memory_request_bytes)),
        over(memory, mib(size.memory_limit_bytes)),
    )

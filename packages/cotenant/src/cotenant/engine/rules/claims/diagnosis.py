"""Why the devices of a node do not satisfy a pod's claims, in words that say class, request and figures.

A node is put under the first request that its devices cannot serve at all, or not beside what holds them; where each
could be served alone, the claims together cannot.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from cotenant.model.claims.requests import AllocationMode, ClaimRequest, ClaimSpec, DeviceClass, ExactRequest
from cotenant.model.errors import InvalidInput
from cotenant.policy.claims.allocator import INVALID_POOLS, ClaimRefusal, DeviceUsage, Matches, fitting
from cotenant.policy.claims.pools import DevicePool, PoolDevice, PoolState

TOGETHER = "node(s) whose devices satisfy each request of the pod's claims, but not all of them together"
Selects = Callable[[str, PoolDevice], bool]  # expression, device; may raise `InvalidInput`


@dataclass(frozen=True, slots=True)
class Why:
    """Why a node is refused. `figures`: of this node; `missing`: how many devices, to find the nearest node."""

    reason: str
    figures: str = ""
    missing: int = 0
    yields: bool = False


def diagnose(
    refusal: ClaimRefusal,
    claims: Sequence[ClaimSpec],
    pools: Sequence[DevicePool],
    usage: DeviceUsage,
    matches: Matches,
    selects: Selects,
    classes: dict[str, DeviceClass],
) -> Why:
    """What of these claims the pools of one node lack."""
    if not refusal.yields:
        return Why(refusal.reason, _invalid(pools) if refusal.reason == INVALID_POOLS else "", 1)
    for claim in claims:
        for request in claim.requests:
            why = _of_request(request, pools, usage, matches, selects, classes)
            if why is not None:
                return why
    return Why(TOGETHER, "", 1, True)


def _invalid(pools: Sequence[DevicePool]) -> str:
    """What contradicts itself."""
    return next(f"pool {pool.id.pool}: {pool.why}" for pool in pools if pool.state is PoolState.INVALID)


def _of_request(
    request: ClaimRequest,
    pools: Sequence[DevicePool],
    usage: DeviceUsage,
    matches: Matches,
    selects: Selects,
    classes: dict[str, DeviceClass],
) -> Why | None:
    """Why none of the request's alternatives can be served; the last of them is described."""
    why: Why | None = None
    for exact in request.alternatives:
        why = _of_exact(exact, pools, usage, matches, selects, classes)
        if why is None:
            return None
    return why


def _of_exact(
    request: ExactRequest,
    pools: Sequence[DevicePool],
    usage: DeviceUsage,
    matches: Matches,
    selects: Selects,
    classes: dict[str, DeviceClass],
) -> Why | None:
    asked = f"request {request.full_name} ({request.device_class})"
    devices = [device for pool in pools if pool.state is PoolState.USABLE for device in pool.devices]
    wanted = request.count if request.mode is AllocationMode.EXACT_COUNT else 1
    unusable = [pool for pool in pools if pool.state is not PoolState.USABLE]
    if not devices:
        if unusable:
            figures = f"pool {unusable[0].id.pool}: {unusable[0].why}"
            return Why(f"node(s) whose pools of devices are {unusable[0].state.value} for {asked}", figures, wanted)
        return Why(f"node(s) without devices for {asked}", "", wanted)
    matching = [device for device in devices if matches(request, device)]
    if len(matching) < wanted:
        figures = f"{_narrowed(request, devices, selects, classes)}; {wanted} requested"
        return Why(f"node(s) with too few devices that match {asked}", figures, wanted - len(matching))
    free = [device for device in matching if fitting(request, device, usage)]
    if request.mode is AllocationMode.ALL:
        wanted = len(matching)
    if len(free) < wanted:
        figures = f"{len(devices)} devices, {len(matching)} match, {len(free)} of them free; {wanted} requested"
        return Why(f"node(s) with too few free devices for {asked}", figures, wanted - len(free), True)
    return None


def _narrowed(
    request: ExactRequest, devices: list[PoolDevice], selects: Selects, classes: dict[str, DeviceClass]
) -> str:
    """How many devices are left after each selector."""
    words = [f"{len(devices)} devices"]
    left = devices
    of_class = classes[request.device_class].selectors if request.device_class in classes else ()
    for whose, expressions in (("class", of_class), ("request", request.selectors)):
        for position, expression in enumerate(expressions):
            try:
                left = [device for device in left if selects(expression, device)]
            except InvalidInput:
                return ", ".join(words)
            words.append(f"{len(left)} after selector {position} of the {whose}")
    return ", ".join(words)

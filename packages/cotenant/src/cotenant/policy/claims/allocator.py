"""The search for devices that satisfy claims together on one node.

Claim after claim, request after request, each device in the order of its pool: the first complete solution is the
result, as with Kubernetes' allocator, so that both choose alike. A request for several devices tries combinations, not
permutations. Every attempt is a step, and a search beyond its steps ends with a refusal: the number of combinations
is exponential, and who writes a claim does not pay for it.

Two differences, both where Kubernetes' own loses track while it backtracks: counters that a rejected device would have
taken are given back, and each device of a request counts for distinctAttribute.

Source: Kubernetes 1.36, dynamic-resource-allocation, structured allocator (incubating).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from cotenant.model.claims.devices import PREVENTING, DeviceId, PoolId
from cotenant.model.claims.requests import MAX_DEVICES, AllocationMode, ClaimSpec, ExactRequest
from cotenant.model.quantities import Quantity
from cotenant.policy.claims.capacity import NOTHING, fits, taken
from cotenant.policy.claims.constraints import ChosenValues
from cotenant.policy.claims.pools import DevicePool, PoolDevice, PoolState

MAX_STEPS = 20_000
_PLACES = 16  # devices that are passed over for the price of an attempt

Matches = Callable[[ExactRequest, PoolDevice], bool]


class DeviceUsage(Protocol):
    """What is allocated already."""

    def holds(self, device: DeviceId) -> bool:
        """Whether a claim has the device for itself."""
        ...

    def consumed(self, device: DeviceId) -> Mapping[str, int] | None:
        """What claims have of a shared device, in nano units by capacity; None = no claim has any."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Pick:
    """A device for a request. `place`: pool and position, the same on nodes with equal pools."""

    request: ExactRequest
    place: tuple[int, int]
    consumed: tuple[tuple[str, Quantity], ...] = ()


@dataclass(frozen=True, slots=True)
class ClaimRefusal:
    """Why a node cannot satisfy the claims. `yields`: whether other use of the devices is what prevents it."""

    reason: str
    yields: bool = False


@dataclass(slots=True)
class Steps:
    """What a search may cost; what is left of it afterwards."""

    left: int = MAX_STEPS


class CannotAllocate(Exception):
    """These claims cannot be satisfied in any way on this node; its text says why. Never leaves `allocate`, except
    from what is passed in.
    """


class _TooMany(Exception):
    """More devices than fit into the allocation of one claim."""


class _OutOfSteps(Exception):
    """The search costs too much."""


TOO_EXPENSIVE = "node(s) on which the search for devices costs too much"
INVALID_POOLS = "node(s) with resource pools that contradict themselves"
UNAVAILABLE = "cannot allocate all claims"


def allocate(
    claims: Sequence[ClaimSpec],
    pools: Sequence[DevicePool],
    usage: DeviceUsage,
    matches: Matches,
    steps: Steps | None = None,
    made: type[DeviceSearch] | None = None,
) -> tuple[tuple[Pick, ...], ...] | ClaimRefusal:
    """The devices for each claim, or why there are none. `matches`: whether class and selectors permit a device; it
    may raise `CannotAllocate`. `made`: another search, where one is compared with this.
    """
    try:
        search = (made or DeviceSearch)(claims, pools, usage, matches, steps or Steps())
        if search.solve():
            return tuple(tuple(picks) for picks in search.picks)
    except CannotAllocate as error:
        return ClaimRefusal(str(error))
    except (_OutOfSteps, RecursionError):
        return ClaimRefusal(TOO_EXPENSIVE)
    if any(pool.state is PoolState.INVALID for pool in pools):
        return ClaimRefusal(INVALID_POOLS)
    return ClaimRefusal(UNAVAILABLE, True)


class DeviceSearch:
    """One search."""

    def __init__(
        self,
        claims: Sequence[ClaimSpec],
        pools: Sequence[DevicePool],
        usage: DeviceUsage,
        matches: Matches,
        steps: Steps,
    ) -> None:
        self.picks: list[list[Pick]] = [[] for _ in claims]
        self._claims = claims
        self._pools = pools
        self._usage = usage
        self._matches = matches
        self._steps = steps
        self._places = [
            (number, at)
            for number, pool in enumerate(pools)
            if pool.state is PoolState.USABLE
            for at in range(len(pool.devices))
        ]
        self._matching: dict[tuple[ExactRequest, tuple[int, int]], bool] = {}
        self._chosen = [[ChosenValues(constraint) for constraint in claim.constraints] for claim in claims]
        self._taken: dict[DeviceId, list[int]] = {}  # -> claims that get the device in this search
        self._shared: dict[DeviceId, dict[str, int]] = {}  # -> amounts that are taken in this search
        self._left: dict[PoolId, dict[tuple[str, str], int]] = {}  # of counters, beside this search
        self._whole: dict[tuple[int, ExactRequest], list[tuple[int, int]]] = {}  # devices of requests for all
        for number, claim in enumerate(claims):
            self._prepare(number, claim)

    def _prepare(self, number: int, claim: ClaimSpec) -> None:
        least = 0
        for request in claim.requests:
            sizes = []
            for alternative in request.alternatives:
                if alternative.mode is AllocationMode.ALL:
                    self._whole[number, alternative] = self._every(alternative)
                sizes.append(self._size(number, alternative))
            least += min(sizes, default=0)
        if least > MAX_DEVICES:
            what = f"{least} devices, more than the {MAX_DEVICES} of one allocation"
            raise CannotAllocate(f"node(s) on which a claim is for {what}")

    def _every(self, request: ExactRequest) -> list[tuple[int, int]]:
        for pool in self._pools:
            if pool.state is not PoolState.USABLE:
                asked = f"request {request.full_name}, which is for all devices"
                raise CannotAllocate(f"node(s) whose pools of devices are {pool.state} for {asked}")
        return [
            place
            for place in self._places
            if self._is_selectable(request, place) and self._has_capacity(request, self._at(place))
        ]

    def _size(self, claim: int, request: ExactRequest) -> int:
        return len(self._whole[claim, request]) if request.mode is AllocationMode.ALL else request.count

    def solve(self) -> bool:
        """Whether there is a solution; it is in `picks`."""
        return self._claim(0)

    def _claim(self, claim: int) -> bool:
        if claim == len(self._claims):
            return True
        return self._request(claim, 0)

    def _request(self, claim: int, position: int) -> bool:
        self._step()
        requests = self._claims[claim].requests
        if position == len(requests):
            try:
                return self._claim(claim + 1)
            except _TooMany:
                return False  # other devices for this claim may leave an alternative that needs fewer
        request = requests[position]
        if not request.is_list:
            return self._device(claim, position, request.alternatives[0], 0, 0)
        only_too_many = True
        for alternative in request.alternatives:
            try:
                if self._device(claim, position, alternative, 0, 0):
                    return True
                only_too_many = False
            except _TooMany:
                continue
        if only_too_many:
            raise _TooMany
        return False

    def _device(self, claim: int, position: int, request: ExactRequest, index: int, start: int) -> bool:
        """Choose the device with this index in the request, among the places from `start` on, and all after it."""
        self._step()
        size = self._size(claim, request)
        if request.mode is AllocationMode.ALL and not size:
            return False
        if index >= size:
            return self._request(claim, position + 1)
        if len(self.picks[claim]) + size - index > MAX_DEVICES:
            raise _TooMany
        if request.mode is AllocationMode.ALL:
            place = self._whole[claim, request][index]
            if not self._take(claim, request, place, must=True):
                return False
            return self._go_on(claim, position, request, index, 0, place)
        for at in range(start, len(self._places)):
            if (at - start) % _PLACES == _PLACES - 1:
                self._step()
            place = self._places[at]
            device = self._at(place)
            if request.admin_access and claim in self._taken.get(device.id, ()):
                continue
            if not request.admin_access and self._is_held(device.id):
                continue
            if not (self._is_selectable(request, place) and self._has_capacity(request, device)):
                continue
            if self._take(claim, request, place) and self._go_on(claim, position, request, index, at + 1, place):
                return True
        return False

    def _go_on(
        self, claim: int, position: int, request: ExactRequest, index: int, start: int, place: tuple[int, int]
    ) -> bool:
        """Whether the rest can be chosen too; else the last device is given back."""
        done = False
        try:
            done = self._device(claim, position, request, index + 1, start)
            return done
        finally:
            if not done:
                self._give_back(claim, request, place)

    # ---- one device

    def _at(self, place: tuple[int, int]) -> PoolDevice:
        return self._pools[place[0]].devices[place[1]]

    def _is_selectable(self, request: ExactRequest, place: tuple[int, int]) -> bool:
        known = self._matching.get((request, place))
        if known is None:
            known = self._matching[request, place] = self._matches(request, self._at(place))
        return known

    def _is_held(self, device: DeviceId) -> bool:
        return self._usage.holds(device) or bool(self._taken.get(device))

    def _has_capacity(self, request: ExactRequest, device: PoolDevice) -> bool:
        offered = device.device
        amounts = taken(request, offered)
        if not amounts:
            return amounts is not None
        used = self._usage.consumed(device.id) if offered.is_shared else None
        return fits(amounts, offered, used or NOTHING, self._shared.get(device.id, NOTHING))

    def _take(self, claim: int, request: ExactRequest, place: tuple[int, int], must: bool = False) -> bool:
        device = self._at(place)
        offered = device.device
        if not offered.is_shared and request.admin_access and claim in self._taken.get(device.id, ()):
            return False
        if not request.admin_access and self._is_held(device.id):
            return False
        if not self._has_capacity(request, device):
            return False
        if not tolerated(request, device):
            return False
        counts = self._counts(device)
        if counts and not self._has_counters(place[0], device):
            return False
        for done, chosen in enumerate(self._chosen[claim]):
            if not chosen.add(request, device):
                if must:
                    asked = f"request {request.full_name}, which is for all devices"
                    raise CannotAllocate(f"node(s) on which a constraint forbids {asked}")
                for before in self._chosen[claim][:done]:
                    before.remove(request)
                return False
        if counts:
            self._count(place[0], device, -1)
        consumed: tuple[tuple[str, Quantity], ...] = ()
        if offered.is_shared:
            consumed = taken(request, offered) or ()
            shared = self._shared.setdefault(device.id, {})
            for name, amount in consumed:
                shared[name] = shared.get(name, 0) + amount.nano
            shared[""] = shared.get("", 0) + 1  # how often; no capacity has an empty name
        else:
            self._taken.setdefault(device.id, []).append(claim)
        self.picks[claim].append(Pick(request, place, consumed))
        return True

    def _give_back(self, claim: int, request: ExactRequest, place: tuple[int, int]) -> None:
        device = self._at(place)
        pick = self.picks[claim].pop()
        for chosen in self._chosen[claim]:
            chosen.remove(request)
        if device.device.is_shared:
            shared = self._shared[device.id]
            for name, amount in pick.consumed:
                shared[name] -= amount.nano
            shared[""] -= 1
            if not shared[""]:
                del self._shared[device.id]
        else:
            self._taken[device.id].pop()
        if self._counts(device):
            self._count(place[0], device, 1)

    # ---- counters

    def _counts(self, device: PoolDevice) -> bool:
        """Whether the device takes counters when it is chosen now: a shared one only takes them once."""
        if not device.device.uses:
            return False
        return not (
            device.device.is_shared and (self._usage.consumed(device.id) is not None or device.id in self._shared)
        )

    def _has_counters(self, number: int, device: PoolDevice) -> bool:
        left = self._counters_of(self._pools[number])
        return all(left[use.counter_set, name] >= nano for use in device.device.uses for name, nano in use.nano)

    def _count(self, number: int, device: PoolDevice, sign: int) -> None:
        left = self._counters_of(self._pools[number])
        for use in device.device.uses:
            for name, nano in use.nano:
                left[use.counter_set, name] += sign * nano

    def _counters_of(self, pool: DevicePool) -> dict[tuple[str, str], int]:
        left = self._left.get(pool.id)
        if left is None:
            left = self._left[pool.id] = counters_left(pool, self._usage)
        return left

    def _step(self) -> None:
        self._steps.left -= 1
        if self._steps.left < 0:
            raise _OutOfSteps


def tolerated(request: ExactRequest, device: PoolDevice) -> bool:
    """Whether the request tolerates the taints of a device."""
    return all(
        taint.effect not in PREVENTING or any(toleration.tolerates(taint) for toleration in request.tolerations)
        for taint in device.taints
    )


def fitting(request: ExactRequest, device: PoolDevice, usage: DeviceUsage) -> bool:
    """Whether a request could have a device that matches it, were it the only request; counters are not looked at."""
    offered = device.device
    if usage.holds(device.id) and not request.admin_access:
        return False
    amounts = taken(request, offered)
    if amounts is None or not tolerated(request, device):
        return False
    used = usage.consumed(device.id) if offered.is_shared else None
    return fits(amounts, offered, used or NOTHING, NOTHING)


def counters_left(pool: DevicePool, usage: DeviceUsage) -> dict[tuple[str, str], int]:
    """What allocated devices leave of a pool's counters, in nano units by counter set and name."""
    left = {(found.name, name): nano for found in pool.counters for name, nano in found.nano}
    for device in (*pool.devices, *pool.elsewhere):
        if device.device.uses and (usage.holds(device.id) or usage.consumed(device.id) is not None):
            for use in device.device.uses:
                for name, nano in use.nano:
                    left[use.counter_set, name] -= nano
    return left

"""Allocation of a pod's devices on one node.

A device request may demand parts, counts, closeness, partitions, and cards beside the GPUs, all at once. Choice, for
each device type: the healthy, selected devices with enough free (`fitting`); for whole GPUs a partition, where the node
has a table (mandatory only where the table is to be honoured); else the closest group (`nearness`). Joint types: the
first decides the location, restricted to switches with enough of the others where the same switch is required; then
devices of the others under each switch that it uses. All or nothing; nothing is modified here.

Limits: joint types are chosen one after another, so a location that would suit all of them better may be missed.

Source: Koordinator, DeviceShare (device_allocator, allocator_gpu). Upstream checks a required common switch only
afterwards.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from operator import add

from cotenant.model.cpus.topology import mask_of, numbers_in
from cotenant.model.devices.allocation import DeviceAllocation
from cotenant.model.devices.card_need import NO_NEED, CardNeed
from cotenant.model.devices.device import DeviceType
from cotenant.model.devices.hints import CountBy, DeviceHint, DeviceScope, JointAllocation, PartitionSpec
from cotenant.model.devices.inventory import NODE_ISOLATION
from cotenant.model.devices.partition import Partition
from cotenant.model.devices.request import WHOLE, DeviceRequest
from cotenant.model.resources import GPU_MEMORY_RATIO, LENT_GPU, Amounts
from cotenant.policy.placement.devices.fitting import Fitting, fitting, missing_to, shortage
from cotenant.policy.placement.devices.functions import free_function, with_free_function
from cotenant.policy.placement.devices.inventory import Row
from cotenant.policy.placement.devices.ledger import DeviceLedger, DevicesOfType
from cotenant.policy.placement.devices.nearness import near, near_groups
from cotenant.policy.placement.devices.neighbours import ALONE, memory_left, points
from cotenant.policy.placement.devices.partitions import ANY, choose_partition
from cotenant.policy.placement.devices.strategy import DeviceStrategy, Rank, UsualPod, rank
from cotenant.policy.placement.refusal import Refusal

_Serving = tuple[DevicesOfType, DeviceRequest, Fitting]
ANY_ISOLATION = "*"
TypedMinors = tuple[tuple[DeviceType, int], ...]  # a mask of minors per type


@dataclass(frozen=True, slots=True)
class DeviceAsk:
    """A pod's device request on one node: one request per type."""

    requests: tuple[DeviceRequest, ...]
    hints: tuple[DeviceHint, ...] = ()
    joint: JointAllocation | None = None
    partition: PartitionSpec | None = None  # set: only a partition is accepted
    strategy: DeviceStrategy = DeviceStrategy.DEFAULT
    usual: tuple[UsualPod, ...] = ()  # for the fragmentation strategy
    isolation: str = ""  # what has to enforce a share of a GPU; ANY_ISOLATION: whatever does
    numa: int | None = None  # mask of NUMA ids; None = any
    required: TypedMinors = ()  # only these devices, e.g. a reservation's
    preferred: TypedMinors = ()  # these devices first
    preemptible: tuple[DeviceAllocation, ...] = ()  # counted as free
    need: CardNeed = NO_NEED  # of a share; cards on which it fits less ill come first
    grace_s: int = 0  # how long the pod may take to end; of what is lent only


@dataclass(frozen=True, slots=True)
class DeviceChoice:
    """The allocation, by type in the order of the requests, then by minor."""

    allocations: tuple[DeviceAllocation, ...]


def allocate(ledger: DeviceLedger, ask: DeviceAsk) -> DeviceChoice | Refusal:
    """The allocation of everything requested, or the reason why not. The ledger is unchanged; `ledger.given`
    records the result.
    """
    if not is_isolated(ledger, ask):
        return _unenforced(ledger, ask)
    late = _too_late(ledger, ask)
    if late is not None:
        return late
    work = _Work(ledger.without(ask.preemptible), ask)
    joint = _asked_types(ask)
    for type_ in joint[:1]:
        refusal = work.choose_first(type_, joint[1:])
        if refusal is not None:
            return refusal
    for type_ in joint[1:]:
        refusal = work.choose_beside(type_, joint[0])
        if refusal is not None:
            return refusal
    for request in ask.requests:
        if request.type not in joint:
            refusal = work.choose_first(request.type, ())
            if refusal is not None:
                return refusal
    return DeviceChoice(tuple(allocation for request in ask.requests for allocation in work.chosen[request.type]))


def asks_share(ask: DeviceAsk) -> bool:
    """Whether others may use the rest of a GPU that it is given."""
    return any(request.type is DeviceType.GPU and request.shared for request in ask.requests)


def is_isolated(ledger: DeviceLedger, ask: DeviceAsk) -> bool:
    """Whether what the ask wants to enforce its share is there; True where it wants nothing, or there is no GPU."""
    if not ask.isolation or not asks_share(ask) or ledger.pool(DeviceType.GPU) is None:
        return True
    return bool(ledger.isolation) if ask.isolation == ANY_ISOLATION else ledger.isolation == ask.isolation


def _too_late(ledger: DeviceLedger, ask: DeviceAsk) -> Refusal | None:
    """Why a pod may not have what is lent here: it ends later than its card is wanted back."""
    if ask.grace_s <= ledger.returns_s or not any(LENT_GPU in request.amounts for request in ask.requests):
        return None
    if not ledger.returns_s:
        return Refusal("no GPU is lent", "the node's agent lends none")
    words = f"within {ledger.returns_s} s, and the pod's terminationGracePeriodSeconds is {ask.grace_s}"
    return Refusal("lent GPUs are wanted back sooner than the pod ends", words)


def _unenforced(ledger: DeviceLedger, ask: DeviceAsk) -> Refusal:
    by = "" if ask.isolation == ANY_ISOLATION else f" by {ask.isolation}"
    here = f"label {NODE_ISOLATION} is {ledger.isolation}" if ledger.isolation else f"no label {NODE_ISOLATION}"
    return Refusal(f"shares of a GPU are not enforced{by}", here)


def _asked_types(ask: DeviceAsk) -> tuple[DeviceType, ...]:
    """The requested joint types; () where the deciding one is not requested."""
    asked = {request.type for request in ask.requests}
    if ask.joint is None or len(asked) < 2 or ask.joint.types[0] not in asked:
        return ()
    return tuple(type_ for type_ in ask.joint.types if type_ in asked)


class _Work:
    """State of one allocation."""

    __slots__ = ("ask", "chosen", "hints", "known", "ledger", "requests")

    def __init__(self, ledger: DeviceLedger, ask: DeviceAsk) -> None:
        self.ledger = ledger
        self.ask = ask
        self.requests = {request.type: request for request in ask.requests}
        self.hints = {hint.type: hint for hint in ask.hints}
        self.known: dict[DeviceType, _Serving | Refusal] = {}
        self.chosen: dict[DeviceType, tuple[DeviceAllocation, ...]] = {}

    def choose_first(self, type_: DeviceType, followers: Sequence[DeviceType]) -> Refusal | None:
        """Choose the devices of one type, with capacity for the following types beside them where required."""
        found = self._fitting(type_)
        if isinstance(found, Refusal):
            return found
        pool, request, room = found
        if self.ask.joint is not None and self.ask.joint.same_pcie:
            for follower in followers:
                beside = self._fitting(follower)
                if isinstance(beside, Refusal):
                    return beside
                under = set(beside[0].inventory.pcie_of(beside[2].fits))
                served = 0
                for pcie, mask in pool.inventory.by_pcie:
                    if pcie in under:
                        served |= mask
                room = room.narrowed(served)
        if room.fits.bit_count() < request.count:
            return Refusal(
                f"not enough {type_.value} devices",
                shortage(pool, room, request.count),
                missing_to(pool, room, request.count),
            )
        minors = self._minors(pool, request, room)
        if isinstance(minors, Refusal):
            return minors
        self.chosen[type_] = self._allocations(pool, room, minors)
        return None

    def choose_beside(self, type_: DeviceType, leader: DeviceType) -> Refusal | None:
        """Choose devices under the switches of those chosen already: one under each, then more if needed."""
        found = self._fitting(type_)
        if isinstance(found, Refusal):
            return found
        pool, request, room = found
        first = self.ledger.pool(leader)
        assert first is not None
        switches = first.inventory.pcie_of(mask_of(allocation.minor for allocation in self.chosen[leader]))
        order = sorted(numbers_in(room.fits), key=self._rank(pool, request, room))
        under = [(pcie, mask) for pcie, mask in pool.inventory.by_pcie if pcie in switches]
        beside = 0
        taken: list[int] = []
        for _, mask in under:
            beside |= mask
            taken += [minor for minor in order if mask >> minor & 1][:1]
        same = self.ask.joint is not None and self.ask.joint.same_pcie
        if same and len(taken) < len(switches):
            bare = [pcie for pcie in switches if not any(pcie == other and mask & room.fits for other, mask in under)]
            return Refusal(f"no {type_.value} device under the same PCIe switch", f"none with room under {bare}")
        others = [minor for minor in order if minor not in taken and (beside >> minor & 1 or not same)]
        others.sort(key=lambda minor: not beside >> minor & 1)
        taken += others[: max(0, max(request.count, len(switches)) - len(taken))]
        if len(taken) < request.count and same:
            nearest = f"{len(taken)} of {request.count} under {', '.join(switches)}"
            return Refusal(f"not enough {type_.value} devices under the same PCIe switch", nearest)
        if len(taken) < request.count:
            return Refusal(
                f"not enough {type_.value} devices",
                shortage(pool, room, request.count),
                missing_to(pool, room, request.count),
            )
        self.chosen[type_] = self._allocations(pool, room, sorted(taken))
        return None

    def _fitting(self, type_: DeviceType) -> _Serving | Refusal:
        """The devices that can serve one type, and the request with its count resolved; computed once."""
        if type_ not in self.known:
            self.known[type_] = self._found(type_)
        return self.known[type_]

    def _found(self, type_: DeviceType) -> _Serving | Refusal:
        pool = self.ledger.pool(type_)
        if pool is None:
            return Refusal(f"no {type_.value} devices", "the node has none")
        inventory, hint = pool.inventory, self.hints.get(type_)
        among = inventory.minors
        if self.ask.numa is not None:
            among &= inventory.minors_on(self.ask.numa)
        if self.ask.required:
            among &= _of_type(self.ask.required, type_, among)
        if hint is not None and hint.selector is not None:
            selector = hint.selector
            among &= mask_of(
                device.minor for device in inventory.devices if device is not None and selector.matches(device.labels)
            )
        request = _counted(self.requests[type_], hint, (among & inventory.healthy).bit_count())
        room = fitting(pool, request.amounts, among)
        if hint is not None and hint.function_selector is not None:
            serving = with_free_function(pool, room.fits, hint.function_selector)
            if serving.bit_count() < request.count <= room.fits.bit_count():
                nearest = f"{serving.bit_count()} of {request.count} devices with room have a free one that is selected"
                return Refusal(f"not enough {type_.value} virtual functions", nearest)
            room = Fitting(room.asked, serving, room.need, room.parts, room.partial)
        return pool, request, room

    def _minors(self, pool: DevicesOfType, request: DeviceRequest, room: Fitting) -> tuple[int, ...] | Refusal:
        hint = self.hints.get(request.type)
        scope = hint.scope if hint else DeviceScope.NODE
        if request.type is DeviceType.GPU and not request.shared:
            spec = self.ask.partition
            honor = self.ledger.honor or spec is not None
            if honor or self.ledger.table is not None:
                free = room.fits & ~(pool.busy & ~pool.lent)
                within = None if scope is DeviceScope.NODE else near_groups(pool, scope)
                partition = choose_partition(self.ledger.table, request.count, free, spec or ANY, within)
                if isinstance(partition, Partition):
                    return numbers_in(partition.minors)
                if honor:
                    return partition
        if request.type is DeviceType.GPU and request.shared and (self.ledger.beside or self.ask.need.growth):
            calm = self._calmest(pool, room, request.count)
            found = self._near(pool, request, calm, scope) if calm.fits != room.fits else Refusal("", "")
            if not isinstance(found, Refusal):
                return found
        return self._near(pool, request, room, scope)

    def _calmest(self, pool: DevicesOfType, room: Fitting, count: int) -> Fitting:
        """The cards with as few points as `count` of them can have."""
        by_points: dict[int, int] = {}
        for minor in numbers_in(room.fits):
            found = _points(self.ledger, pool, self.ask.need, minor, room.need[minor] or ())
            by_points[found] = by_points.get(found, 0) | 1 << minor
        calm = 0
        for found in sorted(by_points):
            calm |= by_points[found]
            if calm.bit_count() >= count:
                break
        return room.narrowed(calm)

    def _near(
        self, pool: DevicesOfType, request: DeviceRequest, room: Fitting, scope: DeviceScope
    ) -> tuple[int, ...] | Refusal:
        apart = self.ask.strategy is DeviceStrategy.SPREAD
        order = sorted(numbers_in(room.fits), key=self._rank(pool, request, room)) if room.partial else ()
        preferred = _of_type(self.ask.preferred, request.type, 0)
        return near(pool, room.fits, request.count, scope, preferred, order, apart)

    def _rank(self, pool: DevicesOfType, request: DeviceRequest, room: Fitting) -> Rank:
        preferred = _of_type(self.ask.preferred, request.type, 0)
        order = rank(self.ask.strategy, pool, room.need, self.ask.usual)
        return (lambda minor: (not preferred >> minor & 1, *order(minor))) if preferred else order

    def _allocations(self, pool: DevicesOfType, room: Fitting, minors: Iterable[int]) -> tuple[DeviceAllocation, ...]:
        type_ = pool.inventory.type
        hint = self.hints.get(type_)
        found = []
        for minor in minors:
            part, device = room.parts[minor], pool.inventory.devices[minor]
            assert part is not None
            assert device is not None
            function = None
            if hint is not None and hint.function_selector is not None:
                function = free_function(pool, minor, hint.function_selector)
            found.append(DeviceAllocation(type_, minor, part, (function,) if function else (), device.id))
        return tuple(found)


def crowding(ledger: DeviceLedger, need: CardNeed, chosen: Sequence[DeviceAllocation]) -> int:
    """Points of an allocation that is not made yet: the sum over its GPUs; fewer are better."""
    pool = ledger.pool(DeviceType.GPU)
    if pool is None or not (ledger.beside or need.growth):
        return 0
    return sum(
        _points(ledger, pool, need, allocation.minor, pool.row(allocation))
        for allocation in chosen
        if allocation.type is DeviceType.GPU
    )


def _points(ledger: DeviceLedger, pool: DevicesOfType, need: CardNeed, minor: int, part: Row) -> int:
    resources, total = pool.inventory.resources, pool.inventory.totals[minor]
    column = resources.index(GPU_MEMORY_RATIO) if GPU_MEMORY_RATIO in resources else -1
    left = 0 if total is None else memory_left(total, tuple(map(add, pool.used[minor], part)), column)
    return points(need, ledger.beside[minor] if ledger.beside else ALONE, left)


def _of_type(typed: TypedMinors, type_: DeviceType, absent: int) -> int:
    return next((minors for other, minors in typed if other is type_), absent)


def _counted(request: DeviceRequest, hint: DeviceHint | None, selected: int) -> DeviceRequest:
    """With the count of the hint: every selected card, or as many as the amount says. Requests for whole devices
    are unchanged.
    """
    if hint is None or hint.count_by is CountBy.AMOUNT or request.type is DeviceType.GPU or request.count > 1:
        return request
    if hint.count_by is CountBy.ALL:
        return replace(request, count=max(1, selected))
    ((name, amount),) = request.amounts.items
    return replace(request, amounts=Amounts.of({name: WHOLE if hint.whole_device else 1}), count=amount)

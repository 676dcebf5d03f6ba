"""The search of kube-scheduler 1.36.2 where it differs from ours: what it takes and does not give back.

- Counters of a device are taken before its taints and the constraints are looked at, and stay taken when these reject
  it; those of a device that several claims may have are never given back.
- `distinctAttribute` remembers one device of each request, the last, and forgets the request with it.
- What devices have in common under `matchAttribute` stays as narrow as it once was, which tells with lists only.
- A device has to leave every counter of its pool, not only its own, at zero or above.
- A device without capacity that several claims may have counts as used once it was tried.

Nothing else is written here: a difference that this search does not have either is another one.

Source: Kubernetes 1.36.2, dynamic-resource-allocation, structured allocator (incubating, experimental).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from cotenant.model.claims.devices import AttributeValue
from cotenant.model.claims.requests import ClaimSpec, ExactRequest
from cotenant.policy.claims.allocator import (
    CannotAllocate,
    DeviceSearch,
    DeviceUsage,
    Matches,
    Pick,
    Steps,
    tolerated,
)
from cotenant.policy.claims.capacity import taken
from cotenant.policy.claims.constraints import ChosenValues, attribute_of, values_of
from cotenant.policy.claims.pools import DevicePool, PoolDevice

Values = frozenset[tuple[type, AttributeValue]]


@dataclass(slots=True)
class _UpstreamValues(ChosenValues):
    """What upstream remembers of the devices under one constraint."""

    count: int = 0
    common: Values = frozenset()
    last: dict[str, Values] = field(default_factory=dict)  # by request

    def add(self, request: ExactRequest, device: PoolDevice) -> bool:
        if not self.constraint.covers(request):
            return True
        value = attribute_of(device, self.constraint.attribute)
        if value is None:
            return False
        found = values_of(value)
        if self.constraint.is_distinct:
            if self.count and any(not found.isdisjoint(other) for other in self.last.values()):
                return False
            self.last[request.parent or request.name] = found
        elif not self.count:
            self.common = found
        elif self.common.isdisjoint(found):
            return False
        else:
            self.common &= found
        self.count += 1
        return True

    def remove(self, request: ExactRequest) -> None:
        if self.constraint.covers(request):
            self.last.pop(request.parent or request.name, None)
            self.count -= 1


class UpstreamSearch(DeviceSearch):
    """Ours, with what upstream does at each device."""

    def __init__(
        self,
        claims: Sequence[ClaimSpec],
        pools: Sequence[DevicePool],
        usage: DeviceUsage,
        matches: Matches,
        steps: Steps,
    ) -> None:
        super().__init__(claims, pools, usage, matches, steps)
        self._chosen = [[_UpstreamValues(constraint) for constraint in claim.constraints] for claim in claims]

    def _take(self, claim: int, request: ExactRequest, place: tuple[int, int], must: bool = False) -> bool:
        device = self._at(place)
        is_shared = device.device.is_shared
        if not is_shared and request.admin_access and claim in self._taken.get(device.id, ()):
            return False
        if not request.admin_access and self._is_held(device.id):
            return False
        if self._counts(device):
            self._count(place[0], device, -1)
            if any(nano < 0 for nano in self._counters_of(self._pools[place[0]]).values()):
                self._count(place[0], device, 1)
                return False
        if not tolerated(request, device):
            return False
        for done, chosen in enumerate(self._chosen[claim]):
            if not chosen.add(request, device):
                if must:
                    raise CannotAllocate("a constraint forbids a request for all devices")
                for before in self._chosen[claim][:done]:
                    before.remove(request)
                return False
        if not is_shared:
            self._taken.setdefault(device.id, []).append(claim)
        if not self._has_capacity(request, device):
            return False
        consumed = (taken(request, device.device) or ()) if is_shared else ()
        if is_shared:
            shared = self._shared.setdefault(device.id, {})
            for name, amount in (*((name, amount.nano) for name, amount in consumed), ("", 1)):
                shared[name] = shared.get(name, 0) + amount
        self.picks[claim].append(Pick(request, place, consumed))
        return True

    def _give_back(self, claim: int, request: ExactRequest, place: tuple[int, int]) -> None:
        device = self._at(place)
        pick = self.picks[claim].pop()
        for chosen in self._chosen[claim]:
            chosen.remove(request)
        if not device.device.is_shared:
            self._taken[device.id].pop()
            if device.device.uses:
                self._count(place[0], device, 1)
        elif pick.consumed:
            shared = self._shared[device.id]
            for name, amount in (*((name, amount.nano) for name, amount in pick.consumed), ("", 1)):
                shared[name] -= amount
            if not shared[""]:
                del self._shared[device.id]

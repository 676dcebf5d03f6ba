"""The search for devices against every choice: it finds the first of all valid choices in the order of requests and
devices, and none where there is none. What is chosen never gives a device twice, and never more of a counter or of a
capacity than there is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.property.few import examples

from cotenant.model.claims.devices import (
    NOWHERE,
    AttributeValues,
    CounterSet,
    CounterUse,
    DeviceCapacity,
    DeviceId,
    DeviceTaint,
    OfferedDevice,
    PoolId,
)
from cotenant.model.claims.requests import (
    AllocationMode,
    ClaimRequest,
    ClaimSpec,
    DeviceConstraint,
    DeviceToleration,
    ExactRequest,
)
from cotenant.model.quantities import NANO, Quantity
from cotenant.policy.claims.allocator import ClaimRefusal, allocate
from cotenant.policy.claims.pools import DevicePool, PoolDevice

Place = tuple[int, int]
Chosen = list[tuple[int, ExactRequest, Place]]  # claim, request, device


class Held:
    """What claims of others hold."""

    def __init__(self, alone: frozenset[DeviceId], shares: Mapping[DeviceId, int]) -> None:
        self._alone, self._shares = alone, shares

    def holds(self, device: DeviceId) -> bool:
        return device in self._alone

    def consumed(self, device: DeviceId) -> Mapping[str, int] | None:
        amount = self._shares.get(device)
        return None if amount is None else {"memory": amount * NANO}


def device(name: str, model: str, taint: str, memory: int, is_shared: bool, counts: int) -> OfferedDevice:
    return OfferedDevice(
        name,
        (("vendor/model", AttributeValues("string", tuple(model)) if len(model) > 1 else model),),
        (("memory", DeviceCapacity(Quantity(memory * NANO))),) if memory else (),
        (DeviceTaint(taint),) if taint else (),
        (CounterUse("set", (("slots", counts),)),) if counts else (),
        is_shared=is_shared and memory > 0,
    )


@st.composite
def pools(draw: st.DrawFn) -> tuple[tuple[DevicePool, ...], Held]:
    found, alone, shares = [], set(), {}
    for number in range(draw(st.integers(1, 2))):
        devices = []
        for at in range(draw(st.integers(1, 3))):
            offered = device(
                f"d{at}",
                draw(st.sampled_from(["a", "b", "ab", "bc"])),
                draw(st.sampled_from(["", "", "", "bad"])),
                draw(st.sampled_from([0, 0, 2])),
                draw(st.booleans()),
                draw(st.sampled_from([0, 1, 2])),
            )
            id_ = DeviceId("vendor", f"pool{number}", offered.name)
            devices.append(PoolDevice(id_, offered, NOWHERE, offered.taints))
            if draw(st.integers(0, 4)) == 0:
                if offered.is_shared:
                    shares[id_] = 1
                else:
                    alone.add(id_)
        counters = (CounterSet("set", (("slots", draw(st.integers(1, 4))),)),)
        found.append(DevicePool(PoolId("vendor", f"pool{number}"), devices=tuple(devices), counters=counters))
    return tuple(found), Held(frozenset(alone), shares)


@st.composite
def requests(draw: st.DrawFn, name: str) -> ClaimRequest:
    def exact(own: str, parent: str = "") -> ExactRequest:
        return ExactRequest(
            own,
            "any",
            draw(st.sampled_from([(), (), ("a",), ("b",)])),
            draw(st.sampled_from([AllocationMode.EXACT_COUNT] * 4 + [AllocationMode.ALL])),
            draw(st.integers(1, 2)),
            False,
            draw(st.sampled_from([(), (DeviceToleration(operator="Exists"),)])),
            draw(st.sampled_from([(), (), (("memory", Quantity(NANO)),)])),
            parent,
        )

    if draw(st.integers(0, 3)):
        return ClaimRequest(name, (exact(name),))
    return ClaimRequest(name, (exact("x", name), exact("y", name)), is_list=True)


@st.composite
def claims(draw: st.DrawFn) -> tuple[ClaimSpec, ...]:
    return tuple(
        ClaimSpec(
            tuple(draw(requests(f"r{position}")) for position in range(draw(st.integers(1, 2)))),
            tuple(
                DeviceConstraint("vendor/model", draw(st.booleans()), draw(st.sampled_from([(), ("r0",), ("r1",)])))
                for _ in range(draw(st.integers(0, 1)))
            ),
        )
        for _ in range(draw(st.integers(1, 2)))
    )


def matches(request: ExactRequest, of: PoolDevice) -> bool:
    return not request.selectors or request.selectors[0] in values_of(of)


def values_of(of: PoolDevice) -> set[str]:
    model = of.device.attributes[0][1]
    return {str(value) for value in model.all} if isinstance(model, AttributeValues) else {str(model)}


def memory_of(request: ExactRequest, offered: OfferedDevice) -> int:
    """What the request takes: all of it where it does not say."""
    asked = dict(request.capacity).get("memory")
    return (asked.nano if asked is not None else offered.capacity[0][1].value.nano) // NANO


def has_capacity(request: ExactRequest, of: PoolDevice, held: Held) -> bool:
    offered = of.device
    if not offered.capacity:
        return not request.capacity
    used = (held.consumed(of.id) or {}).get("memory", 0) // NANO if offered.is_shared else 0
    return used + memory_of(request, offered) <= offered.capacity[0][1].value.nano // NANO


def every_choice(specs: tuple[ClaimSpec, ...], all_pools: tuple[DevicePool, ...], held: Held) -> Iterator[Chosen]:
    """In the order of the search: alternatives in order, devices of a request in the order of pools."""
    places = [(number, at) for number, pool in enumerate(all_pools) for at in range(len(pool.devices))]
    flat = [(claim, request) for claim, spec in enumerate(specs) for request in spec.requests]

    def go_on(position: int, chosen: Chosen) -> Iterator[Chosen]:
        if position == len(flat):
            yield chosen
            return
        claim, request = flat[position]
        for exact in request.alternatives:
            fitting = [
                place
                for place in places
                if matches(exact, all_pools[place[0]].devices[place[1]])
                and has_capacity(exact, all_pools[place[0]].devices[place[1]], held)
            ]
            if exact.mode is AllocationMode.ALL:
                sets = [tuple(fitting)] if fitting else []
            else:
                sets = list(combinations(fitting, exact.count))
            for these in sets:
                yield from go_on(position + 1, [*chosen, *((claim, exact, place) for place in these)])

    yield from go_on(0, [])


def is_valid(chosen: Chosen, specs: tuple[ClaimSpec, ...], all_pools: tuple[DevicePool, ...], held: Held) -> bool:
    alone: set[DeviceId] = set()
    amounts: dict[DeviceId, int] = {}
    for _, request, (number, at) in chosen:
        found = all_pools[number].devices[at]
        if held.holds(found.id):
            return False
        if any(not any(t.tolerates(taint) for t in request.tolerations) for taint in found.taints):
            return False
        if not found.device.is_shared:
            if found.id in alone:
                return False
            alone.add(found.id)
            continue
        amounts[found.id] = amounts.get(found.id, 0) + memory_of(request, found.device)
    for pool in all_pools:
        slots = dict(pool.counters[0].nano)["slots"]
        for found in pool.devices:
            taken = found.id in alone or found.id in amounts or held.holds(found.id) or held.consumed(found.id)
            if found.device.uses and taken:
                slots -= dict(found.device.uses[0].nano)["slots"]
            if found.id in amounts:
                used = (held.consumed(found.id) or {}).get("memory", 0) // NANO
                if used + amounts[found.id] > found.device.capacity[0][1].value.nano // NANO:
                    return False
        took = any(all_pools[number] is pool and pool.devices[at].device.uses for _, _, (number, at) in chosen)
        if slots < 0 and took and not only_again(pool, chosen, all_pools, held):
            return False
    for claim, spec in enumerate(specs):
        for constraint in spec.constraints:
            values = [
                values_of(all_pools[number].devices[at])
                for of, request, (number, at) in chosen
                if of == claim and constraint.covers(request)
            ]
            if constraint.is_distinct:
                if sum(map(len, values)) != len(set().union(*values)):
                    return False
            elif values and not set.intersection(*values):
                return False
    return True


def only_again(pool: DevicePool, chosen: Chosen, all_pools: tuple[DevicePool, ...], held: Held) -> bool:
    """Whether all that is chosen of a pool are shares of devices of which others have some: they take no counters."""
    return all(
        held.consumed(pool.devices[at].id) is not None or not pool.devices[at].device.uses
        for _, _, (number, at) in chosen
        if all_pools[number] is pool
    )


@settings(max_examples=examples(300), deadline=None)
@given(pools(), claims())
def test_the_first_valid_choice_is_found(
    made: tuple[tuple[DevicePool, ...], Held], specs: tuple[ClaimSpec, ...]
) -> None:
    all_pools, held = made
    expected = next((c for c in every_choice(specs, all_pools, held) if is_valid(c, specs, all_pools, held)), None)
    found = allocate(specs, all_pools, held, matches)
    if isinstance(found, ClaimRefusal):
        assert expected is None or "constraint" in found.reason
        return
    picks = [(claim, pick.request, pick.place) for claim, those in enumerate(found) for pick in those]
    assert is_valid(picks, specs, all_pools, held)
    assert picks == expected

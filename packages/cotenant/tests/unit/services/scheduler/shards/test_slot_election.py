"""Which slot a replica stands for: the first that is free, else its own, until another one is free."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest
from tests.fakes.servers.kept_leases import Leases

from cotenant.drivers.kube.leaderelection.election import Timing
from cotenant.policy.sharding.rendezvous import owner
from cotenant.services.scheduler.shards import slot_election
from cotenant.services.scheduler.shards.slot_election import SlotElection, slot_lease

TIMING = Timing(lease_s=0.3, renew_deadline_s=0.2, retry_s=0.005)


class GivenElection:
    """An election that is won as soon as its Lease is in `granted`."""

    granted: set[str]
    made: list[GivenElection]

    def __init__(self, connect: Any, namespace: str, name: str, identity: str, timing: Timing) -> None:
        assert (connect, namespace, identity, timing) == ("connect", "ns", "me", TIMING)
        self.name, self.leading, self.lapses, self.ended = name, False, 0, False
        self.made.append(self)

    def standing(self) -> str:
        return f"waits for {self.name}"

    async def run(self, work: Callable[[], Awaitable[None]], changed: Callable[[], None]) -> bool:
        try:
            while self.name not in self.granted:
                await asyncio.sleep(0)
            self.leading = True
            changed()
            await work()
            return self.name in self.granted
        finally:
            self.leading, self.ended = False, True


@pytest.fixture(autouse=True)
def elections(monkeypatch: pytest.MonkeyPatch) -> list[GivenElection]:
    GivenElection.granted, GivenElection.made = set(), []
    monkeypatch.setattr(slot_election, "ThreadedElection", GivenElection)
    return GivenElection.made


def standing(leases: Leases, slots: int = 3) -> SlotElection:
    return SlotElection(cast(Any, leases), cast(Any, "connect"), "ns", "s", slots, "me", TIMING)


def held(*slots: int, by: str | None = "x", spec: bool = True) -> Leases:
    leases = Leases()
    for slot in slots:
        leases.put(slot_lease("s", slot), by, spec=spec)
    return leases


def won(leases: Leases, slots: int = 3) -> int:
    """The slot that is won where every one would be."""
    GivenElection.granted = {slot_lease("s", slot) for slot in range(slots)}
    one = standing(leases, slots)
    assert (one.slot, one.leading, one.standing()) == (-1, False, "has not yet asked for a shard's lease")
    seen: list[tuple[int, bool]] = []
    changes: list[int] = []

    async def work() -> None:
        seen.append((one.slot, one.leading))

    assert asyncio.run(one.run(work, lambda: changes.append(1)))
    assert seen == [(one.slot, True)]
    assert changes == [1]
    assert not one.leading
    return one.slot


def test_the_first_slot_that_nobody_else_holds_is_taken() -> None:
    assert slot_lease("s", 2) == "s-shard-2"
    assert won(held()) == 0
    assert won(held(0)) == 1
    assert won(held(0, 1)) == 2
    assert won(held(1, 2)) == 0
    assert won(held(0, 1, 2, by="me")) == 0
    assert won(held(0, 1, 2, by="")) == 0
    assert won(held(0, 1, 2, by=None)) == 0
    assert won(held(0, 1, 2, by=None, spec=False)) == 0
    mixed = held(0, 2)
    mixed.put("s-shard-1", "")
    assert won(mixed) == 1


def test_a_slot_that_the_server_does_not_tell_of_is_not_free() -> None:
    leases = held(2)
    leases.broken = {"s-shard-0"}
    assert won(leases) == 1
    leases = held()
    leases.broken = {f"s-shard-{slot}" for slot in range(3)}
    assert won(leases) == owner("me", range(3))


def test_where_all_are_held_it_waits_for_its_own_and_goes_to_one_that_becomes_free(
    elections: list[GivenElection],
) -> None:
    own = owner("me", range(3))
    other = (own + 1) % 3
    leases = held(0, 1, 2)
    one = standing(leases)

    async def main() -> bool:
        async def nothing() -> None:
            pass

        running = asyncio.ensure_future(one.run(nothing))
        while not elections:
            await asyncio.sleep(0)
        assert (one.slot, one.leading, one.standing()) == (own, False, f"waits for s-shard-{own}")
        elections[0].lapses = 2
        leases.put(slot_lease("s", other), "")
        GivenElection.granted = {slot_lease("s", other)}
        return await running

    assert asyncio.run(main())
    assert [election.name for election in elections] == [slot_lease("s", own), slot_lease("s", other)]
    assert elections[0].ended
    assert (one.slot, one.lapses) == (other, 2)
    elections[1].lapses = 3
    assert one.lapses == 5


def test_its_own_slot_that_becomes_free_is_waited_for(elections: list[GivenElection]) -> None:
    own = owner("me", range(2))
    leases = held(0, 1)
    one = standing(leases, 2)
    reads = 0
    get = leases.get

    async def counted(*given: Any) -> Any:
        nonlocal reads
        reads += 1
        if reads == 12:
            GivenElection.granted = {slot_lease("s", own)}
        return await get(*given)

    async def main() -> bool:
        async def nothing() -> None:
            pass

        running = asyncio.ensure_future(one.run(nothing))
        while not elections:
            await asyncio.sleep(0)
        leases.put(slot_lease("s", own), "")
        leases.get = counted  # type: ignore[method-assign]
        return await running

    assert asyncio.run(main())
    assert [election.name for election in elections] == [slot_lease("s", own)]


def test_what_is_cancelled_gives_its_campaign_up(elections: list[GivenElection]) -> None:
    one = standing(held(0, 1, 2))

    async def main() -> None:
        async def nothing() -> None:
            pass

        running = asyncio.ensure_future(one.run(nothing))
        while not elections:
            await asyncio.sleep(0)
        await asyncio.sleep(0)
        running.cancel()
        await asyncio.wait((running,))
        assert running.cancelled()

    asyncio.run(main())
    assert [election.ended for election in elections] == [True]


def test_a_term_that_was_lost_is_told() -> None:
    GivenElection.granted = {"s-shard-0"}
    one = standing(held())

    async def work() -> None:
        GivenElection.granted = set()

    assert not asyncio.run(one.run(work))

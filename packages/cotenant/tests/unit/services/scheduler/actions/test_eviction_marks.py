"""Evictions of one shard of several: the version that they name, and that none of a lost shard's counts once its marks
were changed, wherever it was stopped.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any, cast

import pytest

from cotenant.drivers.kube.client.errors import Conflict, NotFound, Throttled
from cotenant.drivers.kube.kinds.pod.reader import PodReader
from cotenant.drivers.kube.kinds.pod.schema import PodMeta, PodObject
from cotenant.drivers.kube.kinds.shard_table import EVICTS
from cotenant.engine.framework.instructions import Victim
from cotenant.engine.sharding.member import FenceLost
from cotenant.model.errors import Transient
from cotenant.model.shards.table import SlotMember
from cotenant.services.scheduler.actions.eviction_marks import EvictionMarks
from cotenant.services.scheduler.shards.fence import ShardFence

VICTIM = Victim("uid-v", "shop/v", "a")
MOMENTS = ("before the mark", "after the mark", "before the eviction", "later")


class World:
    """A server with one pod, and the shard whose term is `t1`. `at`: what happens at a moment."""

    def __init__(self) -> None:
        self.version = 1
        self.marked_by: str | None = None
        self.is_deleted = False
        self.leads = True
        self.term = "t1"
        self.written: list[Any] = []
        self.at: dict[str, list[Callable[[], object]]] = {}
        self.marks = EvictionMarks(cast(Any, self), lambda: self.term, lambda: self.leads)

    async def _moment(self, name: str) -> None:
        for happens in self.at.pop(name, []):
            found = happens()
            if asyncio.iscoroutine(found):
                await found

    async def patch_status(self, kind: Any, namespace: str, name: str, body: Any) -> PodObject:
        assert (kind.plural, namespace, name) == ("pods", "shop", "v")
        label = body["metadata"]["labels"][EVICTS]
        if label is not None:
            await self._moment("before the mark")
        if self.is_deleted:
            raise NotFound("gone")
        if body["metadata"]["uid"] != VICTIM.uid:
            raise Conflict("another pod has its name")
        self.marked_by, self.version = label, self.version + 1
        self.written.append(body)
        answer = PodObject(PodMeta(name="v", namespace="shop", uid=VICTIM.uid, resource_version=str(self.version)))
        if label is not None:
            await self._moment("after the mark")
        return answer

    async def evict(self, version: str) -> None:
        await self._moment("before the eviction")
        if version not in ("", str(self.version)):
            raise Conflict("another version")
        self.is_deleted = True

    async def all_of(self, kind: Any, *, labels: str = "", fields: str = "") -> list[Any]:
        if kind.plural != "pods":
            raise NotFound("the kind is not installed")
        if labels and labels == f"{EVICTS}={self.marked_by}" and not self.is_deleted:
            return [PodObject(PodMeta(name="v", namespace="shop", uid=VICTIM.uid, labels={EVICTS: self.term}))]
        return []

    async def run(self) -> None:
        await self.marks.evict(VICTIM, {}, self.evict)

    def changes(self) -> None:
        self.version += 1


def test_the_version_that_the_mark_made_is_evicted() -> None:
    world = World()
    asyncio.run(world.marks.evict(VICTIM, {"conditions": []}, world.evict))
    assert world.is_deleted
    assert world.written == [
        {"metadata": {"uid": "uid-v", "labels": {EVICTS: "t1"}}, "status": {"conditions": []}},
    ]


@pytest.mark.parametrize(("lost", "fenced"), [(a, b) for a in range(len(MOMENTS)) for b in range(a, len(MOMENTS))])
def test_nothing_of_a_lost_shard_is_evicted_once_its_marks_were_changed(lost: int, fenced: int) -> None:
    """A shard is lost at one moment, fenced at that or a later one, and its requests arrive all the same. It learns
    that it is lost from its own clock, as soon as it runs.
    """
    world, was_there = World(), list[bool]()
    fence = ShardFence(cast(Any, world), PodReader(), ("cotenant",), lambda seen: ("",))

    def lose() -> None:
        world.leads = False

    async def change() -> None:
        was_there.append(not world.is_deleted)
        await fence.carry_out(FenceLost(SlotMember(1, "replica-1", "t1", 1), ()))

    world.at.setdefault(MOMENTS[lost], []).append(lose)
    world.at.setdefault(MOMENTS[fenced], []).append(change)

    async def case() -> None:
        with suppress(Transient):
            await world.run()
        for moment in MOMENTS:  # those that it never came to
            await world._moment(moment)

    asyncio.run(case())
    assert world.is_deleted != was_there[0]  # what was there then is there now
    assert world.is_deleted == (lost >= 2 and fenced == 3)


def test_a_shard_that_began_a_new_term_meanwhile_does_not_evict_by_the_old_ones_mark() -> None:
    world = World()

    def begin() -> None:
        world.term = "t2"

    world.at["after the mark"] = [begin]
    with pytest.raises(Transient, match="lease is over"):
        asyncio.run(world.run())
    assert not world.is_deleted


def test_a_pod_that_changes_is_marked_anew_and_one_that_always_does_goes_all_the_same() -> None:
    world = World()
    world.at["before the eviction"] = [world.changes]
    asyncio.run(world.run())
    assert world.is_deleted
    assert len(world.written) == 2

    restless = World()

    async def changes_each_time(version: str) -> None:
        restless.changes()
        await restless.evict(version)

    asyncio.run(restless.marks.evict(VICTIM, {}, changes_each_time))
    assert restless.is_deleted
    assert len(restless.written) == 5


def test_the_mark_of_a_restless_pod_goes_too_where_a_budget_refuses() -> None:
    world = World()

    async def refuses_in_the_end(version: str) -> None:
        if not version:
            raise Throttled("not now")
        raise Conflict("another version")

    with pytest.raises(Throttled):
        asyncio.run(world.marks.evict(VICTIM, {}, refuses_in_the_end))
    assert world.marked_by is None


def test_a_lost_shard_does_not_evict_what_always_changes() -> None:
    world = World()

    async def changes_each_time(version: str) -> None:
        world.changes()
        world.leads = len(world.written) < 5
        await world.evict(version)

    with pytest.raises(Transient, match="lease is over"):
        asyncio.run(world.marks.evict(VICTIM, {}, changes_each_time))
    assert not world.is_deleted


def test_a_pod_that_is_gone_or_another_is_said_to_be() -> None:
    world = World()
    world.is_deleted = True
    with pytest.raises(NotFound):
        asyncio.run(world.run())
    with pytest.raises(Conflict, match="another pod"):
        asyncio.run(World().marks.evict(Victim("uid-w", "shop/v", "a"), {}, world.evict))


@pytest.mark.parametrize("leads", [True, False])
def test_the_mark_goes_where_a_budget_refuses_unless_the_lease_is_over(leads: bool) -> None:
    world = World()

    async def refuse(version: str) -> None:
        world.leads = leads
        raise Throttled("not now")

    with pytest.raises(Throttled):
        asyncio.run(world.marks.evict(VICTIM, {}, refuse))
    assert world.marked_by == (None if leads else "t1")


@pytest.mark.parametrize(("term", "leads"), [("", True), ("t1", False)])
def test_without_a_term_or_a_lease_nothing_is_written(term: str, leads: bool) -> None:
    world = World()
    world.term, world.leads = term, leads
    with pytest.raises(Transient, match="shop/v is not evicted"):
        asyncio.run(world.run())
    assert not world.written

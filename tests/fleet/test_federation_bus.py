"""A federation's hub and joiners over a real nats-server: the largest statement, and a server that was killed."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest
from tests.fakes.servers.nats_server import NatsServer
from tests.fakes.waiting import patience, soon

from cotenant.drivers.nats.client import BusAccess, NatsBus, connect
from cotenant.drivers.nats.keys import made_seed, public_key
from cotenant.model.cluster.workload_profile import NOT_SEEN, FigureSource, Overall, ProfileFigure, WorkloadProfile
from cotenant.model.cluster.workload_profile import WorkloadRef as Ref
from cotenant.policy.federation.statement import MAX_PROFILES, MAX_TENANTS, ClusterRoom, TenantSums
from cotenant.services.fleet.federation.hub_main import HubService
from cotenant.services.fleet.federation.joining import Joiner, JoinOptions
from cotenant.services.fleet.federation.members import MemberKey
from cotenant.services.fleet.federation.own_statement import ReadCluster
from cotenant.services.fleet.places import BusOptions

pytestmark = pytest.mark.slow
CAPACITY = (10**10, 10**10, 0)


class Federation:
    """A hub and the joiners of `east` and `west`, whose clusters are not asked."""

    def __init__(self, server: NatsServer) -> None:
        self.server = server
        hub, seeds = made_seed(), {name: made_seed() for name in ("east", "west")}
        members = {name: MemberKey(public_key(seed), CAPACITY) for name, seed in seeds.items()}
        self.hub = HubService(members, hub, 1)
        nobody: Any = None
        self.joiners = {
            name: Joiner(
                JoinOptions(BusOptions(), name, epsilon=0.0), nobody, seed, public_key(hub), np.random.default_rng(1)
            )
            for name, seed in seeds.items()
        }

    async def opened(self, name: str) -> NatsBus:
        return await connect(BusAccess(self.server.url, name), within_s=patience(30))

    async def state(self, name: str, tenants: tuple[TenantSums, ...], profiles: list[WorkloadProfile]) -> None:
        await self.joiners[name]._state(ReadCluster(ClusterRoom(CAPACITY, (0, 0, 0)), tenants, ()), profiles, ())


def profile(at: int, learned: bool) -> WorkloadProfile:
    reading = ProfileFigure(300, 290, 310, 50, FigureSource.LEARNED) if learned else NOT_SEEN
    return WorkloadProfile(
        f"shop/w{at}",
        Ref("Deployment", "w"),
        shared_as=f"workload-{at:05}",
        learned_overall=Overall(reading, reading, reading),
    )


def test_the_largest_statement_is_answered_also_after_the_server_was_killed(server: NatsServer) -> None:
    async def go() -> None:
        federation, stop = Federation(server), asyncio.Event()
        buses = {name: await federation.opened(name) for name in ("hub", "east", "west")}
        listening = asyncio.create_task(federation.hub.run(buses["hub"], stop))
        try:
            await buses["hub"].flush(patience(10))
            for name, joiner in federation.joiners.items():
                joiner.bus = buses[name]
            most = tuple(
                TenantSums(f"team-{at:05}", (at * 7, at * 9, 0), (500, 700, 0), 100) for at in range(MAX_TENANTS)
            )
            await federation.state("east", most, [profile(at, learned=True) for at in range(MAX_PROFILES)])
            east, west = (federation.joiners[name].joined for name in ("east", "west"))
            assert len(east.in_force(0)) > MAX_TENANTS * 3 // 4
            await federation.state("west", most[:5], [profile(at, learned=False) for at in range(MAX_PROFILES)])
            assert len(west.profiles_in_force(0)) > MAX_PROFILES // 2
            shared = west.profiles_in_force(0)["workload-00000"].sensitivity
            assert shared is not None
            assert shared.value == 300

            server.kill()
            server.start()

            async def is_answered() -> bool:
                await federation.state("west", most[:5], [])
                return not west.profiles_in_force(0)

            await soon("the hub answers a statement without profiles", is_answered)
        finally:
            stop.set()
            await asyncio.gather(listening, return_exceptions=True)
            for bus in buses.values():
                await bus.close()

    asyncio.run(go())

"""A freeze is stored while a process starts: nothing is begun before the process hears of what happens.

A server that is starting answers a list and refuses the watch with 429 for a second or more.
"""

from __future__ import annotations

import asyncio

import pytest
from tests.fakes.servers.fake_api import FakeApi
from tests.fakes.waiting import soon

from cotenant.drivers.http.address import Address
from cotenant.drivers.kube.client.access import Access
from cotenant.drivers.kube.client.client import Client
from cotenant.drivers.kube.client.credentials import Credential, FixedCredential
from cotenant.model.autonomy.autonomy import Action
from cotenant.services.agent.discovery.cluster_pods import ClusterAutonomy
from cotenant.services.kube_process.leadership import Alone
from cotenant.services.manager.manager_process import ManagerOptions, ManagerProcess
from cotenant.services.rebalancer.main import options_of
from cotenant.services.rebalancer.rebalancer_arguments import RunArguments
from cotenant.services.rebalancer.rebalancer_process import RebalancerProcess

pytestmark = pytest.mark.slow  # a refused watch is tried again after a second

FROZEN = {"metadata": {"name": "freeze"}, "spec": {"freeze": {"why": "outage", "by": "eve"}}}


class Refusing:
    """Lists of autonomies are answered, watches get a status until `status` is 0."""

    def __init__(self, api: FakeApi, status: int) -> None:
        self.lists, self.refused, self.status = 1, 0, status
        api.faults.refuse = self

    def __call__(self, method: str, path: str) -> int:
        if not path.endswith("autonomies"):
            return 0
        if self.lists:
            self.lists -= 1
            return 0
        self.refused += self.status != 0
        return self.status


def test_an_agent_begins_nothing_until_its_watch_is_open_and_then_knows_the_freeze() -> None:
    async def scenario() -> None:
        async with FakeApi() as api:
            refusing = Refusing(api, 429)
            async with Client(access(api), qps=1000, burst=1000, in_flight=4) as client:
                agent = ClusterAutonomy(client)
                task = asyncio.create_task(agent.run())
                await soon("the watch is refused", lambda: refusing.refused > 0)
                permission = agent.permissions.of(Action.RECOVERY, "shop", 0.0)
                assert (permission.may_act, "not known yet" in permission.why) == (False, True)
                api.put("autonomies", {**FROZEN})
                refusing.status = 0
                await soon("it knows", lambda: "outage" in agent.permissions.of(Action.RECOVERY, "shop", 0.0).why)
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

    asyncio.run(scenario())


def test_one_that_may_list_and_not_watch_goes_by_the_list() -> None:
    async def scenario() -> None:
        async with FakeApi() as api:
            Refusing(api, 403)
            async with Client(access(api), qps=1000, burst=1000, in_flight=4) as client:
                agent = ClusterAutonomy(client)
                task = asyncio.create_task(agent.run())
                await soon("it may act", lambda: agent.permissions.of(Action.RECOVERY, "shop", 0.0).may_act)
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

    asyncio.run(scenario())


@pytest.mark.parametrize("of", ["manager", "rebalancer"])
def test_the_manager_and_the_rebalancer_wait_for_it_too(of: str) -> None:
    async def scenario() -> None:
        async with FakeApi() as api:
            refusing = Refusing(api, 429)
            listen = Address("127.0.0.1", 0)
            process: ManagerProcess | RebalancerProcess
            if of == "manager":
                process = ManagerProcess(access(api), ManagerOptions(listen), "one", lambda client: Alone())
            else:
                options = options_of(RunArguments(), listen)
                process = RebalancerProcess(access(api), options, "one", lambda client: Alone())
            stop = asyncio.Event()
            async with asyncio.TaskGroup() as group:
                group.create_task(process.run(stop))
                await soon("refused twice", lambda: refusing.refused > 1)
                assert not process.kube.watches.synced
                refusing.status = 0
                await soon("all is known", lambda: process.kube.watches.synced)
                stop.set()

    asyncio.run(scenario())


def access(api: FakeApi) -> Access:
    return Access(api.url, FixedCredential(Credential("")))

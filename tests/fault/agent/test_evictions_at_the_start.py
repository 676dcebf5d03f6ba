"""Evictions while the API server, the keeper or both are away: nobody is evicted by a guess, and no budget is used
up by refusals.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace

import pytest
from tests.fakes.node.agent_world import CONFIG, WEB, AwaySource, World, live

from cotenant.drivers.kubelet.declared import DeclaredPod, join
from cotenant.engine.node.policies import PolicySettings
from cotenant.model.cluster.labels import QOS_CLASS, Labels
from cotenant.model.cluster.qos import KubernetesQoS, QoSClass
from cotenant.model.errors import Permanent, Transient
from cotenant.model.machine.node_decision import EvictPod, Reason
from cotenant.model.machine.node_pod import NodePod
from cotenant.policy.nodeqos.eviction.goals import BestEffortMemoryTrigger
from cotenant.policy.nodeqos.eviction.memory import MemoryEvictionConfig
from cotenant.services.agent.actions.evictions import ApiEvictor
from cotenant.services.agent.agent_process import AgentProcess

# Every pod of best effort is a victim from the first tick on.
CONFIGURED = replace(
    CONFIG,
    groups=(WEB,),
    policies=PolicySettings(memory_eviction=MemoryEvictionConfig(BestEffortMemoryTrigger(10, 5), strict_order=True)),
)
UIDS = [f"u{number}" for number in range(4)]
BY_GROUP = tuple(
    NodePod(uid, "", uid, f"top/kubepods/besteffort/pod{uid}", QoSClass.BE, KubernetesQoS.BEST_EFFORT, is_named=False)
    for uid in UIDS
)
# The last one is a service in spite of its group.
DECLARED = [DeclaredPod(uid, "shop", f"pod-{uid}") for uid in UIDS[:-1]]
DECLARED.append(DeclaredPod(UIDS[-1], "shop", "service", labels=Labels.of({QOS_CLASS: "LS"})))
BY_API = join(BY_GROUP, DECLARED)


@dataclass
class Server:
    """An API server: what it was asked to evict, and whether it is there."""

    away: bool = False
    refuses: bool = False
    asked: list[str] = field(default_factory=list)
    evicted: list[str] = field(default_factory=list)

    async def evict(self, namespace: str, pod: str, uid: str = "", *, grace_s: int | None = None) -> None:
        self.asked.append(f"{namespace}/{pod}")
        if self.away:
            raise Transient("nobody answers")
        if self.refuses or not namespace:
            raise Permanent("the server could not find the requested resource")
        self.evicted.append(f"{namespace}/{pod}")


def begun() -> tuple[World, Server, AwaySource]:
    source, server = AwaySource(BY_GROUP), Server()
    w = World(CONFIGURED, sources={"cluster": source})
    for node_pod in BY_GROUP:
        w.appear(node_pod.group)
    w.evictions = ApiEvictor(server)  # type: ignore[assignment]
    return w, server, source


async def ticks(w: World, process: AgentProcess, count: int) -> None:
    """Some periods, with time for the evictions beside them."""
    for _ in range(count):
        await w.tick(process)
        await asyncio.sleep(0)


@pytest.mark.slow
@pytest.mark.parametrize("keeper_away", [False, True])
def test_nobody_is_evicted_before_the_pods_are_named_and_then_the_budget_is_whole(keeper_away: bool) -> None:
    w, server, source = begun()

    async def scenario(process: AgentProcess) -> None:
        w.keeper.away = keeper_away
        await ticks(w, process, 30)
        assert server.asked == []
        assert process.agent.counts().evictions_asked == 0
        explained = process.agent.explain(UIDS[0])
        assert explained is not None
        assert explained.leaves is None
        source.answer = BY_API
        await process.discover()
        await ticks(w, process, 10)
        assert sorted(server.evicted) == ["shop/pod-u0", "shop/pod-u1"]
        await ticks(w, process, 120)
        assert "shop/service" not in server.asked

    live(w, scenario)


@pytest.mark.slow
@pytest.mark.parametrize("keeper_away", [False, True])
@pytest.mark.parametrize("how", ["away", "refuses"])
def test_refusals_use_up_no_budget_and_are_bounded(how: str, keeper_away: bool) -> None:
    w, server, source = begun()
    source.answer = BY_API

    async def scenario(process: AgentProcess) -> None:
        w.keeper.away = keeper_away
        setattr(server, how, True)
        await ticks(w, process, 60)
        assert server.evicted == []
        assert 3 <= len(server.asked) <= 13
        await ticks(w, process, 600)
        assert len(server.asked) < 30  # each pod rests longer and longer
        server.away = server.refuses = False
        await ticks(w, process, 161)
        assert len(server.evicted) >= 2

    live(w, scenario)


def test_a_pod_that_is_not_named_is_not_asked_for_even_where_the_engine_is_wrong() -> None:
    w, server, _ = begun()

    async def scenario(process: AgentProcess) -> None:
        for key in ("/u0", "u0", "shop/"):
            accepted, said = await process.actor.evictor.evict(EvictPod("u0", key, Reason("test", "test")))
            assert (accepted, said) == (False, "no source has named the pod")
        assert server.asked == []

    live(w, scenario)

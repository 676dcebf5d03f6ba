"""Extenders as real HTTP servers beside a scheduler process: good ones, slow ones, dead ones, and liars."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.fakes.servers.fake_api import FakeApi
from tests.fakes.servers.fake_extender import FakeExtender, keeping, names

from cotenant.drivers.http.address import Address
from cotenant.drivers.kube.client.access import Access
from cotenant.drivers.kube.client.credentials import Credential, FixedCredential
from cotenant.engine.framework.backoff import Backoff
from cotenant.model.cluster.extender import Extender
from cotenant.policy.placement.profiles import profile
from cotenant.services.kube_process.leadership import Alone
from cotenant.services.scheduler.scheduler_process import SchedulerProcess
from cotenant.services.scheduling.options import Options

CARD = "example.com/card"


@asynccontextmanager
async def scheduling(api: FakeApi, *extenders: Extender) -> AsyncIterator[SchedulerProcess]:
    process = SchedulerProcess(
        Access(api.url, FixedCredential(Credential(""))),
        profile("first-fit"),
        Options(listen=Address("127.0.0.1", 0), binds_in_flight=4, extenders=extenders, backoff=Backoff(0.02, 0.1)),
        "one",
        lambda client: Alone(),
    )
    stop = asyncio.Event()
    running = asyncio.create_task(process.run(stop))
    try:
        yield process
    finally:
        stop.set()
        await running


def scenario(run: Callable[[FakeApi], Awaitable[None]]) -> None:
    async def main() -> None:
        async with FakeApi() as api:
            for name in ("a", "b", "c"):
                api.node(name)
            await run(api)

    asyncio.run(main())


def said(api: FakeApi, pod: str) -> str:
    return str((api.condition(pod, "PodScheduled") or {}).get("message", ""))


def test_filters_and_scores_of_two_extenders_decide() -> None:
    async def run(api: FakeApi) -> None:
        scores = lambda given: [{"Host": name, "Score": 9 if name == "c" else 1} for name in names(given)]  # noqa: E731
        async with (
            FakeExtender(filter=keeping("b", "c")) as one,
            FakeExtender(filter=keeping("a", "b", "c"), prioritize=scores) as two,
        ):
            first = Extender(one.url, filter_verb="filter", caches_nodes=True)
            second = Extender(two.url, filter_verb="filter", prioritize_verb="prioritize", weight=2)
            async with scheduling(api, first, second):
                api.pod("p")
                await api.until(lambda: api.bound() == {"p": "c"})
            (_, asked) = one.asked[0]
            assert asked["NodeNames"] == ["a", "b", "c"]
            assert asked["Pod"]["metadata"]["name"] == "p"
            (_, later) = two.asked[0]
            assert [item["metadata"]["name"] for item in later["Nodes"]["items"]] == ["b", "c"]
            assert later["Nodes"]["items"][0]["status"]["allocatable"]["cpu"]

    scenario(run)


def test_a_pod_that_an_extender_refuses_everywhere_has_its_reason() -> None:
    async def run(api: FakeApi) -> None:
        async with (
            FakeExtender(filter=keeping()) as server,
            scheduling(api, Extender(server.url, filter_verb="filter", caches_nodes=True)),
        ):
            api.pod("p")
            await api.until(lambda: "refused by an extender" in said(api, "p"))
            assert "3 node(s) were refused by an extender" in said(api, "p")
            assert "no card is free" in said(api, "p")
            server.verbs["filter"] = keeping("b")
            api.node("d")  # an event that may help: it is asked again
            await api.until(lambda: api.bound() == {"p": "b"})

    scenario(run)


def cards(api: FakeApi) -> None:
    """The nodes have cards, of which the extender knows more."""
    for name in ("a", "b", "c"):
        node = api.objects["nodes"][name]
        node["status"]["allocatable"] |= {"cpu": "64", CARD: "64"}
        api.put("nodes", node)


def asking(api: FakeApi, name: str) -> None:
    """A pod that the extender is asked about."""
    requests = {"cpu": "1", "memory": "64Mi", CARD: "1"}
    api.pod(name, containers=[{"name": "c", "resources": {"requests": requests}}])


LIES: dict[str, Any] = {
    "half a JSON": lambda given: b'{"NodeNames": ["a"',
    "no object": lambda given: b"[1]",
    "unknown node": lambda given: {"NodeNames": ["zzz"]},
    "its own error": lambda given: {"Error": "out of cards"},
    "ten megabytes": lambda given: b'{"NodeNames": ["a"], "FailedNodes": {"b": "' + b"x" * (10 << 20) + b'"}}',
    "deep": lambda given: b'{"NodeNames":' + b"[" * 100_000,
}
REASONS = {
    "half a JSON": "it answers no JSON",
    "no object": "it answers no object",
    "unknown node": "a node that it was not asked about",
    "its own error": "out of cards",
    "ten megabytes": "its answer is longer than",
    "deep": "it answers no JSON",
}


@pytest.mark.parametrize("lie", list(LIES))
def test_a_lie_is_the_reason_of_its_pods_and_stops_no_other(lie: str) -> None:
    async def run(api: FakeApi) -> None:
        async with FakeExtender(filter=LIES[lie]) as server:
            extender = Extender(server.url, filter_verb="filter", caches_nodes=True, managed=frozenset({CARD}))
            async with scheduling(api, extender):
                cards(api)
                asking(api, "asks")
                api.pod("other")
                await api.until(lambda: "other" in api.bound() and REASONS[lie] in said(api, "asks"))
                assert server.url in said(api, "asks")
                assert "asks" not in api.bound()
                server.verbs["filter"] = keeping("b")
                await api.until(lambda: api.bound().get("asks") == "b")  # it is tried again

    scenario(run)


@pytest.mark.slow
def test_a_silent_extender_stops_no_other_pod_and_is_given_up() -> None:
    async def run(api: FakeApi) -> None:
        async with FakeExtender(filter=keeping("b")) as server:
            server.holds = asyncio.Event()
            extender = Extender(
                server.url, filter_verb="filter", caches_nodes=True, managed=frozenset({CARD}), timeout_s=0.2
            )
            async with scheduling(api, extender):
                cards(api)
                for i in range(20):
                    asking(api, f"asks-{i}")
                asking(api, "asks")
                api.pod("other")
                await api.until(lambda: "other" in api.bound())
                await api.until(lambda: "no answer within 0.2 s" in said(api, "asks"))
                server.holds.set()
                await api.until(lambda: api.bound().get("asks") == "b")

    scenario(run)


@pytest.mark.parametrize("ignorable", [True, False])
def test_a_dead_extender_is_ignored_only_where_it_may_be(ignorable: bool) -> None:
    async def run(api: FakeApi) -> None:
        extender = Extender("http://127.0.0.1:1", filter_verb="filter", caches_nodes=True, is_ignorable=ignorable)
        async with scheduling(api, extender):
            api.pod("p")
            if ignorable:
                await api.until(lambda: api.bound() == {"p": "a"})
            else:
                await api.until(lambda: "extender http://127.0.0.1:1: filter: " in said(api, "p"))
                assert not api.bound()

    scenario(run)


@pytest.mark.parametrize(
    "scores",
    [
        lambda given: [{"Host": "b", "Score": 11}],
        lambda given: [{"Host": "b", "Score": -1}],
        lambda given: [{"Host": "zzz", "Score": 5}],
        lambda given: [{"Host": "b", "Score": "5"}],
        lambda given: b"nothing",
    ],
)
def test_scores_that_are_none_are_left_out(scores: Any) -> None:
    async def run(api: FakeApi) -> None:
        async with (
            FakeExtender(prioritize=scores) as server,
            scheduling(api, Extender(server.url, prioritize_verb="prioritize", weight=1, caches_nodes=True)),
        ):
            api.pod("p")
            await api.until(lambda: api.bound() == {"p": "a"})

    scenario(run)


def test_an_extender_binds_in_our_place() -> None:
    async def run(api: FakeApi) -> None:
        bound: list[dict[str, Any]] = []

        def bind(given: dict[str, Any]) -> dict[str, Any]:
            bound.append(given)
            pod = api.objects["pods"][f"{given['PodNamespace']}/{given['PodName']}"]
            pod["spec"]["nodeName"] = given["Node"]
            api.put("pods", pod)
            return {"Error": ""}

        async with FakeExtender(bind=bind) as server, scheduling(api, Extender(server.url, bind_verb="bind")):
            api.pod("p")
            await api.until(lambda: len(bound) == 1 and bool(api.events("Scheduled")))
            assert (bound[0]["PodName"], bound[0]["Node"]) == ("p", "a")
            assert not api.binds

    scenario(run)


def test_an_extender_that_does_not_bind_is_said() -> None:
    async def run(api: FakeApi) -> None:
        async with (
            FakeExtender(bind=lambda given: {"Error": "not today"}) as server,
            scheduling(api, Extender(server.url, bind_verb="bind")),
        ):
            api.pod("p")
            await api.until(lambda: any("not today" in str(event) for event in api.events("FailedScheduling")))

    scenario(run)


def test_victims_are_those_that_extenders_agree_to() -> None:
    async def run(api: FakeApi) -> None:
        asked: list[str] = []

        def preempt(given: dict[str, Any]) -> dict[str, Any]:
            ((node, victims),) = given["NodeNameToMetaVictims"].items()
            asked.append(node)
            return {"NodeNameToMetaVictims": {node: victims} if node == "b" else {}}

        async with (
            FakeExtender(preempt=preempt) as server,
            scheduling(api, Extender(server.url, preempt_verb="preempt", caches_nodes=True)),
        ):
            for i in range(3):
                api.pod(f"low-{i}", "4", priority=0)
            await api.until(lambda: len(api.bound()) == 3)
            there = {node: pod for pod, node in api.bound().items()}
            api.pod("high", "4", priority=10)
            await api.until(lambda: api.bound().get("high") == "b")
            assert asked[-1] == "b"
            assert f"default/{there['b']}" not in api.objects["pods"]
            assert all(f"default/{there[node]}" in api.objects["pods"] for node in ("a", "c"))

    scenario(run)

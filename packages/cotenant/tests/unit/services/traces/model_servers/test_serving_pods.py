"""Replicas found by the labels of pods: when one is read, from where, and when no more."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import permutations
from pathlib import Path

import pytest
from tests.fakes.servers.model_servers import page

from cotenant.drivers.kube.kinds.parts import ObjectMeta
from cotenant.drivers.kube.kinds.pod.serving import (
    PodReadiness,
    ServingPod,
    ServingPodObject,
    ServingPodSpec,
    ServingPodStatus,
    read_serving_pod,
)
from cotenant.drivers.modelserver.access import ScrapeAccess
from cotenant.drivers.modelserver.exposition import read_exposition
from cotenant.engine.traces.objectives import TrackedObjectives
from cotenant.engine.traces.operations import Operations
from cotenant.model.errors import InvalidInput
from cotenant.model.traces.model_server import ModelGoal, ModelMeasure, ModelServerReading
from cotenant.model.traces.objective import Indicator, ServiceObjective
from cotenant.services.traces.model_servers.reading_servers import ModelServers
from cotenant.services.traces.model_servers.server_file import (
    MAX_SERVERS,
    ModelServer,
    ModelServerFile,
    ServingPods,
    read_model_servers,
)
from cotenant.services.traces.model_servers.serving_pods import FoundServers
from cotenant.services.traces.traces_arguments import TraceSettings, check

LLM = ServingPods("shop/llm", {"app": "llm"}, 8000)
POD = ServingPod("uid-0", "shop", "llm-0", {"app": "llm", "tier": "gpu"}, "n1", "10.0.0.1", True, False)
FOUND = ModelServer("shop/llm", "http://10.0.0.1:8000/metrics", "llm-0", "n1")


class Follower:
    """What is to be read, at each change."""

    def __init__(self, file: ModelServerFile) -> None:
        self.told: list[tuple[ModelServer, ...]] = []
        self.found = FoundServers(file, self.follow)

    def follow(self, servers: Sequence[ModelServer]) -> None:
        self.told.append(tuple(servers))

    @property
    def counts(self) -> dict[str, float]:
        (family,) = self.found.collect()
        return {sample.labels["read"]: sample.value for sample in family.samples}


def test_a_pod_is_read_from_when_it_is_ready_until_it_is_gone() -> None:
    follower = Follower(ModelServerFile(pods=(LLM,)))
    follower.found.seen(replace(POD, is_ready=False))
    assert follower.told == []
    follower.found.seen(POD)
    follower.found.seen(replace(POD, is_ready=False))  # overloaded: its figures matter now
    assert follower.told == [(FOUND,)]
    follower.found.gone("shop/llm-0")
    assert follower.told[1:] == [()]


@pytest.mark.parametrize(
    "changed",
    [
        {"ended": True},
        {"address": ""},
        {"labels": {"app": "other"}},
        {"uid": "uid-1", "is_ready": False},  # a StatefulSet's next pod of this name
    ],
)
def test_what_serves_no_more_is_not_read(changed: dict[str, object]) -> None:
    follower = Follower(ModelServerFile(pods=(LLM,)))
    follower.found.seen(POD)
    follower.found.seen(replace(POD, **changed))
    assert follower.told[-1] == ()


@pytest.mark.parametrize("changed", [{"labels": {"tier": "gpu"}}, {"namespace": "other"}, {"ended": True}])
def test_what_is_not_selected_is_not_read(changed: dict[str, object]) -> None:
    follower = Follower(ModelServerFile(pods=(LLM,)))
    follower.found.seen(replace(POD, **changed))
    assert follower.told == []


def test_named_servers_stay_and_a_pod_at_a_named_address_is_the_named_one() -> None:
    named = ModelServer("shop/llm", FOUND.url, "by-hand")
    follower = Follower(ModelServerFile((named,), (LLM, replace_pods(LLM, service="shop/chat", port=9000))))
    follower.found.seen(POD)
    chat = ModelServer("shop/chat", "http://10.0.0.1:9000/metrics", "llm-0", "n1")
    assert follower.told == [(named, chat)]
    follower.found.gone("shop/llm-0")
    assert follower.told[-1] == (named,)


def replace_pods(pods: ServingPods, *, service: str, port: int) -> ServingPods:
    return ServingPods(service, pods.labels, port)


def test_an_address_of_ipv6_is_put_in_brackets() -> None:
    follower = Follower(ModelServerFile(pods=(LLM,)))
    follower.found.seen(replace(POD, address="fd00::1"))
    assert follower.told[-1][0].url == "http://[fd00::1]:8000/metrics"


def test_too_many_are_counted_and_take_the_place_of_those_that_go() -> None:
    follower = Follower(ModelServerFile(pods=(LLM,)))
    for i in range(MAX_SERVERS + 1):
        follower.found.seen(replace(POD, uid=f"u{i}", name=f"llm-{i:03}", address=f"10.1.{i // 250}.{i % 250}"))
    assert (len(follower.told[-1]), follower.counts) == (MAX_SERVERS, {"True": 500.0, "False": 1.0})
    follower.found.gone("shop/llm-000")
    assert follower.told[-1][-1].pod == "llm-500"
    assert follower.counts == {"True": 500.0, "False": 0.0}


CHAT = ServingPods("shop/chat", {"app": "chat"}, 8000)
BANK = ServingPods("bank/llm", {"app": "llm"}, 8000)


def fill(follower: Follower, pods: ServingPods, count: int, subnet: int) -> None:
    for i in range(count):
        address = f"10.{subnet}.{i // 250}.{i % 250}"
        pod = replace(POD, uid=f"{subnet}-{i}", namespace=pods.namespace, name=f"{pods.labels['app']}-{i:04}")
        follower.found.seen(replace(pod, labels=pods.labels, address=address))


def read_of(follower: Follower) -> dict[str, int]:
    return dict(Counter(server.service for server in follower.told[-1]))


@pytest.mark.parametrize(
    ("counts", "read"),
    [
        # each namespace takes its half, and what one does not need is the other's
        ((600, 0, 600), {"bank/llm": 250, "shop/llm": 250}),
        ((600, 0, 20), {"bank/llm": 20, "shop/llm": 480}),
        ((20, 0, 600), {"bank/llm": 480, "shop/llm": 20}),
        ((600, 600, 600), {"bank/llm": 250, "shop/chat": 125, "shop/llm": 125}),
        ((600, 3, 0), {"shop/chat": 3, "shop/llm": 497}),
        ((200, 100, 200), {"bank/llm": 200, "shop/chat": 100, "shop/llm": 200}),
    ],
)
@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_the_pods_of_one_namespace_or_service_crowd_out_no_others(
    counts: tuple[int, int, int], read: dict[str, int], order: tuple[int, ...]
) -> None:
    follower = Follower(ModelServerFile(pods=(LLM, CHAT, BANK)))
    for number in order:  # whoever comes first
        fill(follower, (LLM, CHAT, BANK)[number], counts[number], number)
    assert read_of(follower) == read
    assert follower.counts == {"True": MAX_SERVERS, "False": sum(counts) - MAX_SERVERS}
    firsts = {server.pod for server in follower.told[-1] if server.service == "shop/llm"}
    assert firsts == {f"llm-{i:04}" for i in range(read.get("shop/llm", 0))}


def test_servers_that_are_named_by_address_come_before_all_pods() -> None:
    named = tuple(ModelServer("shop/llm", f"http://10.9.0.{i}:8000/metrics") for i in range(3))
    follower = Follower(ModelServerFile(named, (LLM, BANK)))
    fill(follower, LLM, MAX_SERVERS, 1)
    fill(follower, BANK, MAX_SERVERS, 2)
    assert follower.told[-1][:3] == named
    assert read_of(follower) == {"shop/llm": 3 + 248, "bank/llm": 249}
    assert follower.counts == {"True": 500.0, "False": 503.0}


def test_two_services_at_one_address_are_one_server_and_the_other_takes_it_over() -> None:
    other = ServingPods("shop/other", {"tier": "gpu"}, 8000)
    follower = Follower(ModelServerFile(pods=(LLM, other, other)))
    follower.found.seen(POD)
    assert (follower.told[-1], follower.counts) == ((FOUND,), {"True": 1.0, "False": 0.0})
    follower.found.seen(replace(POD, labels={"tier": "gpu"}))
    assert [server.service for server in follower.told[-1]] == ["shop/other"]
    assert follower.counts == {"True": 1.0, "False": 0.0}


def test_a_pod_that_only_changes_otherwise_is_read_on() -> None:
    follower = Follower(ModelServerFile(pods=(LLM,)))
    for labels in ({"app": "llm"}, {"app": "llm", "tier": "cpu"}, {"app": "llm"}):
        follower.found.seen(replace(POD, labels=labels))
    assert follower.told == [(FOUND,)]


def test_the_next_pod_of_a_name_that_serves_nothing_ends_the_reading() -> None:
    follower = Follower(ModelServerFile(pods=(LLM,)))
    follower.found.seen(POD)
    follower.found.seen(replace(POD, uid="uid-1", labels={"app": "other"}))
    assert follower.told[-1] == ()
    assert follower.counts == {"True": 0.0, "False": 0.0}


def test_a_pod_as_the_api_server_shows_it() -> None:
    status = ServingPodStatus(
        phase="Running", pod_ip="10.0.0.1", conditions=(PodReadiness(type="Ready", status="True"),)
    )
    meta = ObjectMeta(name="llm-0", namespace="shop", uid="uid-0", labels={"app": "llm", "tier": "gpu"})
    obj = ServingPodObject(metadata=meta, spec=ServingPodSpec(node_name="n1"), status=status)
    assert read_serving_pod(obj) == POD
    assert read_serving_pod(ServingPodObject(metadata=meta)) == replace(POD, node="", address="", is_ready=False)
    assert read_serving_pod(ServingPodObject(metadata=meta, status=ServingPodStatus(phase="Failed"))).ended


class World:
    """Readings that a test sets, while servers come and go."""

    def __init__(self) -> None:
        self.now_s, self.shown = 1_800_000_000.0, vllm()
        goal = ModelGoal({ModelMeasure.TIME_TO_FIRST_TOKEN: 500_000})
        self.objectives = TrackedObjectives(Operations())
        self.objectives.set(
            ServiceObjective("shop/llm", "shop", "llm", "", Indicator.MODEL_SERVER, 500_000, goal, budget_ppm=50_000),
            self.now_s,
        )
        self.asked: list[str] = []
        self.turn = asyncio.Event()
        self.servers = ModelServers((), self.read, self.objectives, lambda: self.now_s, self.sleep)

    async def read(self, url: str, access: ScrapeAccess) -> ModelServerReading:
        self.asked.append(url)
        return read_exposition(self.shown)

    async def sleep(self, wait_s: float) -> None:
        await self.turn.wait()

    async def next(self) -> None:
        """Every server that is followed is read once more."""
        turn, self.turn = self.turn, asyncio.Event()
        self.now_s += 2.0
        turn.set()
        for _ in range(20):
            await asyncio.sleep(0)

    @property
    def requests(self) -> int:
        tracked = self.objectives.get("shop/llm")
        assert tracked is not None
        return tracked.requests


def vllm(*seconds: float) -> str:
    return page("vllm-0.11", {"timeToFirstToken": seconds})


def test_servers_come_and_go_while_others_are_read_on() -> None:
    async def scenario() -> None:
        world = World()
        running = asyncio.create_task(world.servers.run())
        await world.next()
        assert world.asked == []
        second = ModelServer("shop/llm", "http://10.0.0.2:8000/metrics", "llm-1", "n2")
        world.servers.follow((FOUND, second))
        await world.next()
        world.shown = vllm(0.1)
        await world.next()
        assert world.requests == 2  # one of each
        world.asked.clear()
        world.servers.follow((FOUND,))
        world.shown = vllm(0.1, 0.1)
        await world.next()
        assert (world.asked, world.requests) == ([FOUND.url], 3)
        heir = ModelServer("shop/llm", FOUND.url, "llm-9", "n3")  # another pod has the address now
        world.servers.follow((heir,))
        await world.next()
        assert world.requests == 3  # what it shows first is where counting begins
        world.shown = vllm(0.1, 0.1, 0.1)
        await world.next()
        assert world.requests == 4
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("pods: [{service: shop/llm, labels: {}, port: 8000}]", "at least one label"),
        ("pods: [{service: llm, labels: {app: llm}, port: 8000}]", "NAMESPACE/NAME"),
        ("pods: [{service: shop/llm, labels: {app: llm}, port: 0}]", "1 to 65535"),
        ("pods: [{service: shop/llm, labels: {app: llm}, port: 8000, path: metrics}]", "a path such as /metrics"),
        ("pods: [{service: shop/llm, labels: {app: llm}, port: 8000, scheme: ftp}]", "scheme"),
        ("pods: [{service: shop/llm, labels: [app], port: 8000}]", "labels"),
        ("pods: [{service: shop/llm, labels: {app: llm}}]", "port"),
    ],
)
def test_pods_that_cannot_be_found_are_refused(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "servers.yaml"
    file.write_text(text)
    with pytest.raises(InvalidInput, match=said):
        read_model_servers(file)


def test_how_a_pod_is_reached_is_that_of_its_entry(tmp_path: Path) -> None:
    token, file = tmp_path / "token", tmp_path / "servers.yaml"
    token.write_text("secret")
    more = f"scheme: https, tokenFile: {token}, serverName: llm.shop.svc"
    file.write_text(f"pods: [{{service: shop/llm, labels: {{app: llm}}, port: 8000, {more}}}]")
    server = read_model_servers(file).pods[0].server("fd00::1", "llm-0", "n")
    assert (server.url, server.access) == (
        "https://[fd00::1]:8000/metrics",
        ScrapeAccess(token_file=token, server_name="llm.shop.svc"),
    )


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("tokenFile: TOKEN", "tokenFile: .*with https only; without TLS anybody on the way could read a token"),
        ("caFile: TOKEN", "caFile: .*with https only"),
        ("scheme: https, caFile: TOKEN", "--model-servers: caFile: .*certificates as PEM"),
        ("scheme: https, tokenFile: /nowhere", "--model-servers: tokenFile: /nowhere"),
    ],
)
def test_access_that_has_no_effect_or_gives_a_token_away_is_refused(tmp_path: Path, more: str, said: str) -> None:
    token, file = tmp_path / "token", tmp_path / "servers.yaml"
    token.write_text("secret")
    more = more.replace("TOKEN", str(token))
    file.write_text(f"pods: [{{service: shop/llm, labels: {{app: llm}}, port: 8000, {more}}}]")
    with pytest.raises(InvalidInput, match=said):
        read_model_servers(file)
    url = "https://h/metrics" if "scheme" in more else "http://h/metrics"
    file.write_text(f"servers: [{{service: shop/llm, url: '{url}', {more.removeprefix('scheme: https, ')}}}]")
    with pytest.raises(InvalidInput, match=said):
        read_model_servers(file)


def test_pods_are_of_a_cluster(tmp_path: Path) -> None:
    file = tmp_path / "servers.yaml"
    file.write_text("pods: [{service: shop/llm, labels: {app: llm}, port: 8000}]")
    with pytest.raises(InvalidInput, match="--cluster or --kubeconfig beside it"):
        check(TraceSettings(model_servers=file))
    checked = check(TraceSettings(model_servers=file, cluster=True))
    assert checked.model_servers == ModelServerFile(pods=(LLM,))

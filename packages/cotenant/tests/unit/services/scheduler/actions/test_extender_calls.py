"""Calls to extenders: who is asked about what, what their answers change, and what their failures do."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cotenant.drivers.kube.client.errors import NotFound
from cotenant.engine.framework.instructions import Bind, Preempt, Victim
from cotenant.engine.plugins.extenders.question import AskExtenders, ExtenderAnswer
from cotenant.model.cluster.demands import NO_HOLDINGS, Holdings
from cotenant.model.cluster.extender import Extender
from cotenant.model.cluster.node import Node
from cotenant.model.decisions.record import DecisionRecord
from cotenant.model.devices.allocation import DeviceAllocation
from cotenant.model.devices.device import DeviceType
from cotenant.model.errors import Permanent, Transient
from cotenant.model.resources import Amounts
from cotenant.services.scheduler.actions import extenders as module
from cotenant.services.scheduler.actions.extenders import ExtenderCalls, NoAnswer

NODES = ("a", "b", "c")
FILTER = Extender("http://f", filter_verb="filter", caches_nodes=True)
Answer = Callable[[dict[str, Any]], Any]


class World:
    """Extenders answer by what `answers` has for their URL and verb; everything that is told is kept."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *extenders: Extender, **answers: Any) -> None:
        self.answers = answers  # by verb: what is answered, an error, or a function of what was sent
        self.sent: list[tuple[str, str, dict[str, Any]]] = []
        self.told: list[tuple[Any, ...]] = []
        self.pods: dict[str, str] = {"shop/web": "u-web", "shop/low": "u-low"}  # UID by key
        self.changes = 0
        self.observed: list[tuple[str, ...]] = []
        self.interested: tuple[int, ...] = tuple(range(len(extenders)))
        self.gang = False
        world = self

        class Called:
            def __init__(self, extender: Extender) -> None:
                self.url = extender.url

            async def call(self, verb: str, body: bytes) -> bytes:
                sent = json.loads(body)
                world.sent.append((self.url, verb, sent))
                found = world.answers[verb]
                if callable(found):
                    found = found(sent)
                if isinstance(found, Exception):
                    raise found
                return json.dumps(found).encode()

            async def close(self) -> None:
                world.told.append(("closed", self.url))

        monkeypatch.setattr(module, "ExtenderClient", Called)
        plugin = SimpleNamespace(
            extenders=extenders,
            is_in_gang=lambda uid: self.gang,
            interested=lambda uid: self.interested,
            answered=lambda *said: self.told.append(("answered", *said)),
            failed=lambda *said: self.told.append(("failed", *said)),
            spared=lambda *said: self.told.append(("spared", *said)),
        )
        metrics = SimpleNamespace(
            extender_duration=SimpleNamespace(labels=self._labels),
            loop_errors=SimpleNamespace(inc=lambda: self.told.append(("defect",))),
        )
        nodes = {name: Node(name, Amounts.of({"cpu": 1000, "memory": 1 << 30})) for name in ("a", "b")}
        self.calls = ExtenderCalls(
            cast(Any, self), cast(Any, plugin), cast(Any, metrics), lambda: 7.0, self._changed, nodes.get
        )

    def _labels(self, *labels: str) -> Any:
        self.observed.append(labels)
        return SimpleNamespace(observe=lambda seconds: None)

    def _changed(self) -> None:
        self.changes += 1

    async def request(self, method: str, path: str) -> bytes:
        """The client's: a pod."""
        namespace, _, name = path.removeprefix("/api/v1/namespaces/").partition("/pods/")
        uid = self.pods.get(f"{namespace}/{name}")
        if method != "GET" or uid is None:
            raise NotFound(path)
        return json.dumps({"metadata": {"uid": uid, "name": name}}).encode()

    async def all_of(self, kind: Any, fields: str) -> list[Any]:
        """The client's: pods of a node."""
        assert (kind.plural, fields) == ("pods", "spec.nodeName=a")
        return [
            SimpleNamespace(
                metadata=SimpleNamespace(uid=uid, namespace=key.partition("/")[0], name=key.partition("/")[2])
            )
            for key, uid in self.pods.items()
        ]


def run(work: Callable[[], Awaitable[Any]]) -> Any:
    async def play() -> Any:
        return await work()

    return asyncio.run(play())


def asked(world: World, *whom: int, nodes: tuple[str, ...] = NODES, uid: str = "u-web") -> tuple[Any, ...]:
    """What the engine was told of one question."""

    async def play() -> None:
        world.calls.ask(AskExtenders(uid, "shop/web", 5, nodes, whom))
        while world.calls._tasks:
            await asyncio.sleep(0)

    asyncio.run(play())
    assert world.changes == 1
    (told,) = world.told
    return told


def answer(world: World, *whom: int, nodes: tuple[str, ...] = NODES) -> ExtenderAnswer:
    what, uid, number, found, now_s = asked(world, *whom, nodes=nodes)
    assert (what, uid, number, now_s) == ("answered", "u-web", 5, 7.0)
    assert isinstance(found, ExtenderAnswer)
    return found


# ---- filters and scores


def test_each_filter_is_asked_about_what_the_one_before_left(monkeypatch: pytest.MonkeyPatch) -> None:
    def without(node: str) -> Answer:
        return lambda sent: {
            "NodeNames": [name for name in sent["NodeNames"] if name != node],
            "FailedNodes": {node: f"not {node}"},
        }

    second = Extender("http://g", filter_verb="second", caches_nodes=True)
    world = World(monkeypatch, FILTER, second, filter=without("a"), second=without("b"))
    found = answer(world, 0, 1)
    assert (found.nodes, found.points) == (frozenset("c"), {})
    assert found.refused == {"a": "not a", "b": "not b"}
    assert [(url, sent["NodeNames"]) for url, _, sent in world.sent] == [
        ("http://f", ["a", "b", "c"]),
        ("http://g", ["b", "c"]),
    ]
    assert world.sent[0][2]["Pod"]["metadata"]["uid"] == "u-web"
    assert world.observed == [("http://f", "filter", "answered"), ("http://g", "second", "answered")]


def test_where_nothing_is_left_nobody_else_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, FILTER, FILTER, filter={"NodeNames": []})
    assert answer(world, 0, 1).nodes == frozenset()
    assert len(world.sent) == 1


def test_only_those_that_are_named_are_asked_and_only_for_what_they_do(monkeypatch: pytest.MonkeyPatch) -> None:
    silent = Extender("http://s")
    world = World(monkeypatch, FILTER, silent)
    assert answer(world, 1).nodes == frozenset(NODES)
    assert world.sent == []


def test_one_that_keeps_no_nodes_is_sent_those_that_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, Extender("http://f", filter_verb="filter"), filter={"NodeNames": ["a"]})
    assert answer(world, 0).nodes == frozenset("a")
    sent = world.sent[0][2]
    assert sent["NodeNames"] is None
    assert [item["metadata"]["name"] for item in sent["Nodes"]["items"]] == ["a", "b"]


@pytest.mark.parametrize("is_ignorable", [False, True])
@pytest.mark.parametrize("said", [Transient("timed out"), {"Error": "broken"}, {"NodeNames": ["elsewhere"]}])
def test_a_filter_that_fails_leaves_all_nodes_only_where_it_may_be_ignored(
    monkeypatch: pytest.MonkeyPatch, said: Any, is_ignorable: bool
) -> None:
    extender = Extender("http://f", filter_verb="filter", caches_nodes=True, is_ignorable=is_ignorable)
    world = World(monkeypatch, extender, filter=said)
    told = asked(world, 0)
    if is_ignorable:
        assert (told[0], told[3].nodes, told[3].refused) == ("answered", frozenset(NODES), {})
    else:
        assert told[:3] == ("failed", "u-web", 5)
        assert told[3].startswith("extender http://f: ")
    result = "answered" if isinstance(said, dict) else "ignored" if is_ignorable else "failed"
    assert world.observed == [("http://f", "filter", result)]


def scorer(name: str, weight: int) -> Extender:
    return Extender(f"http://{name}", prioritize_verb=name, weight=weight, caches_nodes=True)


def test_scores_are_weighed_and_added(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(
        monkeypatch,
        scorer("one", 2),
        scorer("two", 1),
        one=[{"Host": "a", "Score": 10}, {"Host": "b", "Score": 1}],
        two=[{"Host": "a", "Score": 3}],
    )
    assert answer(world, 0, 1).points == {"a": 200.0 + 30.0, "b": 20.0}  # an extender's 0 to 10 is 0 to 100


def test_a_single_node_is_not_scored_and_scores_that_fail_add_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, scorer("one", 1), one=[{"Host": "a", "Score": 5}])
    assert answer(world, 0, nodes=("a",)).points == {}
    assert world.sent == []
    world = World(
        monkeypatch, scorer("one", 1), scorer("two", 1), one=Transient("away"), two=[{"Host": "b", "Score": 1}]
    )
    assert answer(world, 0, 1).points == {"b": 10.0}


def test_a_pod_that_is_gone_or_replaced_is_asked_about_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, FILTER, filter={"NodeNames": []})
    assert asked(world, 0, uid="u-before")[3] == "another pod has its name"
    world = World(monkeypatch, FILTER, filter={"NodeNames": []})
    world.pods.clear()
    assert asked(world, 0)[3] == "the pod is gone"


def test_a_defect_with_one_pod_does_not_leave_it_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, FILTER, filter=lambda sent: 1 // 0)

    async def play() -> None:
        world.calls.ask(AskExtenders("u-web", "shop/web", 5, NODES, (0,)))
        while world.calls._tasks:
            await asyncio.sleep(0)

    asyncio.run(play())
    assert world.told == [("defect",), ("failed", "u-web", 5, "extenders: unforeseen error", 7.0)]
    assert world.changes == 1


def test_what_is_under_way_ends_with_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, FILTER, filter={"NodeNames": []})

    async def play() -> None:
        world.calls.ask(AskExtenders("u-web", "shop/web", 5, NODES, (0,)))
        world.calls.stop()
        while world.calls._tasks:
            await asyncio.sleep(0)
        await world.calls.close()

    asyncio.run(play())
    assert ("closed", "http://f") in world.told
    assert not any(told[0] in ("answered", "failed") for told in world.told)


# ---- victims


PREEMPT = Preempt("u-web", "shop/web", "a", (Victim("u-low", "shop/low", "a"),), 2)


def preempting(**more: Any) -> Extender:
    return Extender("http://p", preempt_verb="preempt", **more)


def proposed(*uids: str) -> dict[str, Any]:
    return {"NodeNameToMetaVictims": {"a": {"Pods": [{"UID": uid} for uid in uids]}}}


def test_victims_on_which_all_agree_stay_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, preempting(caches_nodes=True), preempting(), FILTER, preempt=proposed("u-low"))
    assert run(lambda: world.calls.agreed(PREEMPT)) == PREEMPT
    by_uid, as_pods = (sent for _, _, sent in world.sent)
    assert by_uid["NodeNameToMetaVictims"]["a"] == {"Pods": [{"UID": "u-low"}], "NumPDBViolations": 2}
    assert as_pods["NodeNameToVictims"]["a"]["Pods"][0]["metadata"]["uid"] == "u-low"
    assert world.told == []


def test_further_victims_are_those_that_are_on_the_node(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, preempting(caches_nodes=True), preempt=proposed("u-low", "u-more", "u-nowhere"))
    world.pods["ops/more"] = "u-more"
    found = run(lambda: world.calls.agreed(PREEMPT))
    assert found.victims == (*PREEMPT.victims, Victim("u-more", "ops/more", "a"))


@pytest.mark.parametrize("said", [proposed(), proposed("u-other"), {"NodeNameToMetaVictims": {}}, Transient("away")])
def test_where_one_spares_them_room_is_made_elsewhere(monkeypatch: pytest.MonkeyPatch, said: Any) -> None:
    world = World(monkeypatch, preempting(caches_nodes=True), preempt=said)
    assert run(lambda: world.calls.agreed(PREEMPT)) is None
    assert world.told == [("spared", "u-web", "a", 7.0)]


def test_one_that_fails_and_may_be_ignored_has_no_say(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, preempting(is_ignorable=True), preempt=Transient("away"))
    assert run(lambda: world.calls.agreed(PREEMPT)) == PREEMPT
    assert world.told == []


def test_nobody_is_asked_about_a_gang_or_about_no_victims(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, preempting(), preempt=proposed())
    alone = Preempt("u-web", "shop/web", "a", ())
    assert run(lambda: world.calls.agreed(alone)) is alone
    world.gang = True
    assert run(lambda: world.calls.agreed(PREEMPT)) is PREEMPT
    world.gang, world.interested = False, ()
    assert run(lambda: world.calls.agreed(PREEMPT)) is PREEMPT
    assert world.sent == []


# ---- binds


def bind(holds: Holdings = NO_HOLDINGS) -> Bind:
    record = DecisionRecord("shop/web", 0.0, 1, "a")
    return Bind("u-web", "shop/web", "a", record, (), 0.0, 1, holds, (), (), 1)


BINDER = Extender("http://b", bind_verb="bind")


def bound(world: World, what: Bind | None = None) -> None:
    binder = world.calls.binder("u-web")
    assert binder is not None
    run(lambda: binder(what or bind()))


def test_the_first_that_binds_is_asked_in_our_place(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, FILTER, BINDER, bind={})
    bound(world)
    assert world.sent == [
        ("http://b", "bind", {"PodName": "web", "PodNamespace": "shop", "PodUID": "u-web", "Node": "a"})
    ]
    world.interested = (0,)
    assert world.calls.binder("u-web") is None


@pytest.mark.parametrize(
    ("said", "kind", "text"),
    [
        (Transient("timed out"), NoAnswer, "extender http://b: timed out"),
        (Permanent("no such verb"), Permanent, "extender http://b: no such verb"),
        ({"Error": "the node is full"}, Permanent, "the node is full"),
    ],
)
def test_a_bind_that_failed_and_one_of_which_nothing_is_known_are_two_things(
    monkeypatch: pytest.MonkeyPatch, said: Any, kind: type[Exception], text: str
) -> None:
    world = World(monkeypatch, BINDER, bind=said)
    with pytest.raises(kind) as refused:
        bound(world)
    assert (type(refused.value), str(refused.value)) == (kind, text)


def test_what_a_pod_was_given_is_not_left_to_one_that_does_not_write_it(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, BINDER, bind={})
    holds = Holdings(devices=(DeviceAllocation(DeviceType.GPU, 0, Amounts.of({})),))
    with pytest.raises(Permanent, match="does not write which CPUs or devices it was given"):
        bound(world, bind(holds))
    assert world.sent == []

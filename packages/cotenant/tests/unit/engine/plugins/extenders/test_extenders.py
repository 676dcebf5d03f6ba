"""Extenders in the engine: who is asked, late and lost answers, turns, gangs, victims."""

from __future__ import annotations

import numpy as np

from cotenant.engine.cluster import Cluster
from cotenant.engine.framework.instructions import Bind, Preempt, Unschedulable
from cotenant.engine.plugins.extenders import plugin as module
from cotenant.engine.plugins.extenders.plugin import Extenders
from cotenant.engine.plugins.extenders.question import AskExtenders, ExtenderAnswer
from cotenant.engine.registry import PluginRegistry
from cotenant.model.cluster.demands import Demands
from cotenant.model.cluster.extender import Extender
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.observed import ObservedPod
from cotenant.model.cluster.pod import Pod
from cotenant.model.groups.gang import GangNotes
from cotenant.model.resources import Amounts
from cotenant.policy.placement.profiles import profile

FILTER = Extender("http://e", filter_verb="filter", timeout_s=1.0)


class World:
    def __init__(self, *extenders: Extender) -> None:
        self.plugin = Extenders(extenders or (FILTER,))
        self.cluster = Cluster(
            profile("first-fit"), np.random.default_rng(0), plugins=PluginRegistry(extenders=self.plugin)
        )
        for name in ("a", "b"):
            self.node(name)

    def node(self, name: str) -> None:
        size = Amounts.of({"cpu": 4_000, "memory": 16 << 30, "pods": 300})
        self.cluster.node_seen(Node(name, size))

    def pod(self, name: str, cpu: int = 1_000, priority: int = 0, demands: Demands | None = None) -> None:
        pod = Pod(name, requests=Amounts.of({"cpu": cpu, "memory": 1 << 20}), priority=priority)
        self.cluster.pod_seen(ObservedPod(pod, name, "cotenant", 0.0, demands=demands or Demands()), 0.0)

    def asked(self, now_s: float) -> list[AskExtenders]:
        return [entry for entry in self.cluster.decide(now_s) if isinstance(entry, AskExtenders)]

    def bound(self, now_s: float) -> dict[str, str]:
        return {entry.uid: entry.node for entry in self.cluster.decide(now_s) if isinstance(entry, Bind)}


def test_a_pod_is_set_aside_untold_and_judged_by_its_answer() -> None:
    world = World()
    world.pod("p")
    (question, *rest) = world.cluster.decide(1.0)
    assert isinstance(question, AskExtenders)
    assert rest == []  # its owner is not told
    assert question.nodes == ("a", "b")
    assert world.cluster.decide(2.0) == ()
    assert world.plugin.answered("p", question.number, ExtenderAnswer(frozenset({"b"})), 2.0)
    assert world.bound(2.0) == {"p": "b"}
    world.cluster.validate()


def test_a_late_answer_is_none() -> None:
    world = World()
    world.pod("p")
    (first,) = world.asked(1.0)
    world.node("c")
    assert not world.plugin.answered("p", first.number + 1, ExtenderAnswer(frozenset({"a"})), 2.0)
    assert not world.plugin.answered("another", first.number, ExtenderAnswer(frozenset({"a"})), 2.0)
    assert world.plugin.answered("p", first.number, ExtenderAnswer(frozenset({"a"})), 2.0)
    assert not world.plugin.answered("p", first.number, ExtenderAnswer(frozenset({"b"})), 2.0)
    assert world.bound(2.0) == {"p": "a"}


def test_an_answer_is_judged_by_what_is_true_now() -> None:
    world = World()
    world.pod("p", cpu=3_000)
    (question,) = world.asked(1.0)
    world.cluster.pod_seen(ObservedPod(Pod("q", requests=Amounts.of({"cpu": 4_000})), "q", "other", 0.0, node="a"), 1.5)
    world.plugin.answered("p", question.number, ExtenderAnswer(frozenset({"a"})), 2.0)
    (told,) = world.cluster.decide(2.0)
    assert isinstance(told, Unschedulable)
    assert "1 Insufficient cpu, 1 node(s) were refused by an extender" in told.message


def test_a_node_that_was_not_asked_about_is_not_used() -> None:
    world = World()
    world.pod("p")
    (question,) = world.asked(1.0)
    world.node("c")
    world.plugin.answered("p", question.number, ExtenderAnswer(frozenset()), 1.5)
    (again,) = world.asked(2.0)
    assert again.nodes == ("a", "b", "c")
    world.plugin.answered("p", again.number, ExtenderAnswer(frozenset({"c"})), 2.5)
    assert world.bound(2.5) == {"p": "c"}


def test_an_old_answer_is_asked_for_again() -> None:
    world = World()
    world.pod("p")
    (question,) = world.asked(1.0)
    world.plugin.answered("p", question.number, ExtenderAnswer(frozenset({"a"})), 2.0)
    assert len(world.asked(2.0 + module.STALE_S + 1.0)) == 1


def test_a_lost_question_is_asked_again_after_a_rest() -> None:
    world = World()
    world.pod("p")
    assert len(world.asked(1.0)) == 1
    lost_s = world.cluster.next_s()
    assert lost_s < 100.0
    (told,) = world.cluster.decide(lost_s)
    assert isinstance(told, Unschedulable)
    assert told.message == "no extender answered in time"
    assert len(world.asked(lost_s + 2.0)) == 1


def test_an_error_is_the_reason_and_rests_grow() -> None:
    world = World()
    world.pod("p")
    now_s, rests = 1.0, []
    for _ in range(5):
        (question,) = world.asked(now_s)
        assert world.plugin.failed("p", question.number, "extender http://e: filter: status 500", now_s)
        world.cluster.decide(now_s)
        rests.append(world.cluster.next_s() - now_s)
        now_s = world.cluster.next_s()
    assert rests == [1.0, 2.0, 4.0, 8.0, 10.0]
    assert world.cluster.why.pod("default/p", now_s) is not None


def test_questions_to_the_same_extenders_have_turns() -> None:
    world = World(FILTER, Extender("http://f", filter_verb="filter", managed=frozenset({"example.com/card"})))
    count = module.MAX_OPEN + 3
    for i in range(count):
        world.pod(f"p{i:03}", cpu=10)
    asked: list[AskExtenders] = []
    while more := world.asked(1.0):
        asked += more
    assert len(asked) == module.MAX_OPEN
    bound: dict[str, str] = {}
    for question in asked:
        world.plugin.answered(question.uid, question.number, ExtenderAnswer(frozenset({"a"})), 1.0)
    while given := world.cluster.decide(1.0):
        for entry in given:
            if isinstance(entry, AskExtenders):
                world.plugin.answered(entry.uid, entry.number, ExtenderAnswer(frozenset({"a"})), 1.0)
            elif isinstance(entry, Bind):
                bound[entry.uid] = entry.node
    assert len(bound) == count


def test_a_pod_without_room_is_not_asked_about() -> None:
    world = World()
    world.pod("big", cpu=9_000)
    (told,) = world.cluster.decide(1.0)
    assert isinstance(told, Unschedulable)
    assert "Insufficient cpu" in told.message


def test_only_pods_of_managed_resources_are_asked_about() -> None:
    world = World(Extender("http://e", filter_verb="f", managed=frozenset({"example.com/card"})))
    world.pod("plain")
    assert world.bound(1.0) == {"plain": "a"}
    beyond = Demands(beyond=("example.com/card",))  # left out of requests: ignoredByScheduler
    world.pod("asks", demands=beyond)
    (question,) = world.asked(2.0)
    assert question.uid == "asks"


def gang(world: World, size: int, name: str = "g", cpu: int = 1_000, priority: int = 0) -> list[str]:
    notes = Demands(gang=GangNotes(name=name, min_available=size))
    uids = [f"{name}{i:03}" for i in range(size)]
    for uid in uids:
        world.pod(uid, cpu=cpu, priority=priority, demands=notes)
    return uids


def test_a_gang_is_placed_when_its_last_member_has_an_answer() -> None:
    world = World()
    uids = gang(world, 3)
    given = world.cluster.decide(1.0)
    questions = [entry for entry in given if isinstance(entry, AskExtenders)]
    assert [entry.uid for entry in questions] == uids
    assert len(given) == 3  # its owners are not told
    for i, question in enumerate(questions):
        assert world.bound(1.0 + i) == {}
        world.plugin.answered(question.uid, question.number, ExtenderAnswer(frozenset({"ab"[i % 2]})), 1.0 + i)
    assert world.bound(4.0) == {"g000": "a", "g001": "b", "g002": "a"}
    world.cluster.validate()


def test_a_member_that_goes_is_not_waited_for() -> None:
    world = World()
    notes = Demands(gang=GangNotes(name="g", min_available=2))
    for uid in ("g0", "g1", "g2"):
        world.pod(uid, demands=notes)
    for question in world.asked(1.0)[:2]:
        world.plugin.answered(question.uid, question.number, ExtenderAnswer(frozenset({"a"})), 1.0)
    assert world.bound(1.0) == {}
    world.cluster.pod_gone("g2", 1.0)
    assert world.bound(1.0) == {"g0": "a", "g1": "a"}


def test_the_first_answer_serves_a_gang_until_the_last() -> None:
    world = World()
    gang(world, 3)
    now_s = 1.0
    for question in world.asked(now_s):
        now_s += module.STALE_S - 1.0
        world.plugin.answered(question.uid, question.number, ExtenderAnswer(frozenset({"a"})), now_s)
        given = world.cluster.decide(now_s)
    assert {entry.uid for entry in given if isinstance(entry, Bind)} == {"g000", "g001", "g002"}


def test_old_answers_of_a_gang_are_asked_for_again() -> None:
    world = World()
    gang(world, 2)
    for question in world.asked(1.0):
        world.plugin.answered(question.uid, question.number, ExtenderAnswer(frozenset({"a"})), 1.0)
    assert len(world.asked(2.0 + module.STALE_S)) == 2


def test_a_gang_of_more_members_than_turns() -> None:
    world = World()
    uids = gang(world, module.MAX_OPEN + 40, cpu=10)
    bound: dict[str, str] = {}
    while given := world.cluster.decide(1.0):
        asked = [entry for entry in given if isinstance(entry, AskExtenders)]
        assert len(asked) <= module.MAX_OPEN
        for entry in asked:
            world.plugin.answered(entry.uid, entry.number, ExtenderAnswer(frozenset({"b"})), 1.0)
        bound |= {entry.uid: entry.node for entry in given if isinstance(entry, Bind)}
    assert bound == dict.fromkeys(uids, "b")


def test_an_error_about_one_member_is_the_gangs_reason() -> None:
    world = World()
    gang(world, 2)
    first, second = world.asked(1.0)
    world.plugin.answered(first.uid, first.number, ExtenderAnswer(frozenset({"a"})), 1.0)
    world.plugin.failed(second.uid, second.number, "extender http://e: filter: status 500", 1.0)
    said = {entry.message for entry in world.cluster.decide(1.0) if isinstance(entry, Unschedulable)}
    words = "gang default/g: 1 of 2 members are admitted; default/g001 is not: extender http://e: filter: status 500"
    assert {message[: len(words)] for message in said} == {words}
    (again,) = world.asked(3.0)
    world.plugin.answered(again.uid, again.number, ExtenderAnswer(frozenset({"b"})), 3.0)
    assert world.bound(3.0) == {"g000": "a", "g001": "b"}


def test_two_gangs_that_are_placed_together_do_not_spend_each_others_answers() -> None:
    world = World()
    both = ("default/g", "default/h")
    for name in ("g", "h"):
        for i in range(2):
            notes = GangNotes(name=name, min_available=2, groups=both)
            world.pod(f"{name}{i}", demands=Demands(gang=notes))
    asked = world.asked(1.0)
    assert len(asked) == 4
    for question in asked[:2]:
        world.plugin.answered(question.uid, question.number, ExtenderAnswer(frozenset({"a"})), 1.0)
        assert world.cluster.decide(1.0) == ()
    for question in asked[2:]:
        world.plugin.answered(question.uid, question.number, ExtenderAnswer(frozenset({"b"})), 2.0)
    assert world.bound(2.0) == {"g0": "a", "g1": "a", "h0": "b", "h1": "b"}


def test_a_gang_that_an_extender_leaves_too_few_nodes_waits_with_its_words() -> None:
    world = World()
    gang(world, 2, cpu=3_000)
    for question in world.asked(1.0):
        answer = ExtenderAnswer(frozenset({"a"}), refused={"b": "no card"})
        world.plugin.answered(question.uid, question.number, answer, 1.0)
    said = {entry.message for entry in world.cluster.decide(1.0) if isinstance(entry, Unschedulable)}
    assert len(said) == 1
    assert "1 of 2 members fit; the 2nd, default/g001, does not" in said.pop()
    world.cluster.validate()


def test_nodes_that_an_extender_refused_are_not_cleared_for_the_pod() -> None:
    world = World()
    world.pod("low-a", cpu=4_000)
    (question,) = world.asked(1.0)
    world.plugin.answered("low-a", question.number, ExtenderAnswer(frozenset({"a"})), 1.0)
    assert world.bound(1.0) == {"low-a": "a"}
    world.cluster.sending("low-a", 1.0)
    world.cluster.bound("low-a", 1.0)
    world.pod("high", cpu=4_000, priority=10)
    (question,) = world.asked(2.0)
    assert question.nodes == ("b",)
    world.plugin.answered("high", question.number, ExtenderAnswer(frozenset(), refused={"b": "no card"}), 2.0)
    found = [entry for entry in world.cluster.decide(2.0) if isinstance(entry, Preempt)]
    assert [(entry.node, [victim.uid for victim in entry.victims]) for entry in found] == [("a", ["low-a"])]


def test_spared_victims_are_not_proposed_again_for_a_while() -> None:
    world = World(Extender("http://e", preempt_verb="p"))
    for name in ("low-a", "low-b"):
        world.pod(name, cpu=4_000)
        for uid in world.bound(1.0):
            world.cluster.sending(uid, 1.0)
            world.cluster.bound(uid, 1.0)
    world.pod("high", cpu=4_000, priority=10)
    (first,) = [entry for entry in world.cluster.decide(2.0) if isinstance(entry, Preempt)]
    world.plugin.spared("high", first.node, 2.0)
    world.cluster.preempt_failed("high", 2.0)
    (second,) = [entry for entry in world.cluster.decide(4.0) if isinstance(entry, Preempt)]
    assert second.node != first.node
    world.plugin.spared("high", second.node, 4.0)
    world.cluster.preempt_failed("high", 4.0)
    assert not [entry for entry in world.cluster.decide(6.0) if isinstance(entry, Preempt)]
    later = [entry for entry in world.cluster.decide(70.0) if isinstance(entry, Preempt)]
    assert len(later) == 1


def test_a_copy_asks_nobody() -> None:
    world = World()
    world.pod("p")
    assert len(world.asked(1.0)) == 1
    answer = world.cluster.why.pod("default/p", 1.0)
    assert answer is not None
    (concern,) = answer.concerns
    assert (concern.holds, concern.words) == (True, "waits for the answer of extender http://e")
    assert "waits for the answer of extender http://e" in answer.headline
    assert world.cluster.decide(1.5) == ()


def test_a_pod_that_is_gone_ends_its_question() -> None:
    world = World()
    world.pod("p")
    (question,) = world.asked(1.0)
    world.cluster.pod_gone("p", 1.5)
    assert not world.plugin.answered("p", question.number, ExtenderAnswer(frozenset({"a"})), 2.0)
    assert world.cluster.next_s() == float("inf")
    world.cluster.validate()

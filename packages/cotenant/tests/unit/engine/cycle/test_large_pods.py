"""Large pods: judged apart and within a limit, so that one pod never stops the others; and no loop over one of its
lists inside another.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import pytest
from bench.fuzz.giants import LISTS, List, giant, small_pod

from cotenant.drivers.kube.kinds.pod.reader import PodReader
from cotenant.drivers.kube.kinds.pod.schema import PodObject
from cotenant.engine.cluster import Cluster
from cotenant.engine.framework.instructions import Bind, Instruction, Preempt, Unschedulable
from cotenant.engine.framework.settings import EngineSettings
from cotenant.model.cluster.labels import HOSTNAME, ZONE, Labels
from cotenant.model.cluster.node import Node
from cotenant.model.resources import Amounts
from cotenant.policy.placement.profiles import profile

_BY_NAME = {entry.name: entry for entry in LISTS}


@dataclass(slots=True)
class CpuClock:
    """Every look at it costs so much."""

    look_s: float = 0.0
    now_s: float = 0.0

    def __call__(self) -> float:
        self.now_s += self.look_s
        return self.now_s


def _cluster(clock: Callable[[], float] | None, nodes: int = 6) -> Cluster:
    cluster = Cluster(profile("cotenant-requests"), np.random.default_rng(1), EngineSettings(cpu_s=clock))
    for i in range(nodes):
        labels = Labels.of({HOSTNAME: f"n{i}", ZONE: "ab"[i % 2]})
        cluster.node_seen(Node(f"n{i}", Amounts.of({"cpu": 64_000, "memory": 1 << 38, "pods": 200}), labels))
    return cluster


def _see(cluster: Cluster, document: dict[str, Any], now_s: float = 0.0) -> None:
    cluster.pod_seen(PodReader().pod(msgspec.json.decode(msgspec.json.encode(document), type=PodObject)), now_s)


def _bound(given: tuple[Instruction, ...]) -> list[str]:
    return [instruction.key.split("/")[1] for instruction in given if isinstance(instruction, Bind)]


def test_a_pod_that_costs_too_much_is_set_aside_with_a_reason_and_delays_nobody() -> None:
    clock = CpuClock(look_s=0.001)
    cluster = _cluster(clock)
    _see(cluster, giant("big", (_BY_NAME["spread"],), most=300))
    _see(cluster, small_pod("other"))
    given = cluster.decide(0.0)
    assert _bound(given) == ["other"]
    (told,) = [instruction for instruction in given if isinstance(instruction, Unschedulable)]
    assert told.message == (
        "set aside: its judgement costs more than 50 ms of CPU, for 300 topology spread constraints; "
        "large pods are judged apart from the others, and it is tried again later"
    )
    assert cluster.counts == {"judgement set aside: too expensive": 1}
    assert clock.now_s < 0.06
    cluster.validate()
    answer = cluster.why.pod("default/big", 1.0)
    assert answer is not None
    assert ("cpu", "10m") in answer.requests
    assert answer.waiting is not None
    assert answer.waiting.because == told.message
    assert answer.waiting.retry is not None
    assert (answer.waiting.retry.standing, answer.waiting.retry.at_s) == (
        "set aside",
        10.0,
    )
    assert cluster.next_s() == 10.0  # its back-off
    assert cluster.decide(9.9) == ()


def test_what_was_set_aside_is_tried_again_with_a_longer_limit_and_placed_once_it_is_cheap() -> None:
    clock = CpuClock(look_s=0.001)
    cluster = _cluster(clock)
    _see(cluster, giant("big", (_BY_NAME["spread"],), most=300))
    cluster.decide(0.0)
    before_s = clock.now_s
    assert _bound(cluster.decide(10.0)) == []
    assert 0.1 <= clock.now_s - before_s < 0.11
    assert cluster.next_s() == 30.0
    clock.look_s = 1e-6
    assert _bound(cluster.decide(30.0)) == ["big"]


def test_large_pods_get_a_part_of_the_time() -> None:
    clock = CpuClock(look_s=1e-5)
    cluster = _cluster(clock)
    for i in range(3):
        _see(cluster, giant(f"big{i}", (_BY_NAME["spread"],), most=300))
    assert _bound(cluster.decide(0.0)) == ["big0"]
    spent_s = clock.now_s
    assert 19 * spent_s * 0.9 < cluster.next_s() < 19 * spent_s * 1.1
    assert cluster.decide(cluster.next_s() / 2) == ()
    assert _bound(cluster.decide(cluster.next_s())) == ["big1"]


def test_a_large_pod_that_fits_nowhere_says_why() -> None:
    cluster = _cluster(CpuClock(look_s=1e-9))
    _see(cluster, giant("big", (_BY_NAME["node terms of none"],), most=300))
    (told,) = [instruction for instruction in cluster.decide(0.0) if isinstance(instruction, Unschedulable)]
    assert told.message == "0/6 nodes are available: 6 node(s) didn't match Pod's node affinity/selector."


def test_a_gang_with_an_expensive_member_is_set_aside_as_a_whole() -> None:
    clock = CpuClock(look_s=0.001)
    cluster = _cluster(clock)
    gang = {"gang.scheduling.koordinator.sh/name": "g", "gang.scheduling.koordinator.sh/min-available": "3"}
    for i in range(3):
        document = giant(f"m{i}", (_BY_NAME["spread"],), most=300) if i == 1 else small_pod(f"m{i}")
        document["metadata"]["annotations"] = gang
        _see(cluster, document)
    given = cluster.decide(0.0)
    assert _bound(given) == []
    assert {instruction.message.split(";")[0] for instruction in given if isinstance(instruction, Unschedulable)} == {
        "set aside: its judgement costs more than 50 ms of CPU, for 3 members, among them one of 300 topology spread "
        "constraints"
    }
    cluster.validate()
    clock.look_s = 0.0
    assert sorted(_bound(cluster.decide(10.0))) == ["m0", "m1", "m2"]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_wherever_a_judgement_is_given_up_the_books_are_right(seed: int) -> None:
    """Full nodes, pods that preempt and are nominated, gangs; some large, and now and then a look at the clock
    shows that the limit is exceeded.
    """
    rng, chance, cpu_s = np.random.default_rng(seed), 0.0, 0.0

    def clock() -> float:
        nonlocal cpu_s
        cpu_s += 1.0 if rng.random() < chance else 1e-9
        return cpu_s

    cluster = _cluster(clock)
    gang = {"gang.scheduling.koordinator.sh/name": "g", "gang.scheduling.koordinator.sh/min-available": "2"}
    there: dict[str, dict[str, Any]] = {}
    set_aside = 0
    for step in range(40):
        now_s = 40.0 * step
        chance = float(rng.choice([0.0, 0.0, 1e-3, 5e-3, 2e-2, 1e-1]))
        is_large = bool(rng.random() < 0.6)
        list_ = _BY_NAME[
            str(rng.choice(["spread", "anti-affinity", "anti-affinity to all", "host ports", "node terms of none"]))
        ]
        name = f"p{step}"
        document = giant(name, (list_,), most=300) if is_large else small_pod(name)
        document["spec"]["priority"] = int(rng.choice([0, 1000, 2000]))
        document["spec"]["containers"][0]["resources"]["requests"]["cpu"] = str(rng.choice(["20", "40", "60"]))
        if rng.random() < 0.3:
            document["metadata"]["annotations"] = gang
        there[document["metadata"]["uid"]] = document
        _see(cluster, document, now_s)
        given = cluster.decide(now_s)
        bound = {instruction.uid for instruction in given if isinstance(instruction, Bind)}
        for instruction in given:
            if isinstance(instruction, Bind):
                cluster.sending(instruction.uid, now_s)
                cluster.bound(instruction.uid, now_s)
            elif isinstance(instruction, Preempt):
                assert not bound & {victim.uid for victim in instruction.victims}
                for victim in instruction.victims:
                    if rng.random() < 0.7:
                        there.pop(victim.uid, None)
                        cluster.pod_gone(victim.uid, now_s)
            elif isinstance(instruction, Unschedulable):
                set_aside += instruction.message.startswith("set aside")
        cluster.validate()
    assert set_aside
    for uid in there:
        cluster.pod_gone(uid, 1e4)
    cluster.decide(1e4)
    cluster.validate()


def test_an_ordinary_pod_is_never_timed() -> None:
    clock = CpuClock(look_s=1.0)
    cluster = _cluster(clock)
    _see(cluster, giant("usual", (_BY_NAME["spread"],), most=100))
    assert _bound(cluster.decide(0.0)) == ["usual"]


def _calls(lists: tuple[List, ...], most: int) -> int:
    """How many functions are called, Python's and NumPy's, from reading such a pod to its end, with others that
    come before and after.
    """
    cluster, calls = _cluster(None), 0

    def count(frame: object, event: str, arg: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    def others(tag: str) -> None:
        for i in range(6):
            document = small_pod(f"{tag}{i}")
            document["metadata"]["labels"]["app"] = f"a{i}"
            _see(cluster, document)
        cluster.decide(0.0)

    others("before")
    document = giant("big", lists, most=most)
    sys.setprofile(count)
    try:
        _see(cluster, document)
        cluster.decide(0.0)
        others("during")
        document["spec"]["nodeName"] = "n0"
        _see(cluster, document)
        others("beside")
        cluster.pod_gone("uid-default-big", 1.0)
        others("after")
    finally:
        sys.setprofile(None)
    cluster.validate()
    return calls


def _assert_linear(lists: tuple[List, ...], least: int) -> None:
    _calls(lists, 4)  # compiles
    once, twice, four = (_calls(lists, most) for most in (least, 2 * least, 4 * least))
    assert four - twice <= 2.6 * (twice - once) + 2_000  # a loop inside a loop would be 4 times as much


@pytest.mark.parametrize("name", ["spread", "anti-affinity to all", "host ports"])
def test_work_grows_with_the_length_of_a_list(name: str) -> None:
    _assert_linear((_BY_NAME[name],), 66)


@pytest.mark.slow
@pytest.mark.parametrize("name", list(_BY_NAME))
def test_work_grows_with_the_length_of_every_list(name: str) -> None:
    _assert_linear((_BY_NAME[name],), 300)


@pytest.mark.slow
@pytest.mark.parametrize("other", ["labels", "host ports", "soft affinity", "node terms of none", "tolerations"])
def test_work_grows_with_the_length_of_two_lists(other: str) -> None:
    _assert_linear((_BY_NAME[other], _BY_NAME["anti-affinity to all"]), 300)


def test_a_large_pod_that_waits_is_woken_by_what_it_may_evict_and_never_by_itself() -> None:
    cluster = _cluster(CpuClock(look_s=1e-9), nodes=1)
    full = small_pod("full")
    full["spec"] |= {"nodeName": "n0", "priority": 100}
    full["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "64"}}
    _see(cluster, full)
    big = giant("big", (_BY_NAME["spread"],), most=300)
    big["spec"]["priority"] = 50
    big["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1"}}
    _see(cluster, big)
    for second in range(200):  # less than the longest wait, after which everything is asked again
        cluster.decide(float(second))
    assert cluster.judged == 1  # nothing happened
    now_s = 200.0
    full["spec"]["priority"] = 10
    _see(cluster, full, now_s)
    given: list[Instruction] = []
    for _ in range(5):
        given += cluster.decide(now_s)
        now_s += 30.0
    assert [instruction.node for instruction in given if isinstance(instruction, Preempt)] == ["n0"]

"""A pod that Kubernetes counts as best effort and that calls itself a service by a label: it costs the others nothing
before its priority or an objective says so, too.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.fakes.node.fake_node import FakeNode, pod

from cotenant.engine.node.agent import Agent
from cotenant.engine.node.settings import AgentSettings
from cotenant.model.cluster.qos import KubernetesQoS, QoSClass
from cotenant.model.kubelet.facts import KubeletFacts
from cotenant.model.machine.knob import Knob, KnobTarget
from cotenant.model.machine.node_pod import NodePod
from cotenant.model.machine.replica_signal import MaxAction, ReplicaSignal

CLASS = "kubepods/besteffort"
NODES_OWN = pod("web", "kubepods/burstable/podw")
HOGS = tuple(pod(f"hog-{n}", f"{CLASS}/pod{n}", QoSClass.BE, kubernetes_qos=KubernetesQoS.BEST_EFFORT) for n in "ab")
CLAIMING = pod("cart", f"{CLASS}/podc", QoSClass.LS, kubernetes_qos=KubernetesQoS.BEST_EFFORT)
SIGNAL = ReplicaSignal(
    "shop/cart", "shop/cart", "", "", 99_000, 10_000, MaxAction.IDLE, True, 9_000_000, 40, 0, 9000, 9000
)
CONFIRMED = replace(CLAIMING, is_confirmed_service=True)


def node(*pods: NodePod) -> FakeNode:
    settings = AgentSettings(roots=(CLASS,), best_effort_group=CLASS)
    agent = Agent(settings, "node-1")
    agent.machine_seen(frozenset({Knob.CPU_MAX, Knob.CPU_WEIGHT}))
    agent.kubelet_seen(KubeletFacts())
    use = {NODES_OWN.group: 500, CLASS: 1200, HOGS[0].group: 600, HOGS[1].group: 600}
    return FakeNode(agent, (NODES_OWN, *HOGS, *pods), use=use)


def limited(one: FakeNode) -> set[str]:
    """The groups that a quota of ours holds."""
    return {target.group for target in one.keeper.held if target.knob is Knob.CPU_MAX}


def ticked(one: FakeNode, times: int = 3) -> FakeNode:
    for _ in range(times):
        one.tick()
    return one


ALL_TOGETHER = {CLASS}
ONE_BY_ONE = {hog.group for hog in HOGS}


def test_a_label_alone_does_not_lift_the_limit_of_a_node() -> None:
    assert limited(ticked(node())) == ALL_TOGETHER
    one = ticked(node(CLAIMING))
    assert limited(one) == ALL_TOGETHER
    explained = one.agent.explain("default/cart")
    assert explained is not None
    assert any("default/cart: a service by its label only" in line for line in explained.text), explained.text


def test_by_its_priority_a_service_is_spared_and_the_others_are_held_one_by_one() -> None:
    assert limited(ticked(node(CONFIRMED))) == ONE_BY_ONE
    best_effort = replace(CONFIRMED, qos=QoSClass.BE)
    assert limited(ticked(node(best_effort))) == ALL_TOGETHER


def test_an_objective_that_may_act_confirms_it_from_the_next_tick_on() -> None:
    one = ticked(node(CLAIMING))
    assert one.agent.signal_reported("default/cart", replace(SIGNAL, guard=False), one.now_us)
    assert limited(ticked(one, 1)) == ALL_TOGETHER
    assert one.agent.signal_reported("default/cart", SIGNAL, one.now_us)
    said = one.tick()
    assert [back.target for back in said.give_back] == [KnobTarget(CLASS, Knob.CPU_MAX)]
    assert {hold.target.group for hold in said.hold} == ONE_BY_ONE  # in the same tick: no period without a limit
    assert limited(one) == ONE_BY_ONE


def test_one_whose_spans_stay_away_is_still_spared_for_it_may_be_stopped() -> None:
    one = node(CLAIMING)
    one.agent.signal_reported("default/cart", SIGNAL, one.now_us)
    ticked(one)
    one.pass_time(700_000_000)  # longer than a signal is kept
    assert limited(ticked(one)) == ONE_BY_ONE
    one.agent.signal_withdrawn("default/cart", "shop/another")
    assert limited(ticked(one)) == ONE_BY_ONE


def test_without_its_objective_it_is_what_kubernetes_says() -> None:
    one = node(CLAIMING)
    one.agent.signal_reported("default/cart", SIGNAL, one.now_us)
    assert limited(ticked(one)) == ONE_BY_ONE
    one.agent.signal_withdrawn("default/cart", SIGNAL.objective)
    assert limited(ticked(one)) == ALL_TOGETHER


@pytest.mark.parametrize(("claiming", "is_protected"), [(CLAIMING, False), (CONFIRMED, True)])
def test_the_guard_cuts_nobody_for_a_label(claiming: NodePod, is_protected: bool) -> None:
    one = node(claiming)
    one.show((*HOGS, claiming))
    one.delay_ppm[claiming.group] = 5_000_000  # five threads that wait: as many as its owner likes
    one.use[claiming.group] = 200
    ticked(one)
    explained = one.agent.explain("default/hog-a")
    assert explained is not None
    assert any("default/cart waited" in line for line in explained.text) is is_protected, explained.text

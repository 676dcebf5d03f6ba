"""A culprit that the guard holds at once, and the agent's own pod, which works because there is trouble."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from random import Random

import pytest
from tests.fakes.node.job_of_pods import WORKLOAD, as_job
from tests.fakes.node.troubled_node import SECOND_US, TroubledNode, batch_pod

from cotenant.model.cluster.qos import QoSClass
from cotenant.model.machine.knob import Knob, KnobTarget
from cotenant.model.machine.node_pod import NodePod
from cotenant.model.machine.node_state import GroupUse, NodeState, PodUse
from cotenant.policy.interference.attribution.answer import Attribution
from cotenant.policy.interference.attribution.attribute import attribute
from cotenant.policy.interference.attribution.causes import TroubleCause
from cotenant.policy.interference.attribution.held import HeldUse, held_pods
from cotenant.policy.interference.attribution.samples import NodeSamples, extended
from cotenant.policy.interference.attribution.settings import AttributionSettings

CONFIG = AttributionSettings()
FROM_S = 30
CLASS = KnobTarget("batch", Knob.CPU_MAX)


def held(states: Iterator[NodeState], at_s: int, drains_s: int, used_m: int = 20) -> Iterator[NodeState]:
    """All best-effort work at `used_m` from a second on; what waits at the service takes `drains_s` more to be
    answered.
    """
    for second, state in enumerate(states, 1):
        if second < at_s:
            yield state
            continue
        web, *others = state.pods
        calm = TroubledNode(Random(second), probe=False).second().pods[0]
        pods = [web if second < at_s + drains_s else replace(calm, pod=web.pod)]
        for entry in others:
            limited_m = used_m * (entry.use.cpu_m or 0) // max(1, sum(one.use.cpu_m or 0 for one in others))
            pods.append(replace(entry, use=replace(entry.use, cpu_m=limited_m)))
        yield replace(state, pods=tuple(pods), knobs={CLASS: f"{used_m * 100} 100000"})


def with_agent(state: NodeState, cpu_m: int, *, ours: bool = True) -> NodeState:
    pod = NodePod("uid-agent", "cotenant-node", "agent", "pods/agent", QoSClass.SYSTEM, ours=ours)
    return replace(state, pods=(*state.pods, PodUse(pod, GroupUse(pod.group, cpu_m=cpu_m))))


def busy_agent(state: NodeState, random: Random, used_m: int = 0) -> NodeState:
    """The agent uses little, and more in each second in which there is trouble: it looks and writes."""
    health = state.pods[0].health
    late = health is not None and health.p99_us > 10_000
    return with_agent(state, used_m or (70 if late else 15) + random.randrange(10))


def answer_to(states: list[NodeState]) -> Attribution | None:
    """The first answer that names a pod, while there is trouble; else the last one."""
    history, found = NodeSamples(), None
    for state in states:
        history = extended(history, state, CONFIG)
        if history.in_trouble("uid-web", CONFIG):
            found = attribute(history, state, state.pods[0], CONFIG)
            if found is not None and found.culprit is not None:
                break
    return found


def first_use(states: list[NodeState], second: int) -> int:
    """What the pods `b` used in a second, milli-CPU."""
    return sum(entry.use.cpu_m or 0 for entry in states[second - 1].best_effort_pods if entry.pod.name[0] == "b")


def incident(seed: int, at_s: int, drains_s: int) -> list[NodeState]:
    node = TroubledNode(Random(seed), guilty="b", probe=False, from_s=FROM_S, harm=3.0)
    states = (as_job(state, "b") for state in node.states(FROM_S + 12))
    random = Random(seed)
    return [busy_agent(state, random) for state in held(states, at_s, drains_s)]


@pytest.mark.parametrize(("seed", "after_s"), list(product((0, 1, 2, 3, 5, 6), (1, 2))))
def test_a_job_that_the_guard_holds_at_once_is_named_by_what_it_did_before(seed: int, after_s: int) -> None:
    """It is held one or two seconds after its start, and what waits keeps the service late for three more."""
    states = incident(seed, FROM_S + 1 + after_s, drains_s=3)
    assert first_use(states, FROM_S + 1) > 0, "the Job of this seed begins at once"
    found = answer_to(states)
    assert found is not None
    assert found.culprit is not None, found.reason.text
    assert found.culprit.workload == WORKLOAD


@pytest.mark.parametrize("seed", range(4))
def test_what_is_held_is_not_named_for_trouble_that_goes_on_without_it(seed: int) -> None:
    """The service's own load grew as the Job began, and is what stays."""
    states = [
        as_job(state, "b") for state in TroubledNode(Random(seed), load_growth=2.6, probe=False).states(FROM_S + 20)
    ]
    history = NodeSamples()
    for state in held(iter(states), at_s=22, drains_s=100):
        history = extended(history, state, CONFIG)
    found = attribute(history, states[-1], states[-1].pods[0], CONFIG)
    assert found is None or found.culprit is None


@pytest.mark.parametrize(("ours", "first"), [(True, False), (False, True)])
def test_the_agent_s_own_pod_is_no_suspect_for_working_because_of_the_trouble(ours: bool, first: bool) -> None:
    """Without anyone else on the node, whoever rose with the trouble comes first."""
    random = Random(3)
    states = []
    for state in TroubledNode(Random(3), guilty="b", probe=False).states(30):
        web, *_ = state.pods
        alone = busy_agent(replace(state, pods=(web,)), random)
        agent = alone.pods[-1]
        states.append(replace(alone, pods=(web, replace(agent, pod=replace(agent.pod, ours=ours)))))
    found = answer_to(states)
    assert found is not None
    assert ("uid-agent" in {candidate.uid for candidate in found.candidates[:1]}) is first


def test_the_agent_s_own_pod_is_named_where_it_is_what_takes_the_cpu() -> None:
    """As busy as the guilty pod, which is not there."""
    states = []
    for state in TroubledNode(Random(3), guilty="b", probe=False).states(30):
        used_m = next(entry.use.cpu_m or 0 for entry in state.pods if entry.pod.name == "b")
        others = tuple(entry for entry in state.pods if entry.pod.name != "b")
        states.append(with_agent(replace(state, pods=others), used_m))
    found = answer_to(states)
    assert found is not None
    assert found.cause is TroubleCause.POD
    assert found.culprit is not None
    assert found.culprit.uid == "uid-agent"


def test_a_pod_that_rises_a_little_with_the_culprit_explains_little() -> None:
    """Both rise in the same seconds and in no other, so that no fit tells them apart, but one takes ten times as
    much.
    """
    for seed in range(6):
        states = []
        for state in TroubledNode(Random(seed), guilty="b", probe=False, harm=3.0).states(34):
            used_m = next(entry.use.cpu_m or 0 for entry in state.pods if entry.pod.name == "b")
            states.append(with_agent(state, used_m // 10, ours=False))
        found = answer_to(states)
        assert found is not None
        assert found.culprit is not None, found.reason.text
        assert found.culprit.name == "batch/b"


def state_of(at_s: int, uses_m: dict[str, int], knobs: dict[KnobTarget, str]) -> NodeState:
    base = TroubledNode(Random(1)).second()
    pods = tuple(PodUse(batch_pod(name), GroupUse(f"batch/{name}", cpu_m=used_m)) for name, used_m in uses_m.items())
    return replace(base, at_us=at_s * SECOND_US, pods=pods, knobs=knobs)


def test_held_is_who_has_a_quota_far_below_what_was_used_until_the_trouble_may_be_over() -> None:
    """Against a plain restatement, second by second: the class is cut, cut again, raised and cut."""
    quotas_m = [None, None, 1800, 900, 450, 450, 450, 450, 450, 450, 2000, 2000, 600, 600]
    uses = [(600, 1200)] * 3 + [(300, 600), *[(150, 300)] * 6, *[(600, 1200)] * 2, (200, 400), (200, 400)]
    before: dict[str, HeldUse] = {}
    used_m: dict[str, int] = {}
    seen = []
    for second, (quota_m, (one, other)) in enumerate(zip(quotas_m, uses, strict=True), 1):
        knobs = {} if quota_m is None else {CLASS: f"{quota_m * 100} 100000"}
        state = state_of(second, {"a": one, "b": other}, knobs)
        before = held_pods(state, used_m, before, CONFIG)
        used_m = {"uid-a": one, "uid-b": other}
        seen.append({uid: held.cpu_m for uid, held in before.items()})
    whole = {"uid-a": 600, "uid-b": 1200}
    assert seen == [{}] * 3 + [whole] * 5 + [{}] * 4 + [whole] * 2


def test_a_quota_of_a_pod_s_own_holds_that_pod_alone() -> None:
    knobs = {KnobTarget("batch/a", Knob.CPU_MAX): "10000 100000"}
    state = state_of(9, {"a": 100, "b": 900}, knobs)
    found = held_pods(state, {"uid-a": 900, "uid-b": 900}, {}, CONFIG)
    assert found == {"uid-a": HeldUse(900, 8 * SECOND_US)}

"""The node's engine, driven as its process drives it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.fakes.node.fake_node import SECOND, FakeNode, FixedPolicy, pod, weight

from cotenant.engine.node.agent import Agent
from cotenant.engine.node.decision_log import DecisionKind
from cotenant.engine.node.mode import AgentMode
from cotenant.engine.node.policies import NodePolicy
from cotenant.engine.node.settings import AgentSettings, EvictionLimits
from cotenant.model.cluster.qos import QoSClass
from cotenant.model.errors import InvalidInput, Permanent
from cotenant.model.machine.knob import Knob, KnobLease, KnobTarget, LeaseAnswer, LeaseState, SetKnob
from cotenant.model.machine.node_decision import Reason
from cotenant.model.machine.node_metric import Use
from cotenant.model.machine.node_pod import NodeContainer, NodePodPhase
from cotenant.model.machine.node_state import Allocatable, NodeState, ServiceHealth
from cotenant.model.machine.verdict import PolicyVerdict

ROOTS = ("pods",)
WEB, HOG = pod("web", "pods/web"), pod("hog", "pods/be/hog", QoSClass.BE)
W = weight("pods/be/hog")


def node(*policies: FixedPolicy, settings: AgentSettings | None = None, **more: object) -> FakeNode:
    chosen = settings or AgentSettings(roots=ROOTS)
    agent = Agent(chosen, "node-1", [policy.entry() for policy in policies])
    return FakeNode(agent, (WEB, HOG), **more)  # type: ignore[arg-type]


def test_a_value_is_requested_once_and_renewed_after_a_third_of_its_lease() -> None:
    one = node(FixedPolicy("a", {W: "10"}))
    requested = [tick for tick in range(1, 36) if one.tick().hold]
    assert requested == [1, 11, 21, 31]
    assert one.keeper.held == {W: "10"}
    counts = one.agent.counts()
    assert (counts.holds, counts.renewals, counts.given_back) == (1, 3, 0)


def test_a_changed_value_is_requested_at_once() -> None:
    policy = FixedPolicy("a", {W: "10"})
    one = node(policy)
    one.tick()
    policy.wants = {W: "20"}
    assert [wish.value for wish in one.tick().hold] == ["20"]


def test_a_knob_no_longer_desired_is_given_back_within_one_tick_with_the_reason() -> None:
    policy = FixedPolicy("a", {W: "10"})
    one = node(policy)
    one.tick()
    policy.wants = {}
    (back,) = one.tick().give_back
    assert back.target == W
    assert back.reason.text == "a no longer wants /pods/be/hog:cpu.weight at '10'"
    assert not one.tick()
    assert one.keeper.held == {}
    assert one.agent.held_knobs() == ()


def test_the_most_restrictive_value_wins_and_overruled_ones_are_reported() -> None:
    one = node(FixedPolicy("a", {W: "30"}), FixedPolicy("b", {W: "10"}), FixedPolicy("c", {W: "10"}))
    one.tick()
    (hold,) = one.agent.held_knobs()
    assert (hold.value, hold.policy, hold.lost) == ("10", "b", (("a", "30"),))
    one.tick()
    assert one.agent.counts().conflicts == 1


def test_when_the_winner_withdraws_the_overruled_value_is_requested() -> None:
    strict = FixedPolicy("b", {W: "10"})
    one = node(FixedPolicy("a", {W: "30"}), strict)
    one.tick()
    strict.wants = {}
    instructions = one.tick()
    assert [wish.value for wish in instructions.hold] == ["30"]
    assert instructions.give_back == ()


def test_groups_outside_the_roots_are_never_requested() -> None:
    one = node(FixedPolicy("a", {weight("system.slice"): "10", weight("podsother"): "10", weight(""): "1", W: "10"}))
    assert [wish.target for wish in one.tick().hold] == [W]
    one.tick()
    assert one.agent.counts().outside_roots == 3


def test_without_roots_nothing_is_held() -> None:
    one = node(FixedPolicy("a", {W: "10"}), settings=AgentSettings())
    assert not one.tick()


def test_a_malformed_value_is_counted_and_not_requested() -> None:
    one = node(FixedPolicy("a", {W: "lots", KnobTarget("pods", Knob.CPU_MAX): "1"}))
    assert not one.tick()
    assert one.agent.counts().bad_wishes == 2


def test_a_knob_that_the_machine_lacks_is_not_requested() -> None:
    one = node(FixedPolicy("a", {W: "10"}))
    one.agent.machine_seen(frozenset({Knob.CPU_MAX}))
    assert not one.tick()
    assert one.agent.state() is not None
    assert one.agent.state().supported == frozenset({Knob.CPU_MAX})  # type: ignore[union-attr]


def test_a_refused_knob_backs_off_longer_each_time() -> None:
    one = node(FixedPolicy("a", {W: "10"}))
    one.keeper.refuses = lambda entry: "EINVAL"
    requested = [tick for tick in range(1, 80) if one.tick().hold]
    assert requested == [1, 6, 16, 36, 76]
    (hold,) = one.agent.held_knobs()
    assert (hold.state, hold.detail) == ("refused", "EINVAL")
    refused = [d for d in one.agent.decisions() if d.what is DecisionKind.REFUSED]
    assert [d.reason.text for d in refused] == ["EINVAL; retried in 5 s"]
    one.keeper.refuses = lambda entry: "EPERM"
    for _ in range(80):
        one.tick()
    assert [d.reason.text for d in one.agent.decisions()][-1] == "EPERM; retried in 160 s"


def test_quotas_that_nobody_reads_rise_from_the_top_and_fall_from_the_bottom() -> None:
    """What the keeper confirmed is what stands: on cgroup v1 no quota may be above its parent's."""
    above, below = KnobTarget("pods/be", Knob.CPU_MAX), KnobTarget("pods/be/hog", Knob.CPU_MAX)
    policy = FixedPolicy("a", {above: "20000 100000", below: "20000 100000"})
    one = node(policy)
    one.tick()
    policy.wants = {above: "50000 100000", below: "50000 100000"}
    assert [wish.target for wish in one.tick().hold] == [above, below]
    policy.wants = {above: "10000 100000", below: "10000 100000"}
    assert [wish.target for wish in one.tick().hold] == [below, above]


def test_a_refused_quota_is_cut_at_once() -> None:
    quota = KnobTarget("pods/be/hog", Knob.CPU_MAX)
    policy = FixedPolicy("a", {quota: "40000 100000"})
    one = node(policy)
    one.keeper.refuses = lambda entry: "above the parent's" if entry.value == "40000 100000" else ""
    one.tick()
    policy.wants = {quota: "50000 100000"}
    assert not one.tick().hold
    policy.wants = {quota: "20000 100000"}
    assert [wish.value for wish in one.tick().hold] == ["20000 100000"]
    assert one.keeper.held == {quota: "20000 100000"}


def test_after_a_refusal_the_older_value_is_given_back_when_no_longer_desired() -> None:
    policy = FixedPolicy("a", {W: "10"})
    one = node(policy)
    one.tick()
    one.keeper.refuses = lambda entry: "EBUSY"
    policy.wants = {W: "20"}
    one.tick()
    assert one.keeper.held == {W: "10"}
    policy.wants = {}
    assert [back.target for back in one.tick().give_back] == [W]
    assert one.keeper.held == {}


def test_a_foreign_value_is_left_alone_for_a_while() -> None:
    one = node(FixedPolicy("a", {W: "10"}))
    one.tick()
    one.keeper.foreign.add(W)
    requested = [tick for tick in range(2, 90) if one.tick().hold]
    assert requested == [11, 71, 81]
    assert one.agent.counts().yielded == 1


def test_requests_with_lost_answers_are_repeated_and_nothing_is_left_behind() -> None:
    policy = FixedPolicy("a", {W: "10"})
    one = node(policy)
    lost = [True]
    one.keeper.loses = lambda: lost[0]
    assert one.tick().hold
    assert one.tick().hold
    lost[0] = False
    assert one.tick().hold
    assert not one.tick()
    policy.wants, lost[0] = {}, True
    assert one.tick().give_back
    assert one.tick().give_back
    lost[0] = False
    assert one.tick().give_back
    assert not one.tick()


def test_a_missing_answer_times_out() -> None:
    one = node(FixedPolicy("a", {W: "10"}))
    requested = []
    for tick in range(1, 12):
        one.pass_time()
        if one.agent.sampled(one.sample(), {}).hold:
            requested.append(tick)
        one.agent.validate()
    assert requested == [1, 6, 11]
    assert one.agent.counts().lost_answers == 2


def test_leases_of_an_earlier_agent_are_kept_where_desired_and_given_back_otherwise() -> None:
    other = weight("pods/be/old")
    one = node(FixedPolicy("a", {W: "10"}))
    reason = Reason("before", "an earlier process")
    leases = [KnobLease(target, "100", "10", reason, LeaseState.HELD, 0.0, 5) for target in (W, other)]
    one.agent.leases_found(leases, one.now_us)
    instructions = one.tick()
    assert instructions.give_back == ()  # no policy had rates to decide by
    assert [wish.target for wish in instructions.hold] == [W]
    assert one.agent.counts().renewals == 1
    assert not one.agent.pressed(one.now_us, "", "cpu").give_back
    assert [back.target for back in one.tick().give_back] == [other]


def test_leases_of_an_earlier_agent_are_given_back_at_a_clean_stop_before_the_first_measurement() -> None:
    one = node(FixedPolicy("a", {}))
    one.agent.leases_found(
        [KnobLease(W, "100", "10", Reason("before", "an earlier process"), LeaseState.HELD, 0.0, 5)], one.now_us
    )
    one.tick()
    assert [back.target for back in one.agent.stopping(one.now_us).give_back] == [W]


def test_leases_that_a_keeper_lost_are_requested_again_at_the_next_tick() -> None:
    policy = FixedPolicy("a", {W: "10", weight("pods/web"): "200"})
    one = node(policy)
    one.tick()
    one.keeper.held.clear()
    one.keeper.until.clear()
    one.agent.leases_found((), one.now_us)
    del policy.wants[weight("pods/web")]
    instructions = one.tick()
    assert [wish.target for wish in instructions.hold] == [W]
    assert instructions.give_back == ()
    assert one.agent.counts().holds == 3


def test_a_policy_that_may_not_evict_names_the_pod_in_a_reason() -> None:
    policy = FixedPolicy("a", evicts=(HOG,))
    agent = Agent(AgentSettings(roots=ROOTS), "node-1", [policy.entry(may_evict=False)])
    one = FakeNode(agent, (WEB, HOG))
    assert not one.tick().evict
    requested = [reason.text for _, reasons in agent.explain("default/hog").verdicts for reason in reasons]  # type: ignore[union-attr]
    assert "default/hog should leave, but this policy may not evict" in requested


def test_a_new_rule_is_logged_and_for_some_policies_each_new_text() -> None:
    def decide(state: NodeState, config: object, memory: int):  # type: ignore[no-untyped-def]
        return PolicyVerdict((Reason("always", f"now {memory}"),)), memory + 1

    for log_every_text, lines in ((False, 1), (True, 5)):
        policy = NodePolicy("a", decide, None, 0, log_every_text=log_every_text)
        one = FakeNode(Agent(AgentSettings(roots=ROOTS), "node-1", [policy]), (WEB, HOG))
        for _ in range(5):
            one.tick()
        assert len(one.agent.decisions()) == lines


def test_a_one_shot_write_is_requested_once_per_verdict_and_never_given_back() -> None:
    reclaim = KnobTarget("pods/be/hog", Knob.MEMORY_RECLAIM)
    policy = FixedPolicy("a", {reclaim: "4096"})
    agent = Agent(AgentSettings(roots=ROOTS), "node-1", [policy.entry(every_us=5 * SECOND)])
    one = FakeNode(agent, (WEB, HOG))
    assert [tick for tick in range(1, 12) if one.tick().hold] == [1, 6, 11]
    policy.wants = {}
    assert all(not one.tick().give_back for _ in range(10))
    assert len(one.keeper.once) == 3


def test_observe_mode_records_everything_and_emits_nothing() -> None:
    policy = FixedPolicy("a", {W: "10"}, evicts=(HOG,))
    one = node(policy, settings=AgentSettings(mode=AgentMode.OBSERVE, roots=ROOTS))
    assert not one.tick()
    (hold,) = one.agent.held_knobs()
    assert (hold.state, hold.value) == ("would be held", "10")
    assert {d.what for d in one.agent.decisions()} == {DecisionKind.JUDGED, DecisionKind.HELD, DecisionKind.EVICTED}
    policy.wants = {}
    assert not one.tick()
    assert one.agent.held_knobs() == ()


def test_a_dry_run_is_marked_in_the_instructions() -> None:
    one = node(FixedPolicy("a", {W: "10"}), settings=AgentSettings(mode=AgentMode.DRY_RUN, roots=ROOTS))
    instructions = one.tick()
    assert instructions.dry
    assert instructions.hold


def test_a_clean_stop_gives_everything_back_and_emits_nothing_after() -> None:
    one = node(FixedPolicy("a", {W: "10"}))
    one.tick()
    one.carry_out(one.agent.stopping(one.now_us))
    assert one.keeper.held == {}
    assert not one.tick()
    assert one.agent.held_knobs() == ()


def test_a_failing_policy_keeps_its_values_for_one_lease_and_affects_no_other() -> None:
    broken, sound = FixedPolicy("a", {W: "10"}), FixedPolicy("b", {weight("pods/web"): "200"})
    one = node(broken, sound)
    one.tick()
    broken.fails = True
    given = [tick for tick in range(2, 40) if one.tick().give_back]
    assert given == [32]
    assert one.keeper.held == {weight("pods/web"): "200"}
    assert one.agent.counts().policy_failures == 38
    assert [d.reason.text for d in one.agent.decisions() if d.what is DecisionKind.FAILED] == [
        "ValueError: broken on purpose"
    ]
    (failure,) = one.agent.failing_policies()
    assert str(failure).startswith("policy a fails: ValueError: broken on purpose (fake_node.py:")
    broken.fails = False
    assert one.tick().hold
    assert not one.agent.failing_policies()


def test_policies_decide_at_their_own_period_and_their_values_stay_in_force() -> None:
    slow = FixedPolicy("a", {W: "10"})
    agent = Agent(AgentSettings(roots=ROOTS), "node-1", [slow.entry(every_us=10 * SECOND)])
    one = FakeNode(agent, (WEB, HOG))
    for _ in range(21):
        one.tick()
    assert slow.asked == 3
    assert one.keeper.held == {W: "10"}


def test_two_policies_with_one_name_are_refused() -> None:
    with pytest.raises(InvalidInput, match="each name once"):
        Agent(AgentSettings(), "node-1", [FixedPolicy("a").entry(), FixedPolicy("a").entry()])


def test_pressure_runs_only_the_urgent_policies_at_once() -> None:
    calm = FixedPolicy("calm")
    seen: list[NodeState] = []
    urgent = FixedPolicy("urgent")

    def decide(state: NodeState, config: object, memory: int):  # type: ignore[no-untyped-def]
        seen.append(state)
        urgent.wants = {W: "1"} if state.alarms else {}
        return FixedPolicy.decide(urgent, state, config, memory)

    agent = Agent(
        AgentSettings(roots=ROOTS), "node-1", [calm.entry(), replace(urgent.entry(urgent=True), decide=decide)]
    )
    one = FakeNode(agent, (WEB, HOG))
    one.tick()
    instructions = one.agent.pressed(one.now_us + 300_000, "pods/web", "cpu", 150_000)
    assert [wish.value for wish in instructions.hold] == ["1"]
    assert calm.asked == 1
    assert seen[-1].at_us == one.now_us + 300_000
    assert (seen[-1].alarms[0].group, seen[-1].alarms[0].stall_ppm) == ("pods/web", 150_000)
    assert not one.agent.pressed(one.now_us + 310_000, "pods/web", "cpu")  # too soon after the last
    assert not one.agent.pressed(one.now_us + 900_000, "nobody/knows", "cpu")
    assert (one.agent.counts().pressed, one.agent.counts().pressed_ignored) == (1, 2)


def test_evictions_are_requested_once_and_rate_limited() -> None:
    guests = tuple(pod(f"g{i}", f"pods/be/g{i}", QoSClass.BE) for i in range(6))
    policy = FixedPolicy("a", evicts=guests)
    limits = EvictionLimits(per_minute=2, per_hour=3, per_tenant_per_hour=10, outstanding=10)
    one = node(policy, settings=AgentSettings(roots=ROOTS, evictions=limits))
    one.show((WEB, *guests))
    first = one.tick()
    assert [evict_pod.uid for evict_pod in first.evict] == ["uid-g0", "uid-g1"]
    for evict_pod in first.evict:
        one.agent.evicted(evict_pod.uid, True, "", one.now_us)
    later = [(tick, evict_pod.uid) for tick in range(2, 200) for evict_pod in one.tick().evict]
    assert later == [(61, "uid-g2")]
    assert one.agent.counts().evictions_asked == 3


def test_a_refused_eviction_is_retried_with_backoff() -> None:
    policy = FixedPolicy("a", evicts=(HOG,))
    limits = EvictionLimits(per_minute=60, per_hour=60, per_tenant_per_hour=60)
    one = node(policy, settings=AgentSettings(roots=ROOTS, evictions=limits))
    asked = []
    for tick in range(1, 100):
        if one.tick().evict:
            asked.append(tick)
            one.agent.evicted(HOG.uid, False, "a budget forbids it", one.now_us)
    assert asked == [1, 21, 61]
    explanation = one.agent.explain("default/hog")
    assert explanation is not None
    assert explanation.text[0] == "eviction requested (refused): a wants it"


def test_a_terminating_pod_is_not_evicted_again() -> None:
    one = node(FixedPolicy("a", evicts=(HOG,)))
    one.show((WEB, replace(HOG, phase=NodePodPhase.TERMINATING)))
    assert not one.tick()


def test_evictions_of_a_tenant_are_limited_per_hour() -> None:
    mine = tuple(pod(f"m{i}", f"pods/be/m{i}", QoSClass.BE, tenant="me") for i in range(3))
    theirs = pod("theirs", "pods/be/t", QoSClass.BE, tenant="them")
    limits = EvictionLimits(per_minute=9, per_hour=9, per_tenant_per_hour=1, outstanding=9)
    one = node(FixedPolicy("a", evicts=(*mine, theirs)), settings=AgentSettings(roots=ROOTS, evictions=limits))
    one.show((*mine, theirs))
    assert [evict_pod.uid for evict_pod in one.tick().evict] == ["uid-m0", "uid-theirs"]
    explanation = one.agent.explain("default/m1")
    assert explanation is not None
    assert explanation.leaves is not None
    assert "1 of tenant me in default within an hour" in explanation.leaves.text


def test_the_health_of_a_pod_reaches_the_state_and_expires() -> None:
    one = node()
    health = ServiceHealth(SECOND, 100, 5000, 1, 0)
    assert one.agent.health_reported("default/web", health, one.now_us)
    assert not one.agent.health_reported("default/nobody", health, one.now_us)
    one.tick()
    (entry,) = one.agent.state().services  # type: ignore[union-attr]
    assert entry.health == replace(health, age_us=SECOND)
    for _ in range(30):
        one.tick()
    (entry,) = one.agent.state().services  # type: ignore[union-attr]
    assert entry.health is None
    assert one.agent.counts().health_unknown == 1


def test_the_group_of_all_best_effort_pods_is_found_where_no_other_pod_shares_it() -> None:
    one = node()
    one.show((WEB, HOG, pod("two", "pods/be/two", QoSClass.BE)))
    one.tick()
    assert one.agent.state().best_effort_group == "pods/be"  # type: ignore[union-attr]
    one.show((WEB, HOG, pod("two", "pods/two", QoSClass.BE)))
    one.tick()
    assert one.agent.state().best_effort_group is None  # type: ignore[union-attr]
    one.show((WEB, pod("two", "pods/two", QoSClass.BE)))
    one.tick()
    assert one.agent.state().best_effort_group == "pods/two"  # type: ignore[union-attr]
    one.show(
        (WEB, HOG, pod("two", "pods/be/two", QoSClass.BE), pod("kube-proxy", "pods/be/kube-proxy", QoSClass.SYSTEM))
    )
    one.tick()
    assert one.agent.state().best_effort_group == "pods/be"  # type: ignore[union-attr]


def test_containers_are_read_and_kept_in_their_order() -> None:
    containers = (NodeContainer("b", "pods/web/b"), NodeContainer("a", "pods/web/a"))
    one = node(use={"pods/web/a": 200, "pods/web/b": 300})
    one.show((replace(WEB, containers=containers),))
    one.tick()
    one.tick()
    (entry,) = one.agent.state().pods  # type: ignore[union-attr]
    assert [(use.group, use.cpu_m) for use in entry.containers] == [("pods/web/b", 300), ("pods/web/a", 200)]


def test_knobs_of_policies_are_read_when_unknown_and_again_when_old() -> None:
    policy = FixedPolicy("a")
    agent = Agent(AgentSettings(roots=ROOTS), "node-1", [policy.entry(reads=lambda state: (W,))])
    one = FakeNode(agent, (WEB, HOG), knobs={W: "100"})
    assert agent.knobs_to_read() == (W,)
    one.tick()
    assert agent.state().knobs == {W: "100"}  # type: ignore[union-attr]
    assert agent.knobs_to_read() == ()
    for _ in range(20):
        one.tick()
    one.knobs[W] = "55"
    assert one.agent.state().knobs == {W: "100"}  # type: ignore[union-attr]
    for _ in range(20):
        one.tick()
    assert one.agent.state().knobs == {W: "55"}  # type: ignore[union-attr]


def test_a_held_value_is_in_the_next_state() -> None:
    policy = FixedPolicy("a", {W: "10"})
    agent = Agent(AgentSettings(roots=ROOTS), "node-1", [policy.entry(reads=lambda state: (W,))])
    one = FakeNode(agent, (WEB, HOG), knobs={W: "100"})
    one.tick()
    one.tick()
    assert agent.state().knobs == {W: "10"}  # type: ignore[union-attr]
    policy.wants = {}
    one.tick()
    one.tick()
    assert agent.state().knobs == {W: "100"}  # type: ignore[union-attr]


def test_the_explanation_of_a_throttled_pod_names_the_knobs_above_it_and_why() -> None:
    quota = KnobTarget("pods/be", Knob.CPU_MAX)
    one = node(FixedPolicy("suppress", {quota: "50000 100000"}), FixedPolicy("other", {quota: "90000 100000"}))
    for _ in range(3):
        one.tick()
    explanation = one.agent.explain("default/hog")
    assert explanation is not None
    assert explanation.groups == ("pods", "pods/be", "pods/be/hog")
    assert explanation.text[:3] == (
        "/pods/be:cpu.max is held at '50000 100000' for 2.0 s, by suppress: suppress wants it",
        "  other wanted '90000 100000' and was overruled",
        "  it is released when its test says so",
    )
    assert one.agent.explain("uid-hog") == replace(explanation, asked="uid-hog")
    assert one.agent.explain("/pods/be/hog").holds == explanation.holds  # type: ignore[union-attr]
    assert one.agent.explain("default/nobody") is None


def test_decisions_are_numbered_and_bounded() -> None:
    policy = FixedPolicy("a")
    one = node(policy, settings=AgentSettings(roots=ROOTS, decisions_kept=5))
    for tick in range(40):
        policy.wants = {W: str(1 + tick % 100)}
        one.tick()
    kept = one.agent.decisions()
    assert [d.number for d in kept] == [37, 38, 39, 40, 41]
    assert one.agent.decisions(since=40) == kept[-1:]
    assert one.agent.decisions(since=99) == ()


def test_a_sample_at_the_same_instant_is_not_used() -> None:
    policy = FixedPolicy("a")
    one = node(policy)
    one.tick()
    assert not one.agent.sampled(one.sample(), {})
    assert policy.asked == 1
    assert one.agent.counts().too_soon == 1


def test_a_clock_that_goes_back_an_hour_delays_nothing() -> None:
    policy = FixedPolicy("a", {W: "10"})
    one = node(policy)
    one.tick()
    one.now_us -= 3600 * SECOND
    requested = [tick for tick in range(1, 22) if one.tick().hold]
    assert requested == [11, 21]
    assert one.agent.counts().clock_went_back == 1


def test_stray_answers_are_counted() -> None:
    one = node()
    one.agent.answered([LeaseAnswer(W, LeaseState.HELD)], one.now_us)
    one.agent.evicted("uid-nobody", True, "", one.now_us)
    assert one.agent.counts().stray_answers == 2


def test_a_time_to_live_above_the_agents_lease_is_capped() -> None:
    one = node(FixedPolicy("a", {W: "10"}, ttl_us=3600 * SECOND))
    (element,) = one.tick().hold
    assert element == SetKnob(W, "10", Reason("a", "a wants it"), 30 * SECOND)


def test_a_moving_cpu_set_passes_through_the_union_and_both_answers_are_expected() -> None:
    upper, lower = KnobTarget("pods/be", Knob.CPUSET_CPUS), KnobTarget("pods/be/hog", Knob.CPUSET_CPUS)
    policy = FixedPolicy("a", {upper: "0-1", lower: "0-1"})
    agent = Agent(AgentSettings(roots=ROOTS), "node-1", [policy.entry(reads=lambda state: (upper, lower))])
    one = FakeNode(agent, (WEB, HOG), knobs={upper: "0-3", lower: "0-3"})
    one.tick()
    policy.wants = {upper: "2-3", lower: "2-3"}
    instructions = one.tick()
    assert [(wish.target.group, wish.value) for wish in instructions.hold] == [
        ("pods/be", "0-3"),
        ("pods/be/hog", "0-3"),
        ("pods/be/hog", "2-3"),
        ("pods/be", "2-3"),
    ]
    assert {hold.state for hold in agent.held_knobs()} == {"held"}
    assert agent.counts().stray_answers == 0
    assert not one.tick()


def test_the_default_policies_throttle_a_hog_beside_a_service_and_explain_it() -> None:
    agent = Agent(AgentSettings(roots=ROOTS), "node-1")
    one = FakeNode(agent, (WEB, HOG), use={"pods/web": 1500, "pods/be/hog": 2500}, knobs={})
    for _ in range(5):
        one.tick()
    assert {hold.target.knob for hold in agent.held_knobs()} >= {Knob.CPU_IDLE, Knob.CPUSET_CPUS}
    explanation = agent.explain("default/hog")
    assert explanation is not None
    assert any("best-effort-cpu" in line for line in explanation.text)
    one.show((WEB,))
    one.tick()
    assert one.keeper.held == {}


def test_a_policy_taking_over_a_knob_at_its_value_is_logged_without_an_instruction() -> None:
    first, second = FixedPolicy("a", {W: "10"}), FixedPolicy("b", {W: "10"})
    one = node(first, second)
    one.tick()
    first.wants = {}
    assert not one.tick()
    held = [d for d in one.agent.decisions() if d.what is DecisionKind.HELD]
    assert [(d.policy, d.value) for d in held] == [("a", "10"), ("b", "10")]


def test_a_policy_whose_reads_fails_affects_no_other() -> None:
    def reads(state: NodeState) -> tuple[KnobTarget, ...]:
        raise ValueError("broken on purpose")

    agent = Agent(AgentSettings(roots=ROOTS), "node-1", [FixedPolicy("a", {W: "10"}).entry(reads=reads)])
    one = FakeNode(agent, (WEB, HOG))
    assert one.tick().hold
    assert agent.counts().policy_failures > 0


def test_validate_passes_between_an_update_and_the_next_tick() -> None:
    one = node(FixedPolicy("a", {W: "10"}))
    one.tick()
    other = KnobLease(weight("pods/x"), "100", "10", Reason("before", ""), LeaseState.HELD, 0.0, 5)
    one.agent.leases_found((other,), one.now_us)
    one.agent.validate()
    one.agent.machine_seen(frozenset())
    one.agent.validate()
    assert {back.target for back in one.tick().give_back} == {weight("pods/x")}


def test_validate_detects_a_value_that_is_not_the_plans() -> None:
    policy = FixedPolicy("a", {W: "10"})
    one = node(policy)
    one.tick()
    entry = one.agent._tracker.get(W)
    assert entry is not None
    entry.value = "11"
    with pytest.raises(Permanent, match="is held at '11', not '10'"):
        one.agent.validate()


def test_room_for_pods_is_what_the_cluster_says_else_the_capacity_less_what_is_reserved() -> None:
    one = node(settings=AgentSettings(roots=ROOTS, reserved_cpu_m=500, reserved_memory_bytes=1 << 20))
    assert one.agent.room() is None
    one.tick()
    host = one.sample().host
    assert one.agent.room() == Use(1000 * one.cpus - 500, host.memory_total_bytes - (1 << 20))
    one.agent.allocatable_seen(Allocatable(cpu_m=3000, memory_bytes=1 << 30))
    assert one.agent.room() == Use(3000, 1 << 30)
    one.agent.allocatable_seen(None)
    assert one.agent.room() == Use(1000 * one.cpus - 500, host.memory_total_bytes - (1 << 20))

"""Questions about pods: why they wait, what would help, why they are on their node, and what if."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.fakes.cluster import cpu_cluster
from tests.fakes.cluster.questions import carry_out, cluster, node, pod

from cotenant.engine.cycle.history import DecisionHistory
from cotenant.engine.explain.evictions import lowest
from cotenant.model.cluster.affinity import NodeAffinity, NodeSelector, NodeSelectorTerm, PodTerm
from cotenant.model.cluster.labels import HOSTNAME, Labels, LabelSelector, Requirement, SelectorOperator
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.observed import ClaimBinding, VolumeNeed, VolumeOption
from cotenant.model.cluster.taints import Taint, TaintEffect
from cotenant.model.decisions.answers import PodAnswer, WaitExplanation, WhatIf
from cotenant.model.errors import InvalidInput


def explain(c: object, name: str = "x", *changes: str, now_s: float = 1.0) -> PodAnswer:
    found = c.why.pod(f"default/{name}", now_s, WhatIf.parse(changes))  # type: ignore[attr-defined]
    assert found is not None
    return found


def waiting(answer: PodAnswer) -> WaitExplanation:
    assert answer.waiting is not None
    return answer.waiting


def test_an_unknown_pod_has_no_answer_and_an_unknown_node_is_an_error() -> None:
    c = cluster(node("a"))
    assert c.why.pod("default/x", 0.0) is None
    c.pod_seen(pod("x"), 0.0)
    with pytest.raises(InvalidInput, match="--if node: nowhere"):
        explain(c, "x", "node=nowhere")


def test_a_node_that_cannot_be_used_is_named_until_it_can_or_is_gone() -> None:
    c = cluster(node("a", 2000))
    c.pod_seen(pod("x", 3000), 0.0)
    c.decide(0.0)
    why = "node b: allocatable.cpu: 0: expected more than 0; it can hold no pod"
    c.node_unusable("b", why, 1.0)
    assert f"a node is not counted: {why}" in waiting(explain(c)).notes
    c.node_gone("b", 2.0)
    assert waiting(explain(c)).notes == ()
    for name in "bcdef":
        c.node_unusable(name, why, 3.0)
    assert waiting(explain(c)).notes[-1].startswith("2 more nodes are not counted")
    for name in "bcdef":
        c.node_seen(node(name, 2000))
    assert waiting(explain(c)).notes == ()


def test_a_pod_whose_bind_waits_for_its_claims_is_said_to() -> None:
    c = cluster(node("a"))
    anywhere = VolumeOption("", None)
    lazy = VolumeNeed("default/data", ClaimBinding.PROVISIONED, (anywhere,))
    c.pod_seen(replace(pod("x"), volumes=(lazy, VolumeNeed("default/old", ClaimBinding.BOUND, (anywhere,)))), 0.0)
    (bind,) = c.decide(0.0)
    assert explain(c).headline == "it was given a; its bind is on the way"
    assert c.sending(bind.uid, 0.0)
    assert explain(c).headline == "it was given a; its bind waits for PersistentVolumeClaim default/data"


def test_counts_nearest_miss_and_the_largest_request_that_would_fit() -> None:
    c = cluster(node("a", 3800), node("b", 3800), node("c", 2000), node("d", 8000, ready=False))
    c.pod_seen(pod("x", 4000, memory=1000), 0.0)
    c.decide(0.0)
    answer = explain(c)
    why = waiting(answer)
    assert (
        answer.headline
        == "it waits: 0/4 nodes are available: 1 node(s) were not ready or unschedulable, 3 Insufficient cpu."
    )
    assert {(rejection.filter, rejection.nodes) for rejection in why.rejections} == {
        ("NodeReady", 1),
        ("NodeResourcesFit", 3),
    }
    assert why.nearest == (
        "2 nodes fit but for 200m cpu",
        "1 node fits but for node(s) were not ready or unschedulable",
    )
    assert [entry.words for entry in why.helps if entry.what == "request"] == [
        "ask for 3800m cpu instead of 4: 2 nodes fit (a, b) then"
    ]
    assert why.retry is not None
    assert (why.retry.standing, why.retry.at_s) == ("unschedulable", 300.0)


def test_requests_of_several_resources_are_lowered_together() -> None:
    c = cluster(node("a", 4000, memory=500), node("b", 1000, memory=4000))
    c.pod_seen(pod("x", 4000, memory=4000), 0.0)
    (help_,) = [entry for entry in waiting(explain(c)).helps if entry.what == "request"]
    assert help_.words == "ask for 1 cpu instead of 4: b fits then"


def test_help_names_labels_taints_and_cordons() -> None:
    c = cluster(
        node("a", labels={"disk": "fast"}),
        node("b", labels={"disk": "fast"}, taints=(Taint("team", "a", TaintEffect.NO_SCHEDULE),)),
        node("c", labels={"zone": "1"}),
        node("d", labels={"disk": "fast", "zone": "1"}, unschedulable=True),
    )
    term = NodeSelectorTerm((Requirement("zone", SelectorOperator.IN, ("1",)),))
    wants = NodeAffinity(required=NodeSelector((term,)))
    c.pod_seen(pod("x", node_selector=Labels.of({"disk": "fast"}), node_affinity=wants), 0.0)
    words = {entry.words for entry in waiting(explain(c)).helps}
    assert words == {
        "label zone=1: a fits then",
        "label disk=fast: c fits then",
        "uncordon: d fits then",
    }
    c.pod_seen(pod("y", node_selector=Labels.of({"disk": "fast", HOSTNAME: "b"})), 0.0)
    assert "tolerate the taint {team: a}: b fits then" in {entry.words for entry in waiting(explain(c, "y")).helps}


@pytest.mark.parametrize(
    ("nodes", "words"),
    [
        ([node("a", ready=False), node("b", 500)], {"wait for nodes to be ready: a fits then", "ask for 500m cpu"}),
        ([node("a", ready=False), node("b", ready=False)], {"wait for nodes to be ready: 2 nodes fit (a, b) then"}),
        (
            [node("a", taints=(Taint("node.kubernetes.io/disk-pressure", effect=TaintEffect.NO_SCHEDULE),))],
            {"wait for nodes to lose the taint node.kubernetes.io/disk-pressure: a fits then"},
        ),
        (
            [node("a", taints=(Taint("node.kubernetes.io/disk-pressure"), Taint("team", "b")))],
            set(),  # two kinds of change
        ),
        (
            [node("a", taints=(Taint("gpu"), Taint("team", "b")))],
            {"tolerate the taints {gpu: }, {team: b}: a fits then"},
        ),
        (
            [node(f"n{i}", unschedulable=True) for i in range(10)],
            {"uncordon: 3 nodes fit (n0, n1, n2) then; 7 more are like them"},
        ),
        (
            [node(f"n{i}", unschedulable=True) for i in range(4)],
            {"uncordon: 3 nodes fit (n0, n1, n2) then; 1 more is like them"},
        ),
    ],
)
def test_help_says_what_nodes_have_to_become(nodes: list[Node], words: set[str]) -> None:
    c = cluster(*nodes)
    c.pod_seen(pod("x"), 0.0)
    found = {entry.words for entry in waiting(explain(c)).helps}
    assert {text.partition(" instead")[0] for text in found} == words


def test_priority_that_would_evict_is_computed_with_its_victims() -> None:
    c = cluster(node("a"), node("b"))
    c.pod_seen(pod("low", 4000, priority=7, on="a"), 0.0)
    c.pod_seen(pod("high", 4000, priority=100, on="b"), 0.0)
    c.pod_seen(pod("x", 3000), 0.0)
    (wanted,) = [entry for entry in waiting(explain(c)).helps if entry.what == "priority"]
    assert wanted.words == "priority 8 or more (it has 0): default/low would be evicted on a"
    assert waiting(explain(c)).preemption == "no pod of a priority below 0 is on a node"
    why = waiting(explain(c, "x", "priority=101"))
    assert why.preemption == "default/low would be evicted on a"
    c.pod_seen(pod("never", 3000, preempts=False), 0.0)
    assert waiting(explain(c, "never")).preemption == "its preemptionPolicy is Never: no pod is evicted for it"


def test_past_preemptions_are_shown_with_their_rule() -> None:
    c = cluster(node("a"))
    c.pod_seen(pod("low", 4000, on="a"), 0.0)
    c.pod_seen(pod("x", 3000, priority=5), 0.0)
    c.decide(0.0)
    answer = explain(c)
    assert answer.promised == "a"
    assert waiting(answer).preemption == "a is its nominated node; it waits for default/low to terminate"
    (done,) = answer.preemptions
    assert (done.preemptor, done.victims, done.node, done.rule) == (
        "default/x",
        ("default/low",),
        "a",
        "lower priority",
    )
    assert explain(c, "low").preemptions == answer.preemptions


def test_a_nominated_pod_is_not_listed_as_a_victim() -> None:
    c = cluster(node("a"))
    c.pod_seen(pod("low", 4000, on="a"), 0.0)
    c.pod_seen(pod("vip", 3000, priority=5), 0.0)
    c.decide(0.0)
    c.pod_seen(pod("x", 3000), 0.0)
    (wanted,) = [entry for entry in waiting(explain(c)).helps if entry.what == "priority"]
    assert wanted.words == "priority 6 or more (it has 0): it would wait for default/low to terminate on a"
    c.validate()


def test_what_if_requests_are_lower_or_higher() -> None:
    c = cluster(node("a", 1000), node("b", 600))
    c.pod_seen(pod("x", 4000, memory=100), 0.0)
    c.decide(0.0)
    answer = explain(c, "x", "cpu=500m")
    assert answer.headline.startswith("with cpu 500m, 2 of 2 nodes would take it, ")
    assert (waiting(answer).passing, answer.requests[0]) == (2, ("cpu", "500m"))
    answer = explain(c, "x", "cpu=500m", "nvidia.com/gpu=1")
    assert answer.headline == (
        "with cpu 500m, nvidia.com/gpu 1 it would wait: 0/2 nodes are available: 2 Insufficient nvidia.com/gpu."
    )
    assert "nvidia.com/gpu" not in c._components.assignments.encoder.axis.names
    c.validate()


def test_what_if_a_node_selector_is_set_changed_or_dropped() -> None:
    c = cluster(node("a", labels={"disk": "ssd"}), node("b", labels={"disk": "hdd"}), node("c", 500))
    c.pod_seen(pod("x", 1000, node_selector=Labels.of({"disk": "tape"})), 0.0)
    c.decide(0.0)
    assert waiting(explain(c)).passing == 0
    answer = explain(c, "x", "selector.disk=ssd")
    assert answer.headline.startswith("with node selector disk=ssd, 1 of 3 nodes would take it, ")
    assert [candidate.node for candidate in answer.candidates] == ["a"]
    assert waiting(explain(c, "x", "selector.disk=-")).passing == 2
    answer = explain(c, "x", f"selector.{HOSTNAME}=c", "selector.disk=-")
    assert answer.headline == (
        f"with no node selector disk, node selector {HOSTNAME}=c it would wait: "
        "0/3 nodes are available: 1 Insufficient cpu, 1 Insufficient memory, 2 node(s) didn't match Pod's node "
        "affinity/selector."
    )
    assert waiting(explain(c)).passing == 0
    c.validate()


def test_why_not_that_node() -> None:
    c = cluster(node("a"), node("b", 2000, taints=(Taint("team", "a", TaintEffect.NO_SCHEDULE),)), node("c", 8000))
    c.pod_seen(pod("x", 3000), 0.0)
    carry_out(c, c.decide(0.0), 0.0)
    answer = explain(c, "x", "node=b")
    assert answer.asked_about is not None
    assert [(refusal.plugin, refusal.missing) for refusal in answer.asked_about.refusals] == [
        ("TaintToleration", ""),
        ("NodeResourcesFit", "1 cpu"),
        ("NodeResourcesFit", "1000Mi memory"),
    ]
    answer = explain(c, "x", "node=a")
    assert answer.asked_about is not None
    assert (answer.asked_about.refusals, answer.asked_about.place, answer.asked_about.of) == ((), 2, 2)


def test_a_placed_pod_has_its_record_and_the_terms_of_scores_without_itself() -> None:
    c = cluster(node("a", 4000), node("b", 8000), profile_name="kube-default")
    c.pod_seen(pod("x", 3000), 0.0)
    carry_out(c, c.decide(0.0), 0.0)
    answer = explain(c)
    assert (answer.node, answer.headline, answer.waiting) == ("b", "it is on b", None)
    assert answer.record is not None
    assert [candidate.node for candidate in answer.record.candidates] == ["b", "a"]
    assert [candidate.score for candidate in answer.candidates] == [
        candidate.score for candidate in answer.record.candidates
    ]
    assert [part.name for part in answer.candidates[0].parts] == ["NodeResourcesFit", "NodeResourcesBalancedAllocation"]


def test_a_full_node_is_evaluated_without_the_pod_in_question() -> None:
    c = cluster(node("a", 1000))
    term = PodTerm(HOSTNAME, LabelSelector.of({"app": "x"}), weight=None)
    c.pod_seen(pod("x", 1000, labels=Labels.of({"app": "x"}), anti_affinity=(term,)), 0.0)
    carry_out(c, c.decide(0.0), 0.0)
    answer = explain(c)
    assert [candidate.node for candidate in answer.candidates] == ["a"]
    assert explain(c, "x", "cpu=1001m").headline == (
        "with cpu 1001m it would wait: 0/1 nodes are available: 1 Insufficient cpu."
    )
    c.validate()


def test_the_headline_of_gated_and_blocked_pods() -> None:
    c = cluster(node("a"))
    c.pod_seen(pod("x", gates=("wait", "more")), 0.0)
    c.pod_seen(pod("y", unsupported=("resource claims are not supported",)), 0.0)
    c.decide(0.0)
    assert explain(c).headline == "it waits: its scheduling gates are closed: wait, more"
    assert explain(c, "y").headline == "it waits: resource claims are not supported"
    assert (waiting(explain(c)).held, waiting(explain(c)).passing) == (True, 1)


def test_resources_reserved_for_nominated_pods_are_not_offered() -> None:
    c = cluster(node("a"))
    c.pod_seen(pod("low", 4000, on="a"), 0.0)
    c.pod_seen(pod("vip", 4000, priority=5), 0.0)
    c.decide(0.0)
    c.pod_seen(pod("x", 1000), 0.0)
    assert "Insufficient cpu" in explain(c).headline
    assert explain(c, "vip", "cpu=100m").headline.startswith("with cpu 100m it would wait")  # low is still there


@pytest.mark.parametrize(
    "text",
    [
        "cpu",
        "cpu=",
        "=1",
        "cpu=-1",
        "cpu=1,cpu=2",
        "pods=3",
        "priority=x",
        "priority=99999999999",
        "speed=2",
        "selector.=a",
        "selector.a=",
    ],
)
def test_an_invalid_what_if_is_an_error_of_one_line(text: str) -> None:
    with pytest.raises(InvalidInput, match="--if"):
        WhatIf.parse((text,))


def test_the_history_is_bounded() -> None:
    c = cluster(node("a", 100_000))
    past = DecisionHistory(max_records=3, max_preemptions=2)
    for i in range(10):
        c.pod_seen(pod(f"p{i}", 10), 0.0)
        past.note(c.decide(float(i)), float(i))
    assert len(past) == 3
    assert (past.record("uid-p0"), past.record("uid-p9") is not None) == (None, True)


@pytest.mark.parametrize(("works_from", "found"), [(0, 6), (8, 8), (11, 11), (12, None)])
def test_the_lowest_priority_is_found_by_bisection(works_from: int, found: int | None) -> None:
    assert lowest(5, np.array([1, 5, 7, 7, 9, 10]), lambda priority: priority >= works_from) == found


def test_a_what_if_changes_only_what_is_given() -> None:
    value = WhatIf.parse(("cpu=1", "priority=-3,node=a"))
    assert (value.priority, value.node, value.changes, value.words()) == (-3, "a", True, "cpu 1, priority -3")
    assert not replace(value, requests=type(value.requests)(), priority=None).changes


def test_the_figures_of_a_refusal_are_those_of_the_node_that_is_asked_about() -> None:
    c = cpu_cluster.cluster(cpu_cluster.node("a"), cpu_cluster.node("b"))
    c.pod_seen(cpu_cluster.pod("ona", 3, on="a", has="0-2"), 0.0)
    c.pod_seen(cpu_cluster.pod("onb", 6, on="b", has="0-5"), 0.0)
    c.pod_seen(cpu_cluster.pod("x", 8), 0.0)
    c.decide(0.0)
    said = {}
    for name in "ab":
        found = explain(c, "x", f"node={name}").asked_about
        assert found is not None
        said[name] = [refusal.missing for refusal in found.refusals]
    assert said == {"a": ["3 cpu", "5 free of 8"], "b": ["6 cpu", "2 free of 8"]}

"""Preemption in the cluster engine: nominations, grace, and who may take what meanwhile."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from cotenant.engine.cluster import Cluster
from cotenant.engine.framework.instructions import Bind, ClearNomination, Instruction, Preempt, Unschedulable
from cotenant.model.cluster.affinity import PodTerm
from cotenant.model.cluster.labels import HOSTNAME, Labels, LabelSelector
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.observed import DisruptionBudget, ObservedPod
from cotenant.model.cluster.pod import Pod
from cotenant.model.resources import Amounts
from cotenant.policy.placement.profiles import profile


def node(name: str, cpu: int = 1000) -> Node:
    return Node(name, Amounts.of({"cpu": cpu, "memory": 8 << 30}), Labels.of({HOSTNAME: name}))


def pod(name: str, priority: int = 0, cpu: int = 1000, on: str = "", **more: object) -> ObservedPod:
    labels = Labels.of({"app": name.partition("-")[0]})
    value = Pod(name, requests=Amounts.of({"cpu": cpu, "memory": 1 << 20}), priority=priority, labels=labels)
    return ObservedPod(value, f"uid-{name}", "cotenant", 0.0, node=on, **more)  # type: ignore[arg-type]


def cluster(*pods: ObservedPod, nodes: tuple[str, ...] = ("a",)) -> Cluster:
    made = Cluster(profile("least-allocated"), np.random.default_rng(1))
    for name in nodes:
        made.node_seen(node(name))
    for pod in pods:
        made.pod_seen(pod, 0.0)
    return made


def preemptions(out: tuple[Instruction, ...]) -> dict[str, tuple[str, tuple[str, ...]]]:
    return {p.uid: (p.node, tuple(v.uid for v in p.victims)) for p in out if isinstance(p, Preempt)}


def binds(out: tuple[Instruction, ...]) -> dict[str, str]:
    return {b.uid: b.node for b in out if isinstance(b, Bind)}


def test_a_more_important_pod_waits_for_its_victims_and_then_has_their_node() -> None:
    resident = pod("batch", 0, on="a")
    c = cluster(resident, pod("vip", 10))
    out = c.decide(0.0)
    assert preemptions(out) == {"uid-vip": ("a", ("uid-batch",))}
    assert c.reserved() == {"uid-vip": "a"}
    c.validate()
    c.pod_seen(replace(resident, ends_s=30.0), 1.0)  # it takes its grace
    for now in (1.0, 5.0, 20.0):
        assert preemptions(c.decide(now)) == {}
    c.pod_gone("uid-batch", 30.0)
    assert binds(c.decide(30.0)) == {"uid-vip": "a"}
    assert c.reserved() == {}
    c.validate()


def test_what_is_kept_for_a_pod_is_not_said_to_be_in_its_way() -> None:
    resident = pod("batch", 0, on="a")
    c = cluster(resident, pod("vip", 10))
    c.decide(0.0)
    c.pod_seen(replace(resident, ends_s=300.0), 1.0)  # it takes its grace
    c.node_seen(node("a", 1100))  # 100m are free, and the pod that waits for 1000m is judged again
    told = [i for now in (2.0, 40.0) for i in c.decide(now) if isinstance(i, Unschedulable)]
    assert {i.record.nearest for i in told} == {"1 node fits but for 900m cpu"}
    c.validate()
    c.pod_gone("uid-batch", 50.0)
    assert binds(c.decide(50.0)) == {"uid-vip": "a"}


def test_an_equal_one_is_not_preempted_and_the_words_say_so() -> None:
    c = cluster(pod("batch", 5, on="a"), pod("other", 5))
    (told,) = c.decide(0.0)
    assert isinstance(told, Unschedulable)
    assert told.message.startswith("0/1 nodes are available: 1 Insufficient cpu.")


def test_preemption_policy_never_waits() -> None:
    c = cluster(pod("batch", 0, on="a"), pod("polite", 10, preempts=False))
    out = c.decide(0.0)
    assert preemptions(out) == {}
    assert "preemptionPolicy=Never" in "".join(i.message for i in out if isinstance(i, Unschedulable))


def test_budgets_come_first() -> None:
    c = cluster(pod("guarded", 0, on="a"), pod("free", 0, on="b"), pod("vip", 10), nodes=("a", "b"))
    c.budget_seen(DisruptionBudget("default", "pdb", LabelSelector.of({"app": "guarded"}), allowed=0))
    assert preemptions(c.decide(0.0)) == {"uid-vip": ("b", ("uid-free",))}


def test_the_room_is_kept_from_less_important_pods_but_not_from_more_important_ones() -> None:
    c = cluster(pod("batch", 0, on="a"), pod("vip", 10))
    c.decide(0.0)
    c.pod_gone("uid-batch", 1.0)
    c.pod_seen(pod("thief", 5), 1.0)
    c.pod_seen(pod("king", 20), 1.0)
    out = c.decide(1.0)
    assert binds(out) == {"uid-king": "a"}
    c.validate()
    out = c.decide(40.0)
    assert "uid-thief" not in binds(out)


def test_a_nominated_pod_takes_another_node_if_its_own_is_lost() -> None:
    c = cluster(pod("batch", 0, on="a"), pod("vip", 10))
    c.decide(0.0)
    c.node_seen(node("b"))
    c.node_gone("a", 1.0)
    out = c.decide(2.0)
    assert any(isinstance(i, ClearNomination) for i in out)
    assert binds((*out, *c.decide(12.0))) == {"uid-vip": "b"}
    c.validate()


def test_the_more_important_preemptor_displaces_the_less_important_one() -> None:
    batch = pod("batch", 0, on="a")
    c = cluster(batch, pod("vip", 10))
    c.decide(0.0)
    c.pod_seen(replace(batch, ends_s=30.0), 1.0)
    c.pod_seen(pod("king", 20), 1.0)
    out = c.decide(1.0)
    assert preemptions(out) == {"uid-king": ("a", ())}  # the victim is going already
    assert any(isinstance(i, ClearNomination) and i.uid == "uid-vip" for i in out)
    c.validate()
    c.pod_gone("uid-batch", 30.0)
    assert binds(c.decide(30.0)) == {"uid-king": "a"}


def test_a_failed_preemption_gives_the_room_back() -> None:
    c = cluster(pod("batch", 0, on="a"), pod("vip", 10))
    c.decide(0.0)
    c.preempt_failed("uid-vip", 1.0)
    assert c.reserved() == {}
    c.validate()
    assert preemptions(c.decide(12.0)) == {"uid-vip": ("a", ("uid-batch",))}


def test_several_preemptors_have_victims_of_their_own() -> None:
    c = cluster(
        pod("batch-0", 0, on="a"), pod("batch-1", 0, on="b"), *(pod(f"vip-{i}", 10) for i in range(3)), nodes=("a", "b")
    )
    out = c.decide(0.0)
    assert sorted(preemptions(out).values()) == [("a", ("uid-batch-0",)), ("b", ("uid-batch-1",))]
    assert c.decide(1.0) == ()
    c.validate()


def test_a_restarted_scheduler_keeps_the_promise() -> None:
    c = cluster(pod("vip", 10, nominated_node="a"), pod("batch", 0, on="a", ends_s=30.0), pod("thief", 5))
    out = c.decide(0.0)
    assert preemptions(out) == {}
    assert binds(out) == {}
    assert c.reserved() == {"uid-vip": "a"}
    c.pod_gone("uid-batch", 30.0)
    assert binds(c.decide(30.0)) == {"uid-vip": "a"}
    c.validate()


def test_a_preemptor_that_is_deleted_leaves_no_room_kept() -> None:
    c = cluster(pod("batch", 0, on="a"), pod("vip", 10), pod("thief", 5, cpu=900))
    c.decide(0.0)
    c.pod_gone("uid-vip", 1.0)
    c.pod_gone("uid-batch", 2.0)
    assert binds(c.decide(20.0)) == {"uid-thief": "a"}
    c.validate()


def test_a_preemptor_of_equal_priority_does_not_displace_the_first_one() -> None:
    batch = pod("batch", 0, on="a")
    c = cluster(batch, pod("first", 10, cpu=600))
    assert preemptions(c.decide(0.0)) == {"uid-first": ("a", ("uid-batch",))}
    c.pod_seen(replace(batch, ends_s=30.0), 1.0)
    c.pod_seen(pod("equal", 10, cpu=400), 1.0)
    out = c.decide(1.0)
    assert not any(isinstance(i, ClearNomination) for i in out)
    assert c.reserved() == {"uid-first": "a", "uid-equal": "a"}
    c.pod_gone("uid-batch", 30.0)
    assert binds(c.decide(30.0)) == {"uid-first": "a", "uid-equal": "a"}
    c.validate()


def test_the_room_of_a_nominated_pod_is_kept_from_pods_of_its_own_priority() -> None:
    c = cluster(pod("batch", 0, cpu=600, on="a"), pod("first", 10, cpu=800))
    assert preemptions(c.decide(0.0)) == {"uid-first": ("a", ("uid-batch",))}
    c.pod_seen(pod("equal", 10, cpu=300), 1.0)  # fits beside the victim, and not beside the nominated pod
    assert binds(c.decide(1.0)) == {}
    c.pod_seen(pod("king", 20, cpu=300), 2.0)
    assert binds(c.decide(2.0)) == {"uid-king": "a"}


def away_from(app: str, from_: ObservedPod) -> ObservedPod:
    term = PodTerm(HOSTNAME, LabelSelector.of({"app": app}))
    return replace(from_, pod=replace(from_.pod, anti_affinity=(term,)))


def test_rules_of_a_pod_hold_beside_a_nominated_pod_of_its_own_priority() -> None:
    c = cluster(pod("batch", 0, cpu=100, on="a"), away_from("batch", pod("first", 10, cpu=100)))
    assert preemptions(c.decide(0.0)) == {"uid-first": ("a", ("uid-batch",))}
    c.pod_seen(away_from("first", pod("equal", 10, cpu=100)), 1.0)
    assert binds(c.decide(1.0)) == {}
    c.pod_seen(away_from("first", pod("king", 20, cpu=100)), 2.0)
    assert binds(c.decide(2.0)) == {"uid-king": "a"}


def test_a_terminating_pod_of_equal_priority_on_the_nominated_node_is_not_waited_for() -> None:
    """It is no victim, so its end is not the room that the preemptor was promised; another node is cleared."""
    c = cluster(pod("batch-0", 0, on="a"), pod("vip", 10))
    assert preemptions(c.decide(0.0)) == {"uid-vip": ("a", ("uid-batch-0",))}
    c.pod_seen(pod("peer", 10, on="a", ends_s=1e6), 1.0)  # bound by another scheduler, and deleted with a long grace
    c.pod_gone("uid-batch-0", 1.0)
    c.node_seen(node("b"))
    c.pod_seen(pod("batch-1", 0, on="b"), 1.0)
    assert preemptions(c.decide(60.0)) == {"uid-vip": ("b", ("uid-batch-1",))}


def test_a_terminating_pod_of_lower_priority_on_the_nominated_node_is_waited_for() -> None:
    c = cluster(pod("batch-0", 0, on="a"), pod("vip", 10))
    assert preemptions(c.decide(0.0)) == {"uid-vip": ("a", ("uid-batch-0",))}
    c.pod_seen(pod("peer", 9, on="a", ends_s=1e6), 1.0)
    c.pod_gone("uid-batch-0", 1.0)
    c.node_seen(node("b"))
    c.pod_seen(pod("batch-1", 0, on="b"), 1.0)
    assert preemptions(c.decide(60.0)) == {}

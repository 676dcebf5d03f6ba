"""Room for resizes in place that a kubelet deferred; what holds of all sequences is in tests/property/sizing."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import numpy as np

from cotenant.engine.cluster import Cluster
from cotenant.engine.framework.instructions import Evict
from cotenant.engine.framework.settings import EngineSettings
from cotenant.engine.plugins.resizes.plugin import AGAIN_S, ASKED_S, IN_VAIN, REASON, DeferredResizes
from cotenant.engine.registry import PluginRegistry
from cotenant.model.cluster.labels import HOSTNAME, Labels, LabelSelector
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.observed import DisruptionBudget, ObservedPod
from cotenant.model.cluster.pod import Pod
from cotenant.model.resources import Amounts
from cotenant.policy.placement.profiles import profile


def size(cpu_m: int) -> Amounts:
    return Amounts.of({"cpu": cpu_m, "memory": 1 << 20})


def pod(name: str, cpu_m: int, priority: int = 0, scheduler: str = "cotenant", app: str = "") -> ObservedPod:
    made = Pod(name, requests=size(cpu_m), priority=priority, labels=Labels.of({"app": app} if app else {}))
    return ObservedPod(made, f"uid-{name}", scheduler, 0.0, node="n")


def deferred(of: ObservedPod, cpu_m: int) -> ObservedPod:
    return replace(of, pod=replace(of.pod, requests=size(cpu_m)), awaits_resize=True)


def cluster(*pods: ObservedPod, is_on: bool = True) -> Cluster:
    """A node of four cores with these pods."""
    plugins = PluginRegistry(deferred_resizes=DeferredResizes(is_on))
    made = Cluster(profile("least-allocated"), np.random.default_rng(1), EngineSettings(), plugins)
    made.node_seen(Node("n", Amounts.of({"cpu": 4000, "memory": 8 << 30}), Labels.of({HOSTNAME: "n"})))
    for seen in pods:
        made.pod_seen(seen, 0.0)
    return made


def victims(made: Cluster, now_s: float) -> list[str]:
    told = made.decide(now_s)
    made.validate()
    assert all(instruction.reason == REASON for instruction in told if isinstance(instruction, Evict))
    return [instruction.victim.key for instruction in told if isinstance(instruction, Evict)]


WEB, JOB = pod("web", 2000, 100), pod("job", 2000)


def test_a_pod_of_lower_priority_goes_once() -> None:
    made = cluster(WEB, JOB)
    assert victims(made, 0.0) == []
    made.pod_seen(deferred(WEB, 3000), 1.0)
    assert made.next_s() == -inf
    assert victims(made, 1.0) == ["default/job"]
    assert victims(made, 2.0 + AGAIN_S) == []
    made.pod_seen(replace(JOB, ends_s=60.0, grace_s=30), 20.0)
    assert victims(made, 40.0) == []
    made.pod_gone("uid-job", 50.0)
    made.pod_seen(replace(deferred(WEB, 3000), awaits_resize=False), 51.0)
    assert (victims(made, 52.0), made.next_s()) == ([], inf)


def test_one_that_was_asked_and_stays_is_asked_again() -> None:
    made = cluster(deferred(WEB, 3000), JOB)
    assert victims(made, 0.0) == ["default/job"]
    assert victims(made, ASKED_S + 1.0) == ["default/job"]


def test_nobody_goes_where_it_is_off_or_not_allowed() -> None:
    grown = deferred(WEB, 3000)
    for made in (
        cluster(grown, JOB, is_on=False),
        cluster(grown, pod("equal", 2000, 100)),
        cluster(replace(grown, preempts=False), JOB),
        cluster(replace(grown, scheduler="default-scheduler"), JOB),
        cluster(replace(grown, ends_s=9.0), JOB),
    ):
        assert victims(made, 0.0) == []


def test_a_budget_that_is_spent_keeps_its_pods_and_the_vain_look_is_counted() -> None:
    made = cluster(deferred(WEB, 3000), pod("kept", 2000, app="kept"))
    made.budget_seen(DisruptionBudget("default", "kept", LabelSelector.of({"app": "kept"}), 0))
    assert victims(made, 0.0) == []
    assert made.counts[IN_VAIN] == 1
    made.budget_seen(DisruptionBudget("default", "kept", LabelSelector.of({"app": "kept"}), 1))
    assert victims(made, AGAIN_S + 1.0) == ["default/kept"]


def test_a_kubelet_that_has_the_room_is_left_alone() -> None:
    assert victims(cluster(deferred(WEB, 2000), JOB), 0.0) == []


def test_a_rebuilt_engine_and_a_simulation_know_who_waits() -> None:
    made = cluster(deferred(WEB, 3000), JOB)
    with made.tentative(0.0):
        assert [instruction.victim.key for instruction in made.decide(0.0) if isinstance(instruction, Evict)]
    made.rebuild(0.0)
    assert victims(made, 1.0) == ["default/job"]


def said(made: Cluster, now_s: float, name: str = "web") -> str:
    answer = made.why.pod(f"default/{name}", now_s)
    assert answer is not None
    found = [concern.words for concern in answer.concerns if concern.kind == "resize"]
    return found[0].partition("; ")[2] if found else ""


def test_an_answer_about_the_pod_says_what_is_done_for_it() -> None:
    grown = deferred(WEB, 3000)
    made = cluster(grown, JOB)
    assert said(made, 0.0) == "it was not looked at yet"
    victims(made, 0.0)
    assert said(made, 1.0) == "asked to go for it: default/job"
    made.pod_gone("uid-job", 2.0)
    made.pod_seen(grown, 2.0)
    victims(made, AGAIN_S + 1.0)
    assert said(made, AGAIN_S + 2.0).startswith("there is room once those that leave are gone")
    made.pod_seen(replace(grown, awaits_resize=False), 20.0)
    assert said(made, 20.0) == ""
    for made, words in (
        (cluster(grown, JOB, is_on=False), "nobody is asked to go for it, as --preempt-for-resizes is off"),
        (cluster(grown, pod("equal", 2000, 100)), "no pods of lower priority that budgets and gangs let go"),
        (cluster(replace(grown, preempts=False), JOB), "its preemptionPolicy is Never"),
        (cluster(replace(grown, scheduler="default-scheduler"), JOB), "it is not this scheduler's"),
    ):
        victims(made, 0.0)
        assert said(made, 0.0).startswith(words)

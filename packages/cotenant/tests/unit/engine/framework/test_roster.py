"""Which plugins a pod meets: those that do not skip it, asked once for all pods that are alike."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from cotenant.engine.cluster import Cluster
from cotenant.engine.framework.instructions import Bind
from cotenant.engine.framework.plugin import Plugin
from cotenant.engine.framework.pod_state import PodInfo
from cotenant.engine.registry import PluginRegistry
from cotenant.model.cluster.demands import Demands
from cotenant.model.cluster.labels import Labels
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.observed import ObservedPod, PodPhase
from cotenant.model.cluster.pod import Pod
from cotenant.model.cluster.qos import QoSClass
from cotenant.model.groups.gang import GangNotes
from cotenant.model.resources import Amounts
from cotenant.policy.placement.profiles import profile

SIZE = Amounts.of({"cpu": 100, "memory": 1 << 20})
WANTED = Labels.of({"wanted": "yes"})


class Noting(Plugin):
    """Notes what it is asked; it needs pods with a label, or all of them once it was switched on."""

    name = "Noting"

    def __init__(self) -> None:
        self.asked: list[str] = []  # `skips`
        self.met: list[tuple[str, str]] = []  # point, pod
        self.is_on = False

    def skips(self, pod: Pod, demands: Demands) -> bool:
        self.asked.append(pod.name)
        return not self.is_on and pod.labels.get("wanted") is None

    def pod_arrived(self, entry: PodInfo) -> None:
        self.met.append(("arrived", entry.seen.pod.name))

    def pre_enqueue(self, entry: PodInfo) -> str:
        self.met.append(("pre_enqueue", entry.seen.pod.name))
        return ""

    def queue_sort(self, entry: PodInfo) -> float:
        return 60.0  # before all others

    def reserve(self, entry: PodInfo, node: str) -> None:
        self.met.append(("reserve", entry.seen.pod.name))

    def post_bind(self, entry: PodInfo) -> None:
        self.met.append(("post_bind", entry.seen.pod.name))


def pod(name: str, labels: Labels | None = None, **more: Any) -> ObservedPod:
    value = Pod(name, requests=SIZE, labels=labels or Labels.of({}))
    return replace(ObservedPod(value, name, "cotenant", 0.0), **more)


def cluster(plugin: Plugin) -> Cluster:
    made = Cluster(profile("least-allocated"), np.random.default_rng(0), plugins=PluginRegistry(more=(plugin,)))
    made.node_seen(Node("n", Amounts.of({"cpu": 8000, "memory": 8 << 30})))
    return made


def test_pods_that_are_alike_are_asked_about_once() -> None:
    plugin = Noting()
    made = cluster(plugin)
    for i in range(3):
        made.pod_seen(pod(f"plain-{i}"), 0.0)
    assert plugin.asked == ["plain-0"]
    made.pod_seen(pod("labelled", WANTED), 0.0)
    lsr = pod("lsr")
    made.pod_seen(replace(lsr, pod=replace(lsr.pod, qos=QoSClass.LSR)), 0.0)
    for i in range(2):
        made.pod_seen(pod(f"gang-{i}", demands=Demands(gang=GangNotes(name="g", min_available=3))), 0.0)
    assert plugin.asked == ["plain-0", "labelled", "lsr", "gang-0", "gang-1"]


def test_a_pod_meets_the_points_of_the_plugins_that_it_needs_alone() -> None:
    plugin = Noting()
    made = cluster(plugin)
    made.pod_seen(pod("plain"), 0.0)
    made.pod_seen(pod("wanted", WANTED), 0.0)
    binds = [instruction for instruction in made.decide(0.0) if isinstance(instruction, Bind)]
    assert [bind.uid for bind in binds] == ["wanted", "plain"]  # by `queue_sort`
    for bind in binds:
        assert made.sending(bind.uid, 0.0)
        made.bound(bind.uid, 0.0)
    assert plugin.met == [(point, "wanted") for point in ("arrived", "pre_enqueue", "reserve", "post_bind")]


def test_what_was_skipped_is_reported_when_it_is_needed() -> None:
    plugin = Noting()
    made = cluster(plugin)
    made.pod_seen(pod("runs", node="n", phase=PodPhase.RUNNING), 0.0)
    made.pod_seen(pod("waits", scheduler="cotenant", gates=("later",)), 0.0)
    made.pod_seen(pod("known", WANTED, gates=("later",)), 0.0)
    plugin.met.clear()
    plugin.is_on = True
    plugin.host.unskip(plugin)
    assert plugin.met == [("arrived", "runs"), ("reserve", "runs"), ("arrived", "waits")]
    made.pod_seen(pod("new", gates=("later",)), 1.0)
    assert plugin.met[-1] == ("arrived", "new")
    made.validate()

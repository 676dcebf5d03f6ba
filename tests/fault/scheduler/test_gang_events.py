"""Gangs against an API server that deletes, resizes, forgets and fails at any step: nothing is bound twice, counted
wrongly, or left behind.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.property.few import examples

from cotenant.engine.cluster import Cluster
from cotenant.engine.framework.instructions import Bind, Evict, Preempt
from cotenant.model.cluster.demands import Demands
from cotenant.model.cluster.labels import HOSTNAME, Labels
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.observed import ObservedPod, PodPhase
from cotenant.model.cluster.pod import Pod
from cotenant.model.groups.gang import POD_GROUP, GangMode, GangNotes, PodGroup, PodGroupStatus
from cotenant.model.resources import Amounts
from cotenant.policy.placement.profiles import profile

GANGS = ("a", "b", "c")


def node(name: str) -> Node:
    return Node(name, Amounts.of({"cpu": 2000, "memory": 8 << 30}), Labels.of({HOSTNAME: name}))


class Api:
    """What the server holds; the engine is told at once, or after a restart."""

    def __init__(self) -> None:
        self.pods: dict[str, ObservedPod] = {}
        self.groups: dict[str, PodGroup] = {}
        self.nodes = {f"n{i}": node(f"n{i}") for i in range(3)}
        self.now_s = 0.0
        self.accepted: dict[str, int] = {}
        self.start()

    def start(self) -> None:
        """A new scheduler is told everything."""
        self.c = Cluster(profile("least-allocated"), np.random.default_rng(1))
        for node in self.nodes.values():
            self.c.node_seen(node)
        for group in self.groups.values():
            self.c.plugins.gangs.pod_group_seen(group, self.now_s)
        for pod in self.pods.values():
            self.c.pod_seen(pod, self.now_s)

    def say(self, pod: ObservedPod) -> None:
        self.pods[pod.uid] = pod
        self.c.pod_seen(pod, self.now_s)

    def judge(self, fails: bool) -> None:
        for instruction in self.c.decide(self.now_s):
            if isinstance(instruction, Bind) and self.c.sending(instruction.uid, self.now_s):
                pod = self.pods.get(instruction.uid)
                if fails or pod is None or pod.node:
                    self.c.bind_failed(instruction.uid, "conflict", self.now_s, retry=pod is not None)
                    continue
                self.accepted[instruction.uid] = self.accepted.get(instruction.uid, 0) + 1
                self.say(replace(pod, node=instruction.node))
                self.c.bound(instruction.uid, self.now_s)
            elif isinstance(instruction, Preempt):
                for victim in instruction.victims:
                    assert self.pods[victim.uid].node, "a pod without a node is never evicted"
                    self.delete(victim.uid)
            elif isinstance(instruction, PodGroupStatus) and instruction.key in self.groups:
                self.groups[instruction.key] = replace(self.groups[instruction.key], status=instruction)
                self.c.plugins.gangs.pod_group_seen(self.groups[instruction.key], self.now_s)
            assert not isinstance(instruction, Evict)

    def delete(self, uid: str) -> None:
        self.pods.pop(uid, None)
        self.c.pod_gone(uid, self.now_s)


@pytest.mark.slow
@settings(max_examples=examples(80), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_whatever_happens(data: st.DataObject) -> None:
    api, born = Api(), 0
    steps = (
        "pod",
        "pod",
        "pod",
        "pod",
        "delete",
        "end",
        "resize",
        "ungroup",
        "crash",
        "rebuild",
        "node",
        "relabel",
        "fail",
        "vip",
    )
    for _ in range(data.draw(st.integers(5, 40))):
        api.now_s += data.draw(st.sampled_from((0.0, 1.0, 12.0, 700.0)))
        step = data.draw(st.sampled_from(steps))
        name = data.draw(st.sampled_from(GANGS))
        if step in ("pod", "vip"):
            born += 1
            declared = f"default/{name}" in api.groups
            mode = data.draw(st.sampled_from((None, GangMode.NON_STRICT)))
            groups = data.draw(st.sampled_from(((), ("default/a", "default/b"))))
            notes = GangNotes(name, data.draw(st.integers(0, 4)) or None, mode=mode, groups=groups)
            value = Pod(
                f"{name}-{born}",
                requests=Amounts.of({"cpu": data.draw(st.sampled_from((500, 1000))), "memory": 1 << 20}),
                labels=Labels.of({POD_GROUP: name} if declared else {}),
                priority=9 if step == "vip" else 0,
            )
            demands = Demands(gang=None if declared or step == "vip" else notes)
            api.say(ObservedPod(value, f"uid-{born}", "cotenant", api.now_s, demands=demands))
        elif step == "resize":
            least = data.draw(st.integers(0, 4))
            notes = GangNotes(
                mode=data.draw(st.sampled_from((None, GangMode.NON_STRICT))),
                groups=data.draw(st.sampled_from(((), ("default/b", "default/c")))),
            )
            key = f"default/{name}"
            status = api.groups[key].status if key in api.groups else PodGroupStatus(key, f"uid-{name}")
            api.groups[key] = PodGroup(key, f"uid-{name}", 0.0, least, 100.0, notes, status)
            api.c.plugins.gangs.pod_group_seen(api.groups[key], api.now_s)
        elif step == "ungroup":
            if api.groups.pop(f"default/{name}", None):
                api.c.plugins.gangs.pod_group_gone(f"default/{name}", api.now_s)
        elif step == "crash":
            api.start()
        elif step == "rebuild":
            api.c.rebuild(api.now_s)
        elif step == "node":
            which = data.draw(st.sampled_from(sorted(api.nodes)))
            api.c.node_gone(which, api.now_s)
            api.c.node_seen(api.nodes[which])
        elif api.pods:
            uid = data.draw(st.sampled_from(sorted(api.pods)))
            pod = api.pods[uid]
            if step == "delete":
                api.delete(uid)
            elif step == "end" and pod.node:
                api.say(replace(pod, phase=PodPhase.SUCCEEDED))
            elif step == "relabel":
                other = Labels.of({POD_GROUP: data.draw(st.sampled_from(GANGS))})
                api.say(replace(pod, pod=replace(pod.pod, labels=other)))
        api.c.validate()
        api.judge(fails=step == "fail")
        for _ in range(5):
            if api.c.next_s() > api.now_s:
                break
            api.judge(fails=False)
        api.c.validate()
        assert not api.c.over_capacity() or step == "relabel"
        plugins = api.c.plugins.gangs
        for gang in GANGS:
            view = plugins.describe(f"default/{gang}")
            assert view is None or not view.holding or plugins.lacking((view.key,), ()), "it has its minimum and waits"
    assert all(count == 1 for count in api.accepted.values())

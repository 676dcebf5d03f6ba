"""Invariants of preemption among gangs: no Strict gang is left below its minimum, a refused attempt leaves the
state unchanged, and the preemptor fits afterwards.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.property.few import examples, first_cases
from tests.property.groups.test_gangs import arrays, same

from cotenant.engine.cluster import Cluster
from cotenant.engine.framework.instructions import Bind, Evict, Instruction, Preempt
from cotenant.engine.plugins.quotas.plugin import Quotas
from cotenant.engine.plugins.quotas.settings import QuotaSettings
from cotenant.engine.registry import PluginRegistry
from cotenant.model.cluster.affinity import PodTerm
from cotenant.model.cluster.demands import Demands
from cotenant.model.cluster.labels import HOSTNAME, ZONE, Labels, LabelSelector
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.observed import DisruptionBudget, ObservedPod
from cotenant.model.cluster.pod import Pod
from cotenant.model.groups.gang import GangMode, GangNotes, GangTopology
from cotenant.model.groups.quota import NAME, PREEMPTIBLE, Quota, QuotaObject
from cotenant.model.resources import Amounts
from cotenant.policy.placement.profiles import profile

NODES, CPU = 4, 3000
GANGS = ("a", "b", "c")
_OURS = LabelSelector.of({"app": "x"})
_SLOW = settings(max_examples=examples(100), deadline=None, suppress_health_check=[HealthCheck.too_slow])


def cluster(quotas: Quotas | None = None) -> Cluster:
    plugins = PluginRegistry(quotas=quotas) if quotas is not None else None
    made = Cluster(profile("least-allocated"), np.random.default_rng(1), plugins=plugins)
    for i in range(NODES):
        labels = Labels.of({HOSTNAME: f"n{i}", ZONE: "ab"[i % 2]})
        made.node_seen(Node(f"n{i}", Amounts.of({"cpu": CPU, "memory": 8 << 30}), labels))
    return made


@st.composite
def specs(draw: st.DrawFn) -> dict[str, GangNotes]:
    bundled = tuple(f"default/{name}" for name in GANGS[:2]) if draw(st.integers(0, 3)) == 0 else ()
    return {
        name: GangNotes(
            name=name,
            min_available=draw(st.integers(1, 4)),
            mode=draw(st.sampled_from((GangMode.STRICT, GangMode.STRICT, GangMode.NON_STRICT))),
            groups=bundled if name in GANGS[:2] else (),
            topology=draw(st.sampled_from((None, None, GangTopology((ZONE,), True)))),
        )
        for name in GANGS
    }


@st.composite
def pods(draw: st.DrawFn, name: str, notes: GangNotes | None, priority: int, quota: str = "") -> ObservedPod:
    labels = {"app": "x"} if draw(st.booleans()) else {}
    labels |= {NAME: quota} if quota else {}
    labels |= {PREEMPTIBLE: "false"} if quota and draw(st.integers(0, 7)) == 0 else {}
    value = Pod(
        name,
        requests=Amounts.of({"cpu": draw(st.sampled_from((500, 1000, 2000))), "memory": 1 << 20}),
        priority=priority,
        labels=Labels.of(labels),
        affinity=(PodTerm(ZONE, _OURS),) if draw(st.integers(0, 5)) == 0 else (),
    )
    started_s = float(draw(st.integers(0, 9)))
    return ObservedPod(value, f"uid-{name}", "cotenant", started_s, started_s=started_s, demands=Demands(gang=notes))


class Truth:
    """The state of an API server."""

    def __init__(self, c: Cluster) -> None:
        self.c = c
        self.pods: dict[str, ObservedPod] = {}
        self.now_s = 0.0

    def see(self, pod: ObservedPod) -> None:
        self.pods[pod.uid] = pod
        self.c.pod_seen(pod, self.now_s)

    def bind(self, out: tuple[Instruction, ...]) -> None:
        for instruction in out:
            if isinstance(instruction, Bind) and self.c.sending(instruction.uid, self.now_s):
                self.c.bound(instruction.uid, self.now_s)
                self.see(replace(self.pods[instruction.uid], node=instruction.node))

    def delete(self, uid: str) -> None:
        del self.pods[uid]
        self.c.pod_gone(uid, self.now_s)

    def staying(self, gone: set[str]) -> dict[str, set[str]]:
        """By gang: members on nodes that were not asked to leave."""
        found: dict[str, set[str]] = {name: set() for name in GANGS}
        for uid, pod in self.pods.items():
            if pod.demands.gang is not None and pod.node and uid not in gone:
                found[pod.demands.gang.name].add(uid)
        return found


def told_to_go(out: tuple[Instruction, ...]) -> set[str]:
    found = {victim.uid for instruction in out if isinstance(instruction, Preempt) for victim in instruction.victims}
    return found | {instruction.victim.uid for instruction in out if isinstance(instruction, Evict)}


def check_gangs(truth: Truth, notes: dict[str, GangNotes], before: set[str], gone: set[str]) -> None:
    """For every Strict gang (or bundle with one) that just lost a member: no member stays, or each gang's minimum
    does.
    """
    was, now = truth.staying(before), truth.staying(before | gone)
    bundles = [GANGS[:2], GANGS[2:]] if notes["a"].groups else [(name,) for name in GANGS]
    for bundle in bundles:
        lost = any(was[name] != now[name] for name in bundle)
        if not lost or all(notes[name].mode is GangMode.NON_STRICT for name in bundle):
            continue
        complete = all(len(now[name]) >= (notes[name].min_available or 0) for name in bundle)
        assert complete or not any(now[name] for name in bundle), f"{bundle}: {was} became {now}"


@pytest.mark.slow
@_SLOW
@given(st.data(), specs())
def test_no_strict_gang_is_left_below_its_minimum(data: st.DataObject, notes: dict[str, GangNotes]) -> None:
    truth = Truth(cluster())
    born = 0
    going: set[str] = set()
    for _ in range(data.draw(st.integers(4, 14))):
        truth.now_s += 20.0
        step = data.draw(st.sampled_from(("gang", "gang", "pod", "vip", "gone", "gone", "budget")))
        if step == "gang":
            name = data.draw(st.sampled_from(GANGS))
            priority = data.draw(st.sampled_from((0, 0, 5)))
            for _ in range(data.draw(st.integers(1, 5))):
                born += 1
                truth.see(data.draw(pods(f"{name}-{born}", notes[name], priority)))
        elif step in ("pod", "vip"):
            born += 1
            truth.see(data.draw(pods(f"p-{born}", None, 10 if step == "vip" else data.draw(st.integers(0, 5)))))
        elif step == "budget":
            truth.c.budget_seen(DisruptionBudget("default", "x", _OURS, data.draw(st.integers(0, 3))))
        elif going:
            uid = data.draw(st.sampled_from(sorted(going)))
            going.discard(uid)
            truth.delete(uid)
        out = truth.c.decide(truth.now_s)
        truth.c.validate()
        truth.bind(out)
        truth.c.validate()
        gone = told_to_go(out)
        check_gangs(truth, notes, going, gone)
        going |= gone & truth.pods.keys()


@pytest.mark.slow
@_SLOW
@given(st.data(), specs(), st.booleans())
def test_a_preemptor_fits_afterwards_or_nothing_changes(
    data: st.DataObject, notes: dict[str, GangNotes], whole: bool
) -> None:
    truth = Truth(cluster())
    for name in GANGS:
        for i in range(data.draw(st.integers(0, 4))):
            truth.see(data.draw(pods(f"{name}-{i}", notes[name], data.draw(st.sampled_from((0, 3))))))
    for i in range(data.draw(st.integers(0, 5))):
        truth.see(data.draw(pods(f"p-{i}", None, data.draw(st.sampled_from((0, 3, 20))))))
    out = truth.c.decide(0.0)
    truth.bind(out)
    for uid in [uid for uid, pod in truth.pods.items() if not pod.node]:
        truth.delete(uid)
    for uid in told_to_go(out):  # for a pod that is gone: called back before it went
        truth.c.eviction_withdrawn(uid, 0.0)
    truth.now_s = 100.0
    truth.bind(truth.c.decide(100.0))
    size = data.draw(st.integers(1, 4)) if whole else 1
    topology = data.draw(st.sampled_from((None, GangTopology((ZONE,), True)))) if whole else None
    mine = GangNotes(name="vip", min_available=size, topology=topology) if whole else None
    for i in range(size):
        truth.see(data.draw(pods(f"vip-{i}", mine, 10)))
    before = arrays(truth.c)
    out = truth.c.decide(101.0)
    truth.c.validate()
    if any(isinstance(instruction, Bind) for instruction in out):
        return
    promised = {instruction.uid: instruction.node for instruction in out if isinstance(instruction, Preempt)}
    if not promised:
        assert not told_to_go(out)
        same(before, arrays(truth.c))
        return
    for uid in told_to_go(out):
        truth.delete(uid)
    truth.now_s = 140.0
    last = truth.c.decide(140.0)
    got = {instruction.uid: instruction.node for instruction in last if isinstance(instruction, Bind)}
    assert {uid for uid in truth.pods if uid.startswith("uid-vip")} == got.keys()
    if topology is not None:
        assert len({int(node[1:]) % 2 for node in got.values()}) == 1
    truth.c.validate()


@pytest.mark.slow
@_SLOW
@given(st.data(), specs())
def test_quotas_evict_a_strict_gang_whole_or_not_at_all(data: st.DataObject, notes: dict[str, GangNotes]) -> None:
    quotas = Quotas(QuotaSettings(revoke_after_s=30.0))
    truth = Truth(cluster(quotas))
    for name in ("q", "r"):
        least = Amounts.of({"cpu": data.draw(st.sampled_from((1000, 3000)))})
        quotas.quota_seen(QuotaObject(f"ns/{name}", name, Quota(name, Amounts.of({"cpu": 8000}), least)), 0.0)
    born = 0
    going: set[str] = set()
    for _ in range(data.draw(st.integers(4, 14))):
        truth.now_s += 20.0
        step = data.draw(st.sampled_from(("gang", "gang", "pod", "vip", "gone", "gone")))
        quota = data.draw(st.sampled_from(("q", "q", "r")))
        if step == "gang":
            name = data.draw(st.sampled_from(GANGS))
            priority = data.draw(st.sampled_from((0, 0, 5)))
            for _ in range(data.draw(st.integers(1, 4))):
                born += 1
                of = quota if data.draw(st.integers(0, 5)) else "r"
                truth.see(data.draw(pods(f"{name}-{born}", notes[name], priority, of)))
        elif step in ("pod", "vip"):
            born += 1
            truth.see(data.draw(pods(f"p-{born}", None, 10 if step == "vip" else 0, quota)))
        elif going:
            uid = data.draw(st.sampled_from(sorted(going)))
            going.discard(uid)
            truth.delete(uid)
        out = truth.c.decide(truth.now_s)
        truth.c.validate()
        truth.bind(out)
        gone = told_to_go(out)
        check_gangs(truth, notes, going, gone)
        going |= gone & truth.pods.keys()
        for uid in gone & truth.pods.keys():  # its deletion is seen to begin
            if not truth.pods[uid].terminating:
                truth.see(replace(truth.pods[uid], ends_s=truth.now_s + 30.0))
        truth.c.validate()


test_first_cases = first_cases(
    test_no_strict_gang_is_left_below_its_minimum,
    test_a_preemptor_fits_afterwards_or_nothing_changes,
    test_quotas_evict_a_strict_gang_whole_or_not_at_all,
    most=6,
)

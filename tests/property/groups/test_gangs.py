"""Invariants of gangs: a refused gang leaves the state unchanged, no Strict gang is bound in part, and no gang
waits for ever for another that cannot run.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.property.few import examples, first_cases

from cotenant.engine.cluster import Cluster
from cotenant.engine.framework.instructions import Bind, Instruction, Preempt
from cotenant.engine.framework.pod_state import SchedulingState
from cotenant.model.cluster.affinity import PodTerm, SpreadConstraint
from cotenant.model.cluster.demands import Demands
from cotenant.model.cluster.labels import HOSTNAME, ZONE, Labels, LabelSelector
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.observed import ObservedPod
from cotenant.model.cluster.pod import HostPort, Pod
from cotenant.model.groups.gang import GangMode, GangNotes, GangTopology, MatchPolicy
from cotenant.model.resources import Amounts
from cotenant.policy.placement.profiles import profile

NODES, CPU = 5, 3000


def world(policy: str, seed: int) -> Cluster:
    made = Cluster(profile(policy), np.random.default_rng(seed))
    for i in range(NODES):
        labels = Labels.of({HOSTNAME: f"n{i}", ZONE: "ab"[i % 2]})
        made.node_seen(Node(f"n{i}", Amounts.of({"cpu": CPU, "memory": 8 << 30}), labels))
    return made


def arrays(c: Cluster) -> dict[str, Any]:
    """The complete state that a placement reads."""
    parts = c._components
    parts.assignments.write()
    ledger, narrowing = parts.assignments.ledger, parts.assignments.narrowing
    return {
        "requested": ledger.nodes.requested.copy(),
        "sums": ledger.nodes.sums.copy(),
        "groups": ledger.nodes.group_count.copy(),
        "tenants": ledger.tenants.allocated.copy(),
        "rows": {pod: row for pod, row in enumerate(ledger.row.tolist()) if row >= 0},
        "assigned": dict(narrowing._rows),
        "volumes": {n: sorted(users) for n, users in getattr(narrowing.volumes, "_users", {}).items()},
        "counts": {
            str(count.query): (count.total, count.rows(NODES).tolist())
            for count in narrowing.pod_counts._counts.values()
        },
        "nominated": c.reserved(),
        "reserved": {uid: entry.row for uid, entry in parts.assignments.reserved.items()},
        "cursor": parts.placing._cursor.tolist(),
        "dice": str(parts.placing._rng.bit_generator.state),
        "residents": {name: sorted(here) for name, here in parts.assignments.residents.items() if here},
    }


def same(before: dict[str, Any], after: dict[str, Any]) -> None:
    for name, value in before.items():
        if isinstance(value, np.ndarray):
            assert np.array_equal(value, after[name]), name
        elif name == "counts":  # some are created on first use
            assert value == {question: count for question, count in after[name].items() if question in value}
        else:
            assert value == after[name], name


_OURS = LabelSelector.of({"app": "x"})


@st.composite
def pods(draw: st.DrawFn, name: str, notes: GangNotes | None) -> ObservedPod:
    rules = draw(st.sampled_from(("none", "none", "port", "anti", "spread")))
    value = Pod(
        name,
        requests=Amounts.of({"cpu": draw(st.sampled_from((500, 1000, 2000))), "memory": 1 << 20}),
        priority=draw(st.sampled_from((0, 0, 5))),
        labels=Labels.of({"app": "x"} if draw(st.booleans()) else {}),
        host_ports=(HostPort(80),) if rules == "port" else (),
        anti_affinity=(PodTerm(HOSTNAME, _OURS),) if rules == "anti" else (),
        spread=(SpreadConstraint(ZONE, _OURS),) if rules == "spread" else (),
    )
    return ObservedPod(value, f"uid-{name}", "cotenant", draw(st.floats(0, 9)), demands=Demands(gang=notes))


@pytest.mark.slow
@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data(), st.sampled_from(("least-allocated", "kube-default")), st.integers(0, 5))
def test_a_gang_that_does_not_fit_changes_nothing(data: st.DataObject, policy: str, seed: int) -> None:
    c = world(policy, seed)
    for i in range(data.draw(st.integers(0, 6))):
        c.pod_seen(data.draw(pods(f"single-{i}", None)), 0.0)
    c.decide(0.0)
    size = data.draw(st.integers(3, 12))
    topology = data.draw(st.sampled_from((None, GangTopology((ZONE,)), GangTopology((ZONE,), True))))
    notes = GangNotes(name="g", min_available=size, topology=topology)
    gang = [data.draw(pods(f"g-{i}", notes)) for i in range(size)]
    for observed_pod in gang:
        c.pod_seen(observed_pod, 1.0)
    before = arrays(c)
    out = c.decide(1.0)
    bound = [instruction for instruction in out if isinstance(instruction, Bind)]
    assert len(bound) in (0, size)
    c.validate()
    if not bound and not any(isinstance(instruction, Preempt) for instruction in out):
        same(before, arrays(c))
    if not bound:
        assert all(c.state_of(observed_pod.uid) is SchedulingState.QUEUED for observed_pod in gang)


class Truth:
    """The state of an API server."""

    def __init__(self, c: Cluster) -> None:
        self.c = c
        self.pods: dict[str, ObservedPod] = {}
        self.now_s = 0.0

    def create(self, pod: ObservedPod) -> None:
        self.pods[pod.uid] = pod
        self.c.pod_seen(pod, self.now_s)

    def delete(self, uid: str) -> None:
        del self.pods[uid]
        self.c.pod_gone(uid, self.now_s)

    def carry_out(self, out: tuple[Instruction, ...], fails: frozenset[str]) -> None:
        for instruction in out:
            if not isinstance(instruction, Bind) or not self.c.sending(instruction.uid, self.now_s):
                continue
            if instruction.uid in fails:
                self.c.bind_failed(instruction.uid, "no", self.now_s)
                continue
            self.c.bound(instruction.uid, self.now_s)
            self.pods[instruction.uid] = replace(self.pods[instruction.uid], node=instruction.node)
            self.c.pod_seen(self.pods[instruction.uid], self.now_s)

    def bound(self, name: str) -> int:
        return sum(bool(pod.node) for pod in self.pods.values() if pod.demands.gang and pod.demands.gang.name == name)


@pytest.mark.slow
@settings(max_examples=examples(50), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data(), st.sampled_from(tuple(MatchPolicy)), st.booleans())
def test_no_strict_gang_is_ever_bound_in_part(data: st.DataObject, policy: MatchPolicy, crashes: bool) -> None:
    c = world("least-allocated", 1)
    truth = Truth(c)
    sizes = {"a": data.draw(st.integers(2, 6)), "b": data.draw(st.integers(2, 6))}
    bundled = ("default/a", "default/b") if data.draw(st.booleans()) else ()
    born = 0
    complete: set[str] = set()
    for _ in range(data.draw(st.integers(5, 30))):
        truth.now_s += 7.0
        step = data.draw(st.sampled_from(("create", "create", "create", "delete", "single", "rest")))
        if step == "create":
            name = data.draw(st.sampled_from(("a", "b")))
            notes = GangNotes(name=name, min_available=sizes[name], match_policy=policy, groups=bundled)
            born += 1
            truth.create(data.draw(pods(f"{name}-{born}", notes)))
        elif step == "single":
            born += 1
            truth.create(data.draw(pods(f"s-{born}", None)))
        elif step == "delete" and truth.pods:
            truth.delete(data.draw(st.sampled_from(sorted(truth.pods))))
        before = {name: truth.bound(name) for name in sizes}
        out = truth.c.decide(truth.now_s)
        truth.c.validate()
        decided = {
            name: sum(
                instruction.key.startswith(f"default/{name}-") for instruction in out if isinstance(instruction, Bind)
            )
            for name in sizes
        }
        for name, count in decided.items():
            if count and before[name] == 0 and name not in complete:
                assert count >= sizes[name], f"{count} of {sizes[name]} members of {name}"
                complete.add(name)
            if not any(pod.demands.gang and pod.demands.gang.name == name for pod in truth.pods.values()):
                complete.discard(name)
        uids = sorted(instruction.uid for instruction in out if isinstance(instruction, Bind))
        fails = (
            frozenset(data.draw(st.sets(st.sampled_from(uids))))
            if uids and policy is MatchPolicy.ONCE_SATISFIED
            else frozenset()
        )
        truth.carry_out(out, fails)
        truth.c.validate()
        if crashes and data.draw(st.integers(0, 4)) == 0:
            truth.c = world("least-allocated", 2)
            for pod in truth.pods.values():
                truth.c.pod_seen(pod, truth.now_s)
            truth.c.validate()


@settings(max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(
        st.tuples(st.integers(1, 8), st.sampled_from((0, 0, 5)), st.sampled_from(tuple(GangMode))),
        min_size=1,
        max_size=5,
    )
)
def test_competing_gangs_that_fit_alone_all_run(given_gangs: list[tuple[int, int, GangMode]]) -> None:
    """Competing gangs that each fit an empty cluster all run in the end, when running gangs end."""
    c = world("least-allocated", 1)
    truth = Truth(c)
    members: dict[str, list[str]] = {}
    for g, (size, priority, mode) in enumerate(given_gangs):
        notes = GangNotes(name=f"g{g}", min_available=size, mode=mode)
        for i in range(size):
            value = Pod(f"g{g}-{i}", requests=Amounts.of({"cpu": 1500, "memory": 1 << 20}), priority=priority)
            pod = ObservedPod(
                value, f"uid-{value.name}", "cotenant", float(i), preempts=False, demands=Demands(gang=notes)
            )
            members.setdefault(notes.name, []).append(pod.uid)
            truth.create(pod)
    for _ in range(400):
        truth.now_s += 11.0
        truth.carry_out(c.decide(truth.now_s), frozenset())
        c.validate()
        for name, uids in list(members.items()):
            if all(truth.pods[uid].node for uid in uids):
                for uid in uids:
                    truth.delete(uid)
                del members[name]
        if not members:
            return
    raise AssertionError(
        f"still waiting: {sorted(members)}: {[c.plugins.gangs.describe(f'default/{name}') for name in members]}"
    )


test_first_cases = first_cases(
    test_a_gang_that_does_not_fit_changes_nothing,
    test_no_strict_gang_is_ever_bound_in_part,
    most=8,
)

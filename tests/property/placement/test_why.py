"""A question changes nothing: no bit of any array, and no later decision; and its answer equals what a judgement
then does.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.fakes.cluster import rule_worlds
from tests.fakes.cluster.questions import Watching
from tests.property.few import examples, first_cases

from cotenant.engine.cluster import Cluster
from cotenant.engine.framework.instructions import Bind, Instruction, Preempt
from cotenant.engine.framework.pod_state import ASSIGNED
from cotenant.engine.framework.settings import EngineSettings
from cotenant.model.cluster.labels import HOSTNAME, Labels
from cotenant.model.cluster.observed import ObservedPod
from cotenant.model.decisions.answers import WhatIf
from cotenant.model.resources import Amounts
from cotenant.policy.placement.profiles import profile

PROFILES = ("kube-default", "cotenant-requests", "best-fit")


def arrays(c: Cluster) -> dict[str, Any]:
    """Every array that judging reads or writes, as bytes."""
    assignments = c._components.assignments
    assignments.write()
    encoder, ledger, cache = assignments.encoder, assignments.ledger, assignments.verdict_cache
    found: dict[str, Any] = {
        "axis": encoder.axis.names,
        "free": list(encoder._pods.free),
        "rows": dict(encoder.node_rows),
    }
    for name, columns in (
        ("nodes", encoder._arrays.nodes),
        ("shapes", encoder._arrays.shapes),
        ("tenants", ledger.tenants),
    ):
        found |= {f"{name}.{field}": column.tobytes() for field, column in columns._asdict().items()}
    for name in ("row", "shape", "_added"):
        found[f"ledger.{name}"] = getattr(ledger, name).tobytes()
    for name in ("version", "stamps", "verdicts", "scores"):
        found[f"cache.{name}"] = getattr(cache, name).tobytes()
    found["slots"] = cache.cached()
    found["priorities"] = (assignments.pods.priorities.tobytes(), assignments.pods.started_s.tobytes())
    found["pods"] = list(encoder._pods._pods)
    found["changed"] = set(assignments.changed)
    found["cursor"] = c._components.placing._cursor.tobytes()
    found["rng"] = c._components.placing._rng.bit_generator.state
    return found


def residents(c: Cluster) -> dict[str, Any]:
    """The counts for rules between pods, and all holdings."""
    narrowing = c._components.assignments.narrowing
    counted = {
        query: (count.rows(narrowing.regions.size()).tobytes(), count.total)
        for query, count in narrowing.pod_counts._counts.items()
    }
    return {
        "counted": counted,
        "rows": dict(narrowing._rows),
        "terminating": set(narrowing._terminating),
        "kinds": {
            key: (dict(kind.residents), dict(kind.terminating)) for key, kind in narrowing.pod_counts._kinds.items()
        },
        "claims": (dict(narrowing.volumes._rows), dict(narrowing.volumes._held_for)),
    }


class World:
    """A cluster with random events; two of one seed get the same events."""

    def __init__(self, seed: int, name: str) -> None:
        self.rng = np.random.default_rng(seed)
        self.c = Cluster(profile(name), np.random.default_rng(seed), EngineSettings(max_pods=4))
        self.pods: dict[str, ObservedPod] = {}
        self.born = 0
        self.now_s = 0.0
        for i in range(5):
            self.c.node_seen(rule_worlds.a_node(self.rng, i))

    def happen(self) -> tuple[Instruction, ...]:
        rng = self.rng
        self.now_s += float(rng.integers(0, 15))
        for _ in range(int(rng.integers(1, 4))):
            self.born += 1
            pod = rule_worlds.a_pod(rng, f"p{self.born}", 0.25, Amounts.of({"cpu": int(rng.choice([100, 400, 900]))}))
            pod = replace(pod, priority=int(rng.choice([0, 0, 5, 9])))
            on = f"n{int(rng.integers(5))}" if rng.random() < 0.2 else ""
            gates = ("g",) if rng.random() < 0.05 else ()
            seen = ObservedPod(pod, f"u{self.born}", "cotenant", self.now_s, node=on, gates=gates)
            self.see(seen)
        if self.pods and rng.random() < 0.4:
            uid = sorted(self.pods)[int(rng.integers(len(self.pods)))]
            del self.pods[uid]
            self.c.pod_gone(uid, self.now_s)
        if rng.random() < 0.3:
            self.c.node_seen(rule_worlds.a_node(rng, int(rng.integers(5))))
        given = self.c.decide(self.now_s)
        for instruction in given:
            if isinstance(instruction, Bind):
                assert self.c.sending(instruction.uid, self.now_s)
                if rng.random() < 0.8:
                    self.see(replace(self.pods[instruction.uid], node=instruction.node))
                else:
                    self.c.bind_failed(instruction.uid, "no", self.now_s)
            elif isinstance(instruction, Preempt):
                for victim in instruction.victims:
                    self.see(replace(self.pods[victim.uid], ends_s=self.now_s + 30.0))
        return given

    def see(self, seen: ObservedPod) -> None:
        self.pods[seen.uid] = seen
        self.c.pod_seen(seen, self.now_s)


def _selector(rng: np.random.Generator) -> str:
    return f"selector.{rng.choice([rule_worlds.ZONE, 'disk', HOSTNAME])}={rng.choice(['-', 'a', 'ssd', 'n1'])}"


def ask_everything(world: World, rng: np.random.Generator, max_pods: int = 1000) -> None:
    before = arrays(world.c)
    for seen in list(world.pods.values())[:max_pods]:
        if world.c.find(seen.pod.key) is None:
            continue  # it was ending, and no node had it
        changes = [
            (),
            (f"cpu={int(rng.integers(1, 1500))}m",),
            ("nvidia.com/gpu=1", f"priority={int(rng.integers(-5, 20))}"),
            (f"node=n{int(rng.integers(5))}", "memory=10", _selector(rng)),
        ]
        for texts in changes:
            answer = world.c.why.pod(seen.pod.key, world.now_s, WhatIf.parse(texts))
            assert answer is not None
    assert arrays(world.c) == before


@pytest.mark.slow
@given(st.integers(0, 2**32 - 1), st.sampled_from(PROFILES))
@settings(deadline=None, max_examples=examples(5))
def test_a_question_changes_no_bit_and_no_later_decision(seed: int, name: str) -> None:
    asked, left_alone = World(seed, name), World(seed, name)
    rng = np.random.default_rng(seed)
    for _ in range(5):
        assert asked.happen() == left_alone.happen()
        ask_everything(asked, rng)
        before = residents(asked.c)
        ask_everything(asked, rng, 3)
        assert residents(asked.c) == before
        assert arrays(asked.c) == arrays(left_alone.c)
        asked.c.validate()


@pytest.mark.slow
@given(st.integers(0, 2**32 - 1), st.sampled_from(PROFILES))
@settings(deadline=None, max_examples=examples(30))
def test_recording_changes_no_placement_and_lists_the_chosen_node_first(seed: int, name: str) -> None:
    watched, left_alone = World(seed, name), World(seed, name)
    watching = Watching()
    watched.c.observe(watching)
    for _ in range(6):
        watching.seen.clear()
        given = watched.happen()
        plain = left_alone.happen()
        assert [instruction for instruction in given if isinstance(instruction, Bind | Preempt)] == [
            instruction for instruction in plain if isinstance(instruction, Bind | Preempt)
        ]
        for instruction in given:
            if isinstance(instruction, Bind):
                recorded = watching.seen[instruction.key]
                chosen = next(c for c in recorded if c.node == instruction.node)
                assert chosen.score == pytest.approx(recorded[0].score)
                recorded = next(c.score for c in instruction.record.candidates if c.node == instruction.node)
                assert chosen.score == pytest.approx(recorded, rel=1e-6, abs=1e-6)


@pytest.mark.slow
@given(st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=examples(60))
def test_a_what_if_equals_a_pod_with_those_requests_and_that_selector(seed: int) -> None:
    """The nodes that would take the pod by a what-if equal those that pass for a pod that really is so."""
    world = World(seed, "best-fit")
    for _ in range(4):
        world.happen()
    rng = np.random.default_rng(seed)
    for seen in list(world.pods.values()):
        entry = world.c.find(seen.pod.key)
        if entry is None or entry.state in ASSIGNED or seen.gates or len(world.c.reserved()):
            continue
        cpu = int(rng.integers(0, 1200))
        what_if = WhatIf.parse((f"cpu={cpu}m", _selector(rng)) if rng.random() < 0.5 else (f"cpu={cpu}m",))
        answer = world.c.why.pod(seen.pod.key, world.now_s, what_if)
        assert answer is not None
        assert answer.waiting is not None
        chosen = dict(seen.pod.node_selector) | dict(what_if.selector)
        twin = replace(
            seen.pod,
            name="twin",
            requests=seen.pod.requests.replaced(Amounts.of({"cpu": cpu})),
            node_selector=Labels.of({key: value for key, value in chosen.items() if value is not None}),
        )
        world.c.pod_gone(seen.uid, world.now_s)  # it would take the room before its twin
        world.c.pod_seen(ObservedPod(twin, "twin", "cotenant", seen.created_s), world.now_s)
        real = world.c.why.pod(twin.key, world.now_s)
        assert real is not None
        assert real.waiting is not None
        assert (answer.waiting.rejections, answer.waiting.passing) == (real.waiting.rejections, real.waiting.passing)
        assert [candidate.node for candidate in answer.candidates] == [candidate.node for candidate in real.candidates]
        world.c.pod_gone("twin", world.now_s)
        world.c.pod_seen(seen, world.now_s)


test_first_cases = first_cases(
    test_recording_changes_no_placement_and_lists_the_chosen_node_first,
    test_a_what_if_equals_a_pod_with_those_requests_and_that_selector,
    most=2,
)

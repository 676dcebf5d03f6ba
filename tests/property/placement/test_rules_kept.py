"""For any events, the scheduler's placements break no rule at the moment of placement, and take the best of the
remaining nodes.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.fakes.cluster import plain_rules, rule_worlds
from tests.fakes.cluster.plain_placement import choose_preferring, place_queue
from tests.fakes.cluster.plain_rules import Cluster, Resident
from tests.property.few import examples

from cotenant.engine.cycle.runs import place_in_runs
from cotenant.engine.encoding.encoder import Encoder
from cotenant.engine.state.ledger import Ledger
from cotenant.engine.state.narrowing import Narrowing
from cotenant.model.arrays import Float, Int, Mask
from cotenant.model.cluster.pod import Pod
from cotenant.model.resources import Amounts
from cotenant.policy.placement.compiled import commit, plain_scores
from cotenant.policy.placement.preference import scaled
from cotenant.policy.placement.profiles import PlacementProfile, profile


class World:
    """One profile over one cluster, with the pods as plain values beside it."""

    def __init__(self, rng: np.random.Generator, chosen: PlacementProfile) -> None:
        self.rng, self.profile, self.added = rng, chosen, 0
        self.nodes = [rule_worlds.a_node(rng, i) for i in range(int(rng.integers(2, 8)))]
        self.encoder = Encoder(half_node_cores=1.0)
        for node in self.nodes:
            self.encoder.add_node(node)
        self.narrowing = Narrowing(self.encoder)
        self.ledger = Ledger(self.encoder.nodes(), self.encoder.shapes(), 0, 0)
        self.sitting: dict[int, Resident] = {}
        self.pods: dict[int, Pod] = {}

    def add(self, pod: Pod) -> int:
        self.added += 1
        named = replace(pod, name=f"p{self.added}")
        number, shape = self.encoder.add_pod(named)
        self.ledger.adopt(self.encoder.nodes(), self.encoder.shapes(), self.encoder.tenant_rows)
        self.narrowing.add_pod(number, named, shape)
        self.pods[number] = named
        return number

    def place(self, numbers: list[int]) -> Int:
        pods = np.array(numbers, dtype=np.int64)
        shapes = np.array([self.encoder.shape_of(number) for number in numbers], dtype=np.int64)
        nodes, knobs, cursor = self.ledger.nodes, self.profile.knobs.array(), np.zeros(1, dtype=np.int64)
        fit, score = int(self.profile.fit), int(self.profile.score)

        def compiled(positions: Int, allowed: Mask) -> Int:
            return place_queue(
                shapes[positions],
                nodes,
                self.ledger.shapes,
                allowed,
                fit,
                score,
                False,
                0,
                cursor,
                0.0,
                knobs,
                self.rng,
            )

        def preferring(position: int, allowed: Mask, wishes) -> int:  # type: ignore[no-untyped-def]
            k = int(shapes[position])

            def checked(rows: Int) -> Float:
                """The rows that pass by the rules, and their score, spelled out."""
                cluster, pod = self.cluster(), self.pods[int(pods[position])]
                assert rows.tolist() == [i for i in range(len(self.nodes)) if self.may(pod, i)]
                worth = plain_rules.wishes(cluster, pod, [self.nodes[i] for i in rows.tolist()])
                own = scaled(score, plain_scores(score, nodes, self.ledger.shapes, k, rows, 0.0, knobs))
                total = own + worth
                self.best = set(rows[total > total.max() - 1e-6].tolist())
                return wishes(rows)

            row = choose_preferring(
                nodes, self.ledger.shapes, k, allowed, checked, fit, score, False, 0, cursor, 0.0, knobs, self.rng
            )
            if row >= 0:
                assert row in self.best
                commit(nodes, row, self.ledger.shapes, k)
                self.sit(int(pods[position]), row)
            return row

        rows = place_in_runs(self.narrowing, pods, compiled, preferring)
        placed = rows >= 0
        self.ledger.note_placed(pods[placed], rows[placed], shapes[placed])
        return rows

    def sit(self, number: int, row: int) -> None:
        self.sitting[number] = Resident(self.pods[number], self.nodes[row])

    def cluster(self) -> Cluster:
        return Cluster(self.nodes, list(self.sitting.values()), {})

    def may(self, pod: Pod, row: int) -> bool:
        cluster = self.cluster()
        return plain_rules.row_local(cluster, pod, self.nodes[row]) and plain_rules.may(cluster, pod, self.nodes[row])

    def forget(self, number: int) -> None:
        if self.sitting.pop(number, None) is not None:
            self.ledger.remove(np.array([number]))
        self.narrowing.remove_pod(number)
        self.encoder.remove_pod(self.pods.pop(number).key)
        self.encoder.release_pod(number)
        self.encoder.reclaim()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["first-fit", "kube-default", "least-allocated"])
@given(seed=st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=examples(60))
def test_every_placement_keeps_every_rule_and_pods_wait_only_if_no_node_passes(name: str, seed: int) -> None:
    rules_are_kept(name, seed)


@pytest.mark.parametrize(("name", "seed"), [("first-fit", 1), ("kube-default", 2), ("least-allocated", 3)])
def test_first_clusters(name: str, seed: int) -> None:
    rules_are_kept(name, seed)


def rules_are_kept(name: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    world = World(rng, replace(profile(name), random_ties=False, samples_nodes=False))
    for _ in range(25):
        if world.pods and rng.random() < 0.25:
            world.forget(rule_worlds.pick(rng, sorted(world.pods)))
            continue
        size = Amounts.of({"cpu": int(rng.choice([0, 100, 300])), "memory": int(rng.choice([0, 100]))})
        number = world.add(rule_worlds.a_pod(rng, "p", float(rng.choice([0.0, 0.15])), size))
        pod = world.pods[number]
        open_rows = [row for row in range(len(world.nodes)) if world.may(pod, row)]
        row = int(world.place([number])[0])
        assert row in open_rows if open_rows else row == -1
        if row >= 0:
            world.sit(number, row)
        else:
            world.forget(number)
    world.ledger.validate()
    assert len(world.ledger.over_capacity()) == 0
    for number in sorted(world.pods):
        world.forget(number)
    assert not world.ledger.nodes.requested.any()
    assert (world.narrowing.pod_counts.kinds, world.narrowing.pod_counts.counts) == (0, 0)
    assert max(world.encoder.pod_numbers.values(), default=-1) == -1

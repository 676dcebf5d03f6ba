"""Counts of residents, kept by indexes of labels, are those that looking at every pod gives."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.property.few import examples

from cotenant.engine.state.count_queries import ControllerReplicas, PodsWithTerm, Query, ResidentCount, SelectedPods
from cotenant.engine.state.pod_counts import PodCounts
from cotenant.engine.state.pod_kind import PodKind
from cotenant.model.cluster.affinity import PodTerm
from cotenant.model.cluster.labels import Labels, LabelSelector, Requirement, SelectorOperator
from cotenant.model.cluster.pod import Pod

ROWS, NAMESPACES, KEYS, VALUES = 3, ("a", "b", "c"), ("app", "tier"), ("x", "y", "z")


class Scene:
    """Pod counts, and the pods beside them as a list."""

    def __init__(self, seed: int) -> None:
        self.rng, self.counts = np.random.default_rng(seed), PodCounts()
        self.namespaces = dict.fromkeys(NAMESPACES, Labels())
        self.pods: list[tuple[PodKind, Pod, int]] = []  # row -1 = not assigned
        self.queries: list[ResidentCount] = []
        self.made = 0

    def _choice(self, values: tuple[str, ...]) -> str:
        return str(self.rng.choice(values))

    def _labels(self) -> Labels:
        return Labels.of({key: self._choice(VALUES) for key in KEYS if self.rng.random() < 0.7})

    def _requirement(self) -> Requirement:
        operator = list(SelectorOperator)[self.rng.integers(4)]
        needs_values = operator in (SelectorOperator.IN, SelectorOperator.NOT_IN)
        values = tuple(self._choice(VALUES) for _ in range(self.rng.integers(1, 4))) if needs_values else ()
        return Requirement(self._choice(KEYS), operator, values)

    def _selector(self) -> LabelSelector | None:
        if self.rng.random() < 0.1:
            return None
        return LabelSelector(tuple(self._requirement() for _ in range(self.rng.integers(0, 3))))

    def _term(self) -> PodTerm:
        names = tuple(dict.fromkeys(self._choice(NAMESPACES) for _ in range(self.rng.integers(0, 3))))
        within = self._selector() if self.rng.random() < 0.3 else None
        return PodTerm("zone", self._selector(), names, namespace_selector=within)

    def pod(self) -> None:
        self.made += 1
        terms = tuple(self._term() for _ in range(self.rng.integers(0, 2)))
        replica_of = self._choice(("", "r1", "r2"))
        pod = Pod(f"p{self.made}", self._choice(NAMESPACES), labels=self._labels(), anti_affinity=terms,
                  replica_of=replica_of)  # fmt: skip
        self.pods.append((self.counts.acquire_kind(pod), pod, -1))

    def move(self) -> None:
        if not self.pods:
            return
        at = int(self.rng.integers(len(self.pods)))
        kind, pod, row = self.pods[at]
        if row >= 0:
            self.counts.assign(kind, row, -1)
            self.pods[at] = kind, pod, -1
        else:
            row = int(self.rng.integers(ROWS))
            self.counts.assign(kind, row)
            self.pods[at] = kind, pod, row

    def gone(self) -> None:
        for at, (kind, _, row) in enumerate(self.pods):
            if row < 0:
                self.counts.release_kind(kind)
                del self.pods[at]
                return

    def query(self) -> None:
        terms = tuple(self._term() for _ in range(self.rng.integers(1, 3)))
        query: Query = SelectedPods(terms, self._choice(NAMESPACES))
        if self.rng.random() < 0.2:
            query = ControllerReplicas(self._choice(("r1", "r2")), self._choice(NAMESPACES))
        self.queries.append(self.counts.acquire_count(query))

    def answered(self) -> None:
        if self.queries:
            self.counts.release_count(self.queries.pop(int(self.rng.integers(len(self.queries)))))

    def relabel(self) -> None:
        name, labels = self._choice(NAMESPACES), self._labels()
        self.namespaces[name] = labels
        self.counts.set_namespace(name, labels)

    def check(self) -> None:
        for count in self.queries:
            expected = [0] * ROWS
            for _, pod, row in self.pods:
                expected[row] += row >= 0 and self._counts(count.query, pod)
            assert count.rows(ROWS).tolist() == expected, count.query
        residents = [pod for _, pod, row in self.pods if row >= 0]
        for kind, pod, _ in self.pods:
            expected_terms = {
                (term, resident.namespace)
                for resident in residents
                for term in resident.anti_affinity
                if term.selects(resident.namespace, pod.namespace, pod.labels, self.namespaces[pod.namespace])
            }
            found = Counter[tuple[PodTerm, str]]()
            for selecting in self.counts.terms_selecting(kind):
                query = selecting.residents.query
                assert isinstance(query, PodsWithTerm)
                if selecting.residents.total:
                    found[query.term, query.namespace] += 1
            assert found == Counter(dict.fromkeys(expected_terms, 1))

    def _counts(self, query: Query, pod: Pod) -> bool:
        if isinstance(query, ControllerReplicas):
            return (pod.replica_of, pod.namespace) == (query.controller, query.namespace)
        assert isinstance(query, SelectedPods)
        labels = self.namespaces[pod.namespace]
        return all(term.selects(query.namespace, pod.namespace, pod.labels, labels) for term in query.terms)


@settings(max_examples=examples(150))
@given(seed=st.integers(0, 2**32 - 1))
def test_counts_are_those_of_looking_at_every_pod(seed: int) -> None:
    scene = Scene(seed)
    events = (scene.pod, scene.pod, scene.move, scene.move, scene.query, scene.gone, scene.answered, scene.relabel)
    for _ in range(60):
        events[scene.rng.integers(len(events))]()
        scene.check()
    while scene.queries:
        scene.answered()
    for kind, _, row in scene.pods:
        if row >= 0:
            scene.counts.assign(kind, row, -1)
        scene.counts.release_kind(kind)
    assert (scene.counts.kinds, scene.counts.counts) == (0, 0)


def test_applications_that_select_themselves_are_not_compared_with_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    looked = 0
    plain = LabelSelector.matches

    def counting(selector: LabelSelector, labels: Labels) -> bool:
        nonlocal looked
        looked += 1
        return plain(selector, labels)

    monkeypatch.setattr(LabelSelector, "matches", counting)
    counts = PodCounts()
    for i in range(300):
        own = PodTerm("zone", LabelSelector.of({"app": f"a{i}"}))
        kind = counts.acquire_kind(Pod(f"p{i}", "a", labels=Labels.of({"app": f"a{i}"}), anti_affinity=(own,)))
        counts.acquire_count(SelectedPods((own,), "a"))
        counts.assign(kind, 0)
        assert len(counts.terms_selecting(kind)) == 1
    assert looked <= 4 * 300

"""Residents counted by kind: what enters a count, how often, and that nothing is left of what has ended."""

from __future__ import annotations

from collections.abc import Callable, Sized
from dataclasses import replace

import pytest

from cotenant.engine.state.count_queries import (
    ControllerReplicas,
    PodsOfManyTerms,
    PodsWithTerm,
    PortConflicts,
    Query,
    SelectedPods,
    TermType,
)
from cotenant.engine.state.pod_counts import PodCounts
from cotenant.engine.state.pod_kind import FEW_TERMS
from cotenant.engine.state.term_index import NamespacedTerms
from cotenant.model.cluster.affinity import NodeAffinity, NodeSelector, NodeSelectorTerm, PodTerm, SpreadConstraint
from cotenant.model.cluster.labels import Labels, LabelSelector, Requirement, SelectorOperator
from cotenant.model.cluster.pod import HostPort, Pod
from cotenant.model.errors import Permanent

WEB = Labels.of({"app": "web"})
NEAR_WEB = PodTerm("zone", LabelSelector.of({"app": "web"}))
LIKES_WEB = PodTerm("host", LabelSelector.of({"app": "web"}), weight=30)
POD = Pod("p", labels=WEB)
WEBS = SelectedPods((NEAR_WEB,), "default")


def kept(counts: PodCounts) -> dict[str, int]:
    """How much lies in each table."""
    found = {}
    for name, table in vars(counts).items():
        if isinstance(table, NamespacedTerms):
            found |= {f"{name}{part}": len(held) for part, held in vars(table).items() if isinstance(held, Sized)}
            found[f"{name} anywhere"] = int(bool(vars(table)["_anywhere"]))
        elif isinstance(table, Sized) and name not in ("_by_index", "_free"):
            found[name] = len(table)
    return found


MANY = tuple(PodTerm("zone", LabelSelector.of({"app": f"a{number}"})) for number in range(FEW_TERMS + 1))


@pytest.mark.parametrize(
    "pod",
    [
        POD,
        replace(POD, replica_of="r"),
        replace(POD, host_ports=(HostPort(80), HostPort(80, "UDP"))),
        replace(POD, anti_affinity=(NEAR_WEB,), affinity=(LIKES_WEB,)),
        replace(POD, anti_affinity=MANY),
    ],
)
@pytest.mark.parametrize(
    "query",
    [
        WEBS,
        SelectedPods((PodTerm("zone", LabelSelector(), namespace_selector=LabelSelector()),), "default"),
        ControllerReplicas("r", "default"),
        PortConflicts(HostPort(80)),
        PodsWithTerm(NEAR_WEB, "default", TermType.REQUIRED_ANTI_AFFINITY),
    ],
)
def test_nothing_is_left_of_kinds_and_queries_that_have_ended(pod: Pod, query: Query) -> None:
    counts, another = PodCounts(), replace(POD, namespace="other")
    counts.acquire_kind(another)
    before = kept(counts)
    for ends_first in (True, False):
        kind = counts.acquire_kind(pod)
        count = counts.acquire_count(query)
        counts.assign(kind, 3)
        counts.assign(kind, 3, -1)
        if ends_first:
            counts.release_count(count)
            assert (count in kind.counted) == (count in kind.own_terms)
        assert counts.release_kind(kind)
        if not ends_first:
            counts.release_count(count)
        assert kept(counts) == before
    assert counts.kinds == 1


ALIKE: list[Callable[[Pod], Pod]] = [
    lambda pod: replace(pod, namespace="other"),
    lambda pod: replace(pod, labels=Labels.of({"app": "db"})),
    lambda pod: replace(pod, affinity=(NEAR_WEB,)),
    lambda pod: replace(pod, anti_affinity=(NEAR_WEB,)),
    lambda pod: replace(pod, spread=(SpreadConstraint("zone", LabelSelector.of({"app": "web"})),)),
    lambda pod: replace(pod, host_ports=(HostPort(80),)),
    lambda pod: replace(pod, is_daemon=True),
    lambda pod: replace(pod, images=("image",)),
    lambda pod: replace(pod, replica_of="r"),
    lambda pod: replace(pod, default_selector=LabelSelector.of({"app": "web"})),
    lambda pod: replace(pod, unfiltered=frozenset({"NodePorts"})),
]


def test_pods_are_of_one_kind_unless_a_rule_tells_them_apart() -> None:
    counts = PodCounts()
    kind = counts.acquire_kind(POD)
    assert counts.acquire_kind(replace(POD, name="q", priority=7)) is kind
    assert kind.pods == 2
    others = [counts.acquire_kind(change(POD)) for change in ALIKE]
    assert len({id(one) for one in (kind, *others)}) == 1 + len(ALIKE)
    assert counts.kinds == 1 + len(ALIKE)
    assert [counts.at(one.index) for one in others] == others


def test_a_node_affinity_counts_by_the_node_that_it_pins_to() -> None:
    def pinned(name: str) -> Pod:
        field = Requirement("metadata.name", SelectorOperator.IN, (name,))
        return replace(POD, node_affinity=NodeAffinity(NodeSelector((NodeSelectorTerm(fields=(field,)),))))

    counts = PodCounts()
    first = counts.acquire_kind(pinned("n0"))
    assert counts.acquire_kind(pinned("n0")) is first
    assert counts.acquire_kind(pinned("n1")) is not first


def test_an_index_is_given_anew_once_its_kind_is_gone() -> None:
    counts = PodCounts()
    kinds = [counts.acquire_kind(change(POD)) for change in ALIKE[:3]]
    assert [kind.index for kind in kinds] == [0, 1, 2]
    counts.release_kind(kinds[1])
    with pytest.raises(Permanent, match="no kind of pods has index 1"):
        counts.at(1)
    another = counts.acquire_kind(POD)
    assert (another.index, counts.at(1), counts.at(2)) == (1, another, kinds[2])


def test_kinds_that_are_held_are_dropped_at_the_end_unless_they_came_back() -> None:
    counts = PodCounts()
    first, second = counts.acquire_kind(POD), counts.acquire_kind(replace(POD, replica_of="r"))
    counts.acquire_kind(POD)
    assert not counts.release_kind(first)  # one pod of it is left
    counts.hold_kinds()
    assert not counts.release_kind(first)
    assert not counts.release_kind(second)
    assert counts.acquire_kind(POD) is first
    assert counts.let_go() == (second,)
    assert counts.kinds == 1
    assert counts.let_go() == ()
    assert counts.release_kind(first)


def test_terminating_residents_count_for_affinity_and_not_for_spread() -> None:
    counts = PodCounts()
    kind = counts.acquire_kind(replace(POD, replica_of="r"))
    affine = counts.acquire_count(WEBS)
    spread = counts.acquire_count(SelectedPods((NEAR_WEB,), "default", True))
    replicas = counts.acquire_count(ControllerReplicas("r", "default"))
    for _ in range(3):
        counts.assign(kind, 1)
    counts.set_terminating(kind, 1)
    counts.assign(kind, 1, terminating=True)
    assert [count.rows(2).tolist() for count in (affine, spread, replicas)] == [[0, 4], [0, 2], [0, 2]]
    late = counts.acquire_count(SelectedPods((NEAR_WEB, NEAR_WEB), "default", True))
    assert late.rows(2).tolist() == [0, 2]
    counts.assign(kind, 1, -1, terminating=True)
    counts.assign(kind, 1, -1)
    assert [count.rows(2).tolist() for count in (affine, spread, replicas, late)] == [[0, 2], [0, 1], [0, 1], [0, 1]]
    assert (kind.residents, kind.terminating) == ({1: 2}, {1: 1})


@pytest.mark.parametrize("change", [1, -1])
def test_several_at_once_are_counted_as_one_by_one(change: int) -> None:
    found = []
    for at_once in (True, False):
        counts = PodCounts()
        kind = counts.acquire_kind(replace(POD, anti_affinity=(NEAR_WEB,)))
        count = counts.acquire_count(WEBS)
        counts.assign_all(kind, [], 1)
        assert kind.own_terms == []
        for row in (0, 1, 1, 2):
            counts.assign(kind, row)
        if at_once:
            counts.assign_all(kind, [1, 2, 1], change)
        else:
            for row in (1, 2, 1):
                counts.assign(kind, row, change)
        (own,) = kind.own_terms
        found.append((count.rows(4).tolist(), count.total, own.rows(4).tolist(), own.total, dict(kind.residents)))
    assert found[0] == found[1]
    assert found[0][0] == [1, 2 + 2 * change, 1 + change, 0]


def test_ports_conflict_by_number_protocol_and_address() -> None:
    counts = PodCounts()
    ports = (HostPort(80, address="10.0.0.1"), HostPort(80, address="10.0.0.2"), HostPort(81), HostPort(80, "UDP"))
    kind = counts.acquire_kind(replace(POD, host_ports=ports))
    counts.assign(kind, 0)
    for port, conflicts in (
        (HostPort(80), 2),
        (HostPort(80, address="10.0.0.1"), 1),
        (HostPort(80, address="10.0.0.3"), 0),
        (HostPort(81, address="10.0.0.3"), 1),
        (HostPort(80, "UDP"), 1),
        (HostPort(81, "UDP"), 0),
    ):
        assert counts.acquire_count(PortConflicts(port)).total == conflicts, port
    later = counts.acquire_kind(replace(POD, host_ports=(HostPort(80, address="10.0.0.3"),)))
    counts.assign(later, 0)
    assert counts.acquire_count(PortConflicts(HostPort(80))).total == 3
    assert counts.acquire_count(PortConflicts(HostPort(80, address="10.0.0.3"))).total == 1


def test_a_count_stays_until_it_is_released_as_often_as_acquired() -> None:
    counts = PodCounts()
    kind = counts.acquire_kind(POD)
    count = counts.acquire_count(WEBS)
    assert counts.acquire_count(WEBS) is count
    counts.release_count(count)
    counts.assign(kind, 0)
    assert (counts.counts, count.total) == (1, 1)
    counts.release_count(count)
    assert counts.counts == 0
    assert counts.acquire_count(WEBS) is not count


def test_a_check_that_raises_leaves_no_count() -> None:
    counts = PodCounts()
    counts.acquire_kind(POD)

    def refuses() -> None:
        raise TimeoutError

    with pytest.raises(TimeoutError):
        counts.acquire_count(WEBS, refuses)
    assert counts.counts == 0


def test_terms_of_residents_that_select_a_kind_have_their_weights() -> None:
    counts = PodCounts()
    kind = counts.acquire_kind(POD)
    assert counts.terms_selecting(kind) == ()
    hates = replace(LIKES_WEB, weight=20)
    owner = replace(POD, labels=Labels(), affinity=(NEAR_WEB, LIKES_WEB), anti_affinity=(hates, NEAR_WEB))
    counts.assign(counts.acquire_kind(owner), 2)
    found = {(term.type, term.topology_key, term.weight) for term in counts.terms_selecting(kind)}
    assert found == {
        (TermType.REQUIRED_AFFINITY, "zone", 1),
        (TermType.PREFERRED_AFFINITY, "host", 30),
        (TermType.PREFERRED_ANTI_AFFINITY, "host", -20),
        (TermType.REQUIRED_ANTI_AFFINITY, "zone", 1),
    }
    assert {term.residents.rows(3).tolist()[2] for term in counts.terms_selecting(kind)} == {1}
    assert counts.terms_selecting(counts.acquire_kind(replace(POD, labels=Labels.of({"app": "db"})))) == ()


def test_very_many_terms_are_one_count_with_the_sum_of_what_they_say() -> None:
    counts = PodCounts()
    few = counts.acquire_kind(replace(POD, anti_affinity=MANY[:-1]))
    counts.assign(few, 0)
    assert len(few.own_terms) == FEW_TERMS
    likes = (LIKES_WEB, replace(LIKES_WEB, weight=5), replace(LIKES_WEB, topology_key="zone"))
    many = counts.acquire_kind(replace(POD, affinity=likes, anti_affinity=MANY))
    counts.assign(many, 1)
    counts.assign(many, 2)
    (count,) = many.own_terms
    assert isinstance(count.query, PodsOfManyTerms)
    assert count.rows(3).tolist() == [0, 1, 1]
    found = {(term.type, term.topology_key, term.weight, term.residents) for term in counts.terms_selecting(many)}
    assert found == {
        (TermType.PREFERRED_AFFINITY, "host", 35, count),
        (TermType.PREFERRED_AFFINITY, "zone", 30, count),
    }
    named = counts.acquire_kind(replace(POD, labels=Labels.of({"app": "a3"})))
    assert {(term.type, term.residents) for term in counts.terms_selecting(named)} == {
        (TermType.REQUIRED_ANTI_AFFINITY, few.own_terms[3]),
        (TermType.REQUIRED_ANTI_AFFINITY, count),
    }


def test_a_namespaces_labels_decide_whom_a_term_selects() -> None:
    counts = PodCounts()
    of_team = PodTerm("zone", LabelSelector.of({"app": "web"}), namespace_selector=LabelSelector.of({"team": "a"}))
    kind = counts.acquire_kind(POD)
    counts.assign(kind, 0)
    count = counts.acquire_count(SelectedPods((of_team,), "other"))
    owner = counts.acquire_kind(replace(POD, labels=Labels(), affinity=(of_team,)))
    counts.assign(owner, 1)
    assert (count.total, counts.terms_selecting(kind)) == (0, ())
    counts.set_namespace("default", Labels.of({"team": "a"}))
    assert (count.total, len(counts.terms_selecting(kind))) == (1, 1)
    counts.set_namespace("default", Labels.of({"team": "a"}))
    assert count.total == 1
    counts.set_namespace("default", Labels())
    assert (count.total, counts.terms_selecting(kind)) == (0, ())
    assert counts.namespace_labels("default") == Labels()
    counts.set_namespace("default", Labels())  # known to have none

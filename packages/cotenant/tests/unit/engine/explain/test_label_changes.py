"""What stands between a pod and a node by labels, and that what is proposed removes it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.fakes.cluster.questions import node

from cotenant.engine.explain.label_changes import (
    Unmet,
    as_labels,
    as_requirements,
    describes_a_node,
    relabelled,
    unmet,
    without_requirements,
)
from cotenant.model.cluster.affinity import NodeAffinity, NodeSelector, NodeSelectorTerm, PreferredTerm
from cotenant.model.cluster.labels import Labels, Requirement, SelectorOperator
from cotenant.model.cluster.pod import Pod

KEYS, VALUES = ("a", "b", "kubernetes.io/hostname", "topology.x/zone"), ("1", "5", "9", "x")


def requirement(key: str, operator: SelectorOperator, values: tuple[str, ...]) -> Requirement:
    match operator:
        case SelectorOperator.EXISTS | SelectorOperator.DOES_NOT_EXIST:
            return Requirement(key, operator)
        case SelectorOperator.GT | SelectorOperator.LT:
            return Requirement(key, operator, ("5",))
        case _:
            return Requirement(key, operator, values)


_requirements = st.builds(
    requirement,
    st.sampled_from(KEYS),
    st.sampled_from(list(SelectorOperator)),
    st.lists(st.sampled_from(VALUES), min_size=1, max_size=2, unique=True).map(tuple),
)
_fields = st.sampled_from(["n", "other"]).map(lambda name: Requirement("metadata.name", SelectorOperator.IN, (name,)))
_terms = st.builds(
    NodeSelectorTerm,
    st.lists(_requirements, max_size=3).map(tuple),
    st.lists(_fields, max_size=1).map(tuple),
)
_labels = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES)).map(Labels.of)
_pods = st.builds(
    lambda selector, terms: Pod(
        "x", node_selector=selector, node_affinity=NodeAffinity(NodeSelector(tuple(terms))) if terms else None
    ),
    _labels,
    st.lists(_terms, max_size=3),
)


def fits(pod: Pod, name: str, labels: Labels) -> bool:
    selected = all(labels.get(key) == value for key, value in pod.node_selector)
    required = pod.node_affinity.required if pod.node_affinity is not None else None
    return selected and (required is None or required.matches(name, labels))


@settings(max_examples=30)
@given(_pods, _labels)
def test_what_is_unmet_is_what_stands_between_and_dropping_it_helps(pod: Pod, labels: Labels) -> None:
    here = replace(node("n"), labels=labels)
    lacking = unmet(pod, here)
    assert (lacking == Unmet()) == fits(pod, "n", labels)
    assert not any(one.matches(labels) for one in lacking.requirements)
    assert len(set(lacking.requirements)) == len(lacking.requirements)
    if lacking.fixed:
        return
    assert fits(without_requirements(pod, lacking.requirements), "n", labels)
    keys = [one.key for one in lacking.requirements]
    if len(set(keys)) == len(keys):
        changed = relabelled(here, lacking.requirements)
        assert all(one.matches(changed.labels) for one in lacking.requirements)
        untouched = [key for key in KEYS if key not in keys]
        assert [changed.labels.get(key) for key in untouched] == [labels.get(key) for key in untouched]
    assert lacking.is_identity == all(map(describes_a_node, keys))
    assert lacking.has_identity == any(map(describes_a_node, keys))


def test_the_term_with_the_fewest_misses_counts_unless_a_field_is_in_the_way() -> None:
    def has(*keys: str) -> tuple[Requirement, ...]:
        return tuple(Requirement(key, SelectorOperator.EXISTS) for key in keys)

    elsewhere = (Requirement("metadata.name", SelectorOperator.IN, ("other",)),)

    def found(*terms: NodeSelectorTerm) -> Unmet:
        return unmet(
            Pod("x", node_affinity=NodeAffinity(NodeSelector(terms))), replace(node("n"), labels=Labels.of({}))
        )

    two, one, bound = NodeSelectorTerm(has("a", "b")), NodeSelectorTerm(has("c")), NodeSelectorTerm(has("d"), elsewhere)
    assert found(two, one) == found(one, two) == Unmet(has("c"))
    assert found(bound, two) == Unmet(has("a", "b"))
    assert found(bound) == Unmet(fixed=True)
    assert found(NodeSelectorTerm((), elsewhere)) == Unmet(fixed=True)


def test_a_requirement_is_dropped_from_selector_and_terms_and_preferences_stay() -> None:
    zone, fast = Requirement("zone", SelectorOperator.IN, ("1",)), Requirement("disk", SelectorOperator.EXISTS)
    prefers = (PreferredTerm(3, NodeSelectorTerm((fast,))),)
    both = NodeSelector((NodeSelectorTerm((zone, fast)),))
    pod = Pod("x", node_selector=Labels.of({"zone": "1", "b": "2"}), node_affinity=NodeAffinity(both, prefers))
    less = without_requirements(pod, (zone,))
    assert less.node_selector == Labels.of({"b": "2"})
    assert less.node_affinity == NodeAffinity(NodeSelector((NodeSelectorTerm((fast,)),)), prefers)
    assert without_requirements(pod, (zone, fast)).node_affinity == NodeAffinity(None, prefers)
    bare = replace(pod, node_affinity=NodeAffinity(both))
    assert without_requirements(bare, (zone, fast)).node_affinity is None
    assert without_requirements(replace(pod, node_affinity=None), (zone,)).node_affinity is None
    assert without_requirements(pod, ()) == pod


@pytest.mark.parametrize(
    ("key", "is_identity"),
    [
        ("kubernetes.io/hostname", True),
        ("node.kubernetes.io/instance-type", True),
        ("topology.example.com/rack", True),
        ("example.com/kubernetes.io", False),
        ("notkubernetes.io/x", False),
        ("kubernetes.io", False),
        ("topology.rack", False),
        ("disk", False),
    ],
)
def test_labels_that_describe_a_node(key: str, is_identity: bool) -> None:
    assert describes_a_node(key) is is_identity


def test_words() -> None:
    every = (
        Requirement("a", SelectorOperator.IN, ("1",)),
        Requirement("b", SelectorOperator.IN, ("1", "2")),
        Requirement("c", SelectorOperator.EXISTS),
        Requirement("d", SelectorOperator.GT, ("5",)),
        Requirement("e", SelectorOperator.LT, ("5",)),
        Requirement("f", SelectorOperator.NOT_IN, ("1", "2")),
        Requirement("g", SelectorOperator.DOES_NOT_EXIST),
    )
    asked = "a=1 and b in (1, 2) and c (any value) and d above 5 and e below 5"
    assert as_requirements(every) == f"{asked} and f not in (1, 2) and no g"
    assert as_labels(every) == f"label {asked} and remove the labels f and g"
    assert as_labels(every[:1]) == "label a=1"
    assert as_labels(every[-1:]) == "remove the label g"
    assert as_labels(()) == ""
    values = dict(relabelled(node("n"), every[:5]).labels.items)
    assert (values["a"], values["b"], values["c"], values["d"], values["e"]) == ("1", "1", "true", "6", "4")

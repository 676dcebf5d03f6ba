from __future__ import annotations

import pytest

from cotenant.model.cluster.affinity import (
    NodeSelector,
    NodeSelectorTerm,
    PodTerm,
    PreferredTerm,
    SpreadConstraint,
    WhenUnsatisfiable,
)
from cotenant.model.cluster.labels import Labels, LabelSelector, Requirement, SelectorOperator
from cotenant.model.errors import InvalidInput

SSD = Requirement("disk", SelectorOperator.IN, ("ssd",))
BIG = Requirement("cores", SelectorOperator.GT, ("32",))
NAMED = Requirement("metadata.name", SelectorOperator.IN, ("n1",))


def test_expressions_are_anded_terms_are_ored() -> None:
    both, either = NodeSelectorTerm((SSD, BIG)), NodeSelector((NodeSelectorTerm((SSD,)), NodeSelectorTerm((BIG,))))
    only_ssd = Labels.of({"disk": "ssd", "cores": "16"})
    assert not both.matches("n", only_ssd)
    assert either.matches("n", only_ssd)
    assert both.matches("n", Labels.of({"disk": "ssd", "cores": "64"}))
    assert not either.matches("n", Labels())


def test_empty_terms_match_nothing() -> None:
    assert not NodeSelectorTerm().matches("n", Labels.of({"disk": "ssd"}))
    assert not NodeSelector(()).matches("n", Labels())


def test_fields_are_the_node_name() -> None:
    term = NodeSelectorTerm((SSD,), (NAMED,))
    assert term.matches("n1", Labels.of({"disk": "ssd"}))
    assert not term.matches("n2", Labels.of({"disk": "ssd"}))
    # a label called like the field is not the field
    assert not NodeSelectorTerm((), (NAMED,)).matches("n2", Labels.of({"metadata.name": "n1"}))
    for bad in (
        Requirement("metadata.uid", SelectorOperator.IN, ("x",)),
        Requirement("metadata.name", SelectorOperator.EXISTS),
    ):
        with pytest.raises(InvalidInput, match="matchFields"):
            NodeSelectorTerm((), (bad,))


def test_weights_and_bounds() -> None:
    for weight in (0, 101, -1, True):
        with pytest.raises(InvalidInput, match="1 to 100"):
            PreferredTerm(weight, NodeSelectorTerm((SSD,)))
    with pytest.raises(InvalidInput, match="maxSkew"):
        SpreadConstraint("zone", LabelSelector(), 0)
    with pytest.raises(InvalidInput, match="minDomains"):
        SpreadConstraint("zone", LabelSelector(), 1, min_domains=0)
    with pytest.raises(InvalidInput, match="topologyKey"):
        PodTerm("", LabelSelector())
    with pytest.raises(InvalidInput, match="1 to 100"):
        PodTerm("zone", LabelSelector(), weight=0)
    with pytest.raises(InvalidInput, match="topologyKey"):
        SpreadConstraint("", LabelSelector())


def test_no_selector_selects_no_pod_an_empty_one_every_pod_but_for_spread() -> None:
    assert not SpreadConstraint("zone", None).selects(Labels())
    assert not SpreadConstraint("zone", LabelSelector()).selects(Labels())
    assert not PodTerm("zone", None).selects("a", "a", Labels())
    assert PodTerm("zone", LabelSelector()).selects("a", "a", Labels())


def test_anti_affinity_means_the_own_namespace_unless_it_names_others() -> None:
    own = PodTerm("zone", LabelSelector())
    assert not own.selects("a", "b", Labels())
    named = PodTerm("zone", LabelSelector(), ("b", "c"))
    assert named.selects("a", "c", Labels())
    assert not named.selects("a", "a", Labels())


def test_only_do_not_schedule_forbids() -> None:
    assert SpreadConstraint("zone", None).forbids
    assert not SpreadConstraint("zone", None, 1, WhenUnsatisfiable.SCHEDULE_ANYWAY).forbids

"""The limit of one judgement, and which pods have one."""

from __future__ import annotations

from dataclasses import replace

from cotenant.engine.framework.budget import LARGE, JudgementBudget, OverBudget, elements, of_what, rule_elements
from cotenant.model.cluster.affinity import NodeAffinity, NodeSelector, NodeSelectorTerm, PodTerm, PreferredTerm
from cotenant.model.cluster.labels import ZONE, Labels, LabelSelector, Requirement, SelectorOperator
from cotenant.model.cluster.observed import ObservedPod
from cotenant.model.cluster.pod import Pod
from cotenant.model.cluster.taints import Toleration


class Clock:
    """Costs nothing by itself; counts the looks at it."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.looks = 0

    def __call__(self) -> float:
        self.looks += 1
        return self.now_s


def labelled(count: int) -> ObservedPod:
    return ObservedPod(Pod("p", labels=Labels.of({f"k{i}": "v" for i in range(count)})), "uid", "", 0.0)


def test_a_pod_is_large_above_the_threshold_and_only_where_there_is_a_clock() -> None:
    timed, untimed = JudgementBudget(Clock()), JudgementBudget(None)
    assert [timed.is_large(labelled(count)) for count in (LARGE, LARGE + 1)] == [False, True]
    assert not untimed.is_large(labelled(LARGE + 1))
    assert (timed.now(), untimed.now()) == (100.0, 0.0)


def checks_until_over(budget: JudgementBudget, most: int = 50) -> int:
    for number in range(1, most + 1):
        try:
            budget.check()
        except OverBudget:
            return number
    return most + 1


def test_every_eighth_check_looks_at_the_clock_and_from_the_first_excess_on_each_one_raises() -> None:
    clock = Clock()
    budget = JudgementBudget(clock)
    with budget.within(0.05):
        assert (checks_until_over(budget, 16), clock.looks) == (17, 3)  # one look at the begin
        clock.now_s += 0.05  # exactly all of it
        assert checks_until_over(budget, 8) == 9
        assert not budget.is_exceeded
        clock.now_s += 0.001
        assert checks_until_over(budget) == 8
        assert budget.is_exceeded
        clock.now_s -= 10.0
        assert checks_until_over(budget) == 1
    assert budget.is_exceeded  # until the next limit
    with budget.within(1.0):
        assert not budget.is_exceeded
        assert checks_until_over(budget) == 51


def test_outside_of_a_judgement_nothing_is_limited_and_the_clock_rests() -> None:
    clock = Clock()
    budget = JudgementBudget(clock)
    with budget.within(-1.0):
        assert checks_until_over(budget) == 8
    looks = clock.looks
    assert checks_until_over(budget) == 51
    assert clock.looks == looks
    with budget.within(1.0):  # the checks before it do not count
        assert checks_until_over(budget, 7) == 8
    assert clock.looks == looks + 1


def test_every_list_of_a_rule_counts_with_its_values() -> None:
    selector = LabelSelector(
        (Requirement("app", SelectorOperator.IN, ("a", "b")), Requirement("x", SelectorOperator.EXISTS))
    )
    term = PodTerm(ZONE, selector, ("n1", "n2", "n3"))
    pod = Pod("p", affinity=(term,), anti_affinity=(replace(term, namespace_selector=selector, namespaces=()),))
    # the term, its namespaces, and of each requirement itself and its values
    assert rule_elements(pod) == (1 + 3 + (1 + 2) + 1) + (1 + 0 + 2 * ((1 + 2) + 1))
    assert elements(ObservedPod(pod, "uid", "", 0.0)) == rule_elements(pod)
    assert rule_elements(Pod("p")) == 0


def test_every_list_that_judgement_looks_through_counts() -> None:
    bare = ObservedPod(Pod("p"), "uid", "", 0.0)
    assert elements(bare) == 0
    two = Labels.of({"a": "1", "b": "2"})
    for changed, count in (
        ({"labels": two}, 2),
        ({"node_selector": two}, 2),
        ({"tolerations": (Toleration("a"),) * 3}, 3),
        ({"images": ("i",) * 4}, 4),
        ({"labels": two, "images": ("i",)}, 3),
    ):
        assert elements(replace(bare, pod=replace(bare.pod, **changed))) == count
    required = NodeSelector((NodeSelectorTerm((Requirement("a", SelectorOperator.IN, ("x", "y")),)),) * 2)
    preferred = PreferredTerm(3, NodeSelectorTerm(fields=(Requirement("metadata.name", SelectorOperator.IN, ("n",)),)))
    affine = replace(bare.pod, node_affinity=NodeAffinity(required, (preferred,)))
    assert elements(replace(bare, pod=affine)) == 2 * (1 + 2) + (1 + 1)


def test_the_two_longest_lists_are_named_the_longest_first() -> None:
    labels = Labels.of({f"k{i}": "v" for i in range(65)})
    term = PodTerm(ZONE, None)
    assert of_what(Pod("p", labels=Labels.of({f"k{i}": "v" for i in range(64)}))) == "its lists"
    assert of_what(Pod("p", labels=labels)) == "65 labels"
    assert of_what(Pod("p", labels=labels, affinity=(term,) * 1200)) == "1,200 affinity terms and 65 labels"
    long = Pod("p", labels=labels, affinity=(term,) * 66, anti_affinity=(term,) * 67, images=("i",) * 68)
    assert of_what(long) == "68 images and 67 anti-affinity terms"

"""Args of the kinds of moves other than LowNodeLoad: the values at their bounds are taken, those beyond are refused
with their field.
"""

from __future__ import annotations

from typing import Any

import pytest

from cotenant.engine.rebalancer.settings import MoveKinds
from cotenant.model.errors import InvalidInput
from cotenant.policy.rebalance.violations.contract import ViolationRule
from cotenant.services.rebalancer.kinds import BALANCE, DESCHEDULE, read_kinds

PACKING, DEFRAGMENTATION = BALANCE[1:]
MISSED = DESCHEDULE[3]
ENOUGH = {"thresholds": {"cpu": 20}}


def read(name: str, **args: Any) -> MoveKinds:
    return read_kinds({name}, {name: ("args", args)})


def refused(name: str, **args: Any) -> str:
    with pytest.raises(InvalidInput) as caught:
        read(name, **args)
    return caught.value.field


@pytest.mark.parametrize(
    ("name", "field", "taken", "beyond"),
    [
        (PACKING, "thresholds", [{"cpu": 0}, {"cpu": 100}], [{"cpu": -0.1}, {"cpu": 100.1}, {}]),
        (PACKING, "numberOfNodes", [0, 1], [-1]),
        (PACKING, "maxNodesPerRound", [1, 2], [0, -1]),
        (DEFRAGMENTATION, "waitsSeconds", [0, 0.5], [-0.1]),
        (DEFRAGMENTATION, "maxPodsMoved", [1], [0]),
        (DEFRAGMENTATION, "maxWaiting", [1], [0]),
        (MISSED, "windows", [1], [0]),
        (MISSED, "maxVictims", [1], [0]),
        (MISSED, "minGain", [0], [-0.1]),
        (MISSED, "restSeconds", [0], [-0.1]),
        (MISSED, "maxPercentPerHour", [0.1, 100], [0, 100.1]),
    ],
)
def test_bounds(name: str, field: str, taken: list[Any], beyond: list[Any]) -> None:
    rest = ENOUGH if name == PACKING else {}
    for value in taken:
        read(name, **{**rest, field: value})
    for value in beyond:
        assert refused(name, **{**rest, field: value}).startswith(f"args.{field}")


@pytest.mark.parametrize(
    ("name", "field", "taken", "beyond"),
    [
        (
            ViolationRule.NODE_AFFINITY.value,
            "nodeAffinityType",
            ["requiredDuringSchedulingIgnoredDuringExecution"],
            ["preferredDuringSchedulingIgnoredDuringExecution"],
        ),
        (ViolationRule.SPREAD.value, "constraints", ["DoNotSchedule"], ["ScheduleAnyway"]),
    ],
)
def test_what_is_only_preferred_is_not_repaired(name: str, field: str, taken: list[str], beyond: list[str]) -> None:
    assert set(read(name, **{field: taken}).repairs) == {ViolationRule(name)}
    assert refused(name, **{field: beyond}) == f"args.{field}"


def test_taints_that_only_discourage_are_refused_and_some_may_be_left_out() -> None:
    assert refused(ViolationRule.NODE_TAINTS.value, includePreferNoSchedule=True) == "args.includePreferNoSchedule"
    found = read(ViolationRule.NODE_TAINTS.value, excludedTaints=["a", "b=c"], includePreferNoSchedule=False)
    assert (found.excluded_taints, set(found.repairs)) == (("a", "b=c"), {ViolationRule.NODE_TAINTS})


def test_a_kind_that_is_not_enabled_is_not_there() -> None:
    for name in (*DESCHEDULE, *BALANCE):
        found = read(name, **(ENOUGH if name == PACKING else {}))
        there = {rule.value for rule in found.repairs}
        there |= {MISSED} if found.objectives is not None else set()
        there |= {DEFRAGMENTATION} if found.defragmentation is not None else set()
        there |= {PACKING} if found.packing is not None else set()
        assert there == {name}


def test_pods_are_limited_by_namespaces_and_labels_of_which_those_of_packing_add_up() -> None:
    name = ViolationRule.ANTI_AFFINITY.value
    assert refused(name, namespaces={"include": ["a"], "exclude": ["b"]}) == "args.namespaces"
    scope = read(name, namespaces={"include": ["a"]}, labelSelector={"matchLabels": {"x": "y"}}).repairs[
        ViolationRule(name)
    ]
    assert (scope.include, scope.exclude, scope.selector is None) == (("a",), (), False)
    packing = read(PACKING, **ENOUGH, namespaces={"exclude": ["a"]}, evictableNamespaces={"exclude": ["b"]}).packing
    assert packing is not None
    assert (packing.scope.include, packing.scope.exclude) == ((), ("a", "b"))


def test_a_share_of_an_hour_is_written_in_percent() -> None:
    for written, share in ((None, None), (25, 0.25)):
        objectives = read(MISSED, **({} if written is None else {"maxPercentPerHour": written})).objectives
        assert objectives is not None
        assert objectives.hour_share == share

"""What a gang is: its name by the labels of its pods, and what of a PodGroup or of a pod counts where it is wrong."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from cotenant.model.cluster.labels import NO_LABELS, Labels
from cotenant.model.cluster.pod import Pod
from cotenant.model.groups import gang
from cotenant.model.groups.gang import NO_NOTES, GangMode, GangNotes, GangSpec, MatchPolicy, PodGroup, PodGroupStatus
from cotenant.policy.placement.gangs.spec import differences, from_pod, from_pod_group, gang_key


def labels(**pairs: str) -> Labels:
    names = {
        "x": gang.X_POD_GROUP, "group": gang.POD_GROUP, "light": gang.LIGHT_NAME, "least": gang.LIGHT_MIN_AVAILABLE,
        "policy": gang.LIGHT_MATCH_POLICY,
    }  # fmt: skip
    return Labels(tuple(sorted((names[name], value) for name, value in pairs.items())))


@pytest.mark.parametrize(
    ("pairs", "notes", "key"),
    [
        ({}, None, ""),
        ({}, GangNotes(), ""),
        ({}, GangNotes(name="n"), "ns/n"),
        ({"light": "l"}, GangNotes(name="n"), "ns/l"),
        ({"light": "l", "group": "g"}, None, "ns/g"),
        ({"light": "l", "group": "g", "x": "x"}, GangNotes(name="n"), "ns/x"),
        ({"least": "3"}, None, ""),
    ],
)
def test_a_pod_names_its_gang(pairs: dict[str, str], notes: GangNotes | None, key: str) -> None:
    assert gang_key(Pod("p", namespace="ns", labels=labels(**pairs)), notes) == key


def group(**more: Any) -> PodGroup:
    whole = PodGroup("ns/g", "u", 0.0, 2, None, NO_NOTES, PodGroupStatus("ns/g", "u"))
    return replace(whole, **more)


@pytest.mark.parametrize(("given", "counts"), [(2, 2), (1, 1), (0, 1), (-3, 1), (None, 1)])
def test_a_group_of_fewer_than_one_counts_as_one(given: int | None, counts: int) -> None:
    spec, said = from_pod_group(group(min_member=given))
    assert spec.min_available == counts
    assert bool(said) is (given != counts)
    assert spec.declared


@pytest.mark.parametrize(
    ("own", "noted", "api_group", "wait_s"),
    [
        (7.0, 9.0, gang.SIGS_GROUP, 7.0),
        (None, 9.0, gang.SIGS_GROUP, 9.0),
        (0.0, 9.0, gang.SIGS_GROUP, 9.0),
        (None, None, gang.SIGS_GROUP, gang.WAIT_S),
        (None, None, gang.X_GROUP, gang.X_WAIT_S),
        (None, 9.0, gang.X_GROUP, 9.0),
        (None, -1.0, gang.SIGS_GROUP, gang.WAIT_S),
    ],
)
def test_how_long_a_gang_is_waited_for(own: float | None, noted: float | None, api_group: str, wait_s: float) -> None:
    spec, said = from_pod_group(group(wait_s=own, notes=GangNotes(wait_s=noted), api_group=api_group))
    assert spec.wait_s == wait_s
    assert any("waiting-time" in line for line in said) is (noted == -1.0)


@pytest.mark.parametrize(("total", "counts", "is_said"), [(None, 2, False), (2, 2, False), (5, 5, False), (1, 2, True)])
def test_a_gang_has_at_least_its_minimum(total: int | None, counts: int, is_said: bool) -> None:
    spec, said = from_pod_group(group(notes=GangNotes(total=total)))
    assert spec.total == counts
    assert bool(said) is is_said


@pytest.mark.parametrize(
    ("groups", "counts", "said"),
    [
        ((), (), 0),
        (("ns/g",), (), 0),
        (("ns/g", "ns/h"), ("ns/g", "ns/h"), 0),
        (("ns/h", "ns/g", "ns/h"), ("ns/h", "ns/g"), 0),
        (("ns/h",), ("ns/h", "ns/g"), 1),  # it does not name itself
        (("ns/g", "h", "/h", "ns/"), (), 3),
    ],
)
def test_groups_of_gangs_count_with_the_gang_itself(
    groups: tuple[str, ...], counts: tuple[str, ...], said: int
) -> None:
    spec, messages = from_pod_group(group(notes=GangNotes(groups=groups)))
    assert spec.groups == counts
    assert len(messages) == said


def test_what_is_not_written_has_its_usual_value_and_wrong_notes_are_said() -> None:
    spec, said = from_pod_group(group(notes=GangNotes(wrong=("mode is odd",))))
    assert (spec.mode, spec.match_policy) == (GangMode.STRICT, MatchPolicy.ONCE_SATISFIED)
    assert said == ("mode is odd",)


@pytest.mark.parametrize(
    ("text", "least"), [("3", 3), ("1", 1), ("0", None), ("-1", None), ("x", None), ("3x", None), ("1234567890", None)]
)
def test_a_pods_label_says_how_many_must_run_together(text: str, least: int | None) -> None:
    spec, said = from_pod("ns/g", labels(least=text), None)
    assert (spec.min_available if spec is not None else None) == least
    assert bool(said) is (least is None)
    if spec is not None:
        assert not spec.declared


def test_a_pods_annotation_counts_before_its_label_and_one_of_both_must_be_there() -> None:
    spec, _ = from_pod("ns/g", labels(least="3"), GangNotes(min_available=5))
    assert spec is not None
    assert spec.min_available == 5
    for notes in (None, GangNotes(), GangNotes(min_available=0)):
        none, said = from_pod("ns/g", NO_LABELS, notes)
        assert none is None
        assert "ns/g" in said[-1]


def test_a_policy_is_read_from_the_label_where_no_annotation_has_one() -> None:
    other = next(policy for policy in MatchPolicy if policy is not MatchPolicy.ONCE_SATISFIED)
    notes = GangNotes(min_available=2)
    spec, said = from_pod("ns/g", labels(policy=other.value), notes)
    assert spec is not None
    assert (spec.match_policy, said) == (other, ())
    own, _ = from_pod("ns/g", labels(policy=other.value), replace(notes, match_policy=MatchPolicy.ONCE_SATISFIED))
    assert own is not None
    assert own.match_policy is MatchPolicy.ONCE_SATISFIED
    wrong, said = from_pod("ns/g", labels(policy="odd"), notes)
    assert wrong is not None
    assert (wrong.match_policy, len(said)) == (MatchPolicy.ONCE_SATISFIED, 1)


def test_differences_of_a_member_are_named() -> None:
    spec: GangSpec = from_pod_group(group(notes=GangNotes(groups=("ns/g", "ns/h"))))[0]
    assert differences(spec, None) == differences(spec, GangNotes()) == ""
    assert differences(spec, GangNotes(min_available=2, groups=("ns/h", "ns/g"))) == ""
    assert differences(spec, GangNotes(groups=("ns/h",))) == ""  # the gang itself counts anyway
    assert differences(spec, GangNotes(min_available=3)) == "min-available 3, 2 counts"
    assert differences(spec, GangNotes(groups=("ns/k",))) == "other groups than those that count"
    both = differences(spec, GangNotes(mode=GangMode.NON_STRICT, groups=("ns/k",)))
    assert both.count(";") == 1

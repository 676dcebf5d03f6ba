from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotenant.model.errors import InvalidInput
from cotenant.policy.placement.topology.group_antiaffinity import (
    UNLIMITED,
    GroupRules,
    GroupVerdict,
    group_rules,
    narrow,
    plain_verdicts,
    verdict_at,
)


def rules(groups: int, *triples: tuple[int, int, int]) -> GroupRules:
    columns = np.array(triples, np.int64).reshape(-1, 3).T
    return group_rules(groups, columns[0], columns[1], columns[2])


def row(*counts: int) -> np.ndarray:
    return np.array([counts], np.int64)


def test_a_group_with_itself_is_limited_to_one_more_than_the_rule_says() -> None:
    own = rules(2, (0, 0, 2))
    assert own.limit.tolist() == [3, UNLIMITED]
    assert verdict_at(row(2, 0), 0, 0, own) == GroupVerdict.ALLOWED
    assert verdict_at(row(3, 0), 0, 0, own) == GroupVerdict.OWN_LIMIT


def test_a_resident_limits_the_newcomer() -> None:
    cross = rules(2, (0, 1, 1))
    assert verdict_at(row(0, 5), 0, 1, cross) == GroupVerdict.ALLOWED  # nobody there who minds
    assert verdict_at(row(1, 0), 0, 1, cross) == GroupVerdict.ALLOWED
    assert verdict_at(row(1, 1), 0, 1, cross) == GroupVerdict.LIMITED_BY_RESIDENT


def test_the_newcomer_limits_a_resident() -> None:
    cross = rules(2, (0, 1, 1))
    assert verdict_at(row(0, 1), 0, 0, cross) == GroupVerdict.ALLOWED
    assert verdict_at(row(0, 2), 0, 0, cross) == GroupVerdict.LIMITS_RESIDENT


def test_zero_forbids_outright_in_both_directions() -> None:
    cross = rules(3, (0, 1, 0))
    assert verdict_at(row(1, 0, 0), 0, 1, cross) == GroupVerdict.LIMITED_BY_RESIDENT
    assert verdict_at(row(0, 1, 0), 0, 0, cross) == GroupVerdict.LIMITS_RESIDENT
    assert verdict_at(row(1, 1, 0), 0, 2, cross) == GroupVerdict.ALLOWED


def test_of_two_rules_on_one_pair_the_tighter_holds() -> None:
    assert rules(1, (0, 0, 4), (0, 0, 1)).limit.tolist() == [2]
    cross = rules(2, (0, 1, 3), (0, 1, 1), (0, 1, 2))
    assert verdict_at(row(1, 1), 0, 1, cross) == GroupVerdict.LIMITED_BY_RESIDENT


def test_narrowing_only_ever_clears_rows() -> None:
    count = np.array([[1, 1], [0, 9], [1, 0], [1, 0]], np.int64)
    allowed = np.array([True, True, True, False])
    assert narrow(count, 1, rules(2, (0, 1, 1)), allowed) == 2
    assert allowed.tolist() == [False, True, True, False]


@given(st.data())
def test_the_compiled_verdict_equals_the_plain_one(data: st.DataObject) -> None:
    groups = data.draw(st.integers(1, 5))
    member = st.integers(0, groups - 1)
    triples = data.draw(st.lists(st.tuples(member, member, st.integers(0, 3)), max_size=12))
    counts = data.draw(st.lists(st.lists(st.integers(0, 4), min_size=groups, max_size=groups), min_size=1, max_size=4))
    indexed, count = rules(groups, *triples), np.array(counts, np.int64)
    for group in range(groups):
        plain = plain_verdicts(count, group, indexed)
        assert [verdict_at(count, n, group, indexed) for n in range(len(count))] == plain.tolist()
        for n, verdict in enumerate(plain):  # and both equal the rules as they are written
            after = count[n].copy()
            after[group] += 1
            touched = [t for t in triples if group in t[:2]]
            broken = [
                (p, q, most)
                for p, q, most in touched
                if (p == q and after[q] > most + 1) or (p != q and after[p] > 0 and after[q] > most)
            ]
            assert (verdict != GroupVerdict.ALLOWED) == bool(broken)


@pytest.mark.parametrize(("triple", "field"), [((5, 0, 1), "present"), ((0, -1, 1), "limited"), ((0, 1, -2), "most")])
def test_rules_that_make_no_sense_are_refused(triple: tuple[int, int, int], field: str) -> None:
    with pytest.raises(InvalidInput, match=field):
        rules(2, triple)

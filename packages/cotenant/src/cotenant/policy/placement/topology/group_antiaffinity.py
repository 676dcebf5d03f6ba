"""Anti-affinity between groups by narrowing: rows that may hold one more pod of a group.

Limits on how many pods of a group (an application, say) a row may hold, alone or together with another group, are not
row-local: they depend on the pods there. Before the row-local filters run, one compiled pass over the rows clears those
where the incoming pod would violate a rule, in either direction: a resident group may limit the incoming pod, and the
incoming pod may limit a resident group. A rule (present, limited, most) means: a row that holds `present` may hold at
most `most` pods of `limited`. For a group with itself the contest that published such rules (Alibaba Tianchi 2018)
counts `most` in addition to the one that is present: most + 1 in total.
Limits: rows only (one topology domain per row), and counts only, no label selectors.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

import numpy as np

from cotenant.model.arrays import Int, Mask
from cotenant.model.compiled import njit
from cotenant.model.errors import InvalidInput

UNLIMITED = np.iinfo(np.int64).max


class GroupVerdict(IntEnum):
    """Effect of one more pod of a group on a row."""

    ALLOWED = 0
    OWN_LIMIT = 1
    LIMITED_BY_RESIDENT = 2
    LIMITS_RESIDENT = 3


REASONS = {
    GroupVerdict.OWN_LIMIT: "node(s) already held as many pods of the group as allowed",
    GroupVerdict.LIMITED_BY_RESIDENT: "node(s) held a group that admits no more of this one",
    GroupVerdict.LIMITS_RESIDENT: "node(s) held more of another group than this one admits",
}

_ALLOWED, _OWN_LIMIT = int(GroupVerdict.ALLOWED), int(GroupVerdict.OWN_LIMIT)
_LIMITED, _LIMITS = int(GroupVerdict.LIMITED_BY_RESIDENT), int(GroupVerdict.LIMITS_RESIDENT)


class GroupRules(NamedTuple):
    """Rules between G groups, E of them between different groups; both directions in compressed rows, so a group's
    own rules are contiguous.
    """

    limit: Int  # [G] maximum of the group on one row, UNLIMITED without a rule
    by_start: Int  # [G + 1] where the rules that limit group g begin in the next two
    by_group: Int  # [E] the group whose presence limits g
    by_most: Int  # [E] the maximum of g then
    on_start: Int  # [G + 1] where the rules that group g imposes begin in the next two
    on_group: Int  # [E] the group that g's presence limits
    on_most: Int  # [E] its maximum then


def group_rules(groups: int, present: Int, limited: Int, most: Int) -> GroupRules:
    """Index the rules `(present[i], limited[i], most[i])` between `groups` groups; of two rules for one pair the
    tighter applies.

    Raises `InvalidInput` where the columns differ in length, name a group outside 0..groups - 1, or have a negative
    count.
    """
    if not len(present) == len(limited) == len(most):
        raise InvalidInput("rules", (len(present), len(limited), len(most)), "columns of one length")
    for name, column in (("present", present), ("limited", limited)):
        outside = (column < 0) | (column >= groups)
        if outside.any():
            raise InvalidInput(f"rules: {name}", int(column[outside][0]), f"a group from 0 to {groups - 1}")
    if (most < 0).any():
        raise InvalidInput("rules: most", int(most.min()), "a count of at least 0")
    limit = np.full(groups, UNLIMITED, np.int64)
    own = present == limited
    np.minimum.at(limit, present[own], most[own].astype(np.int64) + 1)
    pair, first = np.unique(present[~own] * np.int64(groups) + limited[~own], return_inverse=True)
    tightest = np.full(len(pair), UNLIMITED, np.int64)
    np.minimum.at(tightest, first, most[~own])
    by, on = pair // groups, pair % groups
    order = np.argsort(on, kind="stable")
    rows = np.arange(groups + 1)
    return GroupRules(
        limit,
        np.searchsorted(on[order], rows).astype(np.int64),
        by[order],
        tightest[order],
        np.searchsorted(by, rows).astype(np.int64),
        on,
        tightest,
    )


@njit
def verdict_at(count: Int, n: int, group: int, rules: GroupRules) -> int:
    """The effect of one more pod of `group` on row n (a `GroupVerdict`). `count[n, g]` is the number of pods of
    group g on row n.
    """
    if count[n, group] >= rules.limit[group]:
        return _OWN_LIMIT
    for e in range(rules.by_start[group], rules.by_start[group + 1]):
        if count[n, group] >= rules.by_most[e] and count[n, rules.by_group[e]] > 0:
            return _LIMITED
    for e in range(rules.on_start[group], rules.on_start[group + 1]):
        if count[n, rules.on_group[e]] > rules.on_most[e]:
            return _LIMITS
    return _ALLOWED


@njit
def narrow(count: Int, group: int, rules: GroupRules, allowed: Mask) -> int:
    """Clear `allowed[n]` on rows that may not hold one more pod of `group`; returns the number of rows still
    allowed.
    """
    left = 0
    for n in range(allowed.shape[0]):
        if allowed[n]:
            if verdict_at(count, n, group, rules) == _ALLOWED:
                left += 1
            else:
                allowed[n] = False
    return left


def plain_verdicts(count: Int, group: int, rules: GroupRules) -> Int:
    """Plain form of `verdict_at` over all rows: `int64[N]`."""
    verdict = np.zeros(count.shape[0], np.int64)
    by = slice(int(rules.by_start[group]), int(rules.by_start[group + 1]))
    on = slice(int(rules.on_start[group]), int(rules.on_start[group + 1]))
    full = count[:, group][:, None] >= rules.by_most[by]
    limited = ((count[:, rules.by_group[by]] > 0) & full).any(axis=1)
    limits = (count[:, rules.on_group[on]] > rules.on_most[on]).any(axis=1)
    verdict[limits] = GroupVerdict.LIMITS_RESIDENT
    verdict[limited] = GroupVerdict.LIMITED_BY_RESIDENT
    verdict[count[:, group] >= rules.limit[group]] = GroupVerdict.OWN_LIMIT
    return verdict

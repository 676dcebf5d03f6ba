"""The headroom check as compiled code over arrays: many pods in order, each accounted before the next is checked.

The plain check costs microseconds per pod, placement itself about one. Limits, use and parents of all quotas as int64
arrays, one row per quota and one column per resource; the check and the accounting of a pod are inlined into the
compiled loop that calls them, such as `admit_in_order`.
Limits: amounts below 2^62; the arrays are a copy: the caller applies the same pods to the tree once they are placed,
and refreshes limits (`renew`, one quota at a time) when a runtime may have changed: with guarantees by use, after each
pod. A property test compares both forms.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cotenant.model.arrays import Int, Mask
from cotenant.model.compiled import inlined, njit
from cotenant.model.errors import InvalidInput
from cotenant.model.groups.quota import Levels
from cotenant.model.resources import Amounts
from cotenant.policy.quota.headroom import DEFAULT_RULES, HeadroomRules
from cotenant.policy.quota.nodes import UNLIMITED
from cotenant.policy.quota.tree import QuotaTree


class QuotaArrays(NamedTuple):
    """N quotas in the order of their names, R resources in the order of `HeadroomTable.resources`."""

    parent: Int  # [N] row of the next ancestor that also limits, -1 = none
    above: Int  # [N] row of the parent, -1 = the root
    limit: Int  # [N, R] runtime or maximum, `UNLIMITED` where absent
    minimum: Int  # [N, R] `UNLIMITED` where absent
    used: Int  # [N, R] with descendants
    held: Int  # [N, R] the part of it by non-preemptible pods


@inlined
def quota_fits(quotas: QuotaArrays, row: int, request: Int, preemptible: bool) -> bool:
    """Whether a pod of the quota in `row` fits under every limit. `request` is a row of R amounts."""
    parent, limit, minimum, used, held = quotas.parent, quotas.limit, quotas.minimum, quotas.used, quotas.held
    fits = True
    at = row
    while at >= 0 and fits:
        for i in range(len(request)):
            amount = request[i]
            over = used[at, i] + amount > limit[at, i]
            over_minimum = not preemptible and held[at, i] + amount > minimum[at, i]
            if amount > 0 and (over or over_minimum):
                fits = False
        at = parent[at]
    return fits


@inlined
def quota_add_use(quotas: QuotaArrays, row: int, request: Int, sign: int, preemptible: bool) -> None:
    """Add a placed pod of the quota in `row` (`sign` 1), or remove one (-1)."""
    above, used, held = quotas.above, quotas.used, quotas.held
    at = row
    while at >= 0:
        for i in range(len(request)):
            used[at, i] += sign * request[i]
            if not preemptible:
                held[at, i] += sign * request[i]
        at = above[at]


@njit
def admit_in_order(quotas: QuotaArrays, rows: Int, requests: Int, of: Int, preemptible: Mask, fits: Mask) -> None:
    """Add those of P pods that fit, in order, and record them in `fits`. Pod p belongs to the quota in `rows[p]`
    and requests `requests[of[p]]`.
    """
    for p in range(len(rows)):
        request = requests[of[p]]
        fits[p] = quota_fits(quotas, rows[p], request, preemptible[p])
        if fits[p]:
            quota_add_use(quotas, rows[p], request, 1, preemptible[p])


@njit
def fits_now(quotas: QuotaArrays, row: int, request: Int, preemptible: bool) -> bool:
    """`quota_fits` for one pod."""
    return quota_fits(quotas, row, request, preemptible)


@njit
def add_use(quotas: QuotaArrays, row: int, request: Int, sign: int, preemptible: bool) -> None:
    """`quota_add_use` for one pod."""
    quota_add_use(quotas, row, request, sign, preemptible)


class HeadroomTable:
    """A tree's limits and use as arrays, with the row of each quota."""

    def __init__(self, tree: QuotaTree, rules: HeadroomRules = DEFAULT_RULES) -> None:
        self.resources = tree.resources()
        self._rules = rules
        self._rows = {quota.name: row for row, quota in enumerate(tree.quotas())}
        self._columns = {resource: i for i, resource in enumerate(self.resources)}
        shape = (len(self._rows), len(self.resources))
        above = np.array([self._rows.get(quota.parent, -1) for quota in tree.quotas()], dtype=np.int64)
        self.arrays = QuotaArrays(
            above if rules.check_parents else np.full(len(above), -1),
            above,
            np.full(shape, UNLIMITED),
            np.full(shape, UNLIMITED),
            np.zeros(shape, dtype=np.int64),
            np.zeros(shape, dtype=np.int64),
        )
        self.copy(tree)

    def row(self, name: str) -> int:
        """The row of a quota; raises `InvalidInput` for an unknown one."""
        try:
            return self._rows[name]
        except KeyError:
            raise InvalidInput("quota", name, "the name of a quota of this table") from None

    def request(self, amounts: Amounts) -> Int:
        """A pod's requests as a row; resources that no quota mentions are not limited and left out."""
        row = np.zeros(len(self.resources), dtype=np.int64)
        for resource, amount in amounts:
            if resource in self._columns:
                row[self._columns[resource]] = amount
        return row

    def used(self, name: str) -> Levels:
        """Recorded use of a quota."""
        return tuple(zip(self.resources, self.arrays.used[self.row(name)].tolist(), strict=True))

    def held(self, name: str) -> Levels:
        """Recorded use of a quota by non-preemptible pods."""
        return tuple(zip(self.resources, self.arrays.held[self.row(name)].tolist(), strict=True))

    def renew(self, tree: QuotaTree, name: str) -> None:
        """Copy the current limits that apply to a pod of this quota."""
        for at in tree.path(name) if self._rules.check_parents else (name,):
            row = self._rows[at]
            for resource, amount in tree.runtime(at) if self._rules.by_runtime else tree.quota(at).maximum.items:
                self.arrays.limit[row, self._columns[resource]] = amount

    def copy(self, tree: QuotaTree) -> None:
        """Copy limits and use from the tree, which must have the same quotas and resources as before."""
        if tree.resources() != self.resources or [quota.name for quota in tree.quotas()] != list(self._rows):
            raise InvalidInput(
                "quota tree", "another", "the quotas and resources that the table was built for", "build a new table"
            )
        tree.refresh()
        for quota in tree.quotas():
            row = self._rows[quota.name]
            limits = tree.runtime(quota.name) if self._rules.by_runtime else quota.maximum.items
            for array, levels in (
                (self.arrays.limit, limits),
                (self.arrays.minimum, quota.minimum.items),
                (self.arrays.used, tree.used(quota.name)),
                (self.arrays.held, tree.nonpreemptible_used(quota.name)),
            ):
                for resource, amount in levels:
                    array[row, self._columns[resource]] = amount

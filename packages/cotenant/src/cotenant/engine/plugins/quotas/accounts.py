"""Accounts of one quota tree: requested, admitted and used amounts. Those outside all trees are in outside.py.

A batch of pods is admitted in order before any of them is assigned, thousands of times a second, and every sum must
equal the result of checking each pod separately. A tree (policy/quota) holds requests and use and computes the
runtimes; a compiled table holds the same use plus the amounts of admitted, unassigned pods, and checks a whole batch in
order. Limits are copied into the table only for the quotas of the batch, and only after a runtime may have changed.
Only resources limited by some quota of the tree are counted.
Limits: when the quotas themselves change, the accounts are rebuilt from the pods.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np

from cotenant.engine.framework.pod_state import PodInfo
from cotenant.model.arrays import Int
from cotenant.model.errors import Permanent
from cotenant.model.groups.gang import LIGHT_NAME, POD_GROUP
from cotenant.model.groups.quota import DEFAULT_QUOTA, Levels
from cotenant.model.resources import NOTHING, PODS_NAME, Amounts, format_amount
from cotenant.policy.quota.headroom import HeadroomRules, rejection, under
from cotenant.policy.quota.headroom_arrays import HeadroomTable, add_use, admit_in_order, fits_now
from cotenant.policy.quota.tree import QuotaTree

_MAX_REQUESTS = 65_536  # distinct requests; above this the accounts are rebuilt


@dataclass(slots=True, eq=False)
class Account:
    """Quota state of one pod. The fields that select its quota are copied, because the entry may have changed by
    the time the pod leaves.
    """

    entry: PodInfo
    namespace: str
    label: str
    preemptible: bool
    requests: Amounts
    accounting: Accounting
    quota: str = DEFAULT_QUOTA
    because: str = ""
    held: str = ""  # why it must wait regardless of free quota; empty if it need not
    asked: Amounts = NOTHING  # only the counted resources
    row: int = -1
    request: int = -1
    node: str = ""  # the assigned node; empty if unassigned
    admitted: bool = False  # admitted, but not assigned yet
    uid: str = field(default="")

    def __post_init__(self) -> None:
        self.uid = self.entry.seen.uid


def gang_name(account: Account) -> str:
    """The gang of the pod; empty if it belongs to none."""
    seen = account.entry.seen
    labels = seen.pod.labels
    gang = labels.get(POD_GROUP) or labels.get(LIGHT_NAME) or (seen.demands.gang.name if seen.demands.gang else "")
    return f"gang {account.namespace}/{gang}" if gang else ""


def gang_of(account: Account) -> str:
    """As `gang_name`, qualified by quota: a gang that spans quotas counts as one job in each."""
    gang = gang_name(account)
    return f"{gang} in {account.quota}" if gang else ""


class ForeignUse(NamedTuple):
    """What counts in a quota for other schedulers' pods that this engine does not know yet, beside its pods."""

    used: Amounts
    asked: Amounts
    held: Amounts = NOTHING  # the part of `used` by pods that nobody may preempt


class RoomAhead(NamedTuple):
    """Pods that have a right to room before others: each may have it or not."""

    quota: str
    preemptible: bool
    each: Amounts
    pods: int


class Accounting(Protocol):
    """Accounting operations on a pod, inside or outside a tree."""

    def add(self, account: Account) -> None:
        """Add an arriving pod and its request."""
        ...

    def remove(self, account: Account) -> None:
        """Remove a leaving pod and its request; it must be unassigned."""
        ...

    def assign(self, account: Account) -> None:
        """Count an assigned pod as used; this replaces its admission, if any."""
        ...

    def unassign(self, account: Account) -> None:
        """Release the use of an unassigned pod."""
        ...

    def admit(self, accounts: Sequence[Account]) -> list[bool]:
        """Admit in order the pods that fit."""
        ...

    def withdraw(self, account: Account) -> None:
        """Undo the admission of a pod that was not assigned."""
        ...

    def has_room(self, account: Account) -> bool:
        """Whether the pod would be admitted now."""
        ...

    def refusal(self, account: Account) -> tuple[str, str]:
        """Why the pod is refused: a stable message, and the current figures."""
        ...


class TreeAccounts:
    """Accounts of the pods of one quota tree."""

    def __init__(self, tree_id: str, tree: QuotaTree, rules: HeadroomRules, accounts: Iterable[Account]) -> None:
        """`accounts`: the current pods of the tree, assigned or not. `tree` must contain no pods yet."""
        self.tree_id = tree_id
        self.tree = tree
        self.limited = frozenset(tree.resources())
        self.members: dict[str, dict[str, Account]] = {quota.name: {} for quota in tree.quotas()}
        self._rules = rules
        self._wants: dict[Amounts, tuple[Amounts, int]] = {}
        self._columns = {resource: i for i, resource in enumerate(tree.resources())}
        self._requests: Int = np.zeros((64, len(self._columns)), dtype=np.int64)
        asked: dict[str, dict[str, int]] = {}
        used: dict[tuple[str, bool], dict[str, int]] = {}
        for account in accounts:
            self._enter(account)
            add_amounts(asked.setdefault(account.quota, {}), account.asked)
            if account.node:
                add_amounts(used.setdefault((account.quota, account.preemptible), {}), account.asked)
        for name, sums in asked.items():
            tree.load(
                name, as_levels(sums), as_levels(used.get((name, True), {})), as_levels(used.get((name, False), {}))
            )
        self._lent: dict[str, ForeignUse] = {}
        self.table = HeadroomTable(tree, rules)
        self._fresh: set[str] = set()  # quotas whose limits in the table are current as of `_changes`
        self._changes = -1
        for members in self.members.values():
            for account in members.values():
                account.row = self.table.row(account.quota)
                if account.admitted:
                    self._add_use(account, 1)

    @property
    def is_crowded(self) -> bool:
        """Whether so many distinct requests were recorded that rebuilding the accounts is cheaper."""
        return len(self._wants) > _MAX_REQUESTS

    def add(self, account: Account) -> None:
        """Add an arriving pod and its request."""
        self._enter(account)
        account.row = self.table.row(account.quota)
        self.tree.ask(account.quota, account.asked)

    def remove(self, account: Account) -> None:
        """Remove a leaving pod and its request; it must be unassigned."""
        self.withdraw(account)
        del self.members[account.quota][account.uid]
        self.tree.withdraw(account.quota, account.asked)

    def assign(self, account: Account) -> None:
        """Count an assigned pod as used; this replaces its admission, if any."""
        if account.admitted:
            account.admitted = False
        else:
            self._add_use(account, 1)
        self.tree.use(account.quota, account.asked, account.preemptible)

    def unassign(self, account: Account) -> None:
        """Release the use of an unassigned pod."""
        self._add_use(account, -1)
        self.tree.release(account.quota, account.asked, account.preemptible)

    def admit(self, accounts: Sequence[Account]) -> list[bool]:
        """Admit in order the pods that fit."""
        self._renew({account.quota for account in accounts})
        count = len(accounts)
        rows = np.fromiter((account.row for account in accounts), dtype=np.int64, count=count)
        of = np.fromiter((account.request for account in accounts), dtype=np.int64, count=count)
        preemptible = np.fromiter((account.preemptible for account in accounts), dtype=np.bool_, count=count)
        fits = np.empty(count, dtype=np.bool_)
        admit_in_order(self.table.arrays, rows, self._requests, of, preemptible, fits)
        admitted = fits.tolist()
        for account, fit in zip(accounts, admitted, strict=True):
            account.admitted = fit
        return admitted

    def withdraw(self, account: Account) -> None:
        """Undo the admission of a pod that was not assigned."""
        if account.admitted:
            account.admitted = False
            self._add_use(account, -1)

    def has_room(self, account: Account) -> bool:
        """Whether the pod would be admitted now."""
        self._renew((account.quota,))
        row = self._requests[account.request]
        return bool(fits_now(self.table.arrays, account.row, row, account.preemptible))

    def over(self) -> tuple[str, ...]:
        """The quotas with pods that use more than their limit."""
        self._renew(self.members)
        arrays, names = self.table.arrays, list(self.members)
        rows = np.flatnonzero((arrays.used > arrays.limit).any(axis=1)).tolist()
        return tuple(names[row] for row in rows if self.members[names[row]])

    def refusal(self, account: Account) -> tuple[str, str]:
        """Why the pod is refused: a stable message, and the current figures."""
        name, asked, tree = account.quota, account.asked, self.tree
        most = tree.quota(name).maximum
        beyond = [(resource, n) for resource, n in asked if resource in most and n > most.get(resource)]
        if beyond:
            figures = "; ".join(
                f"{format_amount(resource, n)} {resource} are asked, the maximum is "
                f"{format_amount(resource, most.get(resource))}"
                for resource, n in beyond
            )
            resources = " and ".join(resource for resource, _ in beyond)
            return f"Quota {name} can never have enough: the pod asks for more {resources} than its maximum.", figures
        found = under(tree, name, asked, account.preemptible, self._rules, self.table.used, self.table.held)
        return rejection(name, found)

    def lend(self, name: str, foreign: ForeignUse) -> None:
        """From now on these amounts count in a quota for others."""
        now = ForeignUse(*map(self._counted, foreign))
        before = self._lent.pop(name, ForeignUse(NOTHING, NOTHING))
        if now != ForeignUse(NOTHING, NOTHING):
            self._lent[name] = now
        if now.asked != before.asked:
            self.tree.ask(name, now.asked)
            self.tree.withdraw(name, before.asked)
        if now == before:
            return
        row = self.table.row(name)
        for sign, use in ((1, now), (-1, before)):
            for amounts, preemptible in ((_without(use.used, use.held), True), (use.held, False)):
                add_use(self.table.arrays, row, self.table.request(amounts), sign, preemptible)
                (self.tree.use if sign > 0 else self.tree.release)(name, amounts, preemptible)

    def fitting(self, asked: RoomAhead, ahead: Sequence[RoomAhead] = ()) -> int:
        """How many pods of such a request the quota would admit now, after as many of those ahead as it admits, in
        order.
        """
        self._renew({asked.quota, *(one.quota for one in ahead)})
        counted: list[tuple[int, Int, bool]] = []
        for one in ahead:
            fit = self._fitting(one)
            if fit:
                row, request = self.table.row(one.quota), fit * self.table.request(one.each)
                add_use(self.table.arrays, row, request, 1, one.preemptible)
                counted.append((row, request, one.preemptible))
        found = self._fitting(asked)
        for row, request, preemptible in counted:
            add_use(self.table.arrays, row, request, -1, preemptible)
        return found

    def _fitting(self, asked: RoomAhead) -> int:
        row, request = self.table.row(asked.quota), self.table.request(asked.each)
        low, high = 0, asked.pods
        while low < high:
            middle = (low + high + 1) // 2
            if fits_now(self.table.arrays, row, middle * request, asked.preemptible):
                low = middle
            else:
                high = middle - 1
        return low

    def lent(self, name: str) -> Amounts:
        """What counts as used for others in this quota and those below it."""
        below = (lent.used for quota, lent in self._lent.items() if name in self.tree.path(quota))
        return sum(below, NOTHING) if self._lent else NOTHING

    def _counted(self, amounts: Amounts) -> Amounts:
        return Amounts(tuple(pair for pair in amounts if pair[0] in self.limited and pair[1]))

    def _enter(self, account: Account) -> None:
        wants = self._wants.get(account.requests)
        if wants is None:
            counted = {resource: amount for resource, amount in account.requests if resource in self.limited}
            if PODS_NAME in self.limited:
                counted[PODS_NAME] = 1
            index = len(self._wants)
            if index == len(self._requests):
                self._requests = np.concatenate([self._requests, np.zeros_like(self._requests)])
            for resource, amount in counted.items():
                self._requests[index, self._columns[resource]] = amount
            wants = self._wants[account.requests] = (Amounts.of(counted), index)
        account.asked, account.request = wants
        self.members[account.quota][account.uid] = account

    def _add_use(self, account: Account, sign: int) -> None:
        add_use(self.table.arrays, account.row, self._requests[account.request], sign, account.preemptible)

    def _renew(self, names: Collection[str]) -> None:
        if self._changes != self.tree.changes:
            self._fresh.clear()
        for name in names:
            if name not in self._fresh:
                self.table.renew(self.tree, name)
                self._fresh.add(name)
        self._changes = (
            self.tree.changes
        )  # refreshing one quota's path changes no limit of another that was refreshed before

    def validate(self) -> None:
        """Check that tree and table match the members' requests, use and admissions. Raises `Permanent`."""
        try:
            self.tree.validate()
        except AssertionError as error:
            raise Permanent(str(error)) from None
        fresh = QuotaTree(self.tree.quotas(), NOTHING)
        booked = QuotaTree(self.tree.quotas(), NOTHING)
        for name, members in self.members.items():
            for account in members.values():
                if account.quota != name or (account.node and account.admitted):
                    raise Permanent(
                        f"pod {account.uid} of quota {account.quota} is listed under quota {name}, admitted "
                        f"{account.admitted}"
                    )
                fresh.ask(name, account.asked)
                if account.node:
                    fresh.use(name, account.asked, account.preemptible)
                if account.node or account.admitted:
                    booked.use(name, account.asked, account.preemptible)
        for name, lent in self._lent.items():
            fresh.ask(name, lent.asked)
            for amounts, preemptible in ((_without(lent.used, lent.held), True), (lent.held, False)):
                fresh.use(name, amounts, preemptible)
                booked.use(name, amounts, preemptible)
        for quota in self.tree.quotas():
            name = quota.name
            for what, kept, found in (
                ("used", self.tree.used(name), fresh.used(name)),
                ("held", self.tree.nonpreemptible_used(name), fresh.nonpreemptible_used(name)),
                ("booked", self.table.used(name), booked.used(name)),
                ("booked and held", self.table.held(name), booked.nonpreemptible_used(name)),
            ):
                if dict(kept) != dict(found):
                    raise Permanent(f"quota {name}: {what} is {dict(kept)}, its pods sum to {dict(found)}")
            for resource in self.limited:
                mine, other = self.tree.runtime_terms(name, resource), fresh.runtime_terms(name, resource)
                if mine.own_request != other.own_request:
                    raise Permanent(
                        f"quota {name}: its pods request {other.own_request} {resource}, {mine.own_request} is recorded"
                    )


def _without(amounts: Amounts, part: Amounts) -> Amounts:
    return Amounts.of((name, amount - part.get(name)) for name, amount in amounts)


def add_amounts(sums: dict[str, int], amounts: Amounts) -> None:
    """Add them up by resource, in place."""
    for resource, amount in amounts:
        sums[resource] = sums.get(resource, 0) + amount


def as_levels(sums: dict[str, int]) -> Levels:
    """The same, in order and without zeros."""
    return tuple(sorted((resource, amount) for resource, amount in sums.items() if amount))

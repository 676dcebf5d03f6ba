"""The books of one quota tree, and of the pods outside of all trees: who asks, who is let through, who sits.

Problem: a batch of pods is let through one by one before any of them sits, thousands of times a second, and afterwards every sum must be as if each pod had been
asked about alone. Choice: a tree (policy/quota) holds what is asked for and used, and says the runtimes; beside it a compiled table holds the same use and
what is only let through, and answers for a whole batch in order. Limits are copied into the table for the quotas of the batch, and only after a runtime may
have changed. Only resources that somebody in the tree limits are counted. Limits: a change of the quotas themselves makes new books from the pods.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from cotenant.engine.framework.pod_state import PodInfo
from cotenant.model.arrays import Int
from cotenant.model.errors import Permanent
from cotenant.model.groups.gang import LIGHT_NAME, POD_GROUP
from cotenant.model.groups.quota import DEFAULT_QUOTA, Levels
from cotenant.model.resources import NOTHING, PODS_NAME, Amounts, format_amount
from cotenant.policy.quota.forest import Forest
from cotenant.policy.quota.headroom import HeadroomRules, Limit, compare, rejection, under
from cotenant.policy.quota.headroom_arrays import HeadroomTable, admit_in_order, book, fits_now
from cotenant.policy.quota.tree import QuotaTree

_MOST_REQUESTS = 65_536  # different ones; then the books are made anew


@dataclass(slots=True, eq=False)
class Account:
    """A pod as quotas see it. What decides where it belongs is copied: an entry may already say something else when it is closed."""

    entry: PodInfo
    namespace: str
    label: str
    preemptible: bool
    requests: Amounts
    book: Book
    quota: str = DEFAULT_QUOTA
    because: str = ""
    held: str = ""  # why it waits whatever is free
    asked: Amounts = NOTHING  # of the resources that count
    row: int = -1
    request: int = -1
    node: str = ""  # where it sits
    admitted: bool = False  # let through, and not seated yet
    uid: str = field(default="")

    def __post_init__(self) -> None:
        self.uid = self.entry.seen.uid


def gang_name(account: Account) -> str:
    """The gang that the pod is of. Empty = the pod is of use by itself."""
    seen = account.entry.seen
    labels = seen.pod.labels
    gang = labels.get(POD_GROUP) or labels.get(LIGHT_NAME) or (seen.demands.gang.name if seen.demands.gang else "")
    return f"gang {account.namespace}/{gang}" if gang else ""


def gang_of(account: Account) -> str:
    """As `gang_name`, inside its quota: a gang across quotas is one job in each."""
    gang = gang_name(account)
    return f"{gang} in {account.quota}" if gang else ""


class Book(Protocol):
    """What a pod may be told of and asked about, inside a tree or outside."""

    def open(self, account: Account) -> None:
        """It belongs here from now on, and asks."""
        ...

    def close(self, account: Account) -> None:
        """It asks no more; it must have stood up."""
        ...

    def sit(self, account: Account) -> None:
        """It uses what it asks for; if it was let through, that is settled."""
        ...

    def stand(self, account: Account) -> None:
        """It uses nothing."""
        ...

    def admit(self, accounts: Sequence[Account]) -> list[bool]:
        """Let these through in order, those that fit."""
        ...

    def cancel(self, account: Account) -> None:
        """It was let through in vain."""
        ...

    def has_room(self, account: Account) -> bool:
        """Whether it would be let through now."""
        ...

    def refusal(self, account: Account) -> tuple[str, str]:
        """Why not: words that stay, and figures."""
        ...


class TreeBooks:
    """One tree."""

    def __init__(self, tree_id: str, tree: QuotaTree, rules: HeadroomRules, accounts: Iterable[Account]) -> None:
        """`accounts` belong here already, seated or not; the tree is empty of pods."""
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
            _add(asked.setdefault(account.quota, {}), account.asked)
            if account.node:
                _add(used.setdefault((account.quota, account.preemptible), {}), account.asked)
        for name, sums in asked.items():
            tree.load(name, _levels(sums), _levels(used.get((name, True), {})), _levels(used.get((name, False), {})))
        self.table = HeadroomTable(tree, rules)
        self._fresh: set[str] = set()  # quotas whose limits in the table are those of `_changes`
        self._changes = -1
        for members in self.members.values():
            for account in members.values():
                account.row = self.table.row(account.quota)
                if account.admitted:
                    self._book(account, 1)

    @property
    def is_crowded(self) -> bool:
        """Whether so many different requests were seen that new books are cheaper."""
        return len(self._wants) > _MOST_REQUESTS

    def open(self, account: Account) -> None:
        """It belongs here from now on, and asks."""
        self._enter(account)
        account.row = self.table.row(account.quota)
        self.tree.ask(account.quota, account.asked)

    def close(self, account: Account) -> None:
        """It asks no more; it must have stood up."""
        self.cancel(account)
        del self.members[account.quota][account.uid]
        self.tree.withdraw(account.quota, account.asked)

    def sit(self, account: Account) -> None:
        """It uses what it asks for; if it was let through, that is settled."""
        if account.admitted:
            account.admitted = False
        else:
            self._book(account, 1)
        self.tree.use(account.quota, account.asked, account.preemptible)

    def stand(self, account: Account) -> None:
        """It uses nothing."""
        self._book(account, -1)
        self.tree.release(account.quota, account.asked, account.preemptible)

    def admit(self, accounts: Sequence[Account]) -> list[bool]:
        """Let these through in order, those that fit."""
        self._renew({account.quota for account in accounts})
        count = len(accounts)
        rows = np.fromiter((account.row for account in accounts), dtype=np.int64, count=count)
        of = np.fromiter((account.request for account in accounts), dtype=np.int64, count=count)
        preemptible = np.fromiter((account.preemptible for account in accounts), dtype=np.bool_, count=count)
        fits = np.empty(count, dtype=np.bool_)
        admit_in_order(self.table.arrays, rows, self._requests, of, preemptible, fits)
        let_through = fits.tolist()
        for account, fit in zip(accounts, let_through, strict=True):
            account.admitted = fit
        return let_through

    def cancel(self, account: Account) -> None:
        """It was let through in vain."""
        if account.admitted:
            account.admitted = False
            self._book(account, -1)

    def has_room(self, account: Account) -> bool:
        """Whether it would be let through now."""
        self._renew((account.quota,))
        row = self._requests[account.request]
        return bool(fits_now(self.table.arrays, account.row, row, account.preemptible))

    def over(self) -> tuple[str, ...]:
        """The quotas, of those that hold pods, that use more than they may."""
        self._renew(self.members)
        arrays, names = self.table.arrays, list(self.members)
        rows = np.flatnonzero((arrays.used > arrays.limit).any(axis=1)).tolist()
        return tuple(names[row] for row in rows if self.members[names[row]])

    def refusal(self, account: Account) -> tuple[str, str]:
        """Why not: words that stay, and figures."""
        name, asked, tree = account.quota, account.asked, self.tree
        most = tree.quota(name).maximum
        beyond = [(resource, n) for resource, n in asked if resource in most and n > most.get(resource)]
        if beyond:
            figures = "; ".join(
                f"{format_amount(resource, n)} {resource} are asked, the maximum is {format_amount(resource, most.get(resource))}"
                for resource, n in beyond
            )
            resources = " and ".join(resource for resource, _ in beyond)
            return f"Quota {name} can never have enough: the pod asks for more {resources} than its maximum.", figures
        found = under(tree, name, asked, account.preemptible, self._rules, self.table.used, self.table.held)
        return rejection(name, found)

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

    def _book(self, account: Account, sign: int) -> None:
        book(self.table.arrays, account.row, self._requests[account.request], sign, account.preemptible)

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
        """The tree and the table hold what the members ask for, use and were let through with. Raises `Permanent`."""
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
                        f"pod {account.uid} of quota {account.quota} stands at {name}, admitted {account.admitted}"
                    )
                fresh.ask(name, account.asked)
                if account.node:
                    fresh.use(name, account.asked, account.preemptible)
                if account.node or account.admitted:
                    booked.use(name, account.asked, account.preemptible)
        for quota in self.tree.quotas():
            name = quota.name
            for what, kept, found in (
                ("used", self.tree.used(name), fresh.used(name)),
                ("held", self.tree.nonpreemptible_used(name), fresh.nonpreemptible_used(name)),
                ("booked", self.table.used(name), booked.used(name)),
                ("booked and held", self.table.held(name), booked.nonpreemptible_used(name)),
            ):
                if dict(kept) != dict(found):
                    raise Permanent(f"quota {name}: {what} is {dict(kept)}, by its pods {dict(found)}")
            for resource in self.limited:
                mine, other = self.tree.runtime_terms(name, resource), fresh.runtime_terms(name, resource)
                if mine.own_request != other.own_request:
                    raise Permanent(
                        f"quota {name}: its pods ask for {other.own_request} {resource}, {mine.own_request} are known"
                    )


class Outside:
    """The pods of the default quota, or of the system's: nothing but a maximum limits them, where one was given."""

    def __init__(self, name: str, forest: Forest, limited: frozenset[str]) -> None:
        """`limited`: what the default tree counts, from whose total these pods take."""
        self.name = name
        self._forest = forest
        self._most = forest.quota(name).maximum
        self._counted = limited | frozenset(self._most.names())
        self._booked: dict[str, int] = {}  # let through, and not seated yet

    def open(self, account: Account) -> None:
        """It belongs here from now on."""
        account.asked = Amounts(tuple(pair for pair in account.requests if pair[0] in self._counted))

    def close(self, account: Account) -> None:
        """It asks no more."""
        self.cancel(account)

    def sit(self, account: Account) -> None:
        """It uses what it asks for; if it was let through, that is settled."""
        self.cancel(account)
        self._forest.use(self.name, account.asked, account.preemptible)

    def stand(self, account: Account) -> None:
        """It uses nothing."""
        self._forest.use(self.name, account.asked, account.preemptible, gone=True)

    def admit(self, accounts: Sequence[Account]) -> list[bool]:
        """Let these through in order, those that fit."""
        if not self._most:
            return [True] * len(accounts)
        let_through = []
        for account in accounts:
            account.admitted = self.has_room(account)
            let_through.append(account.admitted)
            if account.admitted:
                _add(self._booked, account.asked)
        return let_through

    def cancel(self, account: Account) -> None:
        """It was let through in vain."""
        if account.admitted:
            account.admitted = False
            for resource, amount in account.asked:
                self._booked[resource] -= amount

    def has_room(self, account: Account) -> bool:
        """Whether it would be let through now."""
        return not compare(self.name, Limit.MAXIMUM, self._most.items, self._used(), account.asked)

    def refusal(self, account: Account) -> tuple[str, str]:
        """Why not: words that stay, and figures."""
        return rejection(self.name, compare(self.name, Limit.MAXIMUM, self._most.items, self._used(), account.asked))

    def _used(self) -> Levels:
        used = dict(self._forest.used(self.name))
        for resource, amount in self._booked.items():
            used[resource] = used.get(resource, 0) + amount
        return tuple(used.items())

    def validate(self, accounts: Iterable[Account]) -> None:
        """What is used and let through is the accounts'. Raises `Permanent`."""
        used: dict[str, int] = {}
        booked: dict[str, int] = {}
        for account in accounts:
            if account.node:
                _add(used, account.asked)
            if account.admitted:
                _add(booked, account.asked)
        for what, kept, found in (
            ("used", dict(self._forest.used(self.name)), used),
            ("let through", self._booked, booked),
        ):
            if _levels(kept) != _levels(found):
                raise Permanent(f"quota {self.name}: {what} is {kept}, by its pods {found}")


class Uncounted:
    """What stands for a reservation: no quota counts it, since its owners are counted when they come, and must find room then."""

    def open(self, account: Account) -> None:
        """Nothing is asked for."""

    def close(self, account: Account) -> None:
        """Nothing was asked for."""

    def sit(self, account: Account) -> None:
        """Nothing is used."""

    def stand(self, account: Account) -> None:
        """Nothing was used."""

    def admit(self, accounts: Sequence[Account]) -> list[bool]:
        """All of them."""
        return [True] * len(accounts)

    def cancel(self, account: Account) -> None:
        """Nothing was booked."""

    def has_room(self, account: Account) -> bool:
        """Always."""
        return True

    def refusal(self, account: Account) -> tuple[str, str]:
        """None is refused."""
        raise Permanent(f"pod {account.uid} is counted by no quota, and was refused")


UNCOUNTED = Uncounted()


def _add(sums: dict[str, int], amounts: Amounts) -> None:
    for resource, amount in amounts:
        sums[resource] = sums.get(resource, 0) + amount


def _levels(sums: dict[str, int]) -> Levels:
    return tuple(sorted((resource, amount) for resource, amount in sums.items() if amount))

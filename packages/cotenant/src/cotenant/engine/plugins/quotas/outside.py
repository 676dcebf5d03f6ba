"""Accounts of pods that no quota tree counts: those of quotas outside all trees, and those without a quota."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from cotenant.engine.plugins.quotas.accounts import Account, add_amounts, as_levels
from cotenant.model.errors import Permanent
from cotenant.model.groups.quota import Levels
from cotenant.model.resources import Amounts
from cotenant.policy.quota.forest import Forest
from cotenant.policy.quota.headroom import LimitKind, compare, rejection


class Outside:
    """Accounts of the default or the system quota: only a configured maximum limits them."""

    def __init__(self, name: str, forest: Forest, limited: frozenset[str]) -> None:
        """`limited`: the resources that the default tree counts; these pods reduce its total."""
        self.name = name
        self._forest = forest
        self._max = forest.quota(name).maximum
        self._counted = limited | frozenset(self._max.names())
        self._booked: dict[str, int] = {}  # admitted, but not assigned yet

    def add(self, account: Account) -> None:
        """Add an arriving pod and select its counted resources."""
        account.asked = Amounts(tuple(pair for pair in account.requests if pair[0] in self._counted))

    def remove(self, account: Account) -> None:
        """Remove a leaving pod."""
        self.withdraw(account)

    def assign(self, account: Account) -> None:
        """Count an assigned pod as used; this replaces its admission, if any."""
        self.withdraw(account)
        self._forest.use(self.name, account.asked, account.preemptible)

    def unassign(self, account: Account) -> None:
        """Release the use of an unassigned pod."""
        self._forest.use(self.name, account.asked, account.preemptible, gone=True)

    def admit(self, accounts: Sequence[Account]) -> list[bool]:
        """Admit in order the pods that fit."""
        if not self._max:
            return [True] * len(accounts)
        admitted = []
        for account in accounts:
            account.admitted = self.has_room(account)
            admitted.append(account.admitted)
            if account.admitted:
                add_amounts(self._booked, account.asked)
        return admitted

    def withdraw(self, account: Account) -> None:
        """Undo the admission of a pod that was not assigned."""
        if account.admitted:
            account.admitted = False
            for resource, amount in account.asked:
                self._booked[resource] -= amount

    def has_room(self, account: Account) -> bool:
        """Whether the pod would be admitted now."""
        return not compare(self.name, LimitKind.MAXIMUM, self._max.items, self._used(), account.asked)

    def refusal(self, account: Account) -> tuple[str, str]:
        """Why the pod is refused: a stable message, and the current figures."""
        return rejection(self.name, compare(self.name, LimitKind.MAXIMUM, self._max.items, self._used(), account.asked))

    def _used(self) -> Levels:
        used = dict(self._forest.used(self.name))
        for resource, amount in self._booked.items():
            used[resource] = used.get(resource, 0) + amount
        return tuple(used.items())

    def validate(self, accounts: Iterable[Account]) -> None:
        """Check that used and admitted amounts match `accounts`. Raises `Permanent`."""
        used: dict[str, int] = {}
        booked: dict[str, int] = {}
        for account in accounts:
            if account.node:
                add_amounts(used, account.asked)
            if account.admitted:
                add_amounts(booked, account.asked)
        for what, kept, found in (
            ("used", dict(self._forest.used(self.name)), used),
            ("admitted", self._booked, booked),
        ):
            if as_levels(kept) != as_levels(found):
                raise Permanent(f"quota {self.name}: {what} is {kept}, its pods sum to {found}")


class Uncounted:
    """Accounts of the placeholder pods of reservations. No quota counts them: the owner pods are counted when they
    arrive, and need free quota then.
    """

    def add(self, account: Account) -> None:
        """Do nothing: nothing is counted."""

    def remove(self, account: Account) -> None:
        """Do nothing: nothing was counted."""

    def assign(self, account: Account) -> None:
        """Do nothing: no use is counted."""

    def unassign(self, account: Account) -> None:
        """Do nothing: no use was counted."""

    def admit(self, accounts: Sequence[Account]) -> list[bool]:
        """Admit every pod."""
        return [True] * len(accounts)

    def withdraw(self, account: Account) -> None:
        """Do nothing: no admission was counted."""

    def has_room(self, account: Account) -> bool:
        """Always true."""
        return True

    def refusal(self, account: Account) -> tuple[str, str]:
        """Never valid: no pod is refused. Raises `Permanent`."""
        raise Permanent(f"pod {account.uid} was refused, although no quota counts it")


UNCOUNTED = Uncounted()

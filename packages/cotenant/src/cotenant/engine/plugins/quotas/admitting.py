"""Admission of a batch of pods by their quotas, and what it leads to: refusals, and evictions for those refused.

Pods of a batch count before the next of them is checked. Whoever is refused may have pods of lower priority evicted
(preemption.py); until these have gone, pods of its quota wait, and so do members of a gang that falls.
Limits: pods that get the same refusal are evicted for once a batch.
"""

from __future__ import annotations

from collections.abc import Sequence

from cotenant.engine.framework.events import EventKind
from cotenant.engine.framework.plugin import PluginHost, PodRefused
from cotenant.engine.framework.pod_state import PodInfo
from cotenant.engine.plugins.quotas.accounts import Account, TreeAccounts, gang_of
from cotenant.engine.plugins.quotas.preemption import QuotaPreempting
from cotenant.engine.plugins.quotas.revocation import Revoking
from cotenant.engine.plugins.quotas.settings import QuotaSettings
from cotenant.engine.plugins.quotas.shared_trees import SharedTrees
from cotenant.engine.plugins.quotas.trees import QuotaWorld


class Admitting:
    """Admits pods of one cluster."""

    def __init__(
        self,
        name: str,
        settings: QuotaSettings,
        preempting: QuotaPreempting,
        revoking: Revoking,
        shared: SharedTrees,
    ) -> None:
        """`name` is the plugin's, in refusals."""
        self._shared = shared
        self._name = name
        self._settings = settings
        self._preempting = preempting
        self._revoking = revoking
        self._refused_classes: set[tuple[object, ...]] = set()  # classes of pods refused since the last turn
        self._has_let_through = False  # since the last turn: pods for which quota was kept
        self._now_s = 0.0  # of the last turn

    def start_turn(self, now_s: float) -> None:
        """A turn of the plugin begins."""
        self._now_s = now_s
        self._refused_classes.clear()
        self._has_let_through = False

    def admit(self, world: QuotaWorld, pods: Sequence[PodInfo], host: PluginHost) -> dict[int, PodRefused]:
        """Admit the pods that fit their quota, and count them from then on; the refusals by position."""
        refused: dict[int, PodRefused] = {}
        lots: dict[int, list[tuple[int, Account]]] = {}
        for position, entry in enumerate(pods):
            account = world.accounts[entry.seen.uid]
            why = account.held or self.obstacle(account, host)
            if why:
                refused[position] = PodRefused(self._name, why if why.endswith(".") else f"{why}.")
            else:
                lots.setdefault(id(account.accounting), []).append((position, account))
        for lot in lots.values():
            accounting = lot[0][1].accounting
            fit_flags = accounting.admit([account for _, account in lot])
            words: dict[tuple[object, ...], PodRefused] = {}
            if self._preempting.let_through([a for (_, a), fits in zip(lot, fit_flags, strict=True) if fits]):
                self._has_let_through = True
                host.happened(EventKind.QUOTA)
            for (position, account), fits in zip(lot, fit_flags, strict=True):
                if fits:
                    continue
                sort = _class_of(account)
                if sort not in words:
                    message, missing = accounting.refusal(account)
                    self._refused_classes.add(sort)
                    alike = (a for (_, a), fit in zip(lot, fit_flags, strict=True) if not fit and _class_of(a) == sort)
                    self._preempt(tuple(alike), host)
                    awaited = self._preempting.awaits(account)
                    words[sort] = PodRefused(self._name, f"{message} {awaited}".rstrip(), missing)
                refused[position] = words[sort]
            for position, account in lot:
                # admitted before a more important pod of the batch was found to need the quota
                if account.admitted and (why := self._preempting.obstacle(account)):
                    accounting.withdraw(account)
                    refused[position] = PodRefused(self._name, why)
        if self._shared.borrows:
            fitting = {i: world.accounts[entry.seen.uid] for i, entry in enumerate(pods) if i not in refused}
            for position, why_not in self._shared.admit(fitting).items():
                fitting[position].accounting.withdraw(fitting[position])
                refused[position] = why_not
        for position, entry in enumerate(pods):
            # its gang may have been evicted for a pod of the batch, also in another quota
            account = world.accounts[entry.seen.uid]
            if position not in refused and (why := self._falling_gang(account, host)):
                account.accounting.withdraw(account)
                self._shared.released(account.uid)
                refused[position] = PodRefused(self._name, why)
        return refused

    def obstacle(self, account: Account, host: PluginHost) -> str:
        """Why the pod must wait for evictions in its quota, or of its own gang; empty if it need not."""
        return self._preempting.obstacle(account) or self._falling_gang(account, host)

    def _falling_gang(self, account: Account, host: PluginHost) -> str:
        """Why a member of a Strict gang must not be placed beside members that all leave: alone it is of no use.
        Empty if it may be.
        """
        if not self._preempting.is_evicting and not self._revoking.is_evicting:
            return ""
        job = host.job_of(account.entry)
        if job is None or job.members:
            return ""
        return f"Gang {job.keys[0]} is being evicted; its members are placed together after that."

    def withdraw(self, account: Account, host: PluginHost) -> None:
        """Undo the admission of a pod that found no node."""
        account.accounting.withdraw(account)
        self._shared.released(account.uid)
        if self._has_let_through or self._refused_classes - {_class_of(account)}:
            host.happened(EventKind.QUOTA)  # other pods were refused because this one was counted, or not asked again

    def _preempt(self, alike: tuple[Account, ...], host: PluginHost) -> None:
        """Evict for as many of these pods of one class as evictions can admit."""
        first = alike[0]
        if self._shared.by_room(first):
            return  # who lends it does that
        if self._settings.preempt and isinstance(first.accounting, TreeAccounts) and not gang_of(first):
            for evict in self._preempting.attempt_most(first.accounting, alike, self._now_s, host):
                host.say(evict)


def _class_of(account: Account) -> tuple[object, ...]:
    """The class of pods that get the same refusal; a gang is refused as a whole."""
    gang = gang_of(account)
    if gang:
        return (gang,)
    return (account.quota, account.requests, account.preemptible, account.entry.seen.pod.priority)

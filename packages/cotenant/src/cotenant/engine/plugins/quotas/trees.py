"""The quota trees built from the usable quota objects, with the account of every pod; rebuilt when an object changes.

The effect of a changed object on pods (another parent, another tree, a namespace that moves to another quota) is
error-prone to apply incrementally. Everything is rebuilt from the objects and the pods; only the set of admitted pods
is carried over. Between rebuilds, pods are added to and removed from the accounts.
Limits: a rebuild costs some microseconds per pod.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cotenant.engine.framework.pod_state import PodInfo
from cotenant.engine.plugins.quotas.accounts import Account, TreeAccounts
from cotenant.engine.plugins.quotas.credit import weighted
from cotenant.engine.plugins.quotas.objects import PodQuota, Sorted
from cotenant.engine.plugins.quotas.outside import UNCOUNTED, Outside
from cotenant.engine.plugins.quotas.settings import QuotaSettings
from cotenant.engine.plugins.quotas.totals import QuotaTotals
from cotenant.model.errors import Permanent
from cotenant.model.groups.quota import DEFAULT_QUOTA, NAME, PREEMPTIBLE, QuotaObject
from cotenant.model.resources import Amounts
from cotenant.policy.quota.forest import DEFAULT_TREE, OUTSIDE, Forest, bounded, distributable


class QuotaWorld:
    """Trees, quotas outside trees, and the account of every pod."""

    def __init__(
        self,
        objects: Mapping[str, QuotaObject],
        entries: Sequence[PodInfo],
        let_through: set[str],
        settings: QuotaSettings,
    ) -> None:
        self.sorted = Sorted(objects.values())
        quotas = self.sorted.quotas
        if settings.credit:
            quotas = tuple(weighted(quota, self.sorted.used[quota.name].standing) for quota in quotas)
        self.forest = Forest(quotas, settings.scale_minima, settings.guarantee_use)
        limited = frozenset(self.forest.tree().resources())
        self.outside = {name: Outside(name, self.forest, limited) for name in OUTSIDE}
        self._places: dict[tuple[str, str], PodQuota] = {}
        self.accounts: dict[str, Account] = {}
        of_tree: dict[str, list[Account]] = {tree_id: [] for tree_id in self.forest.tree_ids()}
        for entry in entries:
            account = self.account(entry)
            account.node = entry.node
            account.admitted = account.uid in let_through and not entry.node
            self.accounts[account.uid] = account
            tree_id = self.tree_id_of(account.quota)
            if tree_id is not None:
                of_tree[tree_id].append(account)
        self.trees = {
            tree_id: TreeAccounts(tree_id, self.forest.tree(tree_id), settings.rules, accounts)
            for tree_id, accounts in of_tree.items()
        }
        for account in self.accounts.values():
            self.set_accounting(account)
            if isinstance(account.accounting, Outside):
                account.admitted = False
                account.accounting.add(account)
                if account.node:
                    account.accounting.assign(account)

    def tree_id_of(self, quota: str) -> str | None:
        """The tree of a quota; None if it is outside trees, or empty."""
        return None if not quota or quota in OUTSIDE else self.forest.quota(quota).tree_id

    def place(self, namespace: str, label: str) -> PodQuota:
        """The quota of pods with this namespace and quota label."""
        found = self._places.get((namespace, label))
        if found is None:
            found = self._places[namespace, label] = self.sorted.place(self.forest, namespace, label)
        return found

    def account(self, entry: PodInfo) -> Account:
        """A new account for a pod; nothing is counted yet."""
        pod = entry.seen.pod
        label = pod.labels.get(NAME) or ""
        if entry.seen.reservation:
            why = "it stands for a reservation, whose owners are counted"
            return Account(entry, pod.namespace, label, False, pod.requests, UNCOUNTED, "", why)
        place = self.place(pod.namespace, label)
        return Account(
            entry,
            pod.namespace,
            label,
            pod.labels.get(PREEMPTIBLE) != "false",
            pod.requests,
            self.outside[DEFAULT_QUOTA],
            place.quota,
            place.because,
            place.held,
        )

    def order(self) -> tuple[dict[str, Account], dict[tuple[str, str], dict[str, Account]]]:
        """The accounts, and those of the quotas of each tree, in their order."""
        members = {
            (tree_id, quota): here.copy()
            for tree_id, books in self.trees.items()
            for quota, here in books.members.items()
        }
        return self.accounts.copy(), members

    def reorder(self, accounts: dict[str, Account], members: Mapping[tuple[str, str], Mapping[str, Account]]) -> None:
        """Restore a former `order` of the same pods, whose accounts may have been made anew."""
        for uid, account in accounts.items():
            now = self.accounts[uid]
            if now is not account:
                account.node, account.admitted = now.node, now.admitted
        self.accounts = accounts
        for (tree_id, quota), before in members.items():
            here = self.trees[tree_id].members[quota]
            here.clear()
            here.update(before)

    def set_accounting(self, account: Account) -> None:
        """Set the `accounting` of the account to that of its quota."""
        if not account.quota:
            return
        tree_id = self.tree_id_of(account.quota)
        account.accounting = self.outside[account.quota] if tree_id is None else self.trees[tree_id]

    def problems(self, objects: Sequence[QuotaObject]) -> tuple[str, ...]:
        """Why these objects are not used, or which violations are tolerated."""
        return tuple(text for quota_object in objects for text in self.sorted.problems.get(quota_object.key, ()))

    # ---- totals of the trees

    def _whole(self, tree_id: str, totals: QuotaTotals) -> Amounts:
        """The total of a tree, before the use of pods outside trees is subtracted."""
        limited = self.trees[tree_id].limited
        if tree_id != DEFAULT_TREE:
            return Amounts(tuple(pair for pair in self.sorted.totals[tree_id] if pair[0] in limited))
        return distributable(totals.amounts(limited), self.sorted.kept_out)

    def set_totals(self, totals: QuotaTotals) -> None:
        """Update the totals after nodes or their pods have changed."""
        for tree_id in self.trees:
            self.forest.set_total(self._whole(tree_id, totals), tree_id)

    def _total_of(self, tree_id: str, totals: QuotaTotals) -> Amounts:
        whole = self._whole(tree_id, totals)
        if tree_id != DEFAULT_TREE:
            return whole
        return distributable(whole, *(bounded(self.forest.used(name)) for name in OUTSIDE))

    # ---- validation

    def validate(self, pods: Mapping[str, PodInfo], totals: QuotaTotals) -> None:
        """Check that all accounts match `pods` (by UID). Raises `Permanent`."""
        if self.accounts.keys() != pods.keys():
            raise Permanent(f"{len(self.accounts)} pods have an account, {len(pods)} are known")
        for uid, entry in pods.items():
            account, fresh = self.accounts[uid], self.account(entry)
            mine = (account.quota, account.held, account.preemptible, account.requests, account.node)
            if mine != (fresh.quota, fresh.held, fresh.preemptible, fresh.requests, entry.node):
                raise Permanent(f"pod {entry.seen.pod.key} is accounted as {mine}")
        for name, accounting in self.outside.items():
            accounting.validate([account for account in self.accounts.values() if account.quota == name])
        for tree_id, books in self.trees.items():
            books.validate()
            expected = self._total_of(tree_id, totals)
            if books.tree.total() != expected:
                raise Permanent(f"tree {tree_id or 'default'!r} divides {books.tree.total()}, there is {expected}")
        for name in self.forest.tree_ids():
            if any(quota.name not in self.trees[name].members for quota in self.forest.tree(name).quotas()):
                raise Permanent(f"tree {name!r} has a quota without accounts")

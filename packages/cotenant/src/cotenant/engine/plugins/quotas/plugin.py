"""Elastic quota plugin: admission of pods, preemption within a quota, revocation of overuse, and quota status.

Pods, nodes and quota objects arrive and change in any order, and each quota's runtime, use and promises must always
match the observed state. Objects, nodes and pods are stored; a changed quota object causes the trees to be rebuilt from
them before the next scheduling attempt, and any other change only updates sums (engine/plugins/quotas/accounts.py).
Compiled code admits a batch in order and counts each pod before it checks the next. A change that may help a refused
pod (a pod of a tree is unassigned or leaves, a quota or the total changes) raises an event; the accounts are checked
before the pod is retried.
Limits: a pod with scheduling gates counts as requested too; pods that other schedulers have not bound yet are not
counted as used.

Source: Koordinator's elasticquota plugin.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import inf
from types import MappingProxyType

from cotenant.engine.framework.contracts import Evicting
from cotenant.engine.framework.events import EventKind
from cotenant.engine.framework.memento import Memento
from cotenant.engine.framework.plugin import PluginHost, PodRefused
from cotenant.engine.framework.pod_state import PodInfo
from cotenant.engine.framework.queueing import PlacementVerdict
from cotenant.engine.plugins.quotas.accounts import Account, ForeignUse, TreeAccounts
from cotenant.engine.plugins.quotas.admitting import Admitting
from cotenant.engine.plugins.quotas.credit import advance_s, surcharge
from cotenant.engine.plugins.quotas.preemption import QuotaPreempting
from cotenant.engine.plugins.quotas.revocation import Revoking
from cotenant.engine.plugins.quotas.settings import DEFAULTS, QuotaSettings
from cotenant.engine.plugins.quotas.shared_trees import SharedTrees
from cotenant.engine.plugins.quotas.status import LastStatuses, QuotaDescription, describe, status_of
from cotenant.engine.plugins.quotas.totals import QuotaTotals
from cotenant.engine.plugins.quotas.trees import QuotaWorld
from cotenant.model.cluster.demands import Demands
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.observed import ObservedPod
from cotenant.model.cluster.pod import Pod
from cotenant.model.errors import Permanent
from cotenant.model.groups.quota import NAME, QuotaObject
from cotenant.model.resources import Amounts
from cotenant.model.shards.table import RoomFor
from cotenant.policy.quota.forest import OUTSIDE


class Quotas(Evicting):
    """The quotas of one cluster. Without any quota object it does nothing."""

    name = "ElasticQuota"
    events = MappingProxyType({name: frozenset({EventKind.QUOTA, EventKind.GANG, EventKind.BUDGET})})

    def __init__(self, settings: QuotaSettings = DEFAULTS) -> None:
        self.settings = settings
        self.is_idle = True  # until there is a quota object: then it needs every pod
        self._objects: dict[str, QuotaObject] = {}
        self._totals = QuotaTotals()
        self._entries: dict[str, PodInfo] = {}
        self._world: QuotaWorld | None = None
        self._is_stale = False  # objects have changed: the world must be rebuilt
        self._has_moved = False  # sums have changed since overuse was last checked
        self._has_unsent_status = False
        self._preempting = QuotaPreempting(settings.rules)
        self._revoking = Revoking(settings)
        self.shared = SharedTrees(
            self.name,
            self._settled,
            lambda quota: self._preempting.promise_of(quota) is not None,
            lambda entry: self.host.lacks(entry),
        )
        self._admitting = Admitting(self.name, settings, self._preempting, self._revoking, self.shared)
        self._last_statuses = LastStatuses(settings.status_every_s)

    def capture(self) -> Callable[[], Quotas]:
        """A maker of quotas with the same objects and no nodes or pods, for a copy of the engine; it reads nothing
        of these later.
        """
        settings, objects = self.settings, dict(self._objects)
        shared = SharedTrees(self.name, lambda: None, lambda quota: False)
        shared.captured(self.shared)

        def make() -> Quotas:
            made = Quotas(settings)
            made._objects = objects.copy()
            made.shared.captured(shared)
            made.is_idle = not objects
            return made

        return make

    def snapshot(self) -> Callable[[], None]:
        """See `Plugin`. Sums follow from the pods' events."""
        world = self._settled()
        memento = Memento((self, self.shared, self._admitting, self._preempting, self._revoking, self._last_statuses))
        accounts = world.order() if world is not None else None

        def put_back() -> None:
            rebuilt = self._world is not world
            if world is not None and not rebuilt:
                assert accounts is not None
                world.reorder(*accounts)
                self._settled()
            memento.restore()
            self._is_stale |= rebuilt

        return put_back

    # ---- observed objects

    def quota_seen(self, seen: QuotaObject, now_s: float) -> None:
        """Record a new or changed quota object; an identical one has no effect."""
        if self._objects.get(seen.key) != seen:
            self._objects[seen.key] = seen
            self._is_stale = True
            if self.is_idle:
                self.is_idle = False
                self.host.unskip(self)

    def quota_gone(self, key: str, now_s: float) -> None:
        """Remove a quota object that was deleted or cannot be parsed."""
        if self._objects.pop(key, None) is not None:
            self._is_stale = True

    def node_changed(self, name: str, node: Node | None) -> None:
        """Record a new or changed node, or remove a deleted one."""
        if node is not None:
            self._totals.node_seen(node)
        else:
            self._totals.node_gone(name)

    def skips(self, pod: Pod, demands: Demands) -> bool:
        """Every pod, as long as there was no quota object."""
        return self.is_idle

    # ---- pods

    def attach(self, host: PluginHost) -> None:
        """Attach to a host and forget all pods; quota objects and nodes are kept."""
        super().attach(host)
        self._entries.clear()
        self._world = None
        self._is_stale = bool(self._objects)
        self._preempting.clear()
        self._revoking.clear()

    def pod_arrived(self, entry: PodInfo) -> None:
        """Record a pod that is new, or that was added again with changed demands."""
        self._entries[entry.seen.uid] = entry
        world = self._current()
        if world is not None:
            account = world.account(entry)
            world.set_accounting(account)
            world.accounts[account.uid] = account
            account.accounting.add(account)
            self._has_moved = self._has_unsent_status = True

    def pod_left(self, entry: PodInfo) -> None:
        """Remove a pod that is deleted, or is about to be added again."""
        del self._entries[entry.seen.uid]
        world = self._current()
        if world is not None:
            account = world.accounts.pop(entry.seen.uid)
            account.accounting.remove(account)
            self._preempting.end(account)
            self._moved()

    def reserve(self, entry: PodInfo, node: str) -> None:
        """Count the pod as used on its node."""
        world = self._current()
        if world is not None:
            account = world.accounts[entry.seen.uid]
            account.node = node
            account.accounting.assign(account)
            self.shared.reserved(account)
            self._totals.assign(node, account.uid, account.requests)
            self._has_moved = self._has_unsent_status = True
            self._preempting.end(account)
            self.host.happened(EventKind.QUOTA)  # one more that pods of its quota may evict

    def unreserve(self, entry: PodInfo) -> None:
        """Stop counting the pod as used on its node; one without a node is not admitted any more."""
        if not entry.node:
            self._withdraw(entry)
            return
        self.shared.released(entry.seen.uid)
        world = self._current()
        if world is not None:
            account = world.accounts[entry.seen.uid]
            account.accounting.unassign(account)
            self._totals.unassign(account.node, account.uid)
            self._preempting.left(account.quota)
            self._revoking.left(account.uid)
            account.node = ""
            self._moved()

    def post_bind(self, entry: PodInfo) -> None:
        """The API server confirmed the bind."""
        self.shared.bound(entry.seen.uid)

    def queue_sort(self, entry: PodInfo) -> float:
        """By the standing of the pod's quota, where credit is on."""
        if not self.settings.credit:
            return 0.0
        world = self._settled()
        account = world.accounts.get(entry.seen.uid) if world is not None else None
        written = world.sorted.used.get(account.quota) if world is not None and account is not None else None
        return advance_s(written.standing) if written is not None else 0.0

    def pre_score(self, seen: ObservedPod) -> float:
        """By the debt of the pod's quota, where credit is on."""
        if not self.settings.credit or seen.reservation:
            return 0.0
        world = self._settled()
        if world is None:
            return 0.0
        place = world.place(seen.pod.namespace, seen.pod.labels.get(NAME) or "")
        written = world.sorted.used.get(place.quota)
        return surcharge(written.standing) if written is not None else 0.0

    def pre_filter(self, pods: Sequence[PodInfo], now_s: float) -> Mapping[int, PodRefused]:
        """Admit the pods that fit their quota, and count them from then on; return the refusals by position."""
        if not self._objects:
            return {}
        world = self._settled()
        return self._admitting.admit(world, pods, self.host) if world is not None else {}

    def _withdraw(self, entry: PodInfo) -> None:
        """Undo the admission of a pod that found no node."""
        account = self._world.accounts.get(entry.seen.uid) if self._world is not None else None
        if account is not None and account.admitted:
            self._admitting.withdraw(account, self.host)

    def post_filter(self, pods: Sequence[PodInfo], verdict: PlacementVerdict, now_s: float) -> PlacementVerdict:
        """Where it refused a whole group, evict pods of lower priority from the same quotas, if that admits all of
        `pods`.
        """
        if verdict.subject and self.name in verdict.filters:
            self._evict_for(pods, verdict.subject, now_s)
        return verdict

    def _evict_for(self, pods: Sequence[PodInfo], name: str, now_s: float) -> None:
        world = self._settled()
        if world is None or not self.settings.preempt:
            return
        by_quota: dict[str, list[Account]] = {}
        for entry in pods:
            account = world.accounts[entry.seen.uid]
            if account.held or self._admitting.obstacle(account, self.host) or self.shared.by_room(account):
                return
            by_quota.setdefault(account.quota, []).append(account)
        lots: list[tuple[TreeAccounts, list[Account]]] = []
        for accounts in by_quota.values():
            accounting = accounts[0].accounting
            if isinstance(accounting, TreeAccounts):
                lots.append((accounting, accounts))
                continue
            fit = all(accounting.admit(accounts))
            for account in accounts:
                accounting.withdraw(account)
            if not fit:
                return  # no preemption outside trees
        for evict in self._preempting.attempt(lots, name, now_s, self.host):
            self.host.say(evict)

    def queueing_hint(self, entry: PodInfo) -> bool:
        """Whether a refused pod would be admitted now."""
        world = self._settled()
        if world is None:
            return True
        account = world.accounts[entry.seen.uid]
        if account.held or self._admitting.obstacle(account, self.host) or not self.shared.has_room(account):
            return False
        if self._preempting.may_try(account) or account.accounting.has_room(account):
            return True
        if not self.settings.preempt or not isinstance(account.accounting, TreeAccounts):
            return False
        return self._preempting.could_help(account.accounting, account, self.host)

    # ---- other shards

    def share(self, lent: Mapping[str, ForeignUse], borrowed: Mapping[RoomFor, Amounts | None]) -> None:
        """What counts in each quota for other shards, and what room this one has of other shards' quotas."""
        if self.shared.lend(lent) | self.shared.borrow(borrowed):
            self._moved()

    # ---- time

    def turn(self, now_s: float) -> None:
        """Run due work before each scheduling round: expiry of promises, revocation, status updates."""
        self._admitting.start_turn(now_s)
        if not self._objects and self._world is None:
            self._is_stale = False
            return
        world = self._settled()
        if self._preempting.expire(now_s):
            self._moved()
        if world is None:
            return
        if self.settings.revoke and self.settings.by_runtime and self._revoking.due_s <= now_s and self._is_watching():
            self._has_moved = False
            for evict in self._revoking.turn(now_s, world.trees.values(), self.host):
                self.host.say(evict)
        if self._has_unsent_status and self._last_statuses.due_s <= now_s:
            self._has_unsent_status = False
            self._emit_status(world, now_s)

    def next_s(self) -> float:
        """When `turn` next has work, in seconds; -inf = immediately, inf = never."""
        if self._is_stale or (self._world is not None and self._totals.has_changed):
            return -inf
        if self._world is None:
            return inf
        soonest = self._preempting.next_s()
        if self.settings.revoke and self.settings.by_runtime and self._is_watching():
            soonest = min(soonest, self._revoking.due_s)
        return min(soonest, self._last_statuses.due_s) if self._has_unsent_status else soonest

    # ---- queries

    def is_leaving(self, uid: str) -> bool:
        """Whether this plugin recently asked to evict the pod."""
        return self._revoking.is_leaving(uid) or self._preempting.is_leaving(uid)

    def names(self) -> tuple[str, ...]:
        """Names of all quotas, used or not, including the built-in ones outside trees."""
        return tuple(sorted({quota_object.quota.name for quota_object in self._objects.values()} | set(OUTSIDE)))

    def is_kept_for(self, uid: str) -> bool:
        """Whether quota that becomes free is kept for this pod."""
        promise = self._preempting.promise_of(self.quota_of(uid)[0])
        return promise is not None and uid in promise.uids

    def quota_of(self, uid: str) -> tuple[str, str]:
        """The quota of a pod and the reason for it; both empty if there are no quotas or the pod is unknown."""
        world = self._settled()
        account = world.accounts.get(uid) if world is not None else None
        return (account.quota, account.held or account.because) if account is not None else ("", "")

    def returned_for(self, uid: str, now_s: float) -> str:
        """That pods of other quotas will be evicted for what waits in this pod's; empty if none will be."""
        world = self._settled()
        account = world.accounts.get(uid) if world is not None else None
        if account is None or account.node or not (self.settings.revoke and self.settings.by_runtime):
            return ""
        if not isinstance(account.accounting, TreeAccounts):
            return ""
        found, at_s = self._revoking.outlook(account.accounting, account.quota, now_s, self.host)
        if not found:
            return ""
        names = sorted({f"{other.entry.seen.pod.key} of quota {other.quota}" for other in found})
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        return f"{names[0]}{more} will be evicted for what quota {account.quota} is owed, in {at_s - now_s:.0f} s"

    def tree_of(self, namespace: str, label: str) -> str | None:
        """The tree in which pods with this namespace and quota label are charged; None = in none."""
        world = self._settled()
        return None if world is None else world.tree_id_of(world.place(namespace, label).quota)

    def tree_named(self, key: str) -> str:
        """The tree of the quota object with this key; empty where it is in none."""
        world, found = self._settled(), self._objects.get(key)
        return (world.tree_id_of(found.quota.name) or "") if world is not None and found is not None else ""

    def describe(self, name: str) -> QuotaDescription | None:
        """The full state of a quota, or None if no quota has this name."""
        world = self._settled()
        if world is None:
            return None
        promise = self._preempting.promise_of(name)
        of_name = [quota_object for quota_object in self._objects.values() if quota_object.quota.name == name]
        kept_for = promise.name if promise is not None else ""
        return describe(world, name, of_name, self._revoking.over_since_s(name), kept_for)

    # ---- validation

    def validate(self, pods: Mapping[str, PodInfo]) -> None:
        """Check that all accounts match `pods` (by UID). Raises `Permanent`."""
        if self.is_idle:
            return
        if self._entries != dict(pods):
            raise Permanent(f"quotas know {len(self._entries)} pods, the engine {len(pods)}, or others")
        world = self._settled()
        if world is None:
            return
        self._totals.validate()
        world.validate(pods, self._totals)

    # ---- internals

    def _current(self) -> QuotaWorld | None:
        """The world, or None if it must be rebuilt first; the rebuild then counts all pods."""
        return None if self._is_stale else self._world

    def _settled(self) -> QuotaWorld | None:
        """The world, brought up to date, or None if there are no quotas."""
        if self._is_stale or (self._world is not None and any(b.is_crowded for b in self._world.trees.values())):
            self._rebuild()
        world = self._world
        if world is None:
            return None
        if self._totals.has_changed:
            self._totals.has_changed = False
            world.set_totals(self._totals)
            self._moved()
        world.forest.refresh_default()
        return world

    def _rebuild(self) -> None:
        before, self._is_stale = self._world, False
        admitted = {a.uid for a in before.accounts.values() if a.admitted} if before is not None else set()
        if not self._objects:
            self._world = None
            self._preempting.clear()
        else:
            self._world = QuotaWorld(self._objects, list(self._entries.values()), admitted, self.settings)
            self._totals.forget_pods()
            for account in self._world.accounts.values():
                if account.node:
                    self._totals.assign(account.node, account.uid, account.requests)
            self.shared.rebuilt(self._world)
        self._last_statuses.forget(self._objects)
        self._moved()

    def _moved(self) -> None:
        """Record that sums changed, and raise an event: quota may have become free."""
        self._has_moved = self._has_unsent_status = True
        self.host.happened(EventKind.QUOTA)

    def _is_watching(self) -> bool:
        return self._has_moved or self._revoking.is_watching

    def _emit_status(self, world: QuotaWorld, now_s: float) -> None:
        """Emit the status of each object whose status has changed."""
        self._last_statuses.schedule(now_s)
        for written in self._objects.values():
            status = status_of(world, written, self.settings.guarantee_use)
            if self._last_statuses.is_new(status):
                self.host.say(status)

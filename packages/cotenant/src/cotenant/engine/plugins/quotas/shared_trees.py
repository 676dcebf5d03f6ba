"""Quota trees for which several engines decide: what others have of them, and what this engine has of others' trees.

An engine that decides for a tree counts what it lends as used. One that has borrowed room of a quota admits its pods
only while they fit into that too, whatever its own account of the tree says, and evicts nobody for it: who decides for
the tree does that. A pod that is admitted takes its part of the room; it has used it once its bind is confirmed, and
gives it back where the bind fails.
Limits: only pods without a gang that may be preempted are admitted by borrowed room.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from cotenant.engine.framework.plugin import PodRefused
from cotenant.engine.framework.pod_state import PodInfo, SchedulingState
from cotenant.engine.plugins.quotas.accounts import Account, ForeignUse, gang_name
from cotenant.engine.plugins.quotas.trees import QuotaWorld
from cotenant.model.cluster.observed import ObservedPod
from cotenant.model.groups.quota import NAME, PREEMPTIBLE
from cotenant.model.resources import NOTHING, PODS_NAME, Amounts, format_amount
from cotenant.model.shards.table import QuotaRoom
from cotenant.policy.sharding.borrowing import pods_to_grant

_DECIDED = (SchedulingState.ASSUMED, SchedulingState.BINDING)


class SharedTrees:
    """Of one engine. Without shards it is empty, and costs nothing."""

    def __init__(self, plugin: str, settled: Callable[[], QuotaWorld | None], awaits: Callable[[str], bool]) -> None:
        """`plugin`: its name in refusals. `settled`: the trees, brought up to date. `awaits`: whether pods of a quota
        wait for evictions.
        """
        self._plugin = plugin
        self._settled = settled
        self._awaits = awaits
        self._lent: dict[str, ForeignUse] = {}  # by quota
        self._own: dict[str, Amounts | None] = {}  # borrowed, by quota; None = not to be used any more
        self._used: dict[str, Amounts] = {}  # of these, by pods that are bound
        self._taken: dict[str, tuple[str, Amounts]] = {}  # by UID: admitted by borrowed room, and not bound yet

    def captured(self, other: SharedTrees) -> None:
        """As another was, for a copy of its engine: what is left counts as granted."""
        self._lent = dict(other._lent)
        self._own = {quota: other.left(quota) if other.is_borrowed(quota) else None for quota in other._own}

    # ---- questions

    def for_borrowers(self, seen: ObservedPod) -> str:
        """The quota of a pod that another shard may place by room that it is lent; empty where none may."""
        labels, world = seen.pod.labels, self._settled()
        if world is None or seen.reservation or labels.get(PREEMPTIBLE) == "false":
            return ""
        place = world.place(seen.pod.namespace, labels.get(NAME) or "")
        return place.quota if not place.held and world.tree_id_of(place.quota) is not None else ""

    def tree_of(self, quota: str) -> str | None:
        """The tree of a quota; None where it is in none, or does not exist."""
        world = self._settled()
        return world.tree_id_of(quota) if world is not None and quota in world.sorted.used else None

    def members(self, quota: str) -> tuple[PodInfo, ...]:
        """The pods of a quota, on nodes or not."""
        world, tree = self._settled(), self.tree_of(quota)
        if world is None or tree is None:
            return ()
        return tuple(account.entry for account in world.trees[tree].members[quota].values())

    def lendable(self, quota: str, ask: QuotaRoom, waiting: Iterable[tuple[PodInfo, int]]) -> int:
        """For how many pods of an ask room can be lent, beside those that wait here (alike ones as one, and how many
        they are). A gang goes first: it needs its room at one time.
        """
        world, tree = self._settled(), self.tree_of(quota)
        if world is None or tree is None or self._awaits(quota):
            return 0
        before = beside = 0
        for entry, pods in waiting:
            account = world.accounts.get(entry.seen.uid)
            if account is None or account.held or world.tree_id_of(account.quota) != tree:
                continue
            if entry.seen.pod.priority > ask.priority or gang_name(account) or not account.preemptible:
                before += pods
            elif account.quota == quota and entry.seen.pod.priority == ask.priority:
                beside += pods
        if not ask.is_lent:
            beside = max(0, beside - ask.asked)  # they wait here until it is lent
        fitting = world.trees[tree].fitting(quota, ask.each, ask.asked + before + beside)
        return pods_to_grant(ask.asked, fitting, before, beside)

    # ---- lent to others

    def lend(self, lent: Mapping[str, ForeignUse]) -> bool:
        """From now on these amounts count for others; whether that changes anything."""
        if lent == self._lent:
            return False
        world = self._settled()
        before, self._lent = self._lent, dict(lent)
        if world is not None:
            self._apply(world, {*before, *lent})
        return True

    def lend_more(self, quota: str, amounts: Amounts) -> None:
        """Count what is about to be lent, until `lend` says all of it."""
        now = self._lent.get(quota, ForeignUse(NOTHING, NOTHING))
        self.lend({**self._lent, quota: ForeignUse(now.used + amounts, now.asked.maximum(now.used + amounts))})

    def rebuilt(self, world: QuotaWorld) -> None:
        """The trees were made anew."""
        self._apply(world, set(self._lent))

    def _apply(self, world: QuotaWorld, names: set[str]) -> None:
        for name in sorted(names):
            tree_id = world.tree_id_of(name) if name in world.sorted.used else None
            if tree_id is not None:
                found = self._lent.get(name, ForeignUse(NOTHING, NOTHING))
                world.trees[tree_id].lend(name, found.used, found.asked)

    # ---- borrowed

    def borrow(self, rooms: Mapping[str, Amounts | None]) -> bool:
        """What was granted of each quota, since it was asked for; whether there is more than before."""
        if rooms == self._own:
            return False
        before, self._own = self._own, dict(rooms)
        for quota in before.keys() - rooms.keys():
            self._used.pop(quota, None)
            self._taken = {uid: taken for uid, taken in self._taken.items() if taken[0] != quota}
        return True

    def used(self) -> dict[str, Amounts]:
        """What is bound of each borrowed quota."""
        return {quota: self._used.get(quota, NOTHING) for quota in self._own}

    def left(self, quota: str) -> Amounts:
        """What may still be admitted of a borrowed quota."""
        granted = self._own.get(quota)
        if granted is None:
            return NOTHING
        out = dict(self._used.get(quota, NOTHING))
        for of, amounts in self._taken.values():
            if of == quota:
                for name, amount in amounts:
                    out[name] = out.get(name, 0) + amount
        return Amounts.of((name, max(0, amount - out.get(name, 0))) for name, amount in granted)

    @property
    def borrows(self) -> bool:
        """Whether any room is borrowed."""
        return bool(self._own)

    def is_borrowed(self, quota: str) -> bool:
        """Whether pods of a quota are admitted by borrowed room."""
        return self._own.get(quota) is not None

    def takes(self, quota: str) -> bool:
        """Whether a pod of a quota that is not bound yet was admitted by borrowed room."""
        return any(of == quota for of, _ in self._taken.values())

    def has_taken(self, uid: str) -> bool:
        """Whether a pod that is not bound yet was admitted by borrowed room."""
        return uid in self._taken

    def has_room(self, account: Account) -> bool:
        """Whether a pod that the tree admits would be admitted by what is borrowed, or needs nothing of that."""
        if not self.is_borrowed(account.quota):
            return True
        left = self.left(account.quota)
        return all(amount <= left.get(name) for name, amount in request_of(account.requests))

    def admit(self, accounts: Mapping[int, Account]) -> dict[int, PodRefused]:
        """Of pods, by position, that the trees admit: those that do not fit into what is borrowed."""
        refused: dict[int, PodRefused] = {}
        lefts: dict[str, dict[str, int]] = {}
        for position, account in accounts.items():
            quota = account.quota
            if self._own.get(quota) is None:
                continue
            left = lefts.get(quota)
            if left is None:
                left = lefts[quota] = dict(self.left(quota))
            asked = request_of(account.requests)
            if all(amount <= left.get(name, 0) for name, amount in asked):
                for name, amount in asked:
                    if amount:
                        left[name] -= amount
                self._taken[account.uid] = quota, asked
                continue
            words = f"Quota {quota} is another shard's: what it lent to this one is used, and more is asked for."
            short = [
                f"{format_amount(name, amount)} {name} asked, {format_amount(name, left.get(name, 0))} left"
                for name, amount in asked
                if amount > left.get(name, 0)
            ]
            refused[position] = PodRefused(self._plugin, words, "; ".join(short))
        return refused

    def reserved(self, account: Account) -> None:
        """A pod counts on a node: one whose bind is under way keeps its part also where its demands have changed."""
        if account.quota in self._own and account.uid not in self._taken and account.entry.state in _DECIDED:
            self._taken[account.uid] = account.quota, request_of(account.requests)

    def bound(self, uid: str) -> None:
        """The bind of a pod is confirmed: it has used its part."""
        taken = self._taken.pop(uid, None)
        if taken is not None:
            quota, amounts = taken
            self._used[quota] = self._used.get(quota, NOTHING) + amounts

    def released(self, uid: str) -> None:
        """A pod is not bound after all."""
        self._taken.pop(uid, None)


def request_of(requests: Amounts) -> Amounts:
    """A pod's requests as room of a quota: it counts as a pod too."""
    return Amounts.of({**dict(requests), PODS_NAME: 1})

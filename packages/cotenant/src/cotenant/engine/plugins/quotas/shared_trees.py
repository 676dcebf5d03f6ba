"""Quota trees for which several engines decide: what others have of them, and what this engine has of others' trees.

An engine that decides for a tree counts what it lends as used. One that has borrowed room of a quota admits its pods
only while they fit into that too, whatever its own account of the tree says, and evicts nobody for it: who decides for
the tree does that. A pod that is admitted takes its part of the room; it has used it once its bind is confirmed, and
gives it back where the bind fails. Pods that nobody may preempt count against a quota's guarantee too, wherever they
are admitted, so what is lent for them is a part of its own; and a gang has room of its own, for all of it or none.
Limits: a gang whose members are of several quotas, or of which only some may be preempted, is not lent for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from cotenant.engine.framework.plugin import PodRefused
from cotenant.engine.framework.pod_state import PodInfo, SchedulingState
from cotenant.engine.framework.queueing import AlikePods
from cotenant.engine.plugins.quotas.accounts import Account, ForeignUse, add_amounts
from cotenant.engine.plugins.quotas.lending import RoomWanted, is_whole, lendable, request_of
from cotenant.engine.plugins.quotas.trees import QuotaWorld
from cotenant.model.cluster.observed import ObservedPod
from cotenant.model.groups.quota import NAME, PREEMPTIBLE
from cotenant.model.resources import NOTHING, Amounts, format_amount
from cotenant.model.shards.table import QuotaRoom, RoomFor
from cotenant.policy.placement.gangs.spec import gang_key

_DECIDED = (SchedulingState.ASSUMED, SchedulingState.BINDING)


class SharedTrees:
    """Of one engine. Without shards it is empty, and costs nothing."""

    def __init__(
        self,
        plugin: str,
        settled: Callable[[], QuotaWorld | None],
        awaits: Callable[[str], bool],
        lacks: Callable[[PodInfo], int] = lambda entry: 1,
    ) -> None:
        """`plugin`: its name in refusals. `settled`: the trees, brought up to date. `awaits`: whether pods of a quota
        wait for evictions. `lacks`: how many pods must be placed together with one.
        """
        self._lacks = lacks
        self._plugin = plugin
        self._settled = settled
        self._awaits = awaits
        self._lent: dict[str, ForeignUse] = {}  # by quota
        self._own: dict[RoomFor, Amounts | None] = {}  # borrowed; None = not to be used any more
        self._used: dict[RoomFor, Amounts] = {}  # of these, by pods that are bound
        self.tied_to: Callable[[str], tuple[str, ...]] = lambda gang: ()  # the gangs that are placed with one
        self._taken: dict[str, tuple[RoomFor, Amounts]] = {}  # by UID: admitted by borrowed room, and not bound yet

    def captured(self, other: SharedTrees) -> None:
        """As another was, for a copy of its engine: what is left counts as granted."""
        self._lent = dict(other._lent)
        self._own = {of: other.left(of) if other.is_borrowed(of) else None for of in other._own}

    # ---- questions

    def for_borrowers(self, seen: ObservedPod) -> RoomFor | None:
        """The room by which another shard may place a pod; None where none may."""
        labels, world = seen.pod.labels, self._settled()
        if world is None or seen.reservation:
            return None
        place = world.place(seen.pod.namespace, labels.get(NAME) or "")
        if place.held or world.tree_id_of(place.quota) is None:
            return None
        return RoomFor(place.quota, labels.get(PREEMPTIBLE) != "false", self._first_gang(seen))

    def room_for(self, account: Account) -> RoomFor:
        """The room by which a pod of this account would be admitted."""
        return RoomFor(account.quota, account.preemptible, self._first_gang(account.entry.seen))

    def room_of(self, uid: str) -> RoomFor | None:
        """As `room_for`; None for a pod that is not known."""
        world = self._settled()
        account = world.accounts.get(uid) if world is not None else None
        return self.room_for(account) if account is not None else None

    def _first_gang(self, seen: ObservedPod) -> str:
        gang = gang_key(seen.pod, seen.demands.gang)
        return min((gang, *self.tied_to(gang))) if gang else ""

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

    def lendable(self, of: RoomFor, ask: QuotaRoom, waiting: Iterable[AlikePods]) -> int:
        """For how many pods of an ask room can be lent, beside those that wait here."""
        world, tree = self._settled(), self.tree_of(of.quota)
        if world is None or tree is None or self._awaits(of.quota):
            return 0
        here: list[RoomWanted] = []
        for found in waiting:
            account = world.accounts.get(found.first.seen.uid)
            if account is not None and not account.held and world.tree_id_of(account.quota) == tree:
                rests = bool(found.refused_by) and self._plugin not in found.refused_by
                here.append(RoomWanted(self.room_for(account), found, rests))
        if not of.gang or ask.is_lent:
            return lendable(of, ask, here, world.trees[tree])
        accounts = world.trees[tree].members[of.quota].values()
        pending = [one for one in accounts if not (one.node or one.held) and self.room_for(one) == of]
        if not pending or not is_whole(ask, pending, self._lacks(pending[0].entry)):
            return 0
        return lendable(of, ask, here, world.trees[tree], min(one.entry.seen.created_s for one in pending))

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

    def lend_more(self, of: RoomFor, amounts: Amounts) -> None:
        """Count what is about to be lent, until `lend` says all of it."""
        now = self._lent.get(of.quota, ForeignUse(NOTHING, NOTHING))
        used, held = now.used + amounts, now.held if of.preemptible else now.held + amounts
        self.lend({**self._lent, of.quota: ForeignUse(used, now.asked.maximum(used), held)})

    def rebuilt(self, world: QuotaWorld) -> None:
        """The trees were made anew."""
        self._apply(world, set(self._lent))

    def _apply(self, world: QuotaWorld, names: set[str]) -> None:
        for name in sorted(names):
            tree_id = world.tree_id_of(name) if name in world.sorted.used else None
            if tree_id is not None:
                world.trees[tree_id].lend(name, self._lent.get(name, ForeignUse(NOTHING, NOTHING)))

    # ---- borrowed

    def borrow(self, rooms: Mapping[RoomFor, Amounts | None]) -> bool:
        """What was granted since it was asked for; whether there is more than before."""
        if rooms == self._own:
            return False
        before, self._own = self._own, dict(rooms)
        for of in before.keys() - rooms.keys():
            self._used.pop(of, None)
            self._taken = {uid: taken for uid, taken in self._taken.items() if taken[0] != of}
        return True

    def used(self) -> dict[RoomFor, Amounts]:
        """What is bound of each borrowed room."""
        return {of: self._used.get(of, NOTHING) for of in self._own}

    def left(self, of: RoomFor) -> Amounts:
        """What may still be admitted of a borrowed room."""
        granted = self._own.get(of)
        if granted is None:
            return NOTHING
        out = dict(self._used.get(of, NOTHING))
        for room, amounts in self._taken.values():
            if room == of:
                add_amounts(out, amounts)
        return Amounts.of((name, max(0, amount - out.get(name, 0))) for name, amount in granted)

    @property
    def borrows(self) -> bool:
        """Whether any room is borrowed."""
        return bool(self._own)

    def is_borrowed(self, of: RoomFor) -> bool:
        """Whether pods are admitted by borrowed room."""
        return self._own.get(of) is not None

    def takes(self, of: RoomFor) -> bool:
        """Whether a pod that is not bound yet was admitted by borrowed room."""
        return any(room == of for room, _ in self._taken.values())

    def has_taken(self, uid: str) -> bool:
        """Whether a pod that is not bound yet was admitted by borrowed room."""
        return uid in self._taken

    def by_room(self, account: Account) -> bool:
        """Whether a pod is admitted by borrowed room."""
        return self.borrows and self.is_borrowed(self.room_for(account))

    def has_room(self, account: Account) -> bool:
        """Whether a pod that the tree admits would be admitted by what is borrowed, or needs nothing of that."""
        if not self.by_room(account):
            return True
        left = self.left(self.room_for(account))
        return all(amount <= left.get(name) for name, amount in request_of(account.requests))

    def admit(self, accounts: Mapping[int, Account]) -> dict[int, PodRefused]:
        """Of pods, by position, that the trees admit: those that do not fit into what is borrowed."""
        refused: dict[int, PodRefused] = {}
        lefts: dict[RoomFor, dict[str, int]] = {}
        for position, account in accounts.items():
            of = self.room_for(account)
            if self._own.get(of) is None:
                continue
            left = lefts.get(of)
            if left is None:
                left = lefts[of] = dict(self.left(of))
            asked = request_of(account.requests)
            if all(amount <= left.get(name, 0) for name, amount in asked):
                for name, amount in asked:
                    if amount:
                        left[name] -= amount
                self._taken[account.uid] = of, asked
                continue
            words = f"Quota {of.quota} is another shard's: what it lent to this one is used, and more is asked for."
            short = [
                f"{format_amount(name, amount)} {name} asked, {format_amount(name, left.get(name, 0))} left"
                for name, amount in asked
                if amount > left.get(name, 0)
            ]
            refused[position] = PodRefused(self._plugin, words, "; ".join(short))
        return refused

    def reserved(self, account: Account) -> None:
        """A pod counts on a node: one whose bind is under way keeps its part also where its demands have changed."""
        if not self._own or account.uid in self._taken or account.entry.state not in _DECIDED:
            return
        of = self.room_for(account)
        if of in self._own:
            self._taken[account.uid] = of, request_of(account.requests)

    def bound(self, uid: str) -> None:
        """The bind of a pod is confirmed: it has used its part."""
        taken = self._taken.pop(uid, None)
        if taken is not None:
            of, amounts = taken
            self._used[of] = self._used.get(of, NOTHING) + amounts

    def released(self, uid: str) -> None:
        """A pod is not bound after all."""
        self._taken.pop(uid, None)

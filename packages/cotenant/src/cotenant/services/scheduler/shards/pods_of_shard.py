"""Which pending pods and reservations the engine of a shard hears of: its own, and none of the others'.

Pods on nodes count in every engine. A pending pod of another shard is kept aside until it is bound or becomes ours. The
group of a pod may follow from objects that come later (its quota, its gang), so all are looked at again when the
territory or such an object has changed. The shard of a quota's tree decides for the quota's pods, but for those of a
workload whose shard has room of the quota.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from cotenant.engine.cluster import Cluster
from cotenant.engine.sharding.territory import Territory
from cotenant.model.cluster.observed import ObservedPod
from cotenant.model.groups.quota import NAME as QUOTA_LABEL
from cotenant.model.groups.reservation import Reservation
from cotenant.model.shards.table import RoomFor
from cotenant.policy.placement.gangs.spec import gang_key
from cotenant.policy.sharding.groups import Belonging, group_of, is_judged_with_its_workload

_REMEMBERED = 65536  # groups, all forgotten when there are more


class PodHome(NamedTuple):
    """The room of its quota that a pod needs, and the group by which another shard decides for it that has it."""

    of: RoomFor
    group: str


class PodsOfShard:
    """Stands between the watches and the engine (`PodEvents`)."""

    def __init__(self, cluster: Cluster, schedulers: tuple[str, ...], now: Callable[[], float]) -> None:
        self._cluster = cluster
        self._schedulers = schedulers
        self.now = now
        self._territory = Territory(-1)
        self._owned: dict[str, bool] = {}  # by group, in this territory
        self.others: dict[str, ObservedPod] = {}  # pending, by UID
        self.by_key: dict[str, str] = {}  # of these
        self._late: dict[str, ObservedPod] = {}  # of others by now, with a bind that was decided before
        self._reservations: dict[str, Reservation] = {}  # pending, of others, by name
        # Of `others`, those for which room of their quota may be borrowed, by room and UID: since when they are known.
        self.may_borrow: dict[RoomFor, dict[str, float]] = {}
        self._room_of: dict[str, RoomFor] = {}  # of these, by UID
        self.is_asked = False  # whether any shard has room of a quota, or asks for it
        self._lends: dict[PodHome, bool] = {}  # in this territory
        cluster.plugins.quotas.shared.tied_to = cluster.plugins.gangs.tied_to

    # ---- the group of a pod

    def group(self, seen: ObservedPod, runs: bool = False) -> str:
        """The key by which a pod has its shard. `runs`: by which a running one has the shard that evicts it, which is
        always with its workload, of which so many may go at a time.
        """
        if seen.reservation:
            return group_of(Belonging(seen.uid, reservation=seen.reservation))
        plugins, pod = self._cluster.plugins, seen.pod
        gang = gang_key(pod, seen.demands.gang)
        tree = plugins.quotas.tree_of(pod.namespace, pod.labels.get(QUOTA_LABEL) or "")
        gangs = (gang, *plugins.gangs.tied_to(gang)) if gang else ()
        return group_of(self._belonging(seen, tree, gangs, runs))

    def _belonging(self, seen: ObservedPod, tree: str | None, gangs: tuple[str, ...], runs: bool = False) -> Belonging:
        controller, affinity = "", seen.pod.node_affinity
        if runs or is_judged_with_its_workload(seen.pod, bool(seen.volumes) or seen.demands.claims is not None):
            controller = next((owner.uid for owner in seen.owned_by if owner.controller), "")
        pinned = affinity.pinned if affinity is not None else None
        return Belonging(seen.uid, tree, gangs, pinned or "", controller)

    def home(self, seen: ObservedPod) -> PodHome | None:
        """By what a pod would have its shard if its quota did not decide that; None where it has no quota in a tree."""
        of = self._cluster.plugins.quotas.shared.for_borrowers(seen)
        if of is None:
            return None
        return PodHome(of, group_of(self._belonging(seen, None, (of.gang,) if of.gang else ())))

    def groups(self, seen: ObservedPod) -> tuple[str, ...]:
        """All by which a pod may have its shard: also that with which one decides that has room of its quota."""
        home = self.home(seen)
        return (self.group(seen),) if home is None else (self.group(seen), home.group)

    # ---- events

    def pod_seen(self, seen: ObservedPod, now_s: float) -> None:
        """See `Cluster`."""
        if self._is_handed_on(seen):
            self._forget(seen.uid)
            self._cluster.pod_seen(seen, now_s)
        elif self._cluster.closed.give_up(seen.uid, now_s):
            self._late.pop(seen.uid, None)
            self.others[seen.uid] = seen
            self.by_key[seen.pod.key] = seen.uid
            self._note_home(seen, now_s)
        else:  # its bind is decided: it is looked at again when the answer is there
            self._cluster.pod_seen(seen, now_s)
            self._late[seen.uid] = seen

    def _is_handed_on(self, seen: ObservedPod) -> bool:
        if seen.node or seen.has_ended or seen.terminating or seen.scheduler not in self._schedulers:
            return True
        return self.decides(seen)

    def decides(self, seen: ObservedPod) -> bool:
        """Whether this shard decides for a pending pod."""
        territory, is_ours = self._territory, self._owns(self.group(seen))
        if not (territory.rooms_away if is_ours else territory.rooms):
            return is_ours
        home = self.home(seen)
        if home is None:
            return is_ours
        if not is_ours:
            return home.of in territory.rooms and self._owns(home.group)
        lends = self._lends.get(home)
        if lends is None:
            if len(self._lends) >= _REMEMBERED:
                self._lends.clear()
            lends = self._lends[home] = territory.lends(*home)
        return not lends

    def _note_home(self, seen: ObservedPod, now_s: float) -> None:
        home = self.home(seen) if not self._owns(self.group(seen)) else None
        if home is not None and self._owns(home.group):
            if self._room_of.get(seen.uid, home.of) != home.of:
                self._no_longer_borrows(seen.uid)
            self.may_borrow.setdefault(home.of, {}).setdefault(seen.uid, now_s)
            self._room_of[seen.uid] = home.of
        else:
            self._no_longer_borrows(seen.uid)

    def _no_longer_borrows(self, uid: str) -> None:
        of = self._room_of.pop(uid, None)
        if of is not None:
            waiting = self.may_borrow[of]
            del waiting[uid]
            if not waiting:
                del self.may_borrow[of]

    def _owns(self, group: str) -> bool:
        """Whether a group is ours; its hash is computed once in a territory, not for each event of its pods."""
        known = self._owned.get(group)
        if known is None:
            if len(self._owned) >= _REMEMBERED:
                self._owned.clear()
            known = self._owned[group] = self._territory.owns_group(group)
        return known

    def give_up_late(self) -> None:
        """Give up pods of others whose binds are answered by now."""
        for seen in list(self._late.values()):
            entry = self._cluster.find(seen.pod.key)
            if entry is None or entry.seen.uid != seen.uid:
                del self._late[seen.uid]
            else:
                self.pod_seen(entry.seen, self.now())

    def pending(self) -> ObservedPod | None:
        """Any pod that waits, our own first."""
        own = self._cluster.closed.waiting()
        return own.seen if own is not None else next(iter(self.others.values()), None)

    def find(self, key: str) -> ObservedPod | None:
        """A pod by namespace/name, of whatever shard."""
        seen = self.others.get(self.by_key.get(key, ""))
        entry = self._cluster.find(key)
        return seen if seen is not None else entry.seen if entry is not None else None

    def pod_gone(self, uid: str, now_s: float) -> None:
        """See `Cluster`."""
        self._forget(uid)
        self._cluster.pod_gone(uid, now_s)

    def reservation_seen(self, reservation: Reservation, now_s: float) -> None:
        """A reservation: one without a node is handed on by its shard only."""
        key = f"reservation:{reservation.name}"
        if reservation.node or reservation.phase.is_final or self._owns(key):
            self._reservations.pop(reservation.name, None)
            self._cluster.plugins.reservations.seen(reservation, now_s)
        else:
            self._reservations[reservation.name] = reservation
            self._cluster.plugins.reservations.gone(reservation.name, now_s)

    def reservation_gone(self, name: str, now_s: float) -> None:
        """A reservation was deleted."""
        self._reservations.pop(name, None)
        self._cluster.plugins.reservations.gone(name, now_s)

    # ---- changes of what is ours

    def occupy(self, territory: Territory) -> None:
        """From now on these groups are ours: give up pods of others, and take those that were kept aside."""
        self._territory = territory
        self._owned.clear()
        self._lends.clear()
        self.sort()

    def lend(self, territory: Territory) -> None:
        """From now on room of quotas is lent as this says; else it is the territory as before."""
        before, self._territory = self._territory, territory
        changed = {key.of for key in before.rooms_away ^ territory.rooms_away} | (before.rooms ^ territory.rooms)
        if not changed:
            return
        self._lends.clear()
        now_s = self.now()
        for quota in sorted({of.quota for of in changed}):
            for entry in self._cluster.plugins.quotas.shared.members(quota):
                if not entry.seen.node and not self._is_handed_on(entry.seen):
                    self.pod_seen(entry.seen, now_s)
        for seen in list(self.others.values()):
            home = self.home(seen)
            if home is not None and home.of in changed and self.decides(seen):
                self.pod_seen(seen, now_s)

    def sort(self) -> None:
        """Look at every pending pod again."""
        now_s = self.now()
        for entry in list(self._cluster.every_pod()):
            seen = entry.seen
            if not seen.node and not seen.reservation and not self._is_handed_on(seen):
                self.pod_seen(seen, now_s)
        for seen in list(self.others.values()):
            if self.decides(seen):
                self.pod_seen(seen, now_s)
            else:
                self._note_home(seen, now_s)
        for reservation in list(self._reservations.values()):
            self.reservation_seen(reservation, now_s)
        for pending in self._cluster.plugins.reservations.without_node():
            if not self._owns(f"reservation:{pending.name}"):
                self.reservation_seen(pending, now_s)

    def in_flight(self) -> tuple[frozenset[str], frozenset[str], frozenset[PodHome]]:
        """Nodes and groups of binds that are decided or under way, and homes of these where room is lent. A pod that is
        placed by borrowed room is of its home's group.
        """
        shared, deciding = self._cluster.plugins.quotas.shared, list(self._cluster.closed.deciding())
        lends = self._territory.rooms or self._territory.rooms_away or self.is_asked
        groups, homes = set[str](), set[PodHome]()
        for entry in deciding:
            home = self.home(entry.seen) if lends or shared.has_taken(entry.seen.uid) else None
            if home is not None:
                homes.add(home)
            by_room = home is not None and shared.has_taken(entry.seen.uid)
            groups.add(home.group if by_room and home is not None else self.group(entry.seen))
        return frozenset(entry.node for entry in deciding), frozenset(groups), frozenset(homes)

    def _forget(self, uid: str) -> None:
        self._late.pop(uid, None)
        seen = self.others.pop(uid, None)
        if seen is not None and self.by_key.get(seen.pod.key) == uid:
            del self.by_key[seen.pod.key]
        if seen is not None:
            self._no_longer_borrows(uid)

"""Which pending pods and reservations the engine of a shard hears of: its own, and none of the others'.

Pods on nodes count in every engine. A pending pod of another shard is kept aside until it is bound or becomes ours. The
group of a pod may follow from objects that come later (its quota, its gang), so all are looked at again when the
territory or such an object has changed.
"""

from __future__ import annotations

from collections.abc import Callable

from cotenant.engine.cluster import Cluster
from cotenant.engine.sharding.territory import Territory
from cotenant.model.cluster.observed import ObservedPod
from cotenant.model.groups.quota import NAME as QUOTA_LABEL
from cotenant.model.groups.reservation import Reservation
from cotenant.policy.placement.gangs.spec import gang_key
from cotenant.policy.sharding.groups import Belonging, group_of

_REMEMBERED = 65536  # groups, all forgotten when there are more


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

    # ---- the group of a pod

    def group(self, seen: ObservedPod) -> str:
        """The key by which a pod has its shard."""
        if seen.reservation:
            return group_of(Belonging(seen.uid, reservation=seen.reservation))
        plugins, pod = self._cluster.plugins, seen.pod
        gang = gang_key(pod, seen.demands.gang)
        tree = plugins.quotas.tree_of(pod.namespace, pod.labels.get(QUOTA_LABEL) or "")
        controller = ""
        for owner in seen.owned_by:
            if owner.controller:
                controller = owner.uid
                break
        pinned = pod.node_affinity.pinned if pod.node_affinity is not None else None
        gangs = (gang, *plugins.gangs.tied_to(gang)) if gang else ()
        return group_of(Belonging(seen.uid, tree, gangs, pinned or "", controller))

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
        else:  # its bind is decided: it is looked at again when the answer is there
            self._cluster.pod_seen(seen, now_s)
            self._late[seen.uid] = seen

    def _is_handed_on(self, seen: ObservedPod) -> bool:
        if seen.node or seen.has_ended or seen.terminating or seen.scheduler not in self._schedulers:
            return True
        return self._owns(self.group(seen))

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
        self.sort()

    def sort(self) -> None:
        """Look at every pending pod again."""
        now_s = self.now()
        for entry in list(self._cluster.every_pod()):
            seen = entry.seen
            if not seen.node and not seen.reservation and not self._is_handed_on(seen):
                self.pod_seen(seen, now_s)
        for seen in list(self.others.values()):
            if self._owns(self.group(seen)):
                self.pod_seen(seen, now_s)
        for reservation in list(self._reservations.values()):
            self.reservation_seen(reservation, now_s)
        for pending in self._cluster.plugins.reservations.without_node():
            if not self._owns(f"reservation:{pending.name}"):
                self.reservation_seen(pending, now_s)

    def in_flight(self) -> tuple[frozenset[str], frozenset[str]]:
        """Nodes and groups of binds that are decided or under way."""
        deciding = list(self._cluster.closed.deciding())
        return frozenset(entry.node for entry in deciding), frozenset(self.group(entry.seen) for entry in deciding)

    def _forget(self, uid: str) -> None:
        self._late.pop(uid, None)
        seen = self.others.pop(uid, None)
        if seen is not None and self.by_key.get(seen.pod.key) == uid:
            del self.by_key[seen.pod.key]

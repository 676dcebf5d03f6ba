"""Gangs and their members, kept up to date by the events of pods and PodGroups.

PodGroups and pods arrive, change and leave in any order, and each such event may change whether hundreds of pods may be
scheduled. One record per gang (engine/plugins/gangs/members.py), changed by each event; gangs whose gate or key in the
queue may have changed, and gangs whose status may have, are noted and processed once before the next round
(engine/plugins/gangs/directory.py). That a gang was satisfied once is remembered while it has members. After a restart
it is derived from the members that are bound: at least the minimum, or any where the missing ones no longer exist.

Source: Koordinator, pkg/scheduler/plugins/coscheduling/core/gang_cache.go. Limits: a PodGroup has precedence over
annotations as a whole, not field by field.
"""

from __future__ import annotations

from dataclasses import replace
from math import inf

from cotenant.engine.framework.plugin import Plugin, PluginHost
from cotenant.engine.framework.pod_state import PodInfo, SchedulingState
from cotenant.engine.plugins.gangs.back_off import GangBackOffs
from cotenant.engine.plugins.gangs.gate import why_closed
from cotenant.engine.plugins.gangs.links import GangLinks
from cotenant.engine.plugins.gangs.members import Gang
from cotenant.model.cluster.demands import Demands
from cotenant.model.cluster.observed import ObservedPod, PodPhase
from cotenant.model.cluster.pod import Pod
from cotenant.model.groups.gang import POD_GROUP_APIS, SIGS_GROUP, GangMode, GangSpec, PodGroup, PodGroupStatus
from cotenant.model.groups.network_topology import DEFAULT, NetworkTopology
from cotenant.policy.placement.gangs.gather import gather
from cotenant.policy.placement.gangs.spec import from_pod, from_pod_group, gang_key


class GangMembership(Plugin):
    """Every gang that this scheduler knows, with its members."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[str, PodGroup]] = {}  # namespace/name -> API group -> PodGroup
        self._networks: dict[str, NetworkTopology] = {}  # by name; the one named DEFAULT counts
        self._ended: dict[str, tuple[str, PodPhase]] = {}  # uid of a member that has ended -> gang, phase
        self._once: set[str] = set()  # gangs that were satisfied once
        self._back_offs = GangBackOffs()
        self._start_empty()

    def _start_empty(self) -> None:
        self._gangs: dict[str, Gang] = {}
        self._of: dict[str, Gang] = {}  # uid -> its gang
        # Those whose members hold nodes, or that yield to another: every round asks for them.
        self._watched: dict[str, Gang] = {}
        self._links = GangLinks()
        self._with_min_resources: set[str] = set()
        self._bundles: dict[str, tuple[str, ...]] = {}
        self._reconsidered: dict[str, None] = {}  # gangs whose waiting members may have another gate or key now
        self._status_due: dict[str, None] = {}  # gangs whose status may have changed
        self._grew: dict[str, None] = {}  # gangs that got members and still wait for more
        self._reckoned: dict[str, None] = {}  # gangs of which other pods may be evictable now
        self.is_idle = not tuple(self._back_offs.each())  # until there is a gang

    # ---- PodGroups

    def attach(self, host: PluginHost) -> None:
        """See `Plugin`. PodGroups, ended members, back-offs and the gangs that were satisfied once are kept."""
        super().attach(host)
        self._start_empty()
        for key in self._groups:
            self._read_spec(self._gang(key))
        for uid, (key, phase) in self._ended.items():
            self._gang(key).ended[uid] = phase

    def pod_group_seen(self, group: PodGroup, now_s: float) -> None:
        """A PodGroup was created or changed."""
        groups = self._groups.setdefault(group.key, {})
        before = groups.get(group.api_group)
        groups[group.api_group] = group
        gang = self._gang(group.key)
        if before is not None and _asks(before) == _asks(group):
            if gang.group is before:
                gang.group = group
                self._note_status(gang, group.status)
            return
        self._read_spec(gang)
        if gang.group is group:
            self._note_status(gang, group.status)

    def pod_group_gone(self, key: str, now_s: float, api_group: str = SIGS_GROUP) -> None:
        """A PodGroup was deleted: that of the other API group counts, or the annotations of its pods."""
        groups = self._groups.get(key, {})
        if groups.pop(api_group, None) is None:
            return
        if not groups:
            del self._groups[key]
        gang = self._gang(key)
        self._read_spec(gang)
        self._drop_if_empty(gang)

    def network_topology_seen(self, network: NetworkTopology, now_s: float) -> None:
        """A ClusterNetworkTopology was created or changed."""
        if self._networks.get(network.name) != network:
            self._networks[network.name] = network
            self._read_gathered()

    def network_topology_gone(self, name: str, now_s: float) -> None:
        """A ClusterNetworkTopology was deleted."""
        if self._networks.pop(name, None) is not None:
            self._read_gathered()

    # ---- pods

    def tied_to(self, key: str) -> tuple[str, ...]:
        """The keys of all gangs that must be satisfied together with this one, as far as is known."""
        gang = self._gangs.get(key)
        return gang.spec.groups if gang is not None and gang.spec is not None else ()

    def skips(self, pod: Pod, demands: Demands) -> bool:
        """Pods of no gang."""
        return not gang_key(pod, demands.gang)

    def pod_arrived(self, entry: PodInfo) -> None:
        """See `Plugin`."""
        key = gang_key(entry.seen.pod, entry.seen.demands.gang)
        if not key:
            return
        gang = self._gang(key)
        self._of[entry.seen.uid] = gang
        gang.members[entry.seen.uid] = entry
        if gang.is_older(entry):
            gang.oldest = entry
            if gang.group is None:
                self._read_spec(gang)
        if not gang.open:
            self._grew[key] = None
        self._counts_changed(gang)

    def pod_left(self, entry: PodInfo) -> None:
        """See `Plugin`."""
        uid = entry.seen.uid
        gang = self._of.pop(uid, None)
        if gang is None:
            return
        gang.members.pop(uid, None)
        gang.placed.discard(uid)
        self._stop_holding(gang, uid)
        if gang.oldest is entry:
            gang.oldest = gang.find_oldest()
            if gang.group is None:
                self._read_spec(gang)
        if not gang.members:
            self._start_over(gang)
            self._back_offs.forget(gang.key)
        self._reconsidered[gang.key] = None  # it may have been the member that did not fit
        self._counts_changed(gang)
        self._drop_if_empty(gang)

    def reserve(self, entry: PodInfo, node: str) -> None:
        """A member was assigned to a node: it is bound, or waits for its gang there."""
        gang = self._of.get(entry.seen.uid)
        if gang is None:
            return
        if entry.state is SchedulingState.WAITING:
            gang.holding[entry.seen.uid] = entry
            gang.held_since_s = min(gang.held_since_s, entry.since_s)
            self._watched[gang.key] = gang
        else:
            gang.placed.add(entry.seen.uid)
        self._counts_changed(gang)

    def unreserve(self, entry: PodInfo) -> None:
        """A member was unassigned."""
        gang = self._of.get(entry.seen.uid)
        if gang is None or not entry.node:
            return
        gang.placed.discard(entry.seen.uid)
        self._stop_holding(gang, entry.seen.uid)
        if gang.satisfied and not gang.placed:  # its binds failed, or all members left: later ones are placed together
            self._start_over(gang)
            self._reconsidered[gang.key] = None
        self._counts_changed(gang)

    def allowed(self, entry: PodInfo) -> None:
        """A member that held a node is bound."""
        gang = self._of.get(entry.seen.uid)
        if gang is None:
            return
        self._stop_holding(gang, entry.seen.uid)
        gang.placed.add(entry.seen.uid)
        self._counts_changed(gang)

    def pod_updated(self, entry: PodInfo) -> None:
        """A member changed: it may run now."""
        gang = self._of.get(entry.seen.uid)
        if gang is None:
            return
        if gang.group is not None:
            self._status_due[gang.key] = None
        if entry.seen.terminating:
            self._reckoned[gang.key] = None

    def pod_ended(self, uid: str, seen: ObservedPod | None) -> None:
        """A pod has run to its end, or one that may have ended was deleted."""
        if seen is None:
            self._pod_deleted(uid)
            return
        key = gang_key(seen.pod, seen.demands.gang)
        if key and self._ended.get(seen.uid) != (key, seen.phase):
            self._ended[seen.uid] = (key, seen.phase)
            gang = self._gang(key)
            gang.ended[seen.uid] = seen.phase
            self._counts_changed(gang)

    def _pod_deleted(self, uid: str) -> None:
        key, _ = self._ended.pop(uid, ("", None))
        gang = self._gangs.get(key)
        if gang is not None:
            gang.ended.pop(uid, None)
            self._counts_changed(gang)
            self._drop_if_empty(gang)

    # ---- records

    def _gang(self, key: str) -> Gang:
        gang = self._gangs.get(key)
        if gang is None:
            gang = self._gangs[key] = Gang(key, satisfied=key in self._once)
            self.is_idle = False
            self._bundles.clear()
        return gang

    def _start_over(self, gang: Gang) -> None:
        """It no longer counts as satisfied."""
        gang.satisfied = False
        self._once.discard(gang.key)

    def _drop_if_empty(self, gang: Gang) -> None:
        if gang.members or gang.ended or gang.group is not None:
            return
        self._gangs.pop(gang.key, None)
        self._watched.pop(gang.key, None)
        self._links.put(gang.key, ())
        self._with_min_resources.discard(gang.key)
        self._once.discard(gang.key)
        self._back_offs.forget(gang.key)
        self._grew.pop(gang.key, None)
        self._bundles.clear()

    def _read_spec(self, gang: Gang) -> None:
        """Read its specification from the PodGroup, else from the oldest member."""
        before, group, obstacle = gang.spec, gang.group, gang.obstacle
        groups = self._groups.get(gang.key, {})
        gang.group = next((groups[name] for name in POD_GROUP_APIS if name in groups), None)
        if gang.group is None or group is None or gang.group.uid != group.uid:
            gang.status = gang.group.status if gang.group is not None else None
        if gang.group is not None:
            gang.spec, gang.problems = from_pod_group(gang.group)
            if len(groups) > 1:
                other = next(name for name in groups if name != gang.group.api_group)
                gang.problems += (f"the PodGroup of {other} does not count beside that of {gang.group.api_group}",)
        elif gang.oldest is not None:
            seen = gang.oldest.seen
            gang.spec, gang.problems = from_pod(gang.key, seen.pod.labels, seen.demands.gang)
        else:
            gang.spec, gang.problems = None, ()
        gang.obstacle = gang.group.obstacle if gang.group is not None else ""
        if gang.spec is not None and gang.spec.gather:
            self._gather(gang, gang.spec)
        if gang.group is not None and gang.group is not group:
            self._status_due[gang.key] = None
        if gang.spec == before and gang.obstacle == obstacle:
            return
        self._with_min_resources.discard(gang.key)
        if gang.spec is not None and gang.spec.min_resources:
            self._with_min_resources.add(gang.key)
        self._bundles.clear()
        self._links.put(gang.key, gang.spec.groups if gang.spec is not None else ())
        if before is not None:
            self._back_offs.forget(gang.key)
        for key in (gang.key, *self._dependents(gang.key)):
            if key != gang.key or gang.group is not group or group is not None or len(gang.members) > 1:
                self._reconsidered[key] = None
        self._counts_changed(gang)

    def _gather(self, gang: Gang, spec: GangSpec) -> None:
        """Join its gather rules with the layers of the cluster's network."""
        network = self._networks.get(DEFAULT)
        found = gather(spec.gather, network)
        gang.spec = replace(spec, topology=found.topology)
        gang.obstacle = found.obstacle if spec.mode is GangMode.STRICT else ""  # others are not gathered
        wrong = network.wrong if network is not None else ()
        gang.problems += (*found.messages, *(f"ClusterNetworkTopology {DEFAULT}: {name}" for name in wrong))

    def _read_gathered(self) -> None:
        """Read the specifications of all gangs with gather rules again."""
        for gang in tuple(self._gangs.values()):
            if gang.spec is not None and gang.spec.gather:
                self._read_spec(gang)

    def _counts_changed(self, gang: Gang) -> None:
        """Note whether it is satisfied now, which gates opened or closed, and that its status may have changed."""
        if gang.group is not None:
            self._status_due[gang.key] = None
        if gang.placed:
            self._reckoned[gang.key] = None
        if not gang.satisfied and gang.spec is not None and gang.placed and gang.bound() >= gang.spec.min_available:
            gang.satisfied = True
            gang.why = ""
            self._once.add(gang.key)
            self._back_offs.forget(gang.key)
            for key in (gang.key, *self._dependents(gang.key)):
                self._reconsidered[key] = None
        for key in (gang.key, *self._dependents(gang.key)):
            other = self._gangs[key]
            opens = not self._why_closed(other)
            if opens != other.open:
                other.open = opens
                self._reconsidered[key] = None
                if opens:
                    self._grew.pop(key, None)
                    self._opened(key)

    def _note_status(self, gang: Gang, status: PodGroupStatus) -> None:
        """The status as its PodGroup has it now: what differs from the gang's is written again."""
        if gang.status != status:
            gang.status = status
            self._status_due[gang.key] = None

    def _opened(self, key: str) -> None:
        """The gate of a gang opened."""

    def _why_closed(self, gang: Gang) -> str:
        return why_closed(gang, self._gangs, self._links.named)

    def _dependents(self, key: str) -> tuple[str, ...]:
        """Other gangs that need this one."""
        return tuple(other for other in self._links.needing(key) if other in self._gangs)

    def _stop_holding(self, gang: Gang, uid: str) -> None:
        if gang.holding.pop(uid, None) is not None and not gang.holding:
            gang.held_since_s = inf
            if not gang.yields_to:
                self._watched.pop(gang.key, None)


def _asks(group: PodGroup) -> PodGroup:
    """All but its status."""
    return replace(group, status=PodGroupStatus(group.key, group.uid))

"""The parts of device claims that need no node: what a pod waits for, what makes pods alike, what wakes them, and which
claims are given back.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from math import inf
from types import MappingProxyType

from cotenant.engine.framework.events import EventKind
from cotenant.engine.framework.plugin import Plugin, PluginHost
from cotenant.engine.framework.pod_state import PodInfo
from cotenant.engine.framework.queueing import PlacementVerdict
from cotenant.engine.rules.claims.instructions import ReleaseClaim
from cotenant.engine.rules.claims.rules import PLUGIN, ClaimRules
from cotenant.engine.rules.claims.verdicts import Work
from cotenant.model.claims.claim import ResourceClaim
from cotenant.model.claims.requests import ClaimSpec
from cotenant.model.cluster.demands import Demands
from cotenant.model.cluster.pod import Pod

TOLD_AFTER_S = 1.0  # claims from templates are made a moment after their pods
JUDGING = "nodes are being judged for the claims of the pod"


class ClaimGate(Plugin):
    """Meets pods that need claims, or request resources that classes may stand for."""

    name = PLUGIN
    events = MappingProxyType(
        {
            PLUGIN: frozenset(
                {EventKind.NODE_ADDED, EventKind.NODE_CHANGED, EventKind.CLAIM, EventKind.DEVICES, EventKind.POD_GONE}
            )
        }
    )
    gathers = True

    def __init__(self, rules: ClaimRules) -> None:
        self._rules = rules
        self._until_judged: dict[tuple[ClaimSpec, ...], dict[str, None]] = {}  # UIDs of pods that are kept back
        self._untold: dict[str, float] = {}  # UIDs of pods that were not told yet why they wait -> when they are
        self._told: set[str] = set()
        self._released: dict[str, int] = {}  # claim -> its version when it was to be given back
        self.is_idle = not (rules.verdicts.left_over or rules.facts.waiting)  # until a claim or a pod with one is seen

    def attach(self, host: PluginHost) -> None:
        """Set the receivers of events."""
        super().attach(host)
        self._until_judged.clear()
        self._untold.clear()
        self._told.clear()
        facts = self._rules.facts
        facts.freed = lambda: host.happened(EventKind.CLAIM)
        facts.devices = lambda: host.happened(EventKind.DEVICES)
        facts.permits = self._permits_changed
        facts.claim = self._claim_changed

    def skips(self, pod: Pod, demands: Demands) -> bool:
        """Pods without claims."""
        return demands.claims is None

    def pre_enqueue(self, entry: PodInfo) -> str:
        """The claim that the pod waits for, or that nodes are still judged for its claims; empty for none."""
        self.is_idle, rules = False, self._rules
        resolved = rules.resolved(entry.number)
        if resolved.obstacle:
            made = rules.facts.made_for.get((entry.seen.pod.namespace, entry.seen.uid))
            if made is not None and made.allocation is None and not made.is_ending and entry.seen.demands.claims:
                self._release(made, entry.seen.uid)
            self._tell(entry.seen.uid)
            return resolved.obstacle
        for _, specs, _ in rules.asks(entry.number, resolved):
            if specs and not rules.verdicts.is_judged(specs, rules.judging):
                self._until_judged.setdefault(specs, {})[entry.seen.uid] = None
                self._tell(entry.seen.uid)
                return JUDGING
        self._forget(entry.seen.uid)
        return ""

    def _tell(self, uid: str) -> None:
        """Have the pod told in a moment why it waits, unless it was."""
        if uid not in self._told:
            self._untold.setdefault(uid, inf)

    def _forget(self, uid: str) -> None:
        self._untold.pop(uid, None)
        self._told.discard(uid)

    def sign(self, entry: PodInfo) -> Hashable:
        """Pods whose claims are satisfied alike are judged together."""
        return self._rules.key_of(entry.number)

    def post_filter(self, pods: Sequence[PodInfo], verdict: PlacementVerdict, now_s: float) -> PlacementVerdict:
        """Give back claims that keep their only pod, or all pods of their group, from every node."""
        of_groups: set[str] = set()  # looked at: all pods of a gang share them
        for entry in pods if PLUGIN in verdict.filters else ():
            needs = self._rules.pods[entry.number].needs
            for claim, _ in self._rules.resolved(entry.number).allocated:
                group = needs.group_of(claim.key)
                if group is not None:
                    if claim.key in of_groups:
                        continue
                    of_groups.add(claim.key)
                    if self._is_used(claim.key):
                        continue
                uid = entry.seen.uid if group is None else group.uid
                if claim.allocation is not None and set(claim.reserved_for) <= {uid}:
                    self._release(claim, uid)
        return verdict

    def _is_used(self, claim: str) -> bool:
        return any(self._rules.pods[number].node for number in self._rules.users.get(claim, ()))

    def _release(self, claim: ResourceClaim, consumer_uid: str) -> None:
        """Ask once for each version of the claim."""
        if self._released.get(claim.uid) == claim.version:
            return
        if len(self._released) > 1024:
            self._released.clear()
        self._released[claim.uid] = claim.version
        self.host.say(ReleaseClaim(claim.key, claim.uid, consumer_uid, claim.is_for_extended))

    def pod_arrived(self, entry: PodInfo) -> None:
        """It may use its claims."""
        self._rules.facts.pod_arrived(entry.seen.uid)

    def pod_left(self, entry: PodInfo) -> None:
        """Its claims are used no longer; whatever controls them frees their devices."""
        self._forget(entry.seen.uid)
        self._rules.facts.pod_left(entry.seen.uid)

    def turn(self, now_s: float) -> None:
        """Judge what was left over; refuse claims whose devices are not ready in time."""
        self._rules.readiness.now_s = now_s
        for uid, at_s in list(self._untold.items()):
            if at_s == inf:
                self._untold[uid] = now_s + TOLD_AFTER_S
            elif at_s <= now_s:
                del self._untold[uid]
                self._told.add(uid)
                self.host.reconsider(uid)
        verdicts, work = self._rules.verdicts, Work()
        for claims in list(verdicts.left_over):
            if verdicts.of(claims, self._rules.judging, work).is_complete:
                self.host.happened(EventKind.CLAIM)
                for uid in self._until_judged.pop(claims, ()):
                    self.host.reconsider(uid)
            if work.left <= 0:
                break

    def next_s(self) -> float:
        """At once while something is left over."""
        if self._rules.verdicts.left_over or inf in self._untold.values():
            return -inf
        return min(self._untold.values(), default=inf)

    def snapshot(self) -> Callable[[], None]:
        """See `Plugin`."""
        put_back, released = self._rules.snapshot(), dict(self._released)
        untold, told = dict(self._untold), set(self._told)
        waiting = {claims: dict(uids) for claims, uids in self._until_judged.items()}

        def restore() -> None:
            put_back()
            self._released = dict(released)
            self._untold, self._told = dict(untold), set(told)
            self._until_judged = {claims: dict(uids) for claims, uids in waiting.items()}

        return restore

    def validate(self, pods: Mapping[str, PodInfo]) -> None:
        """The rule validates itself."""

    def _permits_changed(self) -> None:
        """Classes, or labels of namespaces: obstacles of any pod."""
        for pod in self._rules.pods.values():
            if not pod.node:
                self.host.reconsider(pod.needs.uid)

    def _claim_changed(self, key: str) -> None:
        self.is_idle = False
        for number in self._rules.users.get(key, ()):
            pod = self._rules.pods[number]
            if not pod.node:
                self.host.reconsider(pod.needs.uid)

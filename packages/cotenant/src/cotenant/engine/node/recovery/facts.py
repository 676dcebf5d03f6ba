"""What one step of an incident is decided on: the node's state and samples, and which pods are cleared.

The order of the rungs and the choice of one need the same answers about pods, trouble and cause. One frozen value a
sample with those questions.
Limits: none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from cotenant.engine.node.recovery.incident import Incident
from cotenant.engine.node.recovery.settings import RecoverySettings
from cotenant.model.machine.node_state import NodeState, PodUse
from cotenant.policy.interference.attribution.answer import Attribution
from cotenant.policy.interference.attribution.attribute import attribute
from cotenant.policy.interference.attribution.causes import TroubleCause
from cotenant.policy.interference.attribution.samples import NodeSamples
from cotenant.policy.interference.attribution.settings import EvidenceSignal

_GAP_SHARE = 10  # of the time since the beginning


@dataclass(frozen=True, slots=True)
class ClearedCulprit:
    """A culprit whose limits did not help a service."""

    culprit: str  # uid of the pod, or a workload
    victim: str  # uid
    until_us: int


@dataclass(frozen=True, slots=True)
class RecoveryFacts:
    """What a step is decided on."""

    state: NodeState
    history: NodeSamples
    cleared: Sequence[ClearedCulprit]
    settings: RecoverySettings
    may_ask: bool = True  # False: as many causes as one sample allows were asked already

    @property
    def now_us(self) -> int:
        """The time of the sample."""
        return self.state.at_us

    def entry(self, uid: str) -> PodUse | None:
        """A pod of the node."""
        return next((entry for entry in self.state.pods if entry.pod.uid == uid), None)

    def members(self, culprit: str) -> tuple[PodUse, ...]:
        """The pods that a culprit is: the one of this uid, or the best-effort pods of this workload; none where it
        has left.
        """
        return tuple(
            entry
            for entry in self.state.pods
            if entry.pod.uid == culprit or (entry.pod.best_effort and entry.pod.workload == culprit)
        )

    def names(self, found: Attribution | None, culprit: str) -> bool:
        """Whether an attribution names this culprit, or a pod of it."""
        if found is None or found.culprit is None:
            return False
        named = found.culprit
        return named.identity == culprit or any(entry.pod.uid == named.uid for entry in self.members(culprit))

    def held(self, culprit: str, victim: str) -> str:
        """Why nothing may be begun for this service against this culprit; "" = it may."""
        known = self.state.held
        if not known:
            return ""
        pods = (*self.members(culprit), *filter(None, (self.entry(victim),)))
        return next((known[entry.pod.namespace] for entry in pods if entry.pod.namespace in known), "")

    def in_trouble(self, uid: str) -> bool:
        """Whether a service is in trouble."""
        return self.history.in_trouble(uid, self.settings.attribution)

    def is_bad(self, uid: str) -> bool:
        """Whether the last sample of a service exceeds its threshold."""
        settings = self.settings.attribution
        signal = self.history.deciding(uid, settings)
        threshold = None if signal is None else self.history.threshold_ppm(uid, signal, settings)
        if signal is None or threshold is None:
            return False
        return self.history.samples[-1].services[uid].levels.get(signal, 0) > threshold

    def misses(self, uid: str) -> bool:
        """Whether the last sample of a service is above an objective of its latency."""
        return self.history.deciding(uid, self.settings.attribution) is EvidenceSignal.LATENCY and self.is_bad(uid)

    def is_cleared(self, culprit: str, victim: str) -> bool:
        """Whether the pod or workload must not be named for the service now."""
        return any(
            cleared.culprit == culprit and cleared.victim == victim and self.now_us < cleared.until_us
            for cleared in self.cleared
        )

    def cause(self, incident: Incident) -> Attribution | None:
        """The attribution now; a pod that is cleared, or has left, is no culprit. While it is acted on, it is asked of
        the same part of the trouble as before: in the last seconds alone who is held looks idle.
        """
        entry = self.entry(incident.victim)
        if entry is None:
            return None
        acted_on = incident.acted_on if incident.lease is not None else None
        since_us = None if acted_on is None else max(0, acted_on.since_us - 1)
        found = attribute(self.history, self.state, entry, self.settings.attribution, since_us)
        if found is None or found.culprit is None:
            return found
        culprit = found.culprit.identity
        if not self.members(culprit) or self.is_cleared(culprit, incident.victim):
            return replace(found, cause=TroubleCause.UNKNOWN, culprit=None)
        return found

    def is_due(self, incident: Incident) -> bool:
        """Whether the cause is to be asked again: the longer the trouble lasts, the less often."""
        if not self.may_ask:
            return False
        if incident.asked_us is None:
            return True
        gap_us = min(self.settings.longest_gap_us, (self.now_us - incident.opened_us) // _GAP_SHARE)
        return self.now_us - incident.asked_us >= gap_us

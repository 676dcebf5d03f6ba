"""Amounts by the policy `predicted`: what prod and mid pods will not use for the next hour, and for longer stays.

Each node and resource is a series of use by the hour; nodes of one instance type are of one kind, and so are those that
their owner calls by one name (the label `cotenant.io/shared-use`): of these a federation's clusters learn from one
another. Until a series can be predicted, the amount is that of `peak`. Beside the amount stands what of it holds for
longer: a scheduler that knows how long a pod stays places it by that.
Limits: what a node's pods are is not looked at: a pod that has just come counts by its request until it is measured.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence

from cotenant.engine.prediction.use_by_hour import UseByHour
from cotenant.model.cluster.labels import Labels
from cotenant.model.prediction.hour import HourOfUse
from cotenant.model.prediction.shared_use import UseEvidence
from cotenant.policy.overcommit.facts import Amount, Policy, summed
from cotenant.policy.overcommit.peak import MeasuredPodUse

MAX_UNSTORED = 48  # hours that nobody asked for; older ones are given up
SHARED_LABEL = "cotenant.io/shared-use"
KIND_LABEL = "node.kubernetes.io/instance-type"


class NodePrediction:
    """Use of nodes by the hour. Times are Unix seconds."""

    def __init__(self) -> None:
        self.use = UseByHour()
        self._finished: deque[HourOfUse] = deque(maxlen=MAX_UNSTORED)
        self._shared: dict[str, str] = {}  # kind -> the name that other clusters have for it

    def learn(
        self,
        node: str,
        labels: Labels,
        resource: str,
        pods: Mapping[str, MeasuredPodUse],
        capacity: int,
        now_s: float,
    ) -> None:
        """Take in a measurement of a node."""
        if capacity > 0:
            kind = f"{resource} {labels.get(KIND_LABEL) or ''}"
            if shared := labels.get(SHARED_LABEL):
                kind = f"{resource} shared as {shared}"
                self._shared[kind] = f"{shared.lower()}.{resource.rpartition('/')[2]}"
            used = sum(pod.use for pod in pods.values() if pod.use is not None)
            self._finished.extend(self.use.measured(_series(node, resource), kind, used / capacity, now_s))

    def learned(self) -> tuple[UseEvidence, ...]:
        """Of each shared kind what was learned here; its name only where that is too little."""
        return tuple(self.use.learned(kind, name) for kind, name in sorted(self._shared.items()))

    def begin_with(self, others: Sequence[UseEvidence]) -> None:
        """What other clusters learned of shared kinds."""
        by_name = {found.name: found for found in others if found.hours}
        self.use.begin_with({kind: by_name[name] for kind, name in self._shared.items() if name in by_name})

    def finished(self) -> tuple[HourOfUse, ...]:
        """Hours that are over and were not asked for yet."""
        found = tuple(self._finished)
        self._finished.clear()
        return found

    def amount(
        self,
        node: str,
        resource: str,
        pods: Mapping[str, MeasuredPodUse],
        capacity: int,
        beside: int,
        risk: float,
        limit_pct: int | None,
        now_s: float,
    ) -> tuple[Amount, Mapping[int, int]] | None:
        """The amount of one resource for the next hour, and by longer horizons in hours what of it holds; None where
        too little is known. `beside` is the larger of system use and reservation.
        """
        used = sum(pod.use for pod in pods.values() if pod.use is not None)
        unmeasured = sum(pod.request for pod in pods.values() if pod.use is None)
        most = capacity if limit_pct is None else capacity * limit_pct // 100
        found: dict[int, int] = {}
        for hours in self.use.settings.horizons_h:
            below = self.use.below(_series(node, resource), hours, risk, used / max(1, capacity), now_s)
            if below is None:
                return None
            found[hours] = round(below * capacity)
        first, *longer = sorted(found)
        amount = summed(
            resource,
            Policy.PREDICTED,
            ("capacity", capacity),
            ("system", -beside),
            ("use of prod and mid pods", -used),
            (f"highest of the next hour above it, at {100 * risk:g} % risk", used - found[first]),
            ("unmeasured pods", -unmeasured),
        )
        amount = amount.then(f"limit of {limit_pct} %", min(amount.value, most))
        room = capacity - beside - unmeasured
        return amount, {hours: max(0, min(amount.value, room - found[hours])) for hours in longer}


def _series(node: str, resource: str) -> str:
    return f"node/{node}/{resource}"

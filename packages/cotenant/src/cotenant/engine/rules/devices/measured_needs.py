"""What pods take of their GPUs, as their nodes measured it, for the pods to come that are like them.

What an owner writes about his pods is a claim; what a node's agent reports is not. Pods are alike that run the same
images and request the same in one namespace. Their use of a card is averaged with weights that fall by a half in
`_HALF` reports; from `MIN_REPORTS` on it counts instead of what the annotation says about multiprocessors and
bandwidth, in steps of five percent, so that one more report seldom changes anything.
Limits: beside others on its card a pod takes less than it would alone; the phase and the growth of a cache are not
measured, the pod's own words count for them; learnt anew by each scheduler.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from cotenant.model.cluster.demands import Demands
from cotenant.model.cluster.pod import Pod
from cotenant.model.devices.card_need import PERCENT, CardNeed, phase_of
from cotenant.model.devices.request import RESOURCES
from cotenant.model.machine.node_metric import PodSignals

MIN_REPORTS = 8
_STEP = 5  # percent
_HALF = 30  # reports
_MOST = 10_000  # likenesses; then those that no pod has are forgotten
_Likeness = tuple[str, tuple[str, ...], tuple[tuple[str, int], ...]]


@dataclass(frozen=True, slots=True)
class CardNeedMean:
    """Means of what pods that are alike took, shares of one card."""

    reports: int = 0
    sm: float = 0.0
    bandwidth: float = 0.0

    def added(self, sm: float, bandwidth: float) -> CardNeedMean:
        """With one more report."""
        weight = max(1.0 / (self.reports + 1), 1.0 - 0.5 ** (1.0 / _HALF))
        return CardNeedMean(
            self.reports + 1, self.sm + weight * (sm - self.sm), self.bandwidth + weight * (bandwidth - self.bandwidth)
        )


@dataclass(frozen=True, slots=True)
class _Followed:
    pod: Pod
    demands: Demands
    number: int


class MeasuredNeeds:
    """The needs of all pods that are alike. Mutable."""

    def __init__(self) -> None:
        self._needs: dict[_Likeness, CardNeedMean] = {}
        self._pods: dict[str, _Followed] = {}  # by namespace/name

    def copy(self) -> MeasuredNeeds:
        """What was measured, without the pods."""
        made = MeasuredNeeds()
        made._needs = dict(self._needs)
        return made

    def follow(self, number: int, pod: Pod, demands: Demands) -> CardNeed:
        """Begin with a pod. Returns what it needs."""
        self._pods[pod.key] = _Followed(pod, demands, number)
        return self.of(pod, demands)

    def forget(self, number: int, key: str) -> None:
        """The pod has left."""
        if key in self._pods and self._pods[key].number == number:
            del self._pods[key]

    def of(self, pod: Pod, demands: Demands) -> CardNeed:
        """What a pod needs: as measured of its like, else as it says; its phase by its role where it says none."""
        need = demands.card_need
        if need.phase is None:
            need = replace(need, phase=phase_of(pod.labels))
        found = self._needs.get(_likeness(pod))
        if found is None or found.reports < MIN_REPORTS:
            return need
        return replace(need, sm=_percent(found.sm), bandwidth=_percent(found.bandwidth))

    def sentence(self, pod: Pod, need: CardNeed) -> str:
        """What was measured of its like; empty where too little was."""
        found = self._needs.get(_likeness(pod))
        if found is None or found.reports < MIN_REPORTS:
            return ""
        what = f"{need.sm} % of its multiprocessors and {need.bandwidth} % of its memory bandwidth"
        return f"{what}, by {found.reports} reports of pods like it"

    def number_of(self, key: str) -> int | None:
        """The pod of this name."""
        found = self._pods.get(key)
        return None if found is None else found.number

    def measured(self, key: str, signals: PodSignals) -> Iterator[tuple[int, Pod, Demands]]:
        """A report of a pod. Returns all pods whose need it changed."""
        followed = self._pods.get(key)
        if followed is None or signals.gpu_sm is None or signals.gpu_bandwidth is None:
            return
        likeness = _likeness(followed.pod)
        before = self.of(followed.pod, followed.demands)
        self._needs[likeness] = self._needs.get(likeness, CardNeedMean()).added(signals.gpu_sm, signals.gpu_bandwidth)
        if len(self._needs) > _MOST:
            here = {_likeness(one.pod) for one in self._pods.values()}
            self._needs = {like: need for like, need in self._needs.items() if like in here}
        if self.of(followed.pod, followed.demands) != before:
            for one in list(self._pods.values()):
                if _likeness(one.pod) == likeness:
                    yield one.number, one.pod, one.demands


def _likeness(pod: Pod) -> _Likeness:
    return pod.namespace, pod.images, tuple(part for part in pod.requests if part[0] in RESOURCES)


def _percent(share: float) -> int:
    return min(PERCENT, _STEP * round(share * PERCENT / _STEP))

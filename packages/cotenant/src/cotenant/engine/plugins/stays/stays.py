"""How long pods stay, from those of the same owner that have ended.

Most pods of an owner stay no longer than three of four did before. An owner with fewer than `MIN_SAMPLES` ended pods is
taken for its namespace, that for all; where nothing has ended, nothing is known.
Limits: pods that still run teach nothing, so an owner whose pods never end is not known by them.
"""

from __future__ import annotations

import re
from collections import OrderedDict, deque
from collections.abc import Callable

from cotenant.model.cluster.observed import ObservedPod

MIN_SAMPLES, MAX_SAMPLES, MAX_OWNERS = 3, 32, 10_000
_RUN_OF = re.compile(r"-\d{6,}$")  # a CronJob's Job has the time of its run as the end of its name
_HASH_OF = re.compile(r"-[a-z0-9]{5,10}$")  # a Deployment's ReplicaSet, the hash of its template


class Stays:
    """Seconds by owner."""

    def __init__(self) -> None:
        self.of: OrderedDict[str, deque[float]] = OrderedDict()  # the last that learned comes last

    def ended(self, owner: str, stay_s: float) -> None:
        """A pod of the owner has ended after so long."""
        for key in (owner, owner.partition("/")[0], ""):
            known = self.of.setdefault(key, deque(maxlen=MAX_SAMPLES))
            known.append(max(0.0, stay_s))
            self.of.move_to_end(key)
        while len(self.of) > MAX_OWNERS:
            self.of.popitem(last=False)

    def captured(self) -> Callable[[], Stays]:
        """A maker of the same, which reads nothing of this one later."""
        kept = [(key, tuple(known)) for key, known in self.of.items()]

        def make() -> Stays:
            made = Stays()
            made.of.update((key, deque(known, maxlen=MAX_SAMPLES)) for key, known in kept)
            return made

        return make

    def expected_s(self, owner: str) -> float | None:
        """How long a pod of the owner stays; None where nothing is known."""
        for key in (owner, owner.partition("/")[0], ""):
            known = sorted(self.of.get(key, ()))
            if len(known) >= MIN_SAMPLES:
                return known[-(-3 * len(known) // 4) - 1]
        return None


def owner_of(seen: ObservedPod) -> str:
    """Namespace, kind and name of what a pod belongs to, the same for each run and each template of it."""
    namespace = seen.pod.namespace
    if seen.workload is not None:
        return f"{namespace}/{seen.workload.owner.kind}/{seen.workload.owner.name}"
    for owner in seen.owned_by:
        if owner.controller:
            name = owner.name
            if owner.kind == "Job":
                name = _RUN_OF.sub("", name)
            elif owner.kind == "ReplicaSet":
                name = _HASH_OF.sub("", name)
            return f"{namespace}/{owner.kind}/{name}"
    return f"{namespace}/Pod/{seen.pod.name}"

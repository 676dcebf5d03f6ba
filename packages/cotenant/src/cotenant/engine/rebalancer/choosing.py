"""Answers of one round about single pods: whether each may move with the moves so far counted, and where it lands.

All kinds of moves of a round share limits, budgets and the simulated cluster, and some must be taken back because a
later part of the same purpose fails. One value that policies ask as their `MoveDecider`; `trial` takes everything back
unless it is kept.
Limits: see `LandingSimulator` and `Undo`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from cotenant.engine.cluster import Cluster
from cotenant.engine.framework.pod_state import PodInfo
from cotenant.engine.rebalancer.landing import LandingSimulator
from cotenant.engine.rebalancer.plan import PredictedEffect
from cotenant.engine.rebalancer.prediction import PRIOR, effect_of, growth_of
from cotenant.engine.rebalancer.round_limits import RoundLimits, controller
from cotenant.policy.rebalance.loads.low_node_load import Landing
from cotenant.policy.rebalance.loads.order import LoadPod

Rate = Callable[[str, int, int], str]

_MAX_TARGETS = 3  # nodes on which a landing is tried before the pod stays


@dataclass(slots=True)
class MoveTrial:
    """Whether what was simulated counts."""

    kept: bool = False


class RoundChoice:
    """See `MoveDecider` (policy/rebalance/loads). `never`: why a pod may never move, asked by kinds whose pods were not
    filtered before.
    """

    def __init__(
        self,
        cluster: Cluster,
        limits: RoundLimits,
        simulator: LandingSimulator,
        entries: dict[str, PodInfo],
        replicas: Mapping[str, int],
        rate: Rate,
    ) -> None:
        self.cluster, self.simulator = cluster, simulator
        self.entries = entries  # pods that were considered, by UID
        self.effects: dict[str, PredictedEffect | None] = {}  # of moves, by UID
        self._limits, self._replicas, self._rate = limits, replicas, rate
        self._moved: Counter[str] = Counter()  # by UID of the controller
        self._landed: list[PodInfo] = []  # in order

    def admit(self, pod: LoadPod, node: str) -> str:
        """Why the pod may not move now; empty = it may."""
        entry = self.entries[pod.uid]
        refused = self._limits.several_budgets(entry) or self._limits.refuses(entry, node)
        owner = controller(entry)
        if refused or owner is None:
            return refused
        return self._rate(owner.uid, self._replicas.get(owner.uid, 1), self._moved[owner.uid])

    def land(
        self, pod: LoadPod, node: str, targets: Sequence[str], *, unharmed: bool = False, by_prior: bool = False
    ) -> Landing:
        """Where the pod would be placed if only these nodes were offered; it counts there from then on, and as
        moved. `unharmed`: not where predicted violations grow; then up to three nodes are tried. `by_prior`: also
        where all that is known of the pod is what is assumed of every application.
        """
        entry = self.entries[pod.uid]
        effects: dict[str, PredictedEffect | None] = {}  # by node that was tried
        harmed: dict[str, str] = {}

        def refuses(target: str) -> str:
            moved = self.cluster.find(pod.key)  # counts on the target now
            effect = effects[target] = effect_of(self.cluster, moved, node, target) if moved is not None else None
            is_predicted = effect is not None and (by_prior or effect.basis != PRIOR)
            why = growth_of(effect) if unharmed and is_predicted else ""
            if why:
                harmed[target] = f"on {target} {why}"
            return why

        found = self.simulator.land(entry, targets, refuses)
        while not found.node and 0 < len(harmed) < min(_MAX_TARGETS, len(targets)):
            tried = len(harmed)
            found = self.simulator.land(entry, [name for name in targets if name not in harmed], refuses)
            if len(harmed) == tried:
                break  # refused for another reason
        if not found.node:
            return Landing("", "; ".join(harmed.values())) if harmed else found
        self._landed.append(entry)
        self._limits.moved(entry, node)
        owner = controller(entry)
        self._moved[owner.uid if owner is not None else ""] += 1
        self.effects[pod.uid] = effects[found.node]
        return found

    @contextmanager
    def landings(self) -> Iterator[MoveTrial]:
        """Take back what lands in it, unless its `kept` is set. It costs what moved, where `trial` costs a look at
        every pod of the cluster; so pods that go back are as if they had been seen anew, and a pod that waited and was
        placed in between stays placed.
        """
        restore, moved, landed = self._limits.saved(), self._moved.copy(), len(self._landed)
        trial = MoveTrial()
        yield trial
        if trial.kept:
            return
        while len(self._landed) > landed:
            seen = self._landed.pop().seen
            self.simulator.take_back(seen)
            again = self.cluster.find(seen.pod.key)
            if again is not None:
                self.entries[seen.uid] = again
        restore()
        self._moved = moved

    @contextmanager
    def trial(self) -> Iterator[MoveTrial]:
        """Take back what is simulated in it, unless its `kept` is set."""
        undo, restore, moved = self.cluster.checkpoint(), self._limits.saved(), self._moved.copy()
        landed = len(self._landed)
        trial = MoveTrial()
        yield trial
        if not trial.kept:
            undo.restore()
            restore()
            self._moved = moved
            del self._landed[landed:]


class UnharmedChoice:
    """The choice of moves that serve load only: a landing on which predicted violations grow is refused."""

    def __init__(self, choice: RoundChoice) -> None:
        self._choice = choice

    def admit(self, pod: LoadPod, node: str) -> str:
        """See `MoveDecider`."""
        return self._choice.admit(pod, node)

    def land(self, pod: LoadPod, node: str, targets: Sequence[str]) -> Landing:
        """See `MoveDecider`."""
        return self._choice.land(pod, node, targets, unharmed=True, by_prior=True)

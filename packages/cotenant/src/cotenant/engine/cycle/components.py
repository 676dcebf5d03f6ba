"""The state that a cluster's engine derives from its facts: assignments, queue, nominations, and the code that decides
over them.

All derived state must be rebuilt from the facts while other objects keep references to it. One holder; users read a
component from the holder each time, and `start_empty` replaces all of them together.
Limits: the components themselves do not know the holder.
"""

from __future__ import annotations

import numpy as np

from cotenant.engine.cycle.eviction.clearing import Clearing
from cotenant.engine.cycle.eviction.losses import JobLosses
from cotenant.engine.cycle.eviction.nominations import Nominations
from cotenant.engine.cycle.eviction.preempting import Preempting
from cotenant.engine.cycle.eviction.preemption import DisruptionBudgets
from cotenant.engine.cycle.eviction.room_elsewhere import RoomElsewhere
from cotenant.engine.cycle.placing import Placing
from cotenant.engine.cycle.queue import SchedulingQueue
from cotenant.engine.cycle.round_placing import RoundPlacing, of_round_policy
from cotenant.engine.cycle.score_parts import ScoreListener
from cotenant.engine.framework.budget import JudgementBudget
from cotenant.engine.framework.node_rules import NodeRules
from cotenant.engine.framework.plugin import Plugin
from cotenant.engine.framework.pod_state import PodInfo
from cotenant.engine.framework.roster import Roster
from cotenant.engine.framework.settings import EngineSettings
from cotenant.engine.state.assignments import Assignments
from cotenant.engine.state.learned_profiles import ProfileStore
from cotenant.engine.state.verdict_cache import BY_TIME, VerdictCache
from cotenant.policy.placement.contract import RoundPolicy
from cotenant.policy.placement.profiles import PlacementProfile


class ClusterComponents:
    """The derived parts of one cluster."""

    assignments: Assignments
    queue: SchedulingQueue
    nominations: Nominations
    placing: Placing
    preempting: Preempting
    clearing: Clearing
    elsewhere: RoomElsewhere

    def __init__(
        self,
        policy: PlacementProfile | RoundPolicy,
        rng: np.random.Generator,
        settings: EngineSettings,
        budgets: DisruptionBudgets,
        node_rules: tuple[NodeRules, ...],
        plugins: tuple[Plugin, ...],
    ) -> None:
        self.roster = Roster(plugins)
        self.losses = JobLosses(self.roster, self._is_going)
        self.witness: ScoreListener | None = None
        self._node_rules = node_rules
        self.profile = policy if isinstance(policy, PlacementProfile) else of_round_policy(policy)
        self._round_policy = None if isinstance(policy, PlacementProfile) else policy
        self._rng = rng
        self._settings = settings
        self._budgets = budgets
        self.budget = JudgementBudget(settings.cpu_s)
        self.profiles = ProfileStore() if self.profile.learns_interference else None
        self.start_empty()

    def start_empty(self) -> None:
        """Forget everything derived from facts; what was learned from measurements is kept."""
        profile = self.profile
        self.assignments = Assignments(
            profile.knobs,
            VerdictCache(_uncachable_first(profile, self._settings.also_scored_by).score),
            self._node_rules,
            self.roster,
            self.profiles,
        )
        self.assignments.narrowing.terms.check = self.budget.check
        self.assignments.narrowing.terms.scorings = {
            "" if other is profile else other.name: other.kube
            for other in (profile, *self._settings.also_scored_by)
            if other.kube is not None
        }
        self.queue = SchedulingQueue(self._settings.backoff, self._settings.flush_s)
        self.nominations = Nominations(self.assignments)
        if self._round_policy is None:
            self.placing = Placing(
                self.assignments,
                profile,
                self._rng,
                self._settings.detailed_records,
                self._settings.also_scored_by,
            )
        else:
            self.placing = RoundPlacing(self.assignments, profile, self._rng, self._round_policy)
        self.placing.witness = self.witness
        self.preempting = Preempting(
            self.assignments, self.nominations, self._budgets, profile, self.placing, self.losses
        )
        self.clearing = Clearing(self.assignments, profile)
        self.elsewhere = RoomElsewhere(self.assignments, self.placing)

    def _is_going(self, entry: PodInfo) -> bool:
        return self.preempting.is_going(entry) or any(
            evicting.is_leaving(entry.seen.uid) for evicting in self.roster.evicting
        )


def _uncachable_first(profile: PlacementProfile, others: tuple[PlacementProfile, ...]) -> PlacementProfile:
    """The profile whose score decides whether scores are kept: one by time, if there is one."""
    return next((entry for entry in (profile, *others) if entry.score in BY_TIME), profile)

"""Which parts of the engine's judgement a policy switches on, by what pods and objects say.

Problem: policies of one comparison must differ by one part alone. Choice: a frozen value with the parts; the engine is always the same, and a part is
on when pods carry its annotations or labels and its objects are told, as in a cluster. Limits: one profile scores nodes for all of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from cotenant.engine.cluster import Cluster
from cotenant.engine.cluster_settings import Settings
from cotenant.lab.clusterworld.facts import RackedNode
from cotenant.lab.clusterworld.world import Worn
from cotenant.lab.workloads.training import TEAMS, JobPlan
from cotenant.model import quota as quota_names
from cotenant.model.demands import NO_DEMANDS, Demands
from cotenant.model.gang import GangNotes, Mode
from cotenant.model.labels import Labels
from cotenant.policy.placement.profiles import profile

MOST_PODS = 512  # judged in one round, so that no gang is cut


@dataclass(frozen=True, slots=True)
class Parts:
    """What is switched on."""

    profile: str
    gang: Mode | None = None
    quotas: bool = False
    racks: bool = False


def make_cluster(parts: Parts, nodes: Iterable[RackedNode], rng: np.random.Generator) -> Cluster:
    """The engine with the objects of these parts; its nodes are told by the world."""
    return Cluster(profile(parts.profile), rng, Settings(most_pods=MOST_PODS))


def wear(parts: Parts, plan: JobPlan) -> Worn:
    """What the pods of a job carry."""
    team = TEAMS[plan.team]
    labels = {"team": team.name, "job": str(plan.number)}
    if parts.quotas:
        labels[quota_names.NAME] = team.name
    demands = NO_DEMANDS
    if parts.gang is not None and plan.pods > 1:
        demands = Demands(gang=GangNotes(f"job-{plan.number}", plan.pods, plan.pods, mode=parts.gang))
    return Worn(Labels.of(labels), demands, team.organisation)

"""Which parts of the engine's judgement a policy switches on, by what pods and objects say.

Problem: policies of one comparison must differ by one part alone. Choice: a frozen value with the parts; the engine is always the same, and a part is
on when pods carry its annotations or labels and its objects are told, as in a cluster. Limits: one profile scores nodes for all of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cotenant.engine.cluster import Cluster
from cotenant.engine.framework.settings import Settings
from cotenant.engine.registry import PluginRegistry
from cotenant.engine.rules.devices.requests import DeviceSettings
from cotenant.engine.rules.devices.rules import DeviceRules
from cotenant.lab.clusterworld.facts import BLOCK, RACK
from cotenant.lab.clusterworld.world import Worn
from cotenant.lab.workloads.training import TEAMS, JobPlan, quotas
from cotenant.model.cluster.demands import NO_DEMANDS, Demands
from cotenant.model.cluster.labels import Labels
from cotenant.model.groups import quota as quota_names
from cotenant.model.groups.gang import GangNotes, GangTopology, Mode
from cotenant.model.groups.quota import QuotaObject
from cotenant.policy.placement.devices.strategy import Strategy
from cotenant.policy.placement.profiles import profile

MOST_PODS = 512  # judged in one round, so that no gang is cut
PACKED = DeviceSettings(Strategy.BINPACK, Strategy.BINPACK)
SPREAD = DeviceSettings(Strategy.SPREAD, Strategy.SPREAD)
COUNTED = DeviceSettings(
    Strategy.DEFAULT, Strategy.DEFAULT, weight=0.0
)  # devices that fit, and no node better for them


@dataclass(frozen=True, slots=True)
class Parts:
    """What is switched on."""

    profile: str
    gang: Mode | None = None
    quotas: bool = False
    racks: bool = False
    devices: DeviceSettings = PACKED


def make_cluster(parts: Parts, nodes: int, rng: np.random.Generator) -> Cluster:
    """The engine of a cluster of so many nodes, with the objects of these parts; its nodes are told by the world."""
    plugins = PluginRegistry(devices=DeviceRules(parts.devices))
    cluster = Cluster(profile(parts.profile), rng, Settings(most_pods=MOST_PODS), plugins)
    if parts.quotas:
        for each in quotas(nodes):
            key = f"{each.parent if not each.is_parent else each.name}/{each.name}"
            plugins.quotas.quota_seen(QuotaObject(key, f"uid-{each.name}", each), 0.0)
    return cluster


def wear(parts: Parts, plan: JobPlan) -> Worn:
    """What the pods of a job carry."""
    team = TEAMS[plan.team]
    labels = {"team": team.name, "job": str(plan.number)}
    if parts.quotas:
        labels[quota_names.NAME] = team.name
    demands = NO_DEMANDS
    if parts.gang is not None and plan.pods > 1:
        together = GangTopology((RACK, BLOCK)) if parts.racks else None
        demands = Demands(
            gang=GangNotes(f"job-{plan.number}", plan.pods, plan.pods, mode=parts.gang, topology=together)
        )
    return Worn(Labels.of(labels), demands, team.organisation)

"""The engine's features that a policy enables through pods and objects.

The policies of one comparison must differ in one feature only. A frozen value with the features; the engine is always
the same, and a feature is enabled if pods have its annotations or labels and its objects exist, as in a cluster.
Limits: all policies use one score profile each.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cotenant.engine.cluster import Cluster
from cotenant.engine.framework.settings import EngineSettings
from cotenant.engine.registry import PluginRegistry
from cotenant.engine.rules.devices.requests import DeviceSettings
from cotenant.engine.rules.devices.rules import DeviceRules
from cotenant.model.cluster.demands import NO_DEMANDS, Demands
from cotenant.model.cluster.labels import Labels
from cotenant.model.groups import quota as quota_names
from cotenant.model.groups.gang import GangMode, GangNotes, GangTopology
from cotenant.model.groups.quota import QuotaObject
from cotenant.policy.placement.devices.strategy import DeviceStrategy
from cotenant.policy.placement.profiles import profile
from cotenant_lab.clusterworld.racks import BLOCK, RACK
from cotenant_lab.clusterworld.world import PodAttributes
from cotenant_lab.workloads.training import TEAMS, JobPlan, quotas

MAX_PODS = 512  # per scheduling round, so that no gang is split
PACKED = DeviceSettings(DeviceStrategy.BINPACK, DeviceStrategy.BINPACK)
SPREAD = DeviceSettings(DeviceStrategy.SPREAD, DeviceStrategy.SPREAD)
COUNTED = DeviceSettings(
    DeviceStrategy.DEFAULT, DeviceStrategy.DEFAULT, weight=0.0
)  # devices must fit, and do not change the score


@dataclass(frozen=True, slots=True)
class Features:
    """Enabled features, and the score profile."""

    profile: str
    gang: GangMode | None = None
    quotas: bool = False
    racks: bool = False
    devices: DeviceSettings = PACKED


def make_cluster(features: Features, nodes: int, rng: np.random.Generator) -> Cluster:
    """The engine for a cluster with this number of nodes, with the objects of the features; the world adds the
    nodes.
    """
    plugins = PluginRegistry(devices=DeviceRules(features.devices))
    cluster = Cluster(profile(features.profile), rng, EngineSettings(max_pods=MAX_PODS), plugins)
    if features.quotas:
        for quota in quotas(nodes):
            key = f"{quota.parent if not quota.is_parent else quota.name}/{quota.name}"
            plugins.quotas.quota_seen(QuotaObject(key, f"uid-{quota.name}", quota), 0.0)
    return cluster


def pod_attributes(features: Features, plan: JobPlan) -> PodAttributes:
    """Labels, demands and namespace of a job's pods."""
    team = TEAMS[plan.team]
    labels = {"team": team.name, "job": str(plan.number)}
    if features.quotas:
        labels[quota_names.NAME] = team.name
    demands = NO_DEMANDS
    if features.gang is not None and plan.pods > 1:
        topology = GangTopology((RACK, BLOCK)) if features.racks else None
        demands = Demands(
            gang=GangNotes(f"job-{plan.number}", plan.pods, plan.pods, mode=features.gang, topology=topology)
        )
    return PodAttributes(Labels.of(labels), demands, team.organisation)

"""The scheduling engine of a scheduler's options: the same for the process that binds and for a rehearsal."""

from __future__ import annotations

import time

import numpy as np

from cotenant.drivers.cel.selectors import CelSelectors
from cotenant.engine.cluster import Cluster
from cotenant.engine.framework.settings import EngineSettings
from cotenant.engine.plugins.extenders.plugin import Extenders
from cotenant.engine.plugins.quotas.plugin import Quotas
from cotenant.engine.plugins.resizes.plugin import DeferredResizes
from cotenant.engine.registry import PluginRegistry
from cotenant.engine.rules.claims.readiness import BINDING_WITHIN_S
from cotenant.engine.rules.claims.rules import ClaimRules
from cotenant.engine.rules.devices.rules import DeviceRules
from cotenant.engine.rules.load.rules import LoadAware
from cotenant.engine.rules.use.rules import PredictedUse
from cotenant.policy.placement.profiles import PlacementProfile
from cotenant.services.scheduling.options import Options


def scheduling_engine(profile: PlacementProfile, options: Options) -> Cluster:
    """The engine of a scheduler with these options."""
    settings = EngineSettings(
        schedulers=options.schedulers,
        max_pods=options.pods_a_round,
        backoff=options.backoff,
        unanswered_s=options.volumes_within_s + BINDING_WITHIN_S + 120.0,
        cpu_s=time.thread_time,
        also_scored_by=tuple(
            {other.name: other for other in options.profiles.values() if other.name != profile.name}.values()
        ),
    )
    plugins = PluginRegistry(
        devices=DeviceRules(options.devices),
        claims=ClaimRules(CelSelectors()),
        quotas=Quotas(options.quotas),
        load_aware=LoadAware(options.load_aware),
        predicted_use=PredictedUse(options.predicted_use),
        deferred_resizes=DeferredResizes(options.preempts_for_resizes),
        extenders=Extenders(options.extenders, options.backoff),
        more=options.plugins,
    )
    return Cluster(profile, np.random.default_rng(options.seed), settings, plugins)

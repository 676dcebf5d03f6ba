"""What a configuration file says, as the options of a scheduler process."""

from __future__ import annotations

from typing import TypedDict

from cotenant.drivers.kube.kinds.pod.by_scheduler import PodsOfScheduler
from cotenant.engine.framework.backoff import Backoff
from cotenant.model.cluster.extender import Extender
from cotenant.policy.placement.profiles import PlacementProfile
from cotenant.services.scheduler_config.configuration_file import SchedulerConfig
from cotenant.services.scheduling.claims import VOLUMES_WITHIN_S


class ConfiguredOptions(TypedDict, total=False):
    """Fields of `Options`; none of them is there without a file."""

    pods_of: dict[str, PodsOfScheduler]
    backoff: Backoff
    volumes_within_s: float
    extenders: tuple[Extender, ...]


def options_of(config: SchedulerConfig | None) -> ConfiguredOptions:
    """The options that the file sets besides those of the command."""
    if config is None:
        return {}
    within_s = VOLUMES_WITHIN_S if config.volumes_within_s is None else config.volumes_within_s
    return {
        "pods_of": {name: named.pods for name, named in config.profiles.items()},
        "backoff": Backoff(config.backoff.first_s, config.backoff.max_s),
        "volumes_within_s": within_s,
        "extenders": config.extenders,
    }


def own_profile(config: SchedulerConfig) -> PlacementProfile:
    """The profile of the process: that of the first name."""
    return next(iter(config.profiles.values())).profile


def profiles_of(config: SchedulerConfig) -> dict[str, PlacementProfile]:
    """The profile of each scheduler name."""
    return {name: named.profile for name, named in config.profiles.items()}

"""How pods are read, by their scheduler's name."""

from __future__ import annotations

from cotenant.drivers.kube.kinds.pod.by_scheduler import PodsOfScheduler
from cotenant.policy.placement.profiles import PlacementProfile
from cotenant.services.scheduling.options import Options


def pods_of(usual: PlacementProfile, options: Options) -> dict[str, PodsOfScheduler]:
    """For each name: the profile that scores its pods, where that is not the usual one, and their default spread."""
    found = {}
    for name in options.schedulers:
        if name in options.pods_of:
            found[name] = options.pods_of[name]
            continue
        profile = options.profiles.get(name, usual)
        spread = profile.default_spread if options.default_spread is None else options.default_spread
        found[name] = PodsOfScheduler("" if profile.name == usual.name else profile.name, spread)
    return found

"""The scheduler names (`spec.schedulerName` of pods) that one scheduler process serves.

The first name becomes part of a Lease's name, so a bad one would only fail at the API server, after seconds. Every name
is checked as a DNS subdomain before anything starts, with room for the Lease's suffix. A name may have a profile of its
own, NAME=PROFILE, which scores its pods (docs/adr/0022).
Limits: Leases are held by the first name; two processes with different first names and a name in common both schedule
that name's pods.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from cotenant.model.errors import InvalidInput
from cotenant.policy.placement.codes import Fit
from cotenant.policy.placement.profile_file import is_profile_file, parse_profile
from cotenant.policy.placement.profiles import PROFILES, PlacementProfile
from cotenant.services.kube_process.identity import lease_name

FLAG = "--scheduler-name"
DEFAULT_SCHEDULER = "default-scheduler"  # that of pods that name none
LONGEST = 253 - len(lease_name(""))
_SUBDOMAIN = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*")


def read_names(written: Sequence[str], profile: PlacementProfile, flag: str = FLAG) -> dict[str, PlacementProfile]:
    """The profile of each name; `profile` is the process's. Raises `InvalidInput` with the flag's name for what
    cannot be served together.
    """
    if not written:
        raise InvalidInput(flag, "", "at least one name")
    found: dict[str, PlacementProfile] = {}
    for entry in written:
        name, equals, own = entry.partition("=")
        _check_name(name, flag)
        if name in found:
            raise InvalidInput(flag, entry, "each name once")
        found[name] = by_requests(cluster_profile(flag, own)) if equals else profile
        if found[name].knobs.pressure_factor != profile.knobs.pressure_factor:
            raise InvalidInput(flag, entry, f"a profile that estimates pressure as --profile {profile.name} does")
    return found


def cluster_profile(flag: str, name: str) -> PlacementProfile:
    """The built-in profile of this name, or that of a profile file. Raises `InvalidInput` with the flag or the file."""
    if is_profile_file(name):
        try:
            text = Path(name).read_bytes()
        except OSError as error:
            raise InvalidInput(flag, name, "a readable profile file", error.strerror or "") from error
        return parse_profile(text, name)
    known = {profile.name: profile for profile in PROFILES}
    if name not in known:
        raise InvalidInput(flag, name, "a placement profile", f"one of {', '.join(known)}, or FILE.yaml")
    return known[name]


def by_requests(profile: PlacementProfile) -> PlacementProfile:
    """The profile as a cluster runs it: requests must fit (docs/adr/0027), whatever it does in the lab."""
    return profile if profile.fit is Fit.REQUESTS else replace(profile, fit=Fit.REQUESTS)


def predicts_use(profile: PlacementProfile) -> bool:
    """Whether pods with lent requests fit by predicted use too under this profile, as it is written."""
    return profile.fit is Fit.PREDICTED_USE


def _check_name(name: str, flag: str) -> None:
    if len(name) > LONGEST or not _SUBDOMAIN.fullmatch(name):
        hint = "lower case letters, digits, - and ., such as cotenant"
        raise InvalidInput(flag, name, f"a DNS subdomain name of at most {LONGEST} characters", hint)

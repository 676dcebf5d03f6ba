"""`cotenant warm`: compiles in advance what is otherwise compiled on first use."""

from __future__ import annotations


def warm(*, profile: str = "cotenant") -> int:
    """Compile the kernels that a cluster needs, so that the first start is as fast as the next. Done once for each
    version.

    Parameters
    ----------
    profile
        The placement profile to compile for.
    """
    from cotenant.model.errors import InvalidInput
    from cotenant.policy.placement.profiles import PROFILES
    from cotenant.services.warming import is_warm
    from cotenant.services.warming import warm as compile_now

    names = [entry.name for entry in PROFILES]
    if profile not in names:
        raise InvalidInput("--profile", profile, "one of " + ", ".join(names))
    if not is_warm(profile):
        compile_now(profile)
    return 0

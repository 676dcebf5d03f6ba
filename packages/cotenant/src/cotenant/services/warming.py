"""Compiles kernels in advance.

The kernels of placement take some ten seconds to compile, once for each version of the sources, and compiling blocks
the event loop: Leases expire, watches stall. They are compiled into the shared cache before anything starts, and a
marker is left there. Packages that bring kernels of their own name a function in the entry points of `GROUP`.
Limits: a profile without a marker still compiles in its scheduler, before that is ready.
"""

from __future__ import annotations

from hashlib import sha256
from importlib.metadata import entry_points
from pathlib import Path

from cotenant.model.compiled import cache_directory

GROUP = "cotenant.kernels"


def mark(profile: str) -> Path:
    """The marker file: the kernels of this version are compiled for a profile. The cache identifies a source by its
    path, so the marker does too.
    """
    where = sha256(str(Path(__file__).parent).encode()).hexdigest()[:12]
    return cache_directory() / f"compiled-for-{profile}-{where}"


def is_warm(profile: str) -> bool:
    """Whether everything is compiled."""
    return mark(profile).exists()


def warm(profile: str) -> None:
    """Compile in this process: 20 to 40 s of CPU, once. Raises KeyError for an unknown profile."""
    from cotenant.engine.rehearsal import rehearse
    from cotenant.policy.placement.profiles import profile as profile_named

    rehearse(profile_named(profile))
    for point in entry_points(group=GROUP):
        point.load()()
    mark(profile).parent.mkdir(parents=True, exist_ok=True)
    mark(profile).touch()

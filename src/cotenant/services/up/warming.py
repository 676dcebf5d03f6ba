"""Compiles kernels before the first cluster starts, in a process of its own.

Problem: the kernels of placement and of the simulated world take some ten seconds each to compile, once for each version of the sources, and
compiling blocks the event loop: Leases expire, watches stall. Choice: before a cluster starts, a separate process
compiles into the shared cache and leaves a marker there; with the marker nothing is started. Limits: a profile without a marker
still compiles in its scheduler, before that is ready.
"""

from __future__ import annotations

import asyncio
import sys
from hashlib import sha256
from pathlib import Path

from cotenant.model.compiled import cache_directory
from cotenant.model.errors import Permanent
from cotenant.services.up.children import die_with_parent


def mark(profile: str) -> Path:
    """The marker file: the kernels of this version are compiled for a profile. The cache identifies a source by its path, so the marker does too."""
    where = sha256(str(Path(__file__).parent).encode()).hexdigest()[:12]
    return cache_directory() / f"compiled-for-{profile}-{where}"


def is_warm(profile: str) -> bool:
    """Whether everything is compiled."""
    return mark(profile).exists()


def warm(profile: str) -> None:
    """Compile in this process: 20 to 40 s of CPU, once. Raises KeyError for an unknown profile."""
    from cotenant.engine.rehearsal import rehearse
    from cotenant.lab.world.config import WorldConfig
    from cotenant.local.nodes.world import LiveWorld
    from cotenant.policy.placement.profiles import profile as profile_named

    rehearse(profile_named(profile))
    LiveWorld(WorldConfig(), 1.0, 0.0).prepare()
    mark(profile).parent.mkdir(parents=True, exist_ok=True)
    mark(profile).touch()


async def warm_apart(profile: str) -> None:
    """Compile in a process of its own. Raises `Permanent` with its output where that fails."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "cotenant", "warm", "--profile", profile),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        preexec_fn=die_with_parent(),
    )
    try:
        _, said = await process.communicate()
    except asyncio.CancelledError:
        process.kill()
        raise
    if process.returncode:
        raise Permanent(f"compiling failed: {said.decode(errors='replace')[-500:]}")

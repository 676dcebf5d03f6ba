"""Compiles kernels before the first cluster starts, in a process of its own.

Compiling blocks the event loop, so a separate process does it; with the product's marker nothing is started.
"""

from __future__ import annotations

import asyncio
import sys

from cotenant.model.errors import Permanent
from cotenant_local.up.children import die_with_parent


def compile_world() -> None:
    """The kernels of the simulated nodes' world; `cotenant warm` calls it."""
    from cotenant_lab.world.config import WorldConfig
    from cotenant_local.nodes.world import LiveWorld

    LiveWorld(WorldConfig(), 1.0, 0.0).prepare()


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

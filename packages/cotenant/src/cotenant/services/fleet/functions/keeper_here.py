"""The keeper of an agent's limits:

The node's own where it is, else one in this process, bound to the groups of container runtimes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from cotenant.drivers.leasefile.audit import AuditTrail
from cotenant.drivers.leasefile.file import LeaseFile
from cotenant.engine.node.interfaces import Keeper
from cotenant.services.fleet.functions.group_paths import PARENTS
from cotenant.services.knobs.client import KeeperClient
from cotenant.services.knobs.executor import LeaseExecutor
from cotenant.services.knobs.host import CLOCK, boot_id, groups_of_this_process, machine_knobs, put_back_left
from cotenant.services.knobs.local_keeper import LocalKeeper
from cotenant.services.knobs.rules import KnobRules
from cotenant.services.running import cancelled

_log = logging.getLogger(__name__)
SOCKET = Path("/run/cotenant/keeper.sock")
LONGEST_S = 86_400.0  # of a limit that this process holds


@asynccontextmanager
async def open_keeper(socket: Path, state_dir: Path, cgroup_root: Path | None = None) -> AsyncIterator[Keeper]:
    """The keeper behind `socket`, or, where nothing is there, one in this process that restores what an earlier one
    left.
    """
    if socket.exists():
        client = KeeperClient(socket)
        try:
            yield client
        finally:
            await client.close()
        return
    with machine_knobs(cgroup_root) as machine:
        file = LeaseFile(state_dir, boot_id())
        try:
            rules = KnobRules(
                PARENTS,
                never=groups_of_this_process(),
                facts=machine.facts,
                restores_all=True,
                longest_ttl_us=int(LONGEST_S * 1e6),
            )
            executor = LeaseExecutor(machine.ports, file, AuditTrail(state_dir), CLOCK, rules)
            keeper = LocalKeeper(executor, machine.watch)
            await put_back_left(keeper, file.found)
            running = asyncio.create_task(keeper.run(), name="expiry")
            try:
                yield keeper
            finally:
                await cancelled([running])
                for lease in await keeper.stop():
                    _log.error("%s could not be restored; the next start tries again: %s", lease.target, lease.detail)
        finally:
            file.close()

"""The keeper of an agent: none, one that only logs, one in this process, or the privileged process behind a socket.

What an earlier process left must be restored whatever mode this one has, and two must never hold the same knobs. `act`
in one process takes the state folder's lock, as `cotenant keeper` does, and restores first; so does `observe` in one
process where the folder has leases, and a dry run, which then overlays its values on the real ones; with two processes
the other one does all that.
Limits: a dry run with two processes is dry in this one and never uses the keeper.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractContextManager, asynccontextmanager

from cotenant.drivers.leasefile.audit import AuditTrail
from cotenant.drivers.leasefile.file import NAME, LeaseFile
from cotenant.engine.node.interfaces import Keeper
from cotenant.engine.node.mode import AgentMode
from cotenant.engine.node.recovery.stages import RecoveryRung
from cotenant.model.machine.knob import GiveBack, KnobChange, KnobLease, LeaseAnswer, LeaseState, SetKnob
from cotenant.services.agent.actions.hardware_classes import CLASSES
from cotenant.services.agent_settings.config import LONGEST_TTL_MS, AgentConfig
from cotenant.services.knobs.dry_run import DryRunKnobs, NoStateFile
from cotenant.services.knobs.executor import LeaseExecutor
from cotenant.services.knobs.host import (
    CLOCK,
    HostKnobs,
    OwnerPaths,
    boot_id,
    groups_of_this_process,
    idle_slices,
    machine_knobs,
    put_back_left,
)
from cotenant.services.knobs.local_keeper import LocalKeeper
from cotenant.services.knobs.rules import KnobRules

_log = logging.getLogger(__name__)


class NoKeeper:
    """The keeper of an agent in observe mode, which holds nothing."""

    async def hold(self, wanted: Sequence[SetKnob]) -> tuple[LeaseAnswer, ...]:
        """Refuse all."""
        return tuple(LeaseAnswer(wish.target, LeaseState.REFUSED, "this agent observes only") for wish in wanted)

    async def give_back(self, requests: Sequence[GiveBack]) -> tuple[LeaseAnswer, ...]:
        """Answer RESTORED: nothing is held."""
        return tuple(LeaseAnswer(request.target, LeaseState.RESTORED) for request in requests)

    async def leases(self) -> tuple[KnobLease, ...]:
        """No leases."""
        return ()


class _LoggedChanges:
    """An audit sink that logs."""

    def write(self, changes: Sequence[KnobChange]) -> None:
        """Log each change."""
        for change in changes:
            _log.info("dry run: %s would be set to %s: %s", change.target, change.asked, change.cause.text)


@asynccontextmanager
async def open_keeper(config: AgentConfig, *, single: bool) -> AsyncIterator[Keeper]:
    """The keeper for this configuration. At the end everything held in this process is restored."""
    is_left = single and (config.state_dir / NAME).exists()
    if config.mode is AgentMode.DRY_RUN:
        if is_left:
            async with _holding(config):
                pass  # restores leftovers
        with _machine_knobs(config) as machine:
            dry = {scope: DryRunKnobs(port) for scope, port in machine.ports.items()}
            rules = _rules(config, machine)
            async with _running(
                LocalKeeper(LeaseExecutor(dry, NoStateFile(), _LoggedChanges(), CLOCK, rules))
            ) as keeper:
                yield keeper
    elif is_left or (single and config.mode is AgentMode.ACT):
        async with _holding(config) as keeper:
            yield keeper
    elif config.mode is AgentMode.ACT:
        from cotenant.services.knobs.client import KeeperClient

        client = KeeperClient(config.keeper)
        try:
            yield client
        finally:
            await client.close()
    else:
        yield NoKeeper()


def _machine_knobs(config: AgentConfig) -> AbstractContextManager[HostKnobs]:
    return machine_knobs(config.cgroup_root, config.resctrl_root, OwnerPaths(cpu_manager=config.cpu_manager_state))


@asynccontextmanager
async def _holding(config: AgentConfig) -> AsyncIterator[LocalKeeper]:
    """A keeper of the real knobs in this process, which first restores what an earlier one left."""
    with _machine_knobs(config) as machine:
        file = LeaseFile(config.state_dir, boot_id())
        try:
            with idle_slices(config.cgroup_root, config.idle_slice_ms) as slices:
                trail, rules = AuditTrail(config.state_dir), _rules(config, machine)
                executor = LeaseExecutor(machine.ports, file, trail, CLOCK, rules, tasks=slices)
                keeper = LocalKeeper(executor, machine.watch)
                await put_back_left(keeper, file.found)
                async with _running(keeper):
                    yield keeper
        finally:
            file.close()


@asynccontextmanager
async def _running(keeper: LocalKeeper) -> AsyncIterator[LocalKeeper]:
    expiring = asyncio.create_task(keeper.run(), name="expiry")
    try:
        yield keeper
    finally:
        expiring.cancel()
        await asyncio.gather(expiring, return_exceptions=True)
        for lease in await keeper.stop():
            _log.error("%s could not be restored; the next start tries again: %s", lease.target, lease.detail)


def _rules(config: AgentConfig, machine: HostKnobs) -> KnobRules:
    """One process decides and writes, so the configuration is its only bound; a reload may lengthen the leases, and
    name another uplink.
    """
    recovery = config.policies.recovery
    return KnobRules(
        config.writable,
        never=groups_of_this_process(),
        interfaces=None,
        classes=frozenset(CLASSES),
        raises_roots=True,
        gpus=frozenset(recovery.cards if recovery is not None else ()),
        timeslices=recovery is not None and RecoveryRung.TIMESLICE in recovery.rungs,
        mps=recovery is not None and recovery.threads_percent > 0,
        freezes=True,
        facts=machine.facts,
        restores_all=True,
        longest_ttl_us=LONGEST_TTL_MS * 1000,
    )

"""The hub's process: statements and questions over the bus, answers signed with its key.

With `--embedded` it brings a bus of this machine along. Its memory is gone when it ends: joiners give weights back when
theirs expire, and the next hub learns all within one period.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

from cotenant.drivers.http.private_files import write_private
from cotenant.drivers.nats.broker import Broker
from cotenant.drivers.nats.client import connect
from cotenant.drivers.nats.contract import Bus, BusMessage
from cotenant.drivers.nats.keys import kept_seed, public_key
from cotenant.drivers.nats.memory import MemoryBus
from cotenant.engine.federation.hub import ROUND_MS, FederationWeights, Hub
from cotenant.model.errors import CotenantError, InvalidInput, Permanent
from cotenant.policy.federation.statement import Statement
from cotenant.services.fleet.federation.envelopes import (
    STATEMENT_SUBJECT,
    VIEW_SUBJECT,
    EnvelopeKind,
    is_by,
    opened,
    sealed,
)
from cotenant.services.fleet.federation.members import HUB_KEY, HUB_SEED, MemberKey, federation_dir, read_members
from cotenant.services.fleet.places import BusOptions, access_of, write_bus_file
from cotenant.services.logs import log_to_stderr
from cotenant.services.running import run_until_signal

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class HubOptions:
    """`round_s`: factors move at most once in this time."""

    bus: BusOptions
    members: Path
    embedded: bool = False
    port: int = 0
    round_s: float = ROUND_MS / 1000
    log_level: str = "info"
    log_format: str = "text"


class HubService:
    """Answers on a bus. What cannot be answered with a signature is not answered."""

    def __init__(self, members: Mapping[str, MemberKey], seed: str, round_ms: int = ROUND_MS) -> None:
        self._keys = {cluster: member.key for cluster, member in members.items()}
        self._seed = seed
        self.hub = Hub({cluster: member.capacity for cluster, member in members.items()}, round_ms)

    async def run(self, bus: Bus, stop: asyncio.Event) -> None:
        """Until `stop` is set."""

        async def answer(message: BusMessage) -> None:
            if message.reply:
                try:
                    await bus.publish(message.reply, self.answered(message, int(time.time() * 1000), _now_ms()))
                except CotenantError as error:
                    _log.warning("an answer was lost: %s", error)

        heard = [await bus.subscribe(subject, answer) for subject in (STATEMENT_SUBJECT, VIEW_SUBJECT)]
        try:
            await stop.wait()
        finally:
            for subscription in heard:
                await subscription.unsubscribe()

    def answered(self, message: BusMessage, wall_ms: int, now_ms: int) -> bytes:
        """The signed answer to a message."""
        if message.subject == VIEW_SUBJECT:
            return sealed(EnvelopeKind.VIEW, self.hub.view(now_ms), self._seed)
        return sealed(EnvelopeKind.WEIGHTS, self._heard(message.data, wall_ms, now_ms), self._seed)

    def _heard(self, data: bytes, wall_ms: int, now_ms: int) -> FederationWeights:
        try:
            statement = opened(EnvelopeKind.STATEMENT, data, Statement)
        except InvalidInput as error:
            return FederationWeights("", 0, refused=str(error))
        key = self._keys.get(statement.cluster)
        if key is not None and not is_by(EnvelopeKind.STATEMENT, data, key):
            _log.warning("a statement of %s has the signature of another key: refused", statement.cluster[:100])
            return FederationWeights(
                statement.cluster, statement.epoch, refused="the signature is not by this cluster's key"
            )
        weights = self.hub.hear(statement, wall_ms, now_ms)
        if weights.refused:
            _log.warning("a statement of %s was refused: %s", statement.cluster[:100], weights.refused)
        return weights


def run(options: HubOptions) -> int:
    """Until a signal. Raises `InvalidInput`, `Permanent`."""
    if not 0.1 <= options.round_s <= 3600:
        raise InvalidInput("--round-s", options.round_s, "0.1 to 3600 seconds")
    members = read_members(options.members)
    state_dir = federation_dir(options.bus.state_dir)
    try:
        state_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        seed = kept_seed(state_dir / HUB_SEED)
        write_private(state_dir / HUB_KEY, public_key(seed) + "\n")
    except OSError as error:
        raise Permanent(f"{state_dir} cannot be written: {error.strerror}") from error
    log_to_stderr(options.log_level, options.log_format)
    service = HubService(members, seed, int(options.round_s * 1000))
    _log.info("hub of %s; its public key: %s", ", ".join(members), public_key(seed))

    async def main(stop: asyncio.Event) -> None:
        async with AsyncExitStack() as opened_parts:
            if options.embedded:
                memory, token = MemoryBus(), secrets.token_urlsafe(32)
                opened_parts.push_async_callback(memory.close)
                broker = Broker(memory, token, options.port)
                await broker.start()
                opened_parts.push_async_callback(broker.close)
                path = write_bus_file(state_dir, broker.url, token)
                opened_parts.callback(path.unlink, missing_ok=True)
                bus: Bus = memory
                _log.info("the bus of this machine is at %s; its token is in %s", broker.url, path)
            else:
                options_of_bus = BusOptions(
                    options.bus.url, options.bus.key, options.bus.ca, options.bus.name or "hub", state_dir
                )
                bus = await connect(access_of(options_of_bus), within_s=30.0)
                opened_parts.push_async_callback(bus.close)
            _log.info("the hub listens")
            await service.run(bus, stop)

    run_until_signal(main)
    return 0


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000

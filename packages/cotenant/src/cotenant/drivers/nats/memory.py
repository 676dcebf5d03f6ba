"""A bus within one process, with the contract of NATS: used by a fleet of one host without a server, and by tests.

A subscriber that falls behind loses its oldest messages, which is counted, and never holds up a publisher.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections import Counter, deque
from collections.abc import Mapping

from cotenant.drivers.nats.contract import NO_HEADERS, BusMessage, BusService, Handler, NoResponder
from cotenant.drivers.nats.subjects import check_subject, matches

_log = logging.getLogger(__name__)
MAX_WAITING = 65_536  # messages of one subscription


class MemorySubscription:
    """One subscriber: its messages wait here and are handled one after another."""

    def __init__(self, bus: MemoryBus, pattern: str, handler: Handler, queue: str) -> None:
        self.pattern, self.queue = pattern, queue
        self.dropped = 0
        self._bus = bus
        self._handler = handler
        self._waiting: deque[BusMessage] = deque()
        self._came = asyncio.Event()
        self._task = asyncio.create_task(self._run(), name=f"subscription {pattern}")

    def deliver(self, message: BusMessage) -> None:
        """Add a message."""
        if len(self._waiting) >= MAX_WAITING:
            self._waiting.popleft()
            self.dropped += 1
        self._waiting.append(message)
        self._came.set()

    async def unsubscribe(self) -> None:
        """As the Protocol."""
        self._bus.remove(self)
        if self._task is not asyncio.current_task():
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            await self._came.wait()
            while self._waiting:
                try:
                    await self._handler(self._waiting.popleft())
                except Exception:  # a defect of one handler must not end its subscription
                    _log.exception("handling a message on %s failed", self.pattern)
            self._came.clear()


class MemoryBus:
    """Implements `Bus`."""

    is_connected = True

    def __init__(self) -> None:
        self._exact: dict[str, list[MemorySubscription]] = {}
        self._patterns: list[MemorySubscription] = []
        self._numbers = itertools.count(1)
        self._turns: Counter[tuple[str, str]] = Counter()

    async def publish(self, subject: str, data: bytes, headers: Mapping[str, str] = NO_HEADERS) -> None:
        """As the Protocol."""
        self.send(BusMessage(subject, data, headers))

    def send(self, message: BusMessage) -> int:
        """Give the message to its subscribers; their number."""
        check_subject(message.subject)
        found = self._exact.get(message.subject, []) + [
            pattern for pattern in self._patterns if matches(pattern.pattern, message.subject)
        ]
        queues: dict[str, list[MemorySubscription]] = {}
        for subscription in found:
            if subscription.queue:
                queues.setdefault(subscription.queue, []).append(subscription)
            else:
                subscription.deliver(message)
        for queue, members in queues.items():
            turn = self._turns[queue, message.subject] = self._turns[queue, message.subject] + 1
            members[turn % len(members)].deliver(message)
        return len(found)

    async def request(
        self, subject: str, data: bytes, headers: Mapping[str, str] = NO_HEADERS, timeout_s: float = 5.0
    ) -> BusMessage:
        """As the Protocol."""
        inbox = f"_INBOX.memory.{next(self._numbers)}"
        answer: asyncio.Future[BusMessage] = asyncio.get_running_loop().create_future()

        async def answered(message: BusMessage) -> None:
            if not answer.done():
                answer.set_result(message)

        subscription = await self.subscribe(inbox, answered)
        try:
            if not self.send(BusMessage(subject, data, headers, inbox)):
                raise NoResponder(f"nobody answers on {subject}")
            async with asyncio.timeout(timeout_s):
                return await answer
        finally:
            await subscription.unsubscribe()

    async def subscribe(self, subject: str, handler: Handler, queue: str = "") -> MemorySubscription:
        """As the Protocol."""
        return self.attach(subject, handler, queue)

    def attach(self, subject: str, handler: Handler, queue: str = "") -> MemorySubscription:
        """`subscribe`, at once."""
        check_subject(subject, wildcards=True)
        subscription = MemorySubscription(self, subject, handler, queue)
        if "*" in subject or ">" in subject:
            self._patterns.append(subscription)
        else:
            self._exact.setdefault(subject, []).append(subscription)
        return subscription

    def remove(self, subscription: MemorySubscription) -> None:
        """No message goes to it any more."""
        if subscription in self._patterns:
            self._patterns.remove(subscription)
        members = self._exact.get(subscription.pattern, [])
        if subscription in members:
            members.remove(subscription)
            if not members:
                del self._exact[subscription.pattern]

    async def serve(self, service: BusService, handler: Handler) -> _Together:
        """As the Protocol; the service is not announced."""
        return _Together([self.attach(f"{service.prefix}.{verb}", handler, service.queue) for verb in service.verbs])

    async def close(self) -> None:
        """As the Protocol."""
        for pattern in [*self._patterns, *(one for members in self._exact.values() for one in members)]:
            await pattern.unsubscribe()


class _Together:
    def __init__(self, members: list[MemorySubscription]) -> None:
        self._members = members

    async def unsubscribe(self) -> None:
        for member in self._members:
            await member.unsubscribe()

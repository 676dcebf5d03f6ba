"""A bus and a store as a process far away has them: late, cut off for a while, and with answers that are lost.

Each participant has its own side of one `MemoryBus` and of one `SharedValues`; messages of one participant keep their
order, as NATS keeps it. While a side is cut, what it sends waits, and what is sent to it is lost, but changes of the
store come afterwards.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Mapping
from random import Random

from cotenant.drivers.nats.contract import (
    NO_HEADERS,
    BusMessage,
    BusService,
    Handler,
    NoResponder,
    RevisionConflict,
    StoredValue,
)
from cotenant.drivers.nats.memory import MemoryBus, MemorySubscription
from cotenant.model.errors import Transient

_STORE_S = 5.0  # nats-py's patience with JetStream
_INBOXES = itertools.count(1)


class Line:
    """One participant's way to the server."""

    def __init__(self, random: Random, slow_s: float = 0.02) -> None:
        self.random = random
        self.slow_s = slow_s
        self.is_cut = False
        self.is_dead = False
        self.healed = asyncio.Event()
        self.healed.set()
        self._sent_s = 0.0

    def delay_s(self) -> float:
        """Of one message: mostly short, now and then a hundred times that."""
        spread = self.random.random()
        return self.slow_s * spread * (100.0 if self.random.random() < 0.03 else 1.0)

    async def out(self) -> None:
        """Until the server has it, in order."""
        loop = asyncio.get_running_loop()
        self._sent_s = due_s = max(self._sent_s, loop.time() + self.delay_s())
        await asyncio.sleep(due_s - loop.time())
        while self.is_cut:
            await self.healed.wait()
        if self.is_dead:
            await asyncio.Event().wait()  # its process is gone

    def cut(self) -> None:
        self.is_cut = True
        self.healed.clear()

    def heal(self) -> None:
        self.is_cut = False
        self.healed.set()


class UnsteadyBus:
    """Implements `Bus`."""

    is_connected = True

    def __init__(self, hub: MemoryBus, line: Line) -> None:
        self._hub, self._line = hub, line
        self._subscriptions: set[_Side] = set()
        self._asking: set[asyncio.Future[BusMessage]] = set()
        self._sending: set[asyncio.Task[None]] = set()

    def cut(self) -> None:
        """Nothing comes or goes."""
        self._line.cut()
        for side in self._subscriptions:
            side.leave()
        for asked in self._asking:
            if not asked.done():
                asked.set_exception(Transient("the bus went away before an answer came"))

    def heal(self) -> None:
        self._line.heal()
        for side in self._subscriptions:
            side.join()

    def kill(self) -> None:
        """The process is gone: not even what waited goes out."""
        self._line.is_dead = True
        for side in self._subscriptions:
            side.leave()
        for task in self._sending:
            task.cancel()

    async def publish(self, subject: str, data: bytes, headers: Mapping[str, str] = NO_HEADERS) -> None:
        if self._line.is_dead:
            return
        task = asyncio.create_task(self._send(BusMessage(subject, data, headers)))
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)

    async def _send(self, message: BusMessage) -> None:
        await self._line.out()
        self._hub.send(message)

    async def request(
        self, subject: str, data: bytes, headers: Mapping[str, str] = NO_HEADERS, timeout_s: float = 5.0
    ) -> BusMessage:
        inbox = f"_INBOX.unsteady.{next(_INBOXES)}"
        answer: asyncio.Future[BusMessage] = asyncio.get_running_loop().create_future()

        async def answered(message: BusMessage) -> None:
            if not answer.done():
                answer.set_result(message)

        self._asking.add(answer)
        answer.add_done_callback(lambda done: done.cancelled() or done.exception())  # whether anybody waits or not
        side = await self.subscribe(inbox, answered)
        try:
            async with asyncio.timeout(timeout_s):
                await self._line.out()
                if not answer.done() and not self._hub.send(BusMessage(subject, data, headers, inbox)):
                    raise NoResponder(f"nobody answers on {subject}")
                return await answer
        finally:
            self._asking.discard(answer)
            await side.unsubscribe()

    async def subscribe(self, subject: str, handler: Handler, queue: str = "") -> _Side:
        side = _Side(self._hub, self._line, subject, handler, queue, self._subscriptions)
        self._subscriptions.add(side)
        if not self._line.is_cut:
            side.join()
        return side

    async def serve(self, service: BusService, handler: Handler) -> _Sides:
        subjects = [f"{service.prefix}.{verb}" for verb in service.verbs]
        return _Sides([await self.subscribe(subject, handler, service.queue) for subject in subjects])

    async def close(self) -> None:
        for side in list(self._subscriptions):
            await side.unsubscribe()


class _Side:
    """One subscription of a participant; messages come late and in order."""

    def __init__(
        self, hub: MemoryBus, line: Line, subject: str, handler: Handler, queue: str, known: set[_Side]
    ) -> None:
        self._hub, self._line, self._subject, self._queue, self._known = hub, line, subject, queue, known
        self._handler = handler
        self._there: MemorySubscription | None = None
        self._left: list[MemorySubscription] = []

    def join(self) -> None:
        if self._there is None:
            self._there = self._hub.attach(self._subject, self._handled, self._queue)

    def leave(self) -> None:
        if self._there is not None:
            self._hub.remove(self._there)
            self._left.append(self._there)  # what it is at goes on; nobody else would hold its task
            self._there = None

    async def _handled(self, message: BusMessage) -> None:
        await asyncio.sleep(self._line.delay_s())
        if not self._line.is_cut and not self._line.is_dead:
            await self._handler(message)

    async def unsubscribe(self) -> None:
        self._known.discard(self)
        if self._there is not None:
            await self._there.unsubscribe()
            self._there = None


class _Sides:
    def __init__(self, sides: list[_Side]) -> None:
        self._sides = sides

    async def unsubscribe(self) -> None:
        for side in self._sides:
            await side.unsubscribe()


class SharedValues:
    """What is stored, with one count of revisions, as JetStream has it."""

    def __init__(self) -> None:
        self.values: dict[str, StoredValue] = {}
        self.views: list[StoreView] = []
        self._revision = 0

    def write(self, key: str, value: bytes | None, revision: int | None) -> int:
        there = self.values.get(key)
        if revision is not None and revision != (there.revision if there is not None else 0):
            raise RevisionConflict(f"{key} was changed by another controller")
        self._revision += 1
        if value is None:
            self.values.pop(key, None)
        else:
            self.values[key] = StoredValue(value, self._revision)
        for view in self.views:
            view.hear(key, value, self._revision)
        return self._revision


class StoreView:
    """Implements `KeyValueStore`. `lag_s`: how late changes of others are heard of, at most."""

    def __init__(self, shared: SharedValues, line: Line, lag_s: float = 0.5) -> None:
        self._shared, self._line, self.lag_s = shared, line, lag_s
        self._known = dict(shared.values)
        self._heard_to: dict[str, int] = {}  # revisions, also of deletions
        self._due_s = 0.0
        shared.views.append(self)

    def hear(self, key: str, value: bytes | None, revision: int) -> None:
        """A change, which arrives later, behind those before it."""
        loop = asyncio.get_running_loop()
        self._due_s = max(self._due_s, loop.time() + self._line.random.random() * self.lag_s)
        loop.call_at(self._due_s, self._apply, key, value, revision)

    def _apply(self, key: str, value: bytes | None, revision: int) -> None:
        if self._line.is_cut:
            asyncio.get_running_loop().call_later(0.1, self._apply, key, value, revision)
            return
        if self._heard_to.get(key, 0) >= revision:
            return
        self._heard_to[key] = revision
        if value is None:
            self._known.pop(key, None)
        else:
            self._known[key] = StoredValue(value, revision)

    def get(self, key: str) -> StoredValue | None:
        return self._known.get(key)

    def names(self) -> list[str]:
        return list(self._known)

    async def put(self, key: str, value: bytes, revision: int | None = None) -> int:
        written = await self._written(key, value, revision)
        self._apply(key, value, written)
        return written

    async def read(self, key: str) -> StoredValue | None:
        try:
            async with asyncio.timeout(_STORE_S):
                await self._line.out()
                found = self._shared.values.get(key)
                await self._back()
        except TimeoutError:
            raise Transient(f"{key} cannot be read: no answer") from None
        if found is not None:
            self._apply(key, found.value, found.revision)
        return found

    async def delete(self, key: str, revision: int | None = None) -> None:
        written = await self._written(key, None, revision)
        self._apply(key, None, written)

    async def _written(self, key: str, value: bytes | None, revision: int | None) -> int:
        """What was written may be there although the answer was lost."""
        try:
            async with asyncio.timeout(_STORE_S):
                await self._line.out()
                written = self._shared.write(key, value, revision)
                await self._back()
                return written
        except TimeoutError:
            raise Transient(f"{key} cannot be stored: no answer") from None

    async def _back(self) -> None:
        await asyncio.sleep(self._line.delay_s())
        if self._line.is_cut or self._line.random.random() < 0.02:
            await asyncio.sleep(_STORE_S)

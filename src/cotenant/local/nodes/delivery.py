"""Carries the kubelets' writes out: in order for one pod, many pods at a time.

Problem: a pod's Succeeded must not overtake its Running, yet a thousand pods must not wait for one another. Choice: a line a pod, `ABREAST` lines
at a time. What is refused for good (the pod is gone, or is another one now) is dropped; anything else is tried again until it works or the
pod is gone. Limits: an object is assumed to be refused for good on 404, 409 and 422.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable

import msgspec

from cotenant.local.apiserver.contract import MERGE, ApiError, DeleteOptions, Target, WriteOptions
from cotenant.local.apiserver.verbs import Api
from cotenant.local.controllers.runtime.actions import Delete
from cotenant.local.controllers.runtime.cache import Key
from cotenant.local.nodes.kubelets import Write

ABREAST = 64
RETRY_S = 1.0
TRIES = 5
_encode = msgspec.json.Encoder().encode


class Delivery:
    """Writes on their way to the API."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._lines: dict[Key, deque[Write]] = {}
        self._tasks: dict[Key, asyncio.Task[None]] = {}
        self._slots = asyncio.Semaphore(ABREAST)
        self._pods = api.target("", "pods").resource
        self._options = WriteOptions(validation="Ignore", manager="kubelet", user="system:node")
        self.written = 0
        self.dropped = 0

    def send(self, writes: Iterable[Write]) -> None:
        """Put them in line."""
        for write in writes:
            key = (write.namespace, write.name)
            line = self._lines.get(key)
            if line is not None:
                line.append(write)
            else:
                self._lines[key] = deque([write])
                self._tasks[key] = asyncio.create_task(self._empty(key))

    async def idle(self) -> None:
        """Until everything has been delivered."""
        while self._tasks:
            await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def stop(self) -> None:
        """Drop what is still in line."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _empty(self, key: Key) -> None:
        line = self._lines[key]
        try:
            async with self._slots:
                while line:
                    await self._deliver(line[0])
                    line.popleft()
        finally:
            del self._lines[key], self._tasks[key]

    async def _deliver(self, write: Write) -> None:
        for _ in range(TRIES):
            try:
                if isinstance(write, Delete):
                    target = Target(self._pods, write.namespace, write.name)
                    await self._api.delete(target, DeleteOptions(write.grace_s, uid=write.uid, user="system:node"))
                else:
                    target = Target(self._pods, write.namespace, write.name, write.subresource)
                    await self._api.patch(target, _encode(write.body), MERGE, self._options)
                self.written += 1
                return
            except ApiError as error:
                if error.code in (404, 409, 422):
                    break
                await asyncio.sleep(max(RETRY_S, error.retry_after_s))
        self.dropped += 1

"""Sends the kubelets' writes to the API: in order per pod, many pods concurrently.

A pod's Succeeded must not overtake its Running, yet a thousand pods must not wait for one another. One queue per pod,
up to `MAX_CONCURRENT` queues at a time. A write that is permanently refused (the pod is gone or has been replaced) is
dropped; other failures are retried up to `TRIES` times.
Limits: 404, 409 and 422 count as permanent refusals.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable

import msgspec

from cotenant.drivers.kube.manifests.errors import ApiError
from cotenant_local.apiserver.contract import MERGE, DeletionOptions, RequestTarget, WriteOptions
from cotenant_local.controllers.runtime.actions import Delete, EmitEvent
from cotenant_local.controllers.runtime.cache import Key
from cotenant_local.controllers.runtime.informer import Informers
from cotenant_local.controllers.runtime.writer import Writer
from cotenant_local.nodes.kubelets import Write

MAX_CONCURRENT = 64
RETRY_S = 1.0
TRIES = 5
_encode = msgspec.json.Encoder().encode


class Delivery:
    """Pending writes to the API."""

    def __init__(self, informers: Informers, clock: Callable[[], float]) -> None:
        self._api = informers.api
        self._events = Writer(informers, "kubelet", clock)
        self._queues: dict[Key, deque[Write]] = {}
        self._tasks: dict[Key, asyncio.Task[None]] = {}
        self._slots = asyncio.Semaphore(MAX_CONCURRENT)
        self._pods = self._api.target("", "pods").resource
        self._options = WriteOptions(validation="Ignore", manager="kubelet", user="system:node")
        self.written = 0
        self.dropped = 0

    def send(self, writes: Iterable[Write]) -> None:
        """Queue writes."""
        for write in writes:
            key = write.about.metadata.key if isinstance(write, EmitEvent) else (write.namespace, write.name)
            queue = self._queues.get(key)
            if queue is not None:
                queue.append(write)
            else:
                self._queues[key] = deque([write])
                self._tasks[key] = asyncio.create_task(self._drain(key))

    async def idle(self) -> None:
        """Wait until all queued writes have been sent or dropped."""
        while self._tasks:
            await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def stop(self) -> None:
        """Drop all queued writes."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _drain(self, key: Key) -> None:
        queue = self._queues[key]
        try:
            async with self._slots:
                while queue:
                    await self._deliver(queue[0])
                    queue.popleft()
        finally:
            del self._queues[key], self._tasks[key]

    async def _deliver(self, write: Write) -> None:
        for _ in range(TRIES):
            try:
                if isinstance(write, EmitEvent):
                    await self._events.execute([write])
                elif isinstance(write, Delete):
                    target = RequestTarget(self._pods, write.namespace, write.name)
                    await self._api.delete(target, DeletionOptions(write.grace_s, uid=write.uid, user="system:node"))
                else:
                    target = RequestTarget(self._pods, write.namespace, write.name, write.subresource)
                    await self._api.patch(target, _encode(write.body), MERGE, self._options)
                self.written += 1
                return
            except ApiError as error:
                if error.code in (404, 409, 422):
                    break
                await asyncio.sleep(max(RETRY_S, error.retry_after_s))
        self.dropped += 1

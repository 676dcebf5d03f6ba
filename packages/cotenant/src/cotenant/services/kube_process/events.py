"""Recording Events about objects, named by kind and key.

An Event's message is limited to 1,024 bytes, and a process that records more Events than the API server should take
must drop some and say so. Messages are cut here, and rate, aggregation and retries are those of the driver's writer
(drivers/kube/record).
Limits: Events not yet written are lost where the process is killed; a clean stop flushes for a bounded time.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from cotenant.drivers.kube.client.client import Client
from cotenant.drivers.kube.kinds.kind import AnyKind
from cotenant.drivers.kube.kinds.parts import ObjectReference
from cotenant.drivers.kube.record.writer import EventWriter

MESSAGE_BYTES = 1000  # the API allows 1,024

NORMAL, WARNING = "Normal", "Warning"


class EventRecorder:
    """Writes at most `per_s` Events a second, reported by `component` on `instance`."""

    def __init__(
        self,
        client: Client,
        component: str,
        instance: str,
        *,
        per_s: float,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.dropped = 0  # not recorded because too many were waiting
        self._writer = EventWriter(
            client, component, instance, qps=per_s, burst=max(1, int(per_s)), monotonic=monotonic
        )

    def record(self, kind: AnyKind, key: str, uid: str, type_: str, reason: str, message: str) -> None:
        """Record an Event of `type_` (NORMAL or WARNING) about the object `key` (namespace/name, or name) of that
        UID. Returns at once.
        """
        namespace, _, name = key.rpartition("/")
        about = ObjectReference(
            api_version=kind.api_version, kind=kind.name, namespace=namespace or None, name=name, uid=uid
        )
        cut = message.encode()[:MESSAGE_BYTES].decode("utf-8", "ignore")
        if not self._writer.record(about, type_, reason, cut):
            self.dropped += 1

    async def run(self) -> None:
        """Write, until cancelled."""
        await self._writer.run()

    async def flush(self, within_s: float) -> bool:
        """Wait until everything recorded is written, at most `within_s`; whether it is. `run` must be running."""
        return await self._writer.flush(within_s)

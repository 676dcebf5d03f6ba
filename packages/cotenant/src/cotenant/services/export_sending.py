"""Sending to a collector what waits, within bounds: the oldest is dropped, and counted.

A collector that is away or full gets each request again until it takes it; one that it refuses is not sent again.
"""

from __future__ import annotations

import asyncio

from cotenant.drivers.otlp.collector import OtlpCollector
from cotenant.engine.fleet.backlog import Backlog, Export
from cotenant.model.errors import Permanent, Transient

MAX_WAITING_BYTES = 32 << 20
_AGAIN_S = 2.0


class ExportSender:
    """One collector's. `url` may be changed while it runs; empty: nothing is sent."""

    def __init__(self, url: str = "", max_bytes: int = MAX_WAITING_BYTES, again_s: float = _AGAIN_S) -> None:
        self.backlog = Backlog(max_bytes)
        self.fault = ""
        self.sent = self.refused = 0  # items
        self._url, self._again_s = url.rstrip("/"), again_s
        self._came = asyncio.Event()

    @property
    def dropped(self) -> int:
        """Items that waited too long."""
        return self.backlog.dropped

    def send_to(self, url: str) -> None:
        """From now on."""
        self._url = url.rstrip("/")
        self._came.set()

    def put(self, export: Export) -> None:
        """To be sent."""
        self.backlog.put(export)
        self._came.set()

    async def run(self) -> None:
        """Until cancelled; what waits then is lost."""
        collector: OtlpCollector | None = None
        try:
            while True:
                if collector is not None and collector.url != self._url:
                    await collector.close()
                    collector = None
                export = self.backlog.first()
                if export is None or not self._url:
                    self._came.clear()
                    await self._came.wait()
                    continue
                collector = collector or OtlpCollector(self._url)
                if not await self._sent(collector, export):
                    await asyncio.sleep(self._again_s)
        finally:
            if collector is not None:
                await collector.close()

    async def _sent(self, collector: OtlpCollector, export: Export) -> bool:
        try:
            await collector.send(export.path, export.body, export.content_type, export.content_encoding)
            self.fault = ""
            self.sent += export.items
        except Permanent as error:  # sent again, it would be refused again
            self.fault = str(error)
            self.refused += export.items
        except Transient as error:
            self.fault = str(error)
            return False
        self.backlog.done(export)
        return True

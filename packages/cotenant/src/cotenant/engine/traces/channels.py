"""Channels of spans that are closed at the door: a service's, or one instance's, until a time.

Closing must not be mistaken for silence: what was left out is counted by channel, and an objective asks here whether it
is blind before it says that nothing arrives. A channel opens by itself, so that nobody has to remember it.
Limits: traces that pass through a closed service lack its spans and are partial; what a service says is its service or
instance is believed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from cotenant.model.errors import InvalidInput
from cotenant.model.traces.spans import SpanBatch, SpanSource

MAX_CLOSED = 1_000
MIN_FOR_S, MAX_FOR_S = 1.0, 7 * 86_400.0
MAX_NAME = 400  # characters
MAX_SERVICES = 20  # of an instance's channel that are remembered


@dataclass(frozen=True, slots=True)
class ClosedChannel:
    """A channel as it stands. Times are Unix seconds; `services`: whose spans were left out."""

    name: str
    since_s: float
    until_s: float
    spans: int
    services: tuple[str, ...]


@dataclass(slots=True)
class _Closed:
    since_s: float
    until_s: float
    spans: int = 0
    services: dict[str, None] = field(default_factory=dict)


class Channels:
    """All that are closed. Names: NAME (in every namespace), NAMESPACE/NAME, or a `service.instance.id`."""

    def __init__(self, max_closed: int = MAX_CLOSED) -> None:
        self.spans = 0  # left out since the start
        self._max_closed = max_closed
        self._closed: dict[str, _Closed] = {}

    def __len__(self) -> int:
        return len(self._closed)

    def close(self, name: str, for_s: float, now_s: float) -> ClosedChannel:
        """Close a channel, or change how long it stays closed. Raises `InvalidInput`."""
        self.tick(now_s)
        if not 0 < len(name) <= MAX_NAME or not name.isprintable():
            raise InvalidInput("channel", name[:80], f"a service or an instance, 1 to {MAX_NAME} printable characters")
        if not MIN_FOR_S <= for_s <= MAX_FOR_S:
            raise InvalidInput("for", for_s, f"{MIN_FOR_S:.0f} s to {MAX_FOR_S / 86_400:.0f} days")
        known = self._closed.get(name)
        if known is not None:
            known.until_s = now_s + for_s
        elif len(self._closed) >= self._max_closed:
            raise InvalidInput("channel", name, f"at most {self._max_closed} closed channels", "open one first")
        else:
            known = self._closed[name] = _Closed(now_s, now_s + for_s)
        return _shown(name, known)

    def open(self, name: str) -> ClosedChannel | None:
        """Open a channel; None where it is not closed."""
        known = self._closed.pop(name, None)
        return None if known is None else _shown(name, known)

    def tick(self, now_s: float) -> None:
        """Open those whose time is over."""
        for name in [name for name, closed in self._closed.items() if closed.until_s <= now_s]:
            del self._closed[name]

    def closed(self, now_s: float) -> tuple[ClosedChannel, ...]:
        """Those that are closed now, the next to open first."""
        self.tick(now_s)
        return tuple(sorted((_shown(*known) for known in self._closed.items()), key=lambda channel: channel.until_s))

    def restore(self, saved: Iterable[ClosedChannel], now_s: float) -> None:
        """Close again what was closed when another process ended."""
        for channel in saved:
            if channel.until_s > now_s and len(self._closed) < self._max_closed:
                services = dict.fromkeys(channel.services[:MAX_SERVICES])
                self._closed[channel.name] = _Closed(channel.since_s, channel.until_s, channel.spans, services)

    def admitted(self, batch: SpanBatch, now_s: float) -> SpanBatch:
        """The batch without the spans of closed channels, which are counted."""
        if not self._closed:
            return batch
        self.tick(now_s)
        shut = [self._channel_of(source) for source in batch.sources]
        if not any(shut):
            return batch
        counts = np.bincount(batch.columns.source, minlength=len(shut)).tolist()
        for source, name, spans in zip(batch.sources, shut, counts, strict=True):
            if name and spans:
                closed = self._closed[name]
                closed.spans += spans
                self.spans += spans
                if len(closed.services) < MAX_SERVICES:
                    closed.services[source.qualified_service] = None
        kept = np.array([not name for name in shut], np.bool_)[batch.columns.source]
        return SpanBatch(
            batch.columns.take(kept), batch.names, batch.sources, batch.body, batch.rejected, batch.problem
        )

    def of_service(self, namespace: str, service: str) -> ClosedChannel | None:
        """The channel by which all spans of a service are left out."""
        for name in (_qualified(namespace, service), service):
            if (known := self._closed.get(name)) is not None:
                return _shown(name, known)
        return None

    def of_instances(self, namespace: str, service: str) -> tuple[ClosedChannel, ...]:
        """Channels of instances that have left out spans of this service."""
        wanted = _qualified(namespace, service)
        return tuple(_shown(name, known) for name, known in self._closed.items() if wanted in known.services)

    def _channel_of(self, source: SpanSource) -> str:
        names = source.qualified_service, source.service, source.instance
        return next((name for name in names if name and name in self._closed), "")


def _qualified(namespace: str, service: str) -> str:
    return f"{namespace}/{service}" if namespace else service


def _shown(name: str, closed: _Closed) -> ClosedChannel:
    return ClosedChannel(name, closed.since_s, closed.until_s, closed.spans, tuple(closed.services))

"""Which Events to write: a bounded queue that combines repeated ones. A state machine without I/O.

Ten thousand pending pods report every few seconds that they are pending; an Event each would cost more than scheduling,
and old ones hide what a person looks for. A repeated message about the same object raises the count of the existing
Event (within `WINDOW_S`); an object with more than `DISTINCT` different messages for one reason has the further ones
combined into one; the queue is bounded and what does not fit is dropped and counted.
Limits: an Event is a hint for people; nothing may depend on it.
Source: Kubernetes API reference (v1 Event), and the behaviour of client-go's event correlator.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from datetime import UTC, datetime

from cotenant.drivers.kube.kinds.event import Event, EventSource
from cotenant.drivers.kube.kinds.parts import ObjectMeta, ObjectReference

WINDOW_S = 600.0
DISTINCT = 10
REMEMBERED = 4096
LONGEST = 1024  # characters of a message, the API's limit
COMBINED = "(combined from similar events): "

Subject = tuple[str, str, str, str]  # namespace, uid, type, reason
Key = tuple[Subject, str]


@dataclass(slots=True)
class _Known:
    """An Event of ours on the server, or on its way there."""

    event: Event
    last_s: float
    written: int = 0  # the count that the server has; 0 = it has none


@dataclass(frozen=True, slots=True)
class EventWrite:
    """Something to write: a new Event, or the new count of one."""

    event: Event
    is_new: bool
    key: Key = field(repr=False)


class EventCorrelator:
    """Recorded Events, and which of them to write. Times are Unix seconds."""

    def __init__(self, component: str, instance: str, capacity: int = 1024) -> None:
        self.dropped = 0
        self.repeated = 0
        self._source = EventSource(component)
        self._instance = instance
        self._capacity = capacity
        self._known: OrderedDict[Key, _Known] = OrderedDict()
        self._waiting: OrderedDict[Key, None] = OrderedDict()
        self._busy: set[Key] = set()  # taken, and not yet `written` or `failed`: one write at a time for an Event
        self._made = 0
        self._messages: OrderedDict[Subject, dict[str, float]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._waiting)

    def record(self, about: ObjectReference, kind: str, reason: str, message: str, now_s: float) -> bool:
        """Record an Event. `kind` is Normal or Warning. False = dropped: the queue is full."""
        namespace = about.namespace or "default"
        subject: Subject = (namespace, about.uid or f"{about.kind}/{about.name}", kind, reason)
        key = (subject, self._combined(subject, message[:LONGEST], now_s))
        shown = message[:LONGEST] if key[1] else f"{COMBINED}{message}"[:LONGEST]
        known = self._known.get(key)
        idle = key not in self._waiting and key not in self._busy
        if known is not None and idle and not 0 <= now_s - known.last_s < WINDOW_S:
            del self._known[key]
            known = None
        if idle:
            if len(self._waiting) >= self._capacity:
                self.dropped += 1
                return False
            self._waiting[key] = None
        if known is None:
            self._known[key] = _Known(self._event(about, namespace, kind, reason, shown, now_s), now_s)
            self._forget()
        else:
            self.repeated += 1
            known.last_s = now_s
            known.event = _repeated(known.event, shown, now_s)
            self._known.move_to_end(key)
        return True

    def take(self) -> EventWrite | None:
        """The next to write; None if the queue is empty. `written` or `failed` must follow."""
        if not self._waiting:
            return None
        key, _ = self._waiting.popitem(last=False)
        self._busy.add(key)
        known = self._known[key]
        return EventWrite(known.event, known.written == 0, key)

    def written(self, write: EventWrite) -> None:
        """The server has it. If it was recorded again meanwhile, it is queued again."""
        self._busy.discard(write.key)
        known = self._known[write.key]
        known.written = write.event.count
        if known.event.count != write.event.count:
            self._waiting[write.key] = None

    def failed(self, write: EventWrite, again: bool) -> None:
        """It was not written. `again`: it is to be tried once more; otherwise it is dropped and forgotten."""
        self._busy.discard(write.key)
        if again:
            self._waiting[write.key] = None
        else:
            self.dropped += 1
            del self._known[write.key]

    def vanished(self, write: EventWrite) -> None:
        """The Event whose count was to be raised no longer exists: create it again."""
        self._busy.discard(write.key)
        self._known[write.key].written = 0
        self._waiting[write.key] = None

    def _forget(self) -> None:
        """Drop the oldest Events beyond the limit, unless they are still to be written."""
        while len(self._known) > REMEMBERED + self._capacity:
            oldest = next(iter(self._known))
            if oldest in self._waiting or oldest in self._busy:
                return
            del self._known[oldest]

    def _combined(self, subject: Subject, message: str, now_s: float) -> str:
        """The message, or empty if the subject has had too many different ones within the window."""
        messages = self._messages.setdefault(subject, {})
        self._messages.move_to_end(subject)
        if len(self._messages) > REMEMBERED:
            self._messages.popitem(last=False)
        if message not in messages and len(messages) >= DISTINCT:
            for old in [text for text, when_s in messages.items() if not 0 <= now_s - when_s < WINDOW_S]:
                del messages[old]
            if len(messages) >= DISTINCT:
                return ""
        messages[message] = now_s
        return message

    def _event(
        self, about: ObjectReference, namespace: str, kind: str, reason: str, message: str, now_s: float
    ) -> Event:
        # A name of our own: generateName would have to end in something else than the usual dot, which Events refuse.
        self._made += 1
        name = f"{(about.name or 'unknown')[:200]}.{int(now_s * 1e6):x}.{self._made:x}"
        now = _time(now_s)
        return Event(
            metadata=ObjectMeta(name=name, namespace=namespace),
            involved_object=about,
            reason=reason,
            message=message,
            type=kind,
            count=1,
            first_timestamp=now,
            last_timestamp=now,
            source=self._source,
            reporting_component=self._source.component,
            reporting_instance=self._instance,
        )


def _repeated(event: Event, message: str, now_s: float) -> Event:
    return Event(
        metadata=event.metadata,
        involved_object=event.involved_object,
        reason=event.reason,
        message=message,
        type=event.type,
        count=event.count + 1,
        first_timestamp=event.first_timestamp,
        last_timestamp=_time(now_s),
        source=event.source,
        reporting_component=event.reporting_component,
        reporting_instance=event.reporting_instance,
    )


def _time(now_s: float) -> str:
    return datetime.fromtimestamp(now_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

"""The state machine of a list/watch conversation with the API server, without I/O.

A watch ends without an error, expires, repeats itself, stays silent, breaks off within a line, or meets a server that
is away for half a minute; each needs a different next step, and none may lose or invent a change. The machine takes
what was received and returns the next request: a page of a list, a watch, or a pause. Changes come back as
`Notification`s (cache.py). The reflector (reflector.py) does the I/O.

- A list is read in pages. A page token that has expired (410) restarts it with pages four times as large, after three
  of these in one piece: so it ends, and memory for the answers grows only where it must. The first may be reported in
  an order of its own (`first_by`).
- What a list changed is reported at once, or in portions (`next_portion`): then the cache follows by the portion, and
  its version only with the last. An object that a later list has in the known version is kept as it is known.
- With `streaming`, the list is requested as a watch (sendInitialEvents) and ends with a marked bookmark; a server that
  refuses, or that twice ends it early, is asked for pages.
- A watch that ends without an error continues from the last version seen. After 410 comes a list, whose difference is
  reported.
- A watch that received nothing, not even a bookmark, for its whole time may wait for a version that will never come: a
  list follows.
- A line that cannot be decoded ends the watch; a second one without any event in between leads to a list.
- Failures pause: exponential, with jitter, capped. Only events of a watch, or a watch that stayed open, reset the count
  of failures: a list that succeeds before a watch that always fails must not make a hot loop.

Source: Kubernetes API concepts ("Efficient detection of changes", "Streaming lists", "Watch bookmarks").
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Generic, TypeVar

from cotenant.drivers.kube.cache.cache import ApiObject, Cache, Changed, MalformedObject, Notification, Synced
from cotenant.drivers.kube.client.errors import Gone, Invalid, StreamTimeout, Throttled

T = TypeVar("T", bound=ApiObject)

PAUSE_S = 0.5  # after the first failure
LONGEST_PAUSE_S = 30.0
GROWTH, MOST_GROWTH = 4, 64  # of pages, after a token has expired
STEADY_S = 1.0  # a watch that stayed open for so long is no failure, even without events


@dataclass(frozen=True, slots=True)
class ListPage:
    """Request a page; `limit` 0 = all in one. An empty token = the first page."""

    limit: int
    continue_token: str = ""


@dataclass(frozen=True, slots=True)
class OpenWatch:
    """Watch for events after `resource_version`. `initial`: preceded by all objects that exist."""

    resource_version: str
    initial: bool = False


@dataclass(frozen=True, slots=True)
class Pause:
    """Send no request for so long."""

    seconds: float
    why: str
    expected: bool = False  # no failure


Step = ListPage | OpenWatch | Pause


class WatchEventType(Enum):
    """Types of watch events about an object."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"


@dataclass(slots=True)
class WatchCounts:
    """Counters for metrics."""

    lists: int = 0
    watches: int = 0
    events: int = 0
    bookmarks: int = 0
    malformed: int = 0
    invalid_lines: int = 0
    failures: int = 0
    expired: int = 0


class ListWatch(Generic[T]):
    """The conversation about one kind. `random` gives numbers in [0, 1)."""

    def __init__(
        self,
        kind: str,
        random: Callable[[], float],
        *,
        page: int = 500,
        streaming: bool = False,
        first_by: Callable[[T], float] | None = None,
        first_portion: int = 0,
        later_portion: int = 0,
    ) -> None:
        """`first_portion`, `later_portion`: changes of the first list, and of a later one, that are reported together;
        0: all of them.
        """
        self._first_by = first_by
        self._first_portion, self._later_portion = first_portion, later_portion
        self._left: deque[Changed[T]] = deque()  # of a list whose report goes on
        self._left_version: str | None = None
        self.cache: Cache[T] = Cache(kind)
        self.counts = WatchCounts()
        self.kind = kind
        self._random = random
        self._page = page
        self._streaming = streaming
        self._cut_streams = 0  # streaming lists that ended before their bookmark
        self._listing = True
        self._growth = 1  # of the pages of this list
        self._token = ""
        self._listed: Cache[T] = Cache(kind)  # so that events of a streaming list may repeat and overtake each other
        self._malformed_keys: set[str] = set()  # keys listed but malformed
        self._failed = 0  # in a row
        self._pause: Pause | None = None
        self._received = False  # anything in the current watch
        self._last_line_invalid = (
            False  # the last watch ended with a line that could not be read, and nothing came since
        )

    @property
    def synced(self) -> bool:
        """Whether a complete list has ever been received and reported."""
        return self.counts.lists > 0

    @property
    def is_reporting(self) -> bool:
        """Whether a part of what a list changed is not reported yet: `next_portion` comes before any other step."""
        return self._left_version is not None

    def step(self) -> Step:
        """The next request. A pause is returned once; after it comes the request."""
        if self._pause is not None:
            pause, self._pause = self._pause, None
            return pause
        if not self._listing:
            return OpenWatch(self.cache.resource_version)
        if self._streaming:
            return OpenWatch("", initial=True)
        return ListPage(self._page * self._growth if self._growth <= MOST_GROWTH else 0, self._token)

    def on_page(
        self, objects: Sequence[T], malformed: Sequence[tuple[str, str]], resource_version: str, continue_token: str
    ) -> list[Notification[T]]:
        """A page was received. `malformed` are (key, reason) of objects that could not be decoded."""
        known = self.cache.known if len(self.cache) else None
        for obj in objects:
            self._listed.gather(obj if known is None else known(obj))
        notifications: list[Notification[T]] = [self._malformed(key, why) for key, why in malformed]
        self._malformed_keys.update(key for key, _ in malformed)
        self._token = continue_token
        return notifications if continue_token else notifications + self._complete_list(resource_version)

    def on_absent(self, again_s: float) -> list[Notification[T]]:
        """The server does not serve the kind (its definition is not installed): it has no objects. It is listed
        again after so long.
        """
        self._relist()
        notifications = self._complete_list("0") if len(self.cache) or not self.synced else []
        self._relist()
        self._failed = 0
        self._pause = Pause(again_s, "the server does not serve this kind", expected=True)
        return notifications

    def on_open(self) -> None:
        """A watch was opened."""
        self.counts.watches += 1
        self._received = False

    def on_event(self, event_type: WatchEventType, obj: T) -> list[Notification[T]]:
        """An event about one object."""
        self._note_event()
        self.counts.events += 1
        if self._listing:
            self._apply(self._listed, event_type, self.cache.known(obj))
            return []
        return list(self._apply(self.cache, event_type, obj))

    def on_malformed(self, key: str, why: str, resource_version: str) -> list[Notification[T]]:
        """An event about an object that cannot be decoded: it is skipped, and not requested again."""
        self._note_event()
        if self._listing:
            self._malformed_keys.add(key)
        else:
            self.cache.advance(resource_version)
        return [self._malformed(key, why)]

    def on_bookmark(self, resource_version: str, initial_end: bool) -> list[Notification[T]]:
        """A bookmark: how far the watch has come; `initial_end`: all objects that exist have been sent."""
        self._note_event()
        self.counts.bookmarks += 1
        if self._listing:
            return self._complete_list(resource_version) if initial_end else []
        self.cache.advance(resource_version)
        return []

    def on_invalid_line(self, why: str) -> None:
        """A line that is no event, or one of an unknown type. The watch is over; its content is requested again."""
        self.counts.invalid_lines += 1
        if self._last_line_invalid or self._listing:
            self._relist()
        self._last_line_invalid = True
        self._fail(why)

    def on_end(self, lasted_s: float) -> None:
        """A watch ended without an error after so many seconds."""
        if self._listing:
            self._cut_stream()
        elif not self._received and lasted_s < STEADY_S:
            self._fail("the watch ended at once")
        elif not self._received:
            self._failed = 0
            self._relist()
        else:
            self._failed = 0

    def on_error(self, error: Exception, lasted_s: float = 0.0) -> None:
        """A request failed, or a watch ended with an error: one of errors.py."""
        if isinstance(error, Gone):
            self.counts.expired += 1
            # Page tokens expire after minutes: larger pages are sooner through, and a list in one piece needs none.
            self._growth = self._growth * GROWTH if self._listing and self._token else 1
            self._relist()
            if self._failed or not self._received:
                self._fail(str(error))
            return
        if self._listing and self._streaming and isinstance(error, Invalid):
            self._streaming = False
            self._relist()
            return
        if isinstance(error, StreamTimeout):
            self.on_end(max(lasted_s, STEADY_S))
            return
        if self._listing:
            self._cut_stream()
        elif lasted_s >= STEADY_S:
            self._failed = 0
        self._fail(str(error), error.retry_after_s if isinstance(error, Throttled) else 0.0)

    @staticmethod
    def _apply(cache: Cache[T], event_type: WatchEventType, obj: T) -> list[Changed[T]]:
        return cache.drop(obj) if event_type is WatchEventType.DELETED else cache.put(obj)

    def _complete_list(self, resource_version: str) -> list[Notification[T]]:
        gathered, self._listed = self._listed, Cache(self.kind)
        self.cache.stale += gathered.stale
        unread, self._malformed_keys = self._malformed_keys, set()
        self._listing = False
        self._growth = 1
        self._token = ""
        self._received = False  # so that a watch that expires at once is a failure, not a reason for the next list
        self._cut_streams = 0
        self._left = deque(self._ordered(self.cache.differences(gathered, unread)))
        self._left_version = resource_version
        return [] if self._portion else self.next_portion()

    def next_portion(self) -> list[Notification[T]]:
        """What is reported next of a list; nothing where nothing is left."""
        version = self._left_version
        if version is None:
            return []
        left = self._left
        changes = [left.popleft() for _ in range(min(self._portion or len(left), len(left)))]
        self.cache.take(changes)
        notifications: list[Notification[T]] = [*changes]
        if not left:
            self._left_version = None
            self.cache.listed_up_to(version)
            self.counts.lists += 1
            notifications.append(Synced(self.kind, version, len(self.cache)))
        return notifications

    @property
    def _portion(self) -> int:
        return self._later_portion if self.synced else self._first_portion

    def _ordered(self, changes: list[Changed[T]]) -> list[Changed[T]]:
        first_by = self._first_by
        if first_by is not None and not self.synced:
            changes.sort(key=lambda change: first_by(change.new) if change.new is not None else 0.0)
        return changes

    def _relist(self) -> None:
        self._listing = True
        self._token = ""
        self._listed = Cache(self.kind)
        self._malformed_keys = set()

    def _cut_stream(self) -> None:
        if self._streaming and self._listing:
            self._relist()
            self._cut_streams += 1
            if self._cut_streams > 1:
                self._streaming = False

    def _note_event(self) -> None:
        self._received = True
        if not self._listing:
            self._failed = 0
            self._last_line_invalid = False

    def _malformed(self, key: str, why: str) -> MalformedObject:
        self.counts.malformed += 1
        return MalformedObject(self.kind, key, why)

    def _fail(self, why: str, at_least_s: float = 0.0) -> None:
        self.counts.failures += 1
        longest_s = min(LONGEST_PAUSE_S, PAUSE_S * 2.0 ** min(self._failed, 16))
        self._failed += 1
        self._pause = Pause(max(at_least_s, longest_s * (0.5 + 0.5 * self._random())), why)

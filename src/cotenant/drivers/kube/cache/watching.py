"""How a list/watch conversation goes on, whatever the server does: a state machine without I/O.

Problem: a watch ends without a word, expires, repeats itself, stays silent, breaks off within a line, or meets a server that is gone for
half a minute; each wants a different next step, and none may lose or invent a change. Choice: the machine is told what was heard and says
what to ask next: a page of a list, a watch, or a pause. What was heard comes back as `Happening`s (cache.py). The reflector (reflector.py)
does the I/O.

- A list is read in pages. A page that is too old (410) starts the list again in one piece.
- With `streaming`, the list is asked for as a watch (sendInitialEvents) and ends with a marked bookmark; a server that refuses, or that twice
  ends it early, is asked for pages.
- A watch that ends without an error goes on from the last version seen. After 410 comes a list, whose difference is reported.
- A watch that said nothing at all, not even a bookmark, for its whole time may wait for a version that will never come: a list follows.
- A line that cannot be read ends the watch; one that cannot be read twice without anything new in between leads to a list.
- Failures pause: exponential, with jitter, capped. Only news from a watch, or one that stayed open, forgets earlier failures: a list that
  succeeds before a watch that always fails must not make a hot loop.

Source: Kubernetes API concepts ("Efficient detection of changes", "Streaming lists", "Watch bookmarks").
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Generic, TypeVar

from cotenant.drivers.kube.cache.cache import Cache, Happening, HasMeta, Malformed, Synced, key_of
from cotenant.drivers.kube.client.errors import Gone, Invalid, Silent, Throttled

T = TypeVar("T", bound=HasMeta)

PAUSE_S = 0.5  # after the first failure
LONGEST_PAUSE_S = 30.0
STEADY_S = 1.0  # a watch that stayed open for so long is no failure, even if nothing happened


@dataclass(frozen=True, slots=True)
class ListPage:
    """Ask for a page; `limit` 0 = all in one. An empty token = the first page."""

    limit: int
    continue_token: str = ""


@dataclass(frozen=True, slots=True)
class Watch:
    """Ask for what happens after `resource_version`. `initial`: preceded by all that exists."""

    resource_version: str
    initial: bool = False


@dataclass(frozen=True, slots=True)
class Pause:
    """Ask nothing for so long."""

    seconds: float
    why: str
    expected: bool = False  # no failure


Step = ListPage | Watch | Pause


class Said(Enum):
    """Kinds of reports about an object in a watch."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"


@dataclass(slots=True)
class Counts:
    """What happened so far, for metrics."""

    lists: int = 0
    watches: int = 0
    events: int = 0
    bookmarks: int = 0
    malformed: int = 0
    garbage: int = 0
    failures: int = 0
    expired: int = 0


class Watching(Generic[T]):
    """One kind's conversation. `random` gives numbers in [0, 1)."""

    def __init__(self, kind: str, random: Callable[[], float], *, page: int = 500, streaming: bool = False) -> None:
        self.cache: Cache[T] = Cache(kind)
        self.counts = Counts()
        self.kind = kind
        self._random = random
        self._page = page
        self._streaming = streaming
        self._cut_streams = 0  # streaming lists that ended before their bookmark
        self._listing = True
        self._whole = False  # the next list comes in one piece
        self._token = ""
        self._gathered: dict[str, T] = {}
        self._unread: set[str] = set()  # keys listed but malformed
        self._failed = 0  # in a row
        self._pause: Pause | None = None
        self._heard = False  # anything in the present watch
        self._garbled = False  # the last watch ended with a line that could not be read, and nothing came since

    @property
    def synced(self) -> bool:
        """Whether a complete list has ever been taken in."""
        return self.counts.lists > 0

    def step(self) -> Step:
        """What to ask next. A pause is named once; after it comes the question."""
        if self._pause is not None:
            pause, self._pause = self._pause, None
            return pause
        if not self._listing:
            return Watch(self.cache.resource_version)
        if self._streaming:
            return Watch("", initial=True)
        return ListPage(0 if self._whole else self._page, self._token)

    def on_page(
        self, objects: Sequence[T], malformed: Sequence[tuple[str, str]], resource_version: str, continue_token: str
    ) -> list[Happening[T]]:
        """A page came. `malformed` are (key, why) of objects that could not be read."""
        for obj in objects:
            self._gathered[key_of(obj.metadata)] = obj
        happened: list[Happening[T]] = [self._malformed(key, why) for key, why in malformed]
        self._unread.update(key for key, _ in malformed)
        self._token = continue_token
        return happened if continue_token else happened + self._listed(resource_version)

    def on_absent(self, again_s: float) -> list[Happening[T]]:
        """The server does not know the kind (its definition is not installed): there are none of it. It is listed again after so long."""
        self._relist()
        happened = self._listed("0") if len(self.cache) or not self.synced else []
        self._relist()
        self._failed = 0
        self._pause = Pause(again_s, "the server does not know this kind", expected=True)
        return happened

    def on_open(self) -> None:
        """A watch has begun to answer."""
        self.counts.watches += 1
        self._heard = False

    def on_event(self, said: Said, obj: T) -> list[Happening[T]]:
        """A report about one object."""
        self._news()
        self.counts.events += 1
        if self._listing:
            if said is Said.DELETED:
                self._gathered.pop(key_of(obj.metadata), None)
            else:
                self._gathered[key_of(obj.metadata)] = obj
            return []
        return list(self.cache.drop(obj) if said is Said.DELETED else self.cache.put(obj))

    def on_malformed(self, key: str, why: str, resource_version: str) -> list[Happening[T]]:
        """A report about an object that cannot be read: it is passed over, so it is not asked for again."""
        self._news()
        if self._listing:
            self._unread.add(key)
        else:
            self.cache.advance(resource_version)
        return [self._malformed(key, why)]

    def on_bookmark(self, resource_version: str, initial_end: bool) -> list[Happening[T]]:
        """A bookmark: how far the watch has come; `initial_end`: all that exists has been said."""
        self._news()
        self.counts.bookmarks += 1
        if self._listing:
            return self._listed(resource_version) if initial_end else []
        self.cache.advance(resource_version)
        return []

    def on_garbage(self, why: str) -> None:
        """A line that is no report, or one of a type nobody knows. The watch is over; what was in it is asked for again."""
        self.counts.garbage += 1
        if self._garbled or self._listing:
            self._relist()
        self._garbled = True
        self._fail(why)

    def on_end(self, lasted_s: float) -> None:
        """A watch ended without an error after so many seconds."""
        if self._listing:
            self._cut_stream()
        elif not self._heard and lasted_s < STEADY_S:
            self._fail("the watch ended at once")
        elif not self._heard:
            self._failed = 0
            self._relist()
        else:
            self._failed = 0

    def on_error(self, error: Exception, lasted_s: float = 0.0) -> None:
        """A question failed, or a watch ended with an error: one of errors.py."""
        if isinstance(error, Gone):
            self.counts.expired += 1
            # Of a page: tokens are forgotten after minutes; a list in one piece needs none.
            self._whole = self._listing and bool(self._token)
            self._relist()
            if self._failed or not self._heard:
                self._fail(str(error))
            return
        if self._listing and self._streaming and isinstance(error, Invalid):
            self._streaming = False
            self._relist()
            return
        if isinstance(error, Silent):
            self.on_end(max(lasted_s, STEADY_S))
            return
        if self._listing:
            self._cut_stream()
        elif lasted_s >= STEADY_S:
            self._failed = 0
        self._fail(str(error), error.retry_after_s if isinstance(error, Throttled) else 0.0)

    def _listed(self, resource_version: str) -> list[Happening[T]]:
        gathered, self._gathered = self._gathered, {}
        unread, self._unread = self._unread, set()
        self._listing = self._whole = False
        self._token = ""
        self._heard = False  # so that a watch that expires at once is a failure, not a reason for the next list
        self._cut_streams = 0
        self.counts.lists += 1
        changes: list[Happening[T]] = list(self.cache.replace(gathered.values(), resource_version, unread))
        changes.append(Synced(self.kind, resource_version, len(self.cache)))
        return changes

    def _relist(self) -> None:
        self._listing = True
        self._token = ""
        self._gathered = {}
        self._unread = set()

    def _cut_stream(self) -> None:
        if self._streaming and self._listing:
            self._relist()
            self._cut_streams += 1
            if self._cut_streams > 1:
                self._streaming = False

    def _news(self) -> None:
        self._heard = True
        if not self._listing:
            self._failed = 0
            self._garbled = False

    def _malformed(self, key: str, why: str) -> Malformed:
        self.counts.malformed += 1
        return Malformed(self.kind, key, why)

    def _fail(self, why: str, at_least_s: float = 0.0) -> None:
        self.counts.failures += 1
        longest_s = min(LONGEST_PAUSE_S, PAUSE_S * 2.0 ** min(self._failed, 16))
        self._failed += 1
        self._pause = Pause(max(at_least_s, longest_s * (0.5 + 0.5 * self._random())), why)

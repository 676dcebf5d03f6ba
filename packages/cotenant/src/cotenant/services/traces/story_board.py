"""The last story of each service on each node, as agents sent it.

What happened to a service is asked for its name, and its replicas are on many nodes. The newest report of each service
and node, in memory; agents send all of theirs after a restart of this process.
Limits: `MOST` reports, then the one that was received first is dropped; a node that is gone is forgotten after a day.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from cotenant.engine.node.recovery.story import ServiceStory
from cotenant.services.reporting.stories import StoryReport

MOST = 1_000
FORGOTTEN_S = 86_400.0


class StoryRow(msgspec.Struct, frozen=True, rename="camel"):
    """One service on one node. `at_s`: Unix time of the story's `now_us`."""

    node: str
    at_s: float
    story: ServiceStory


class StoryBoard:
    """By service and node. `now` gives Unix seconds."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._known: dict[tuple[str, str], StoryRow] = {}

    def __len__(self) -> int:
        return len(self._known)

    def add(self, report: StoryReport) -> None:
        """Keep a report in place of an earlier one. One that is dated ahead counts as of now."""
        key = (report.story.service, report.node)
        self._known.pop(key, None)
        self._known[key] = StoryRow(report.node, min(report.at_s, self._now()), report.story)
        while len(self._known) > MOST:
            del self._known[next(iter(self._known))]

    def rows(self, service: str = "") -> list[StoryRow]:
        """Of a service, or of all, the newest first."""
        oldest_s = self._now() - FORGOTTEN_S
        for key in [key for key, row in self._known.items() if row.at_s < oldest_s]:
            del self._known[key]
        found = [row for (name, _), row in self._known.items() if service in ("", name)]
        return sorted(found, key=lambda row: -row.at_s)

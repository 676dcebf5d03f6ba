"""Which of the console's sources answer, and since when one does not.

A picture that stands still looks like a calm cluster. Every source says after each attempt how it went; viewers get the
list whenever an entry changes, and name what is out of date.
Limits: a source that answers with old data counts as answering.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

CLUSTER, USE, SCHEDULER, TRACES, CREDIT, AGENT = "cluster", "use", "scheduler", "traces", "credit", "agent"
FLEET = "fleet"


@dataclass(frozen=True, slots=True)
class ConsoleSource:
    """`since_s`: Unix time since which it answers, or does not."""

    is_ok: bool
    since_s: float
    why: str = ""


class ConsoleSources:
    """The sources by name. `changed` is called when an entry changes."""

    def __init__(self, now: Callable[[], float], changed: Callable[[], None] = lambda: None) -> None:
        self.version = 0
        self.changed = changed
        self._now = now
        self._by_name: dict[str, ConsoleSource] = {}

    def ok(self, name: str) -> None:
        """It has answered."""
        self._set(name, True, "")

    def failed(self, name: str, why: str, for_s: float = 0.0) -> None:
        """It has not answered, for this many seconds already."""
        self._set(name, False, why, for_s)

    def is_ok(self, name: str) -> bool:
        """Whether it answered last time."""
        found = self._by_name.get(name)
        return found is not None and found.is_ok

    def view(self) -> dict[str, dict[str, object]]:
        """For viewers."""
        return {
            name: {"ok": source.is_ok, "since": round(source.since_s, 3), "why": source.why}
            for name, source in sorted(self._by_name.items())
        }

    def _set(self, name: str, is_ok: bool, why: str, for_s: float = 0.0) -> None:
        last = self._by_name.get(name)
        if last is not None and (last.is_ok, last.why) == (is_ok, why):
            return
        since_s = last.since_s if last is not None and last.is_ok == is_ok else self._now() - for_s
        self._by_name[name] = ConsoleSource(is_ok, since_s, why)
        self.version += 1
        self.changed()

"""Which nodes are due for a look, and the writes to them that the watch has not shown yet.

A write is lost where a replica stops leading between deciding and sending, or the server refuses it, and nobody says
so: what stands on the node is the only answer. The same write is issued again once it should have been seen, ever more
rarely.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import inf
from typing import Generic, TypeVar

SETTLE_S = 0.5
MAX_DOUBLINGS = 7
W = TypeVar("W")


@dataclass(frozen=True, slots=True)
class _Sent(Generic[W]):
    what: W
    at_s: float
    tries: int


class NodeWrites(Generic[W]):
    """By node. Times are seconds of one steady clock."""

    def __init__(self, confirm_s: float) -> None:
        """`confirm_s`: within which the watch should show a write."""
        self._confirm_s = confirm_s
        self._sent: dict[str, _Sent[W]] = {}
        self._due: dict[str, float] = {}

    def changed(self, name: str, now_s: float) -> None:
        """Something about the node is other than it was: it is due once that has settled."""
        self._later(name, now_s + SETTLE_S)

    def all_due(self, names: Iterable[str], now_s: float) -> None:
        """These are due now."""
        for name in names:
            self._later(name, now_s)

    def leads_now(self, names: Iterable[str], now_s: float) -> None:
        """This replica begins to lead: what an earlier term sent may never have been written."""
        self._sent.clear()
        self.all_due(names, now_s)

    def gone(self, name: str) -> None:
        """The node was deleted."""
        self._sent.pop(name, None)
        self._due.pop(name, None)

    def next_s(self) -> float:
        """When the next node is due; inf = not before the next event."""
        return min(self._due.values(), default=inf)

    def take_due(self, now_s: float) -> list[str]:
        """The nodes that are due, by name, and are not afterwards."""
        names = sorted(name for name, at_s in self._due.items() if at_s <= now_s)
        for name in names:
            del self._due[name]
        return names

    def stands(self, name: str) -> None:
        """The node is as it should be."""
        self._sent.pop(name, None)

    def send(self, name: str, write: W, now_s: float) -> tuple[W, ...]:
        """The write, or nothing while the same one may still be seen; the node is due again in either case."""
        sent, tries = self._sent.get(name), 1
        if sent is not None and sent.what == write:
            again_s = sent.at_s + self._confirm_s * 2 ** min(sent.tries - 1, MAX_DOUBLINGS)
            if now_s < again_s:
                self._later(name, again_s)
                return ()
            tries = sent.tries + 1
        self._sent[name] = _Sent(write, now_s, tries)
        self._later(name, now_s + self._confirm_s)
        return (write,)

    def _later(self, name: str, at_s: float) -> None:
        self._due[name] = min(self._due.get(name, inf), at_s)

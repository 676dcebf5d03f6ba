"""Back-off of NonStrict gangs that released their nodes because their waiting time was over.

A gang that can never complete takes nodes, holds them for its waiting time, releases them and takes them again; pods
that fit beside it never get the room. After each waiting time that ended without completion, the gang is in back-off,
with all gangs that are placed together with it, for twice as long as before. In back-off its members are placed as
those of a Strict gang: all that are needed, or none, so it can still complete whenever it fits, and holds nothing
meanwhile. The first back-off is at least the waiting time, so that a gang holds nodes for at most half of the time, and
longer than any pod's back-off, so that every pod is tried. The count ends when the gang completes, changes its
specification, or loses its last member.

Source: the doubling is that of kube-scheduler's back-off; Koordinator's gangs have none beyond that of each pod.
Limits: kept in memory, so a restart forgets it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import inf

MAX_DOUBLINGS = 10  # the longest back-off is 1024 times the first


@dataclass(slots=True)
class _BackOff:
    times: int  # windows in a row that ended without completion
    length_s: float
    until_s: float
    active: bool = True


class GangBackOffs:
    """The back-off of each gang, by namespace/name."""

    def __init__(self) -> None:
        self._of: dict[str, _BackOff] = {}

    def copy(self) -> GangBackOffs:
        """The same back-offs, independent of these."""
        made = GangBackOffs()
        made._of = {key: replace(back_off) for key, back_off in self._of.items()}
        return made

    def each(self) -> Iterable[object]:
        """What it remembers of each gang; read only."""
        return self._of.values()

    def start(self, keys: Iterable[str], first_s: float, now_s: float) -> None:
        """The waiting time of these gangs, which are placed together, is over. `first_s`: the length of a first
        back-off.
        """
        keys = tuple(keys)
        times = 1 + max((self.times(key) for key in keys), default=0)
        length_s = first_s * 2.0 ** min(times - 1, MAX_DOUBLINGS)
        for key in keys:
            self._of[key] = _BackOff(times, length_s, now_s + length_s)

    def end_due(self, now_s: float) -> tuple[str, ...]:
        """End the back-offs whose time is over, and return their gangs; the counts stay."""
        due = tuple(key for key, back_off in self._of.items() if back_off.active and back_off.until_s <= now_s)
        for key in due:
            self._of[key].active = False
        return due

    def forget(self, key: str) -> bool:
        """The gang completed or is another one now. Whether it was in back-off."""
        found = self._of.pop(key, None)
        return found is not None and found.active

    def is_active(self, key: str) -> bool:
        """Whether the gang is in back-off."""
        found = self._of.get(key)
        return found is not None and found.active

    def times(self, key: str) -> int:
        """How many waiting times in a row ended without completion."""
        found = self._of.get(key)
        return found.times if found is not None else 0

    def length_s(self, key: str) -> float:
        """The length of its back-off, 0 outside of one."""
        found = self._of.get(key)
        return found.length_s if found is not None and found.active else 0.0

    def until_s(self, key: str) -> float:
        """When its back-off ends, -inf outside of one."""
        found = self._of.get(key)
        return found.until_s if found is not None and found.active else -inf

    def next_s(self) -> float:
        """When `end_due` will next return a gang, inf for never."""
        return min((back_off.until_s for back_off in self._of.values() if back_off.active), default=inf)

"""What the engine has to say: instructions that nobody has fetched yet, and counts of what was odd.

Problem: a replica that does not lead judges nothing and is asked for nothing, and yet its pods' stories go on; and a pod that waits must not be
told the same thing after every judgement. Choice: instructions stand in line until the next `take`, an unchanged message is not repeated, and
the line of what nobody fetches is cut by half when it is long. The nearest miss changes with every pod
that comes or goes, so it alone is no reason to tell ten thousand pods anew. Limits: cut instructions are gone; the pods are judged anew by
whoever leads; a nearest miss that was told is that of the moment when the message last changed.
"""

from __future__ import annotations

from cotenant.engine.framework.instructions import Instruction, Unschedulable
from cotenant.engine.framework.pod_state import PodInfo
from cotenant.model.decisions.record import DecisionRecord

_MOST_COUNTS = 200
_MOST_PENDING = 50_000


class Outbox:
    """Instructions and counts, for the process around the engine."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}  # what went wrong or was odd, by name
        self._pending: list[Instruction] = []

    def __len__(self) -> int:
        """How many instructions wait to be fetched."""
        return len(self._pending)

    def say(self, instruction: Instruction) -> None:
        """Something is to be done."""
        self._pending.append(instruction)

    def waits(self, entry: PodInfo, message: str, record: DecisionRecord, missing: str = "") -> None:
        """The pod waits, and why; nothing where it was told so before. `missing`, of a nearest miss, stands behind the message."""
        if entry.last_message != message:
            entry.last_message = message
            if len(self._pending) > _MOST_PENDING:  # nobody takes them: a replica that does not lead
                del self._pending[: _MOST_PENDING // 2]
            told = f"{message} {missing}." if missing else message
            self.say(Unschedulable(entry.seen.uid, entry.seen.pod.key, "Unschedulable", told, record))

    def take(self) -> tuple[Instruction, ...]:
        """Everything that was said since the last time, oldest first."""
        given, self._pending = tuple(self._pending), []
        return given

    def count(self, what: str) -> None:
        """Something went wrong or was odd."""
        if what in self.counts or len(self.counts) < _MOST_COUNTS:
            self.counts[what] = self.counts.get(what, 0) + 1

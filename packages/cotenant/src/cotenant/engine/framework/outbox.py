"""Instructions of the engine that wait to be fetched, and counts of anomalies.

A replica that is not the leader decides nothing and its instructions are never fetched, while events continue; and a
pending pod must not get the same message after every round. Instructions are queued until the next `take`, an unchanged
message is not repeated, and half of a long queue that is not fetched is dropped. The nearest miss changes with every
pod that is added or removed, so it alone is no reason to send ten thousand messages again. Several may want the same
pod to go: it is told once, and by a preemption rather than by an eviction that its budgets may refuse.
Limits: dropped instructions are lost, and the leader decides again; the nearest miss of a message is that of the moment
when the message last changed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from cotenant.engine.framework.instructions import HELD, UNSCHEDULABLE, Bind, Evict, Instruction, Preempt, Unschedulable
from cotenant.engine.framework.pod_state import PodInfo
from cotenant.model.decisions.record import DecisionRecord

_MAX_COUNTS = 200
_MAX_PENDING = 50_000


class Outbox:
    """Instructions and counts, for the process around the engine."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}  # anomalies, by name
        self.pending: list[Instruction] = []  # until they are fetched; read only
        self._victims: dict[str, None] = {}  # UIDs of those who are told to go by what is pending

    def say(self, instruction: Instruction) -> None:
        """Queue an instruction."""
        if isinstance(instruction, Evict):
            if instruction.victim.uid in self._victims:
                return
            self._victims[instruction.victim.uid] = None
        elif isinstance(instruction, Preempt) and instruction.victims:
            uids = {victim.uid for victim in instruction.victims}
            if not self._victims.keys().isdisjoint(uids):
                self.pending = [
                    said for said in self.pending if not (isinstance(said, Evict) and said.victim.uid in uids)
                ]
            self._victims.update(dict.fromkeys(victim.uid for victim in instruction.victims))
        self.pending.append(instruction)

    def waits(
        self,
        entry: PodInfo,
        message: str,
        record: DecisionRecord,
        missing: str = "",
        *,
        held: bool = False,
        nominated: str = "",
    ) -> None:
        """Report why a pod waits, if the message changed. `missing`, of the nearest miss, is appended to the message.
        `held`: more nodes would not help. `nominated`: its node, where the room is being made.
        """
        if entry.last_message != message:
            entry.last_message = message
            if len(self.pending) > _MAX_PENDING:  # not fetched: this replica is not the leader
                del self.pending[: _MAX_PENDING // 2]
                self._victims = _victims_of(self.pending)
            text = f"{message} {missing}." if missing else message
            reason = HELD if held else UNSCHEDULABLE
            self.say(Unschedulable(entry.seen.uid, entry.seen.pod.key, reason, text, record, nominated))

    def victims(self) -> tuple[str, ...]:
        """Who is to be evicted, of what was not fetched yet; each once."""
        return tuple(self._victims)

    def withdraw(self, uid: str) -> None:
        """Drop what was not fetched yet of a pod's bind and of its eviction."""
        kept: list[Instruction] = []
        for said in self.pending:
            if isinstance(said, Preempt):
                left = tuple(victim for victim in said.victims if victim.uid != uid)
                kept.append(said if left == said.victims else replace(said, victims=left))
            elif not (
                (isinstance(said, Bind) and said.uid == uid) or (isinstance(said, Evict) and said.victim.uid == uid)
            ):
                kept.append(said)
        self.pending = kept
        self._victims.pop(uid, None)

    def take(self) -> tuple[Instruction, ...]:
        """All instructions since the last call, oldest first."""
        taken, self.pending = tuple(self.pending), []
        self._victims = {}
        return taken

    def count(self, what: str) -> None:
        """Count an anomaly."""
        if what in self.counts or len(self.counts) < _MAX_COUNTS:
            self.counts[what] = self.counts.get(what, 0) + 1


def _victims_of(pending: Iterable[Instruction]) -> dict[str, None]:
    found: dict[str, None] = {}
    for said in pending:
        if isinstance(said, Preempt):
            found |= dict.fromkeys(victim.uid for victim in said.victims)
        elif isinstance(said, Evict):
            found[said.victim.uid] = None
    return found

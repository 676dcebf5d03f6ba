"""The latest decisions, for questions after the fact: placements by pod, and preemptions with their victims.

"why is it there" and "which pod preempted mine" are asked after the event, and a scheduler that keeps everything grows
without bound. The records sent with the binds, and the messages of preemptions and evictions, up to a maximum number of
each.
Limits: older decisions are in the pod's annotation only; a restart drops them.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator

from cotenant.engine.framework.instructions import Bind, Evict, Instruction, Preempt
from cotenant.model.decisions.answers import PreemptedPods
from cotenant.model.decisions.record import DecisionRecord

MAX_RECORDS = 4096
MAX_PREEMPTIONS = 1024
_MAX_VICTIMS = 64  # names kept of one preemption


class DecisionHistory:
    """The newest decisions."""

    def __init__(self, max_records: int = MAX_RECORDS, max_preemptions: int = MAX_PREEMPTIONS) -> None:
        self._max = max_records
        self._records: OrderedDict[str, DecisionRecord] = OrderedDict()  # by uid, the oldest first
        self._preemptions: deque[PreemptedPods] = deque(maxlen=max_preemptions)

    def __len__(self) -> int:
        return len(self._records)

    def note(self, instructions: Iterable[Instruction], now_s: float) -> None:
        """Record instructions that were just returned."""
        for instruction in instructions:
            if isinstance(instruction, Bind):
                self._records.pop(instruction.uid, None)
                self._records[instruction.uid] = instruction.record
                if len(self._records) > self._max:
                    self._records.popitem(last=False)
            elif isinstance(instruction, Preempt):
                self._preemptions.extend(_preempted(instruction, now_s))
            elif isinstance(instruction, Evict):
                self._preemptions.append(
                    PreemptedPods(
                        now_s,
                        instruction.reason,
                        (instruction.victim.key,),
                        node=instruction.victim.node,
                        words=instruction.message,
                    )
                )  # a revocation has no preemptor

    def clear(self) -> None:
        """Forget everything: nothing of it was carried out."""
        self._records.clear()
        self._preemptions.clear()

    def record(self, uid: str) -> DecisionRecord | None:
        """The last placement of a pod, None if it is no longer kept."""
        return self._records.get(uid)

    def about(self, key: str) -> tuple[PreemptedPods, ...]:
        """Preemptions for a pod or of it, oldest first."""
        return tuple(
            preemption for preemption in self._preemptions if key == preemption.preemptor or key in preemption.victims
        )

    def preemptions(self) -> Iterator[PreemptedPods]:
        """All that are kept, oldest first."""
        return iter(self._preemptions)


def _preempted(instruction: Preempt, now_s: float) -> list[PreemptedPods]:
    """One for each node that loses pods, the preemptor's first; for the preemptor's alone where none is evicted now."""
    rest = "pods that were ending already made the room" if not instruction.victims else ""
    if instruction.breaks_budgets:
        rest += f", {instruction.breaks_budgets} in all beyond what their disruption budgets allow"
    at: dict[str, list[str]] = {} if instruction.victims else {instruction.node: []}
    for victim in sorted(instruction.victims, key=lambda entry: entry.node != instruction.node):
        at.setdefault(victim.node, []).append(victim.key)
    return [
        PreemptedPods(
            now_s,
            instruction.rule,
            tuple(keys[:_MAX_VICTIMS]),
            instruction.key,
            node,
            f"{len(keys)} evicted for it{rest}" if keys else rest,
        )
        for node, keys in at.items()
    ]

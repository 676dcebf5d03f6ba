"""The leases of one keeper: requests open rounds, rounds yield instructions, every lease ends with its knob restored.

A process that writes a knob may die at any instant, the cgroup may vanish, another process may write the same file; and
still no cgroup may stay throttled by a value without an owner. The original value is on disk before the knob is written
and stays there until it is restored. Requests are processed in rounds (`round.py`). The current value is compared with
what was read back after the last write, not with what was requested, because kernels round; where it differs, another
process wrote it. What it put back (the value from before the lease, or the knob's default) is written again, at once
where the keeper is told of the write (`check`); a value of its own is left alone (YIELDED). A lease found in the state
file as INTENDED or RESTORING has no recorded read-back, so it is restored unconditionally. Nothing here does I/O:
`hold`, `end`, `end_all`, `tick` and `restart` open a round, `next` returns stages of instructions until the round is
over, and the outcome of each instruction is reported in between. One round at a time.

Limits: a write by another process between our read and our write is lost, as with any file without compare-and-set. A
value that another process wrote and that equals ours counts as ours. CPUs taken offline by the machine look like
another process's write (v1). cpu.idle and cpu.weight of a group are coupled by the kernel: `idle_weight.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from cotenant.engine.framework.backoff import Backoff
from cotenant.engine.leases.instructions import (
    Instruction,
    InstructionFailure,
    KnobReading,
    ReadBack,
    ReadCurrent,
    Restore,
    Write,
)
from cotenant.engine.leases.round import LeaseRound
from cotenant.engine.leases.round_state import Bound, Request, unbounded
from cotenant.engine.leases.table import LeaseTable
from cotenant.model.errors import InvalidInput, Permanent
from cotenant.model.machine.knob import GiveBack, KnobLease, KnobTarget, LeaseAnswer, LeaseState, SetKnob
from cotenant.model.machine.node_decision import Reason

EXPIRED = Reason("lease-expired", "not renewed within its time to live")
LEFT_BEHIND = Reason("left-behind", "the process that held it ended without giving it back")
OWN = "keeper"  # the requester of what the keeper does on its own
_LIVE = frozenset({LeaseState.INTENDED, LeaseState.HELD, LeaseState.RESTORING})


class Leases:
    """All live leases. `most` bounds their number, `bound` the values by what stood before."""

    def __init__(self, most: int = 4096, retries: Backoff | None = None, bound: Bound = unbounded) -> None:
        self._max = most
        self._bound = bound
        self._table = LeaseTable(retries or Backoff(first_s=0.25, max_s=10.0))
        self._round = LeaseRound(self._table, (), 0, 0.0, OWN, most)

    # Opening a round

    def hold(self, wanted: Sequence[SetKnob], now_us: int, wall_s: float, who: str = OWN) -> None:
        """Write and hold. Raises `InvalidInput` for a knob that cannot be undone."""
        for wish in wanted:
            if not wish.target.knob.undoable:
                raise InvalidInput(f"lease of {wish.target}", wish.value, "a knob that can be restored")
        self._open([Request(wish.target, wish, wish.reason) for wish in wanted], now_us, wall_s, who)

    def check(self, targets: Sequence[KnobTarget], now_us: int, wall_s: float) -> None:
        """Look whether another process put these knobs back, and write again those that it did. A value of its own
        is left to the next renewal.
        """
        held = [self._table.leases[target] for target in dict.fromkeys(targets) if target in self._table.leases]
        requests = [
            Request(
                lease.target,
                SetKnob(lease.target, lease.value, lease.reason, max(1, lease.expires_at_us - now_us)),
                lease.reason,
                is_check=True,
            )
            for lease in held
            if lease.state is LeaseState.HELD and lease.expires_at_us > now_us
        ]
        self._open(requests, now_us, wall_s, OWN)

    def end(self, requests: Sequence[GiveBack], now_us: int, wall_s: float, who: str = OWN) -> None:
        """Restore, whatever time is left."""
        self._open([Request(request.target, None, request.reason) for request in requests], now_us, wall_s, who)

    def end_all(self, reason: Reason, now_us: int, wall_s: float) -> None:
        """Restore everything."""
        self._open([Request(target, None, reason) for target in self._table.leases], now_us, wall_s, OWN)

    def tick(self, now_us: int, wall_s: float) -> None:
        """Restore what has expired; retry what is due."""
        causes = {
            target: self._table.retry_cause(target) or EXPIRED
            for target in self._table.leases
            if self._table.due_us(target) <= now_us
        }
        self._open([Request(target, None, cause) for target, cause in causes.items()], now_us, wall_s, OWN)

    def restart(self, found: Iterable[KnobLease], now_us: int, wall_s: float) -> None:
        """Take over the leases that an earlier process left in the state file, and restore all of them."""
        for lease in found:
            if lease.state not in _LIVE or lease.target in self._table.leases:
                raise Permanent(f"the state file's lease of {lease.target} is {lease.state}, or listed twice")
            self._table.add(lease if lease.state is LeaseState.HELD else replace(lease, stands=None), wall_s)
        self.end_all(LEFT_BEHIND, now_us, wall_s)

    def _open(self, requests: list[Request], now_us: int, wall_s: float, who: str) -> None:
        if self._round.is_under_way:
            raise Permanent("a round of leases is under way")
        self._round = LeaseRound(self._table, requests, now_us, wall_s, who, self._max, self._bound)

    # What a round yields

    def next(self) -> tuple[Instruction, ...]:
        """The next stage; () ends the round. The outcome of every instruction of the last stage must have been
        reported.
        """
        return self._round.next()

    def answers(self) -> tuple[LeaseAnswer, ...]:
        """The outcomes of the last round's requests, in their order."""
        return self._round.answers()

    # Outcomes of instructions

    def read(self, target: KnobTarget, reading: KnobReading) -> None:
        """Outcome of `ReadCurrent` and `ReadBack`."""
        self._round.state.readings[target] = reading

    def written(self, target: KnobTarget) -> None:
        """Outcome of `Write` and `Restore`."""
        self._round.state.write_failures.pop(target, None)

    def failed(self, instruction: ReadCurrent | ReadBack | Write | Restore, failure: InstructionFailure) -> None:
        """Outcome of any of these that failed."""
        if isinstance(instruction, ReadCurrent | ReadBack):
            self._round.state.readings[instruction.target] = failure
        else:
            self._round.state.write_failures[instruction.target] = failure

    def persisted(self) -> None:
        """Outcome of `Persist`: the state file has it."""

    def not_persisted(self, detail: str) -> None:
        """Outcome of `Persist`: the state file does not have it, so writes that depend on it are not started."""
        self._round.state.persist_error = detail

    # State

    def leases(self) -> tuple[KnobLease, ...]:
        """All live leases, by target."""
        return tuple(self._table.leases[target] for target in sorted(self._table.leases))

    def history(self, target: KnobTarget) -> tuple[str, ...]:
        """The state changes of a live lease, oldest first."""
        history = self._table.histories.get(target)
        return history.lines() if history is not None else ()

    def due_at_us(self) -> int | None:
        """When `tick` has something to do; None while nothing is held."""
        return min((self._table.due_us(target) for target in self._table.leases), default=None)

    def validate(self) -> None:
        """Check the invariants between rounds. Raises `Permanent`."""
        if self._round.is_under_way:
            raise Permanent("leases are validated between rounds only")
        self._table.validate()

"""cpu.idle and cpu.weight of one group, which the kernel couples.

While a group is idle its weight is pinned and cannot be read or written; when idle is cleared the kernel sets the
default weight, whatever stood before. Both knobs are leased separately, in any order, so one lease's value can end up
as the other's original. The original weight has one owner. Where the weight has a lease, that lease has it. The idle
lease keeps a copy (`KnobLease.weight_before`), taken whenever idle is about to be set: from the weight's lease, else as
it reads then. Each clearing of idle is followed by a write of the weight: the leased value, or the original. While idle
is held, a leased weight is not restored (it is deferred), and a new lease of the weight is refused.
Limits: a foreign process that clears idle and sets exactly the kernel's default weight is not distinguished from the
kernel.

Source: Linux, kernel/sched/fair.c, `sched_group_set_idle` (weight `WEIGHT_IDLEPRIO` while idle, `NICE_0_LOAD` after
it).
"""

from __future__ import annotations

from dataclasses import replace

from cotenant.engine.leases.instructions import Instruction, KnobReading, ReadBack, Restore, Write
from cotenant.engine.leases.round_state import RoundState, foreign, value_of
from cotenant.engine.leases.table import idle_of, weight_of
from cotenant.model.machine.knob import Knob, KnobLease, KnobTarget, LeaseState, SetKnob

_DEFAULT_WEIGHT = "100"  # NICE_0_LOAD on v2, and 1024 shares on v1
_STAYING = frozenset({LeaseState.HELD, LeaseState.INTENDED})


class IdleWeight:
    """The coupling within one round. Made after the readings, before the first decision."""

    def __init__(self, state: RoundState) -> None:
        self._state = state
        self._leases = state.table.leases
        self._rewritten: dict[
            KnobTarget, KnobLease
        ] = {}  # held weights that this round's change of idle changes, as they were
        self._reset: dict[KnobTarget, str] = {}  # originals of weights without a lease that the kernel has reset
        self._cleared = frozenset(target for target in self._leases if self._is_cleared(target))

    # Readings

    def _is_cleared(self, target: KnobTarget) -> bool:
        """Whether idle was set by its lease and reads "0" now, so that the kernel has reset the weight."""
        lease, seen = self._leases[target], value_of(self._state.readings.get(target))
        return target.knob is Knob.CPU_IDLE and lease.stands == "1" and seen == "0"

    def is_reset(self, target: KnobTarget) -> bool:
        """Whether the target is a weight that reads the kernel's default because idle was cleared by another
        process.
        """
        if target.knob is not Knob.CPU_WEIGHT or idle_of(target) not in self._cleared:
            return False
        return value_of(self._state.readings.get(target)) == _DEFAULT_WEIGHT

    def is_pinned(self, target: KnobTarget) -> bool:
        """Whether the target is a weight whose group is idle now: its reading means nothing."""
        return target.knob is Knob.CPU_WEIGHT and value_of(self._state.readings.get(idle_of(target))) == "1"

    def is_foreign(self, lease: KnobLease, seen: KnobReading) -> bool:
        """Whether another process wrote the knob since the lease's last write."""
        if lease.stands is None or seen.value == lease.stands:
            return False
        return not self.is_reset(lease.target) and not self.is_pinned(lease.target)

    # Deciding

    def is_hidden(self, target: KnobTarget) -> bool:
        """Whether the target is a weight whose original cannot be read: the group is idle, or a lease of idle has
        changed it.
        """
        if target.knob is not Knob.CPU_WEIGHT:
            return False
        if self.is_pinned(target):
            return True
        idle = self._leases.get(idle_of(target))
        if idle is None:
            return idle_of(target) in self._cleared
        before = self._state.previous.get(idle.target, idle)
        if before.state is LeaseState.INTENDED:  # of this round: the weight was read before it
            return False
        return not (before.state is LeaseState.HELD and before.stands == "0")

    def waits(self, target: KnobTarget, ending: set[KnobTarget]) -> bool:
        """Whether the target is a weight that can only be restored after its group's idle."""
        idle = self._leases.get(idle_of(target)) if target.knob is Knob.CPU_WEIGHT else None
        if idle is None or idle.target in ending or idle.target in self._cleared:
            return False
        return idle.state is LeaseState.HELD and idle.value == "1"

    def is_pinned_by_original(self, target: KnobTarget) -> bool:
        """Whether the target is a pinned weight of a group that is idle without a lease, as it was before."""
        return self.is_pinned(target) and idle_of(target) not in self._leases

    def original_weight(self, desired: SetKnob, lease: KnobLease | None) -> str:
        """The original weight that a lease has to keep: of idle, unless the group was idle before. "" for others."""
        kept = lease.weight_before if lease is not None else ""
        if desired.target.knob is not Knob.CPU_IDLE or desired.value != "1":
            return kept
        if lease is not None and lease.state is LeaseState.INTENDED:  # requested before in this round: as at its start
            lease = self._state.previous.get(lease.target)
        is_settled = lease is None or (lease.state is LeaseState.HELD and lease.stands == "0")
        if not is_settled or value_of(self._state.readings.get(desired.target)) != "0":
            return kept
        weight = weight_of(desired.target)
        leased, seen = self._leases.get(weight), self._state.readings.get(weight)
        if leased is not None and not (isinstance(seen, KnobReading) and self.is_foreign(leased, seen)):
            return leased.raw_before
        return (seen.raw or kept) if isinstance(seen, KnobReading) else kept

    def is_original(self, lease: KnobLease, seen: KnobReading) -> bool:
        """Whether the knob has its original value, and of idle, whether the weight has not to be restored after it."""
        if lease.target.knob is not Knob.CPU_IDLE:
            return seen.raw == lease.raw_before
        if seen.value != lease.before:
            return False
        if lease.state is LeaseState.HELD and lease.stands is not None:
            return True  # a weight that the kernel has reset: `idle_ended`
        weight = self._state.readings.get(weight_of(lease.target))
        if lease.weight_before:
            return isinstance(weight, KnobReading) and weight.raw == lease.weight_before
        return seen.raw == lease.raw_before

    def idle_ended(self, lease: KnobLease) -> None:
        """A lease ends without a write. If it is of idle and the kernel has reset the weight, that is written again."""
        weight = weight_of(lease.target)
        if lease.target.knob is not Knob.CPU_IDLE or not self.is_reset(weight):
            return
        held = self._leases.get(weight)
        if held is not None and held.state is LeaseState.HELD:
            self._rewritten[weight] = held
            self._leases[weight] = replace(held, stands=None)
        elif held is None and lease.weight_before:
            self._reset[weight] = lease.weight_before

    def decided(self) -> tuple[KnobLease, ...]:
        """Note the leased weights that the writes of this round change. Returns their leases, for the state file."""
        written = dict.fromkeys(target for target, _ in self._state.writes)
        for weight in [weight_of(target) for target in written if target.knob is Knob.CPU_IDLE]:
            lease, seen = self._leases.get(weight), self._state.readings.get(weight)
            if lease is None or lease.state is not LeaseState.HELD or weight in self._rewritten:
                continue
            if isinstance(seen, KnobReading) and self.is_foreign(lease, seen):
                self._state.finish(lease, LeaseState.YIELDED, foreign(seen, lease), lease.reason)
                continue
            self._rewritten[weight] = lease
            self._leases[weight] = replace(lease, stands=None)  # until it is read again
        # one that is written itself in this round is settled as such
        self._rewritten = {weight: lease for weight, lease in self._rewritten.items() if weight not in written}
        return tuple(self._leases[weight] for weight in self._rewritten)

    # Writing

    def after_idle(self, idle: KnobTarget, value: str) -> tuple[Instruction, ...]:
        """What a write of idle requires of the weight."""
        weight = weight_of(idle)
        lease = self._leases.get(weight)
        if value == "1":
            is_read = weight in self._rewritten or (lease is not None and lease.state is LeaseState.INTENDED)
            return (ReadBack(weight, raw=False),) if is_read else ()
        if lease is None:
            before = self._leases[idle].weight_before
            return (Restore(weight, before),) if before else ()
        return self._again(lease)

    def _again(self, lease: KnobLease) -> tuple[Instruction, ...]:
        if lease.state in _STAYING and lease.target not in self._state.table.deferred_weights:
            return (Write(lease.target, lease.value), ReadBack(lease.target, raw=False))
        return ()

    def resets(self) -> tuple[Instruction, ...]:
        """Writes of weights that the kernel reset when another process cleared idle."""
        written = {target for target, _ in self._state.writes}
        instructions: list[Instruction] = []
        for weight in self._rewritten:
            if idle_of(weight) not in written:
                instructions += self._again(self._leases[weight])
        return (
            *instructions,
            *(Restore(weight, raw) for weight, raw in self._reset.items() if weight not in self._leases),
        )

    # Settling

    @staticmethod
    def is_idle(lease: KnobLease) -> bool:
        """Whether the lease is of idle, whose raw value has a weight that is written again after it."""
        return lease.target.knob is Knob.CPU_IDLE

    def failure_after(self, idle: KnobTarget) -> str:
        """Why the original weight could not be restored after idle was written; "" where it was, or has a lease of
        its own.
        """
        weight = weight_of(idle)
        if idle.knob is not Knob.CPU_IDLE or weight in self._leases:
            return ""
        failure = self._state.write_failures.get(weight)
        return f"cpu.weight: {failure.detail}" if failure is not None else ""

    def settled(self) -> tuple[KnobTarget, ...]:
        """Take over what the rewritten weights read. Returns them."""
        for weight in self._rewritten:
            stands = value_of(self._state.readings.get(weight))
            self._leases[weight] = replace(self._leases[weight], stands=stands)
        return tuple(self._rewritten)

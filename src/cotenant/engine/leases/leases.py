"""Leases of knobs: what is asked for, what is written down, what is turned, and how every knob comes back.

Problem: whoever turns a knob may die at any instant, the group may vanish, somebody else may write the same file; and still no group may stay
throttled by a value that nobody stands behind. Choice: the old value is on disk before the knob is touched and stays there until it is back.
Wishes come in rounds: all of a round's knobs are read, one durable write keeps all old values, then each is turned and read back. What stands is
held against what was read back, not against what was asked, because kernels round; where it differs, somebody else wrote it, and theirs is
left alone (YIELDED). What was found in the state file as INTENDED or RESTORING had no read-back on record, so it goes back as it is.
Nothing here does I/O: `hold`, `end`, `tick`, `restart` open a round, `next` hands out stages of instructions until it is over, and the
outcome of each is told in between. One round at a time.

Limits: a write by somebody else between our reading and our writing is lost to us, as with any file that has no compare-and-set. A value that
somebody else wrote and that happens to be ours counts as ours. CPUs taken offline by the machine look like somebody else's write (v1).
cpu.idle pins its group's weight and forgets it: a weight goes back after its group's idle, and is written again where it is held on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from cotenant.engine.framework.backoff import Backoff
from cotenant.engine.leases.knob_order import Turn, steps
from cotenant.engine.leases.steps import (
    Audit,
    Drop,
    Failure,
    Instruction,
    Look,
    Persist,
    ReadBack,
    Restore,
    Standing,
    Trouble,
    Write,
)
from cotenant.engine.leases.transitions import OVER, Story
from cotenant.model.errors import InvalidInput, Permanent
from cotenant.model.machine.knob import GiveBack, Knob, KnobChange, Lease, LeaseAnswer, LeaseState, SetKnob, Target
from cotenant.model.machine.node_decision import Reason

EXPIRED = Reason("lease-expired", "nobody asked for it any more within its time to live")
LEFT_BEHIND = Reason("left-behind", "the process that held it ended without giving it back")
NOT_TAKEN = Reason("not-taken", "the kernel did not take the new value as a whole")
_UNSEEN_TRIES = 3  # of a restore that waits to see what stands first; after them the old value goes back unseen
OWN = "keeper"  # who asks for what the keeper does by itself
_Stage = Callable[[], tuple[Instruction, ...]]
_LIVE = frozenset({LeaseState.INTENDED, LeaseState.HELD, LeaseState.RESTORING})


@dataclass(slots=True, eq=False)
class _Job:
    """One request of the round."""

    target: Target
    wish: SetKnob | None  # None: to be ended
    reason: Reason
    answer: LeaseAnswer | None = None


@dataclass(frozen=True, slots=True)
class _Again:
    """A restore that failed so many times in a row, and when it is tried again."""

    failures: int
    at_us: int
    cause: Reason


class Leases:
    """All leases that are not over. `most` bounds how many there may be."""

    def __init__(self, most: int = 4096, retries: Backoff | None = None) -> None:
        self._most = most
        self._retries = retries or Backoff(first_s=0.25, most_s=10.0)
        self._leases: dict[Target, Lease] = {}
        self._stories: dict[Target, Story] = {}
        self._again: dict[Target, _Again] = {}  # restores that failed
        self._parked: set[Target] = set()  # weights given back while their group's idle is held: they go back with it
        self._rest()

    # what opens a round

    def hold(self, wishes: Sequence[SetKnob], now_us: int, wall_s: float, who: str = OWN) -> None:
        """Turn and hold. Raises `InvalidInput` for a knob without an undo."""
        for wish in wishes:
            if not wish.target.knob.undoable:
                raise InvalidInput(f"lease of {wish.target}", wish.value, "a knob with something to put back")
        self._open([_Job(wish.target, wish, wish.reason) for wish in wishes], now_us, wall_s, who)

    def end(self, requests: Sequence[GiveBack], now_us: int, wall_s: float, who: str = OWN) -> None:
        """Give back, whatever time is left."""
        self._open([_Job(request.target, None, request.reason) for request in requests], now_us, wall_s, who)

    def end_all(self, reason: Reason, now_us: int, wall_s: float) -> None:
        """Give back everything."""
        self._open([_Job(target, None, reason) for target in self._leases], now_us, wall_s, OWN)

    def tick(self, now_us: int, wall_s: float) -> None:
        """Give back what has expired; try again what is due."""
        due = [target for target in self._leases if self._due_us(target) <= now_us]
        causes = {target: self._again[target].cause if target in self._again else EXPIRED for target in due}
        self._open([_Job(target, None, cause) for target, cause in causes.items()], now_us, wall_s, OWN)

    def restart(self, found: Iterable[Lease], now_us: int, wall_s: float) -> None:
        """Take over what an earlier process left in the state file, and give all of it back."""
        for lease in found:
            if lease.state not in _LIVE or lease.target in self._leases:
                raise Permanent(f"the state file's lease of {lease.target} is {lease.state}, or there twice")
            known = lease.state is LeaseState.HELD
            self._leases[lease.target] = lease if known else replace(lease, stands=None)
            self._stories[lease.target] = Story(lease.target)
            self._stories[lease.target].move(lease.state, wall_s)
        self.end_all(LEFT_BEHIND, now_us, wall_s)

    # what is asked of it

    def next(self) -> tuple[Instruction, ...]:
        """The next stage; () ends the round. Every instruction of the last stage must have been told."""
        while self._stages:
            stage = self._stages.pop(0)()
            if stage:
                return stage
        return ()

    def answers(self) -> tuple[LeaseAnswer, ...]:
        """How the last round's requests went, in their order."""
        return tuple(job.answer or self._answer(job.target) for job in self._jobs[: self._asked])

    def leases(self) -> tuple[Lease, ...]:
        """All that are not over, by target."""
        return tuple(self._leases[target] for target in sorted(self._leases))

    def story(self, target: Target) -> tuple[str, ...]:
        """What happened to a lease that is not over."""
        return self._stories[target].lines() if target in self._stories else ()

    def due_at_us(self) -> int | None:
        """When `tick` has something to do; None while nothing is held."""
        return min((self._due_us(target) for target in self._leases), default=None)

    def validate(self) -> None:
        """Between rounds. Raises `Permanent` where what is kept contradicts itself."""
        if self._stages:
            raise Permanent("leases are validated between rounds only")
        for target, lease in self._leases.items():
            story = self._stories.get(target)
            if lease.target != target or story is None or story.state is not lease.state:
                raise Permanent(f"lease of {target}: state and story disagree")
            if lease.state is LeaseState.INTENDED or lease.state in OVER:
                raise Permanent(f"lease of {target} is {lease.state} between rounds: {'; '.join(story.lines())}")
        for kept in (self._stories.keys(), self._again.keys(), self._parked):
            if not set(kept) <= self._leases.keys():
                raise Permanent("something is kept of a lease that is over")

    # how it is told

    def saw(self, target: Target, standing: Standing) -> None:
        """Of `Look` and `ReadBack`."""
        self._standing[target] = standing

    def done(self, target: Target) -> None:
        """Of `Write` and `Restore`."""
        self._wrong.pop(target, None)

    def failed(self, instruction: Look | ReadBack | Write | Restore, failure: Failure) -> None:
        """Of the same."""
        target = instruction.target
        if isinstance(instruction, Look | ReadBack):
            self._standing[target] = failure
        else:
            self._wrong[target] = failure

    def persisted(self) -> None:
        """The state file has it."""

    def not_persisted(self, detail: str) -> None:
        """The state file does not have it: what depends on it is not begun."""
        self._unwritten = detail

    # the round

    def _rest(self) -> None:
        self._jobs: list[_Job] = []
        self._asked = 0  # of the jobs: those that were asked for
        self._stages: list[_Stage] = []
        self._standing: dict[Target, Standing | Failure] = {}
        self._wrong: dict[Target, Failure] = {}
        self._before_wish: dict[Target, Lease] = {}  # leases that this round changes, as they were
        self._turns: list[tuple[Target, str | None]] = []  # None: the old value
        self._beside: dict[Target, Lease] = {}  # weights whose group's idle this round turns, as they were
        self._over: dict[Target, Lease] = {}
        self._changes: list[KnobChange] = []
        self._unwritten = ""

    def _open(self, jobs: list[_Job], now_us: int, wall_s: float, who: str) -> None:
        if self._stages:
            raise Permanent("a round of leases is under way")
        self._rest()
        self._now_us, self._wall_s, self._who = now_us, wall_s, who
        self._jobs, self._asked = jobs, len(jobs)
        ending = {job.target: job.reason for job in jobs if job.wish is None}
        for idle, reason in ending.items():
            weight = self._leases.get(_weight_of(idle)) if idle.knob is Knob.CPU_IDLE else None
            if weight is None or weight.target in ending:
                continue
            if weight.target in self._parked or weight.state is LeaseState.RESTORING:
                self._jobs.append(_Job(weight.target, None, reason))
        if jobs:
            self._stages = [self._look, self._judge, self._turn, self._settle]

    def _look(self) -> tuple[Instruction, ...]:
        ending = {job.target for job in self._jobs if job.wish is None}
        known = {target for target, lease in self._leases.items() if lease.state is LeaseState.HELD} - ending
        asked = dict.fromkeys(job.target for job in self._jobs if job.wish is not None or job.target in self._leases)
        beside = (_weight_of(target) for target in asked if target.knob is Knob.CPU_IDLE)
        asked |= dict.fromkeys(weight for weight in beside if weight in self._leases)
        return tuple(Look(target, raw=target not in known) for target in asked)

    def _judge(self) -> tuple[Instruction, ...]:
        ends: list[Target] = []
        ending = {job.target for job in self._jobs if job.wish is None}
        for job in self._jobs:
            if job.wish is not None:
                self._judge_wish(job, job.wish)
            elif job.target not in self._leases:
                job.answer = LeaseAnswer(job.target, LeaseState.RESTORED, "is not held")
            elif self._judge_end(job, ending):
                ends.append(job.target)
        self._turns += self._order(ends)
        turned = dict.fromkeys(target for target, _ in self._turns)
        for weight in [_weight_of(target) for target in turned if target.knob is Knob.CPU_IDLE]:
            if weight not in self._leases or weight in turned:
                continue
            lease, seen = self._leases[weight], self._standing[weight]
            if isinstance(seen, Standing) and lease.stands not in (None, seen.value):
                self._finish(lease, LeaseState.YIELDED, _theirs(seen, lease), lease.reason)
                continue
            self._beside[weight] = lease
            self._leases[weight] = replace(lease, stands=None)  # until it is read again
        touched = tuple(self._leases[target] for target in (*turned, *self._beside))
        intended = any(lease.state is LeaseState.INTENDED for lease in touched)
        return (Persist(touched, durable=intended),) if touched else ()

    def _judge_wish(self, job: _Job, wish: SetKnob) -> None:
        lease, seen = self._leases.get(wish.target), self._standing[wish.target]
        expires_us = self._now_us + wish.lasts_us
        if lease is None:
            if isinstance(seen, Failure):
                state = LeaseState.GONE if seen.trouble is Trouble.GONE else LeaseState.REFUSED
                self._refuse(job, wish, "", state, seen.detail)
            elif self._is_hidden(wish.target):
                self._refuse(
                    job,
                    wish,
                    "",
                    LeaseState.REFUSED,
                    "cpu.idle is held, and hides the weight that would have to be kept",
                )
            elif len(self._leases) >= self._most:
                self._refuse(job, wish, seen.value, LeaseState.REFUSED, f"{self._most} leases are held already")
            elif seen.raw is None:  # its lease ended in this round
                self._refuse(job, wish, seen.value, LeaseState.REFUSED, "its last lease ended just now; ask again")
            else:
                self._take(wish, seen, seen.raw, expires_us)
        elif isinstance(seen, Failure):
            if seen.trouble is Trouble.GONE:
                self._finish(lease, LeaseState.GONE, seen.detail, job.reason)
            elif lease.state is LeaseState.HELD and lease.value == wish.value:
                self._renew(lease, wish, expires_us, f"held on unseen: {seen.detail}")
            else:
                job.answer = LeaseAnswer(wish.target, LeaseState.REFUSED, seen.detail)
        elif _another(lease, seen):
            self._finish(lease, LeaseState.GONE, "the group was made anew under its old name", job.reason)
        elif lease.state is LeaseState.INTENDED:  # a second wish of the round
            self._leases[wish.target] = replace(lease, value=wish.value, reason=wish.reason, expires_at_us=expires_us)
            self._turns.append((wish.target, wish.value))
        elif lease.stands is not None and seen.value != lease.stands:
            self._finish(lease, LeaseState.YIELDED, _theirs(seen, lease), job.reason)
        elif lease.state is LeaseState.HELD and lease.value == wish.value:
            self._renew(lease, wish, expires_us, "")
        else:
            self._before_wish[wish.target] = lease
            changed = replace(lease, value=wish.value, reason=wish.reason, expires_at_us=expires_us)
            self._move(changed, LeaseState.INTENDED)
            self._turns.append((wish.target, wish.value))

    def _is_hidden(self, target: Target) -> bool:
        """Whether it is a weight that cannot be read, because its group is idle by a lease of an earlier round."""
        idle = self._leases.get(_idle_of(target)) if target.knob is Knob.CPU_WEIGHT else None
        before = None if idle is None else self._before_wish.get(idle.target, idle)
        return before is not None and before.value == "1" and before.state is not LeaseState.INTENDED

    def _take(self, wish: SetKnob, seen: Standing, raw: str, expires_us: int) -> None:
        lease = Lease(
            wish.target,
            raw_before=raw,
            value=wish.value,
            reason=wish.reason,
            state=LeaseState.INTENDED,
            taken_at_s=self._wall_s,
            expires_at_us=expires_us,
            before=seen.value,
            identity=seen.identity,
        )
        self._stories[wish.target] = Story(wish.target)
        self._move(lease, LeaseState.INTENDED)
        self._turns.append((wish.target, wish.value))

    def _renew(self, lease: Lease, wish: SetKnob, expires_us: int, detail: str) -> None:
        self._leases[wish.target] = replace(lease, expires_at_us=expires_us, reason=wish.reason, detail=detail)
        self._parked.discard(wish.target)

    def _judge_end(self, job: _Job, ending: set[Target]) -> bool:
        """Whether the old value is to be put back now."""
        lease, seen = self._leases[job.target], self._standing[job.target]
        if _another(lease, seen):
            self._finish(lease, LeaseState.GONE, "the group was made anew under its old name", job.reason)
            return False
        if isinstance(seen, Failure):
            if seen.trouble is Trouble.GONE:
                self._finish(lease, LeaseState.GONE, seen.detail, job.reason)
                return False
            if seen.trouble is Trouble.LATER and self._tries(job.target) < _UNSEEN_TRIES:
                if lease.state is not LeaseState.RESTORING:
                    self._move(lease, LeaseState.RESTORING)
                self._try_later(self._leases[job.target], f"could not be looked at: {seen.detail}", job.reason)
                return False
        elif self._waits_for_idle(job.target, ending):
            self._parked.add(job.target)
            self._leases[job.target] = replace(lease, detail="goes back with cpu.idle, which pins it")
            return False
        elif seen.raw == lease.raw_before and not _pinned(job.target, ending):
            self._finish(lease, LeaseState.RESTORED, "stood again already", job.reason)
            return False
        elif lease.stands is not None and seen.value != lease.stands:
            self._finish(lease, LeaseState.YIELDED, _theirs(seen, lease), job.reason)
            return False
        if lease.state is not LeaseState.RESTORING:
            self._move(lease, LeaseState.RESTORING)
        return True

    def _waits_for_idle(self, target: Target, ending: set[Target]) -> bool:
        idle = self._leases.get(_idle_of(target)) if target.knob is Knob.CPU_WEIGHT else None
        return idle is not None and idle.state is LeaseState.HELD and idle.value == "1" and idle.target not in ending

    def _order(self, ends: list[Target]) -> list[tuple[Target, str | None]]:
        ways = [self._leases[target] for target in ends]
        order = steps([Turn(lease.target, _seen_value(self._standing[lease.target]), lease.before) for lease in ways])
        return [(ends[step.index], step.through) for step in order]

    def _turn(self) -> tuple[Instruction, ...]:
        if self._unwritten:
            self._leave_unwritten()
        asked: list[Instruction] = []
        for target, value in self._turns:
            lease = self._leases[target]
            if value is None:
                asked += (Restore(target, lease.raw_before), ReadBack(target, raw=True))
            else:
                asked += (Write(target, value), ReadBack(target, raw=False))
            if target.knob is Knob.CPU_IDLE:
                asked += self._weight_beside(target, value or lease.before)
        return tuple(asked)

    def _weight_beside(self, idle: Target, value: str) -> tuple[Instruction, ...]:
        """What a change of cpu.idle asks for the weight of a lease: it is pinned while on, and forgotten when off."""
        weight = _weight_of(idle)
        lease = self._leases.get(weight)
        if lease is None or not (weight in self._beside or (value == "1" and lease.state is LeaseState.INTENDED)):
            return ()
        back = ReadBack(weight, raw=False)
        return (back,) if value == "1" else (Write(weight, lease.value), back)

    def _leave_unwritten(self) -> None:
        detail = f"its undo cannot be written down: {self._unwritten}"
        for target in dict.fromkeys(target for target, _ in self._turns):
            lease = self._leases[target]
            if lease.state is not LeaseState.INTENDED:
                continue
            self._turns = [turn for turn in self._turns if turn[0] != target]
            self._wrong[target] = Failure(Trouble.LATER, detail)
            self._settle_refused(lease, untouched=True)

    def _settle(self) -> tuple[Instruction, ...]:
        turned = dict.fromkeys(target for target, _ in self._turns)
        for target in turned:
            lease = self._leases[target]
            if lease.state is LeaseState.INTENDED:
                self._settle_wish(lease)
            elif lease.state is LeaseState.RESTORING:
                self._settle_end(lease)
        for target, was in self._beside.items():
            stands = _seen_value(self._standing.get(target)) if _idle_of(target) in turned else was.stands
            self._leases[target] = replace(self._leases[target], stands=stands)
        kept = tuple(self._leases[target] for target in (*turned, *self._beside) if target in self._leases)
        noted = (Persist(kept, durable=False),) if kept else ()
        ended = tuple(target for target in self._over if target not in self._leases)
        dropped = (Drop(ended),) if ended else ()
        return (*noted, *dropped, *map(Audit, self._changes))

    def _settle_wish(self, lease: Lease) -> None:
        wrong, seen = self._wrong.get(lease.target), self._standing[lease.target]
        gone = next((f for f in (wrong, seen) if isinstance(f, Failure) and f.trouble is Trouble.GONE), None)
        if gone is not None:
            self._finish(lease, LeaseState.GONE, gone.detail, lease.reason)
        elif wrong is not None:
            self._settle_refused(lease, untouched=False)
        else:
            stands = seen.value if isinstance(seen, Standing) else None
            detail = (
                "" if stands == lease.value else f"reads {stands}" if stands is not None else "could not be read back"
            )
            self._parked.discard(lease.target)
            self._again.pop(lease.target, None)
            self._move(replace(lease, stands=stands, detail=detail), LeaseState.HELD)
            self._note(lease, LeaseState.HELD, lease.value, detail, lease.reason)

    def _settle_refused(self, lease: Lease, *, untouched: bool) -> None:
        """A wish that was not carried out: the value held before is held on, or the old one goes back where something was changed."""
        detail = self._wrong[lease.target].detail
        held, seen = self._before_wish.get(lease.target), self._standing[lease.target]
        stands = _seen_value(seen)
        self._note(lease, LeaseState.REFUSED, lease.value, detail, lease.reason)
        for job in self._jobs:
            if job.target == lease.target:
                job.answer = LeaseAnswer(lease.target, LeaseState.REFUSED, detail)
        if held is not None and held.state is LeaseState.HELD:
            self._move(replace(held, stands=held.stands if untouched else stands), LeaseState.HELD)
        elif held is not None or not (untouched or stands == lease.before):
            self._move(replace(held or lease, stands=stands, detail=detail), LeaseState.RESTORING)
            self._again[lease.target] = _Again(0, self._now_us, NOT_TAKEN)
        else:
            self._close(lease, LeaseState.REFUSED, detail)

    def _settle_end(self, lease: Lease) -> None:
        wrong, seen = self._wrong.get(lease.target), self._standing[lease.target]
        reason = next(job.reason for job in self._jobs if job.target == lease.target)
        gone = next((f for f in (wrong, seen) if isinstance(f, Failure) and f.trouble is Trouble.GONE), None)
        if gone is not None:
            self._finish(lease, LeaseState.GONE, gone.detail, reason)
        elif wrong is None and isinstance(seen, Standing):
            if seen.raw == lease.raw_before or seen.value == lease.before:
                self._finish(
                    lease, LeaseState.RESTORED, "" if seen.raw == lease.raw_before else f"reads {seen.raw}", reason
                )
            else:
                self._finish(lease, LeaseState.YIELDED, f"{seen.value} was there right after it was put back", reason)
        else:
            detail = wrong.detail if wrong is not None else f"could not be read back: {_failure(seen).detail}"
            self._try_later(replace(lease, stands=_seen_value(seen)), detail, reason)

    def _tries(self, target: Target) -> int:
        return self._again[target].failures if target in self._again else 0

    def _try_later(self, lease: Lease, detail: str, cause: Reason) -> None:
        failures = self._tries(lease.target) + 1
        rest_us = round(self._retries.rest_s(failures) * 1e6)
        self._again[lease.target] = _Again(failures, self._now_us + rest_us, cause)
        self._leases[lease.target] = replace(lease, detail=detail)
        if failures == 1:
            self._note(lease, LeaseState.RESTORING, lease.before, detail, cause)

    # changes of one lease

    def _move(self, lease: Lease, state: LeaseState) -> None:
        self._stories[lease.target].move(state, self._wall_s)
        self._leases[lease.target] = replace(lease, state=state)

    def _finish(self, lease: Lease, state: LeaseState, detail: str, reason: Reason) -> None:
        self._note(lease, state, lease.before, detail, reason)
        self._close(lease, state, detail)

    def _close(self, lease: Lease, state: LeaseState, detail: str) -> None:
        self._stories[lease.target].move(state, self._wall_s)
        self._over[lease.target] = replace(lease, state=state, detail=detail)
        for kept in (self._leases, self._stories, self._again):
            kept.pop(lease.target, None)
        self._parked.discard(lease.target)

    def _refuse(self, job: _Job, wish: SetKnob, before: str, state: LeaseState, detail: str) -> None:
        job.answer = LeaseAnswer(wish.target, state, detail)
        self._changes.append(
            KnobChange(self._wall_s, wish.target, wish.reason, self._who, before, wish.value, before, state, detail)
        )

    def _note(self, lease: Lease, state: LeaseState, asked: str, detail: str, reason: Reason) -> None:
        stood = self._before_wish.get(lease.target, lease).stands
        after = _seen_value(self._standing.get(lease.target))
        self._changes.append(
            KnobChange(
                self._wall_s,
                lease.target,
                reason,
                self._who,
                lease.before if stood is None else stood,
                asked,
                after if after is not None else "",
                state,
                detail,
            )
        )

    def _answer(self, target: Target) -> LeaseAnswer:
        lease = self._leases.get(target) or self._over[target]
        return LeaseAnswer(target, lease.state, lease.detail)

    def _due_us(self, target: Target) -> int:
        if target in self._again:
            return self._again[target].at_us
        lease = self._leases[target]
        if target in self._parked:
            idle = self._leases.get(_idle_of(target))
            return lease.expires_at_us if idle is None else max(lease.expires_at_us, idle.expires_at_us)
        return lease.expires_at_us


def _idle_of(target: Target) -> Target:
    return Target(target.group, Knob.CPU_IDLE)


def _weight_of(target: Target) -> Target:
    return Target(target.group, Knob.CPU_WEIGHT)


def _pinned(target: Target, ending: set[Target]) -> bool:
    """Whether it is a weight that its group's idle hides, and both are to end: its reading says nothing."""
    return target.knob is Knob.CPU_WEIGHT and _idle_of(target) in ending


def _another(lease: Lease, seen: Standing | Failure) -> bool:
    return bool(lease.identity and seen.identity and lease.identity != seen.identity)


def _theirs(seen: Standing, lease: Lease) -> str:
    return f"somebody else wrote {seen.value!r}; {lease.stands!r} was ours"


def _seen_value(seen: Standing | Failure | None) -> str | None:
    return seen.value if isinstance(seen, Standing) else None


def _failure(seen: Standing | Failure) -> Failure:
    return seen if isinstance(seen, Failure) else Failure(Trouble.LATER, "")

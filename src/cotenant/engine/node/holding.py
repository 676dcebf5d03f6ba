"""What is held, asked for and given back: the difference between what is wanted and what the keeper was told, over time.

Problem: a wish is repeated every second, an answer may be lost, a knob may be refused for ever, and somebody else may fight for it. Choice:
one entry a knob with a small state; a wish is told when it is new, changed, or a third of its lease is over; what is refused rests, longer
each time; what somebody else wrote is left alone for a while; what nobody wants is given back at once, and asked for again until that is
answered or the lease is over by itself. Limits: answers are told apart by their order only, as the keeper promises.

A knob with nothing to undo (memory.reclaim) is an order, not a lease: told once for each new verdict that wishes it, never renewed, never
given back.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from cotenant.engine.node.instructions import AgentCounts
from cotenant.engine.node.plan import Wanted
from cotenant.engine.node.settings import AgentSettings
from cotenant.model.errors import Permanent
from cotenant.model.machine.knob import GiveBack, Lease, LeaseAnswer, LeaseState, SetKnob, Target
from cotenant.model.machine.node_decision import Reason, Term

RELEASE = "release"


class Standing(StrEnum):
    """How a knob stands between the agent and its keeper."""

    ASKED = "asked"  # told to hold; never answered yet
    HELD = "held"
    RETURNING = "returning"  # told to give back
    REFUSED = "refused"  # rests
    YIELDED = "yielded"  # somebody else wrote it; rests
    GONE = "gone"  # its group was not there, or is another; rests

    @property
    def rests(self) -> bool:
        """Whether nothing is held or asked."""
        return self in (Standing.REFUSED, Standing.YIELDED, Standing.GONE)


# Which standing may follow which; `None` = the entry begins or ends.
LEGAL: dict[Standing | None, frozenset[Standing | None]] = {
    None: frozenset({Standing.ASKED, Standing.HELD}),
    Standing.ASKED: frozenset(
        {Standing.ASKED, Standing.HELD, Standing.RETURNING, Standing.REFUSED, Standing.YIELDED, Standing.GONE, None}
    ),
    Standing.HELD: frozenset(
        {Standing.ASKED, Standing.HELD, Standing.RETURNING, Standing.REFUSED, Standing.YIELDED, Standing.GONE, None}
    ),
    Standing.RETURNING: frozenset({Standing.ASKED, Standing.RETURNING, None}),
    Standing.REFUSED: frozenset({Standing.ASKED, Standing.RETURNING, None}),
    Standing.YIELDED: frozenset({Standing.ASKED, None}),
    Standing.GONE: frozenset({Standing.ASKED, None}),
}


@dataclass(frozen=True, slots=True)
class Ask:
    """One thing that the keeper was told and has not answered."""

    hold: bool  # else give back
    value: str
    ttl_us: int
    at_us: int


@dataclass(slots=True)
class Entry:
    """One knob."""

    target: Target
    standing: Standing
    value: str  # last told
    policy: str
    reason: Reason
    since_us: int  # when this value was first told
    expires_us: int  # when the keeper will have let go by itself, of what was told at last and of what it confirmed
    renew_us: int
    lost: tuple[tuple[str, str], ...] = ()
    asks: deque[Ask] = field(default_factory=deque)  # oldest first; bounded, since each is lost after a while
    kept_us: int = (
        0  # until when a value that the keeper confirmed, or may have taken, is held: also where it refused a later one
    )
    rest_us: int = 0  # how long it rested last
    rest_until_us: int = 0
    detail: str = ""
    told: str = ""  # why it rested last, as it was told; the same is not told again


@dataclass(frozen=True, slots=True)
class Changes:
    """What to tell the keeper now. `new`: knobs that are held at another value or by another policy than before."""

    hold: tuple[SetKnob, ...]
    give_back: tuple[GiveBack, ...]
    new: tuple[Entry, ...]
    released: tuple[tuple[Entry, Reason], ...]


_NOTHING = Changes((), (), (), ())


class Holding:
    """All knobs that are held, asked for, given back or at rest."""

    def __init__(self, settings: AgentSettings, counts: AgentCounts) -> None:
        self._settings = settings
        self._counts = counts
        self._entries: dict[Target, Entry] = {}
        self._still: Mapping[Target, Wanted] | None = None  # wishes by which all is held and nothing is to be told ...
        self._still_until_us = 0  # ... before then, unless something happens

    def __len__(self) -> int:
        return len(self._entries)

    def entries(self) -> tuple[Entry, ...]:
        """All, sorted by target."""
        return tuple(self._entries[target] for target in sorted(self._entries, key=_place))

    def get(self, target: Target) -> Entry | None:
        """One."""
        return self._entries.get(target)

    def found(self, leases: tuple[Lease, ...], now_us: int) -> None:
        """All that the keeper holds: what it holds from before this agent's start, wanted by nobody until a policy says so, and what it lost."""
        self._still = None
        kept = {lease.target: lease for lease in leases if lease.state in (LeaseState.HELD, LeaseState.INTENDED)}
        for target, lease in kept.items():
            if target not in self._entries:
                expires = now_us + self._settings.lease_us
                # Renewed at once where it is wanted: when it would end is on the keeper's clock, not on ours.
                self._entries[target] = Entry(
                    target, Standing.HELD, lease.value, "", lease.reason, now_us, expires, now_us, kept_us=expires
                )
        for target in [target for target in self._entries if target not in kept]:
            entry = self._entries[target]
            entry.kept_us = entry.expires_us = entry.renew_us = now_us
            entry.asks.clear()
            if entry.standing is Standing.RETURNING:
                self._end(entry)

    def change(
        self, wanted: Mapping[Target, Wanted], fresh: frozenset[str], now_us: int, measured: bool = True
    ) -> Changes:
        """What to tell the keeper.

        `fresh`: the policies that decided just now; only theirs are orders of things that cannot be undone. `measured`: whether they had
        rates to decide by; until then, what an earlier agent held and they do not ask for is left as it is.
        """
        if wanted is self._still and now_us < self._still_until_us:
            return _NOTHING
        holds: list[SetKnob] = []
        new: list[Entry] = []
        for target, winner in wanted.items():
            before = self._entries.get(target)
            taken_over = (
                before is not None
                and target.knob.undoable
                and not before.standing.rests
                and before.policy != winner.policy
            )
            changed, wish = self._want(target, winner, fresh, now_us)
            if wish is not None:
                holds.append(wish)
            if changed or taken_over:
                new.append(self._entries[target])
        gives: list[GiveBack] = []
        released: list[tuple[Entry, Reason]] = []
        for target in sorted(self._entries.keys() - wanted.keys(), key=_place):
            entry = self._entries[target]
            was = entry.standing
            if not measured and was is Standing.HELD and not entry.policy:
                continue
            reason = self._let_go(entry, now_us)
            if reason is not None:
                gives.append(GiveBack(target, reason))
                if was is not Standing.RETURNING:
                    released.append((entry, reason))
        changes = Changes(tuple(holds), tuple(gives), tuple(new), tuple(released))
        self._note_still(wanted, changes == _NOTHING)
        return changes

    def _note_still(self, wanted: Mapping[Target, Wanted], is_quiet: bool) -> None:
        """As long as the same wishes stand, most ticks have nothing to tell: that is worth knowing without looking at each."""
        entries = self._entries.values()
        is_still = is_quiet and self._entries.keys() == wanted.keys()
        if is_still and all(e.standing is Standing.HELD and not e.asks and e.target.knob.undoable for e in entries):
            self._still = wanted
            self._still_until_us = min((min(e.renew_us, e.expires_us) for e in entries), default=0)
        else:
            self._still = None

    def _want(self, target: Target, winner: Wanted, fresh: frozenset[str], now_us: int) -> tuple[bool, SetKnob | None]:
        """Whether the value is another than before, and the wish to tell; None where there is nothing to tell."""
        entry = self._entries.get(target)
        wish = winner.wish
        order = not target.knob.undoable
        if order and winner.policy not in fresh:
            return False, None
        changed = True
        if entry is not None:
            entry.policy, entry.reason, entry.lost = winner.policy, wish.reason, winner.lost
            self._drop_lost(entry, now_us)
            if entry.standing.rests and now_us < entry.rest_until_us:
                return False, None
            if order:
                if entry.asks:
                    return False, None
            elif entry.standing in (Standing.ASKED, Standing.HELD) and now_us < entry.expires_us:
                changed = entry.value != wish.value
                if not changed and (entry.asks or (entry.standing is Standing.HELD and now_us < entry.renew_us)):
                    return False, None
        return changed, self._tell(entry, target, winner, changed, now_us)

    def _tell(self, entry: Entry | None, target: Target, winner: Wanted, changed: bool, now_us: int) -> SetKnob:
        wish = winner.wish
        longest = self._settings.lease_us
        ttl = longest if wish.ttl_us is None else min(wish.ttl_us, longest)
        if ttl != wish.ttl_us:
            wish = SetKnob(target, wish.value, wish.reason, ttl)
        if entry is None:
            entry = Entry(target, Standing.ASKED, wish.value, winner.policy, wish.reason, now_us, 0, 0, winner.lost)
            self._entries[target] = entry
        elif entry.standing is not Standing.HELD or changed:
            self._move(entry, Standing.ASKED)
        if changed:
            entry.value, entry.since_us, entry.detail = wish.value, now_us, ""
            self._counts.holds += 1
        else:
            self._counts.renewals += 1
        entry.asks.append(Ask(True, wish.value, ttl, now_us))
        # What is told may be held from now on, whatever comes of the answer.
        entry.expires_us = max(entry.expires_us, now_us + ttl)
        entry.renew_us = now_us + max(1, ttl // 3)
        return wish

    def _let_go(self, entry: Entry, now_us: int) -> Reason | None:
        """The reason to give it back now, None where there is nothing to tell."""
        self._drop_lost(entry, now_us)
        if entry.standing.rests and now_us >= entry.kept_us:
            if now_us >= entry.rest_until_us:
                self._end(entry)
            return None
        if not entry.target.knob.undoable:
            if not entry.asks:
                self._end(entry)
            return None
        if now_us >= entry.expires_us:
            self._end(entry)  # it is over by itself
            return None
        if entry.standing is Standing.RETURNING and entry.asks:
            return None
        if entry.standing is not Standing.RETURNING:
            self._counts.given_back += 1
        self._move(entry, Standing.RETURNING)
        entry.asks.append(Ask(False, entry.value, 0, now_us))
        who = f"{entry.policy} no longer wants" if entry.policy else "no policy wants"
        held = Term("held for", (now_us - entry.since_us) // 1000, "ms")
        return Reason(RELEASE, f"{who} {entry.target} at {entry.value!r}", (held,))

    def release_all(self, now_us: int) -> Changes:
        """Give back everything, for a clean stop."""
        return self.change({}, frozenset(), now_us)

    def goes_by_way(self, wish: SetKnob, now_us: int) -> None:
        """The hold that was just told is told in two steps; this is the first, and it will be answered too."""
        self._still = None
        entry = self._entries[wish.target]
        entry.asks.insert(len(entry.asks) - 1, Ask(True, wish.value, wish.lasts_us, now_us))

    def answered(self, answer: LeaseAnswer, now_us: int) -> Entry | None:
        """Take one answer in; the entry that it concerns, where it rests from now on and that is news."""
        self._still = None
        entry = self._entries.get(answer.target)
        if entry is None or not entry.asks:
            self._counts.stray_answers += 1
            return None
        ask = entry.asks.popleft()
        if not ask.hold:
            return self._given_back(entry, answer, now_us)
        return self._held(entry, ask, answer, now_us)

    def _held(self, entry: Entry, ask: Ask, answer: LeaseAnswer, now_us: int) -> Entry | None:
        if answer.state in (LeaseState.HELD, LeaseState.INTENDED):
            if not entry.target.knob.undoable:
                self._end(entry)
            elif entry.standing is not Standing.RETURNING:
                self._move(entry, Standing.HELD)
                entry.rest_us, entry.detail, entry.told = 0, answer.detail, ""
                entry.kept_us = max(entry.kept_us, ask.at_us + ask.ttl_us)
            return None
        if not entry.target.knob.undoable and answer.state is LeaseState.RESTORED:
            self._end(entry)  # done, and nothing to undo
            return None
        if entry.standing is Standing.RETURNING:
            return None  # the answer to giving it back is still to come
        entry.detail = answer.detail
        settings = self._settings
        match answer.state:
            case LeaseState.YIELDED:
                self._counts.yielded += 1
                entry.kept_us = 0
                return self._rest(entry, Standing.YIELDED, settings.stand_off_us, now_us)
            case LeaseState.GONE:
                self._counts.gone += 1
                # The end of a lease may be that of a group that was made anew: the next answer tells.
                rest_us = 0 if now_us < entry.kept_us else settings.refused_us
                entry.kept_us = 0
                return self._rest(entry, Standing.GONE, rest_us, now_us)
            case LeaseState.RESTORED:  # it was over before it was renewed
                entry.expires_us = entry.renew_us = now_us
                return None
            case _:
                self._counts.refused += 1
                longer = min(settings.refused_most_us, max(settings.refused_us, 2 * entry.rest_us))
                return self._rest(entry, Standing.REFUSED, longer, now_us)

    def _given_back(self, entry: Entry, answer: LeaseAnswer, now_us: int) -> Entry | None:
        if entry.standing is not Standing.RETURNING:
            # It was wanted again before the answer came; holds that were told since will be answered too.
            return None
        entry.detail = answer.detail
        if answer.state is LeaseState.YIELDED:
            self._counts.yielded += 1
        if answer.state is LeaseState.RESTORING:
            # The keeper goes on by itself; it is asked how that went when an answer would have been late.
            entry.asks.append(Ask(False, entry.value, 0, now_us))
        elif answer.state is not LeaseState.HELD:
            self._end(entry)
        return None

    def _rest(self, entry: Entry, standing: Standing, rest_us: int, now_us: int) -> Entry | None:
        self._move(entry, standing)
        entry.rest_us, entry.rest_until_us = rest_us, now_us + rest_us
        entry.asks.clear()
        entry.expires_us = max(now_us, entry.kept_us)
        news = f"{standing}: {entry.detail}"
        if entry.told == news:
            return None
        entry.told = news
        return entry

    def unreachable(self) -> None:
        """Nothing that was told and not answered counts as in flight any more; what may be held counts until it would be over."""
        self._still = None
        for entry in self._entries.values():
            while entry.asks:
                self._lose(entry)
            if entry.standing is Standing.HELD:
                entry.renew_us = 0

    def ask_again(self, groups: frozenset[str], now_us: int) -> None:
        """These groups came or went: what was granted or refused of others of their name says nothing about them."""
        self._still = None
        for entry in [entry for target, entry in self._entries.items() if target.group in groups]:
            if not entry.standing.rests:
                entry.renew_us = now_us
            elif now_us >= entry.kept_us:
                self._end(entry)
            else:
                entry.rest_until_us = now_us

    def _drop_lost(self, entry: Entry, now_us: int) -> None:
        while entry.asks and now_us - entry.asks[0].at_us >= self._settings.answer_us:
            self._lose(entry)

    def _lose(self, entry: Entry) -> None:
        """The oldest answer will not come: what was asked may have been done."""
        ask = entry.asks.popleft()
        self._counts.lost_answers += 1
        if ask.hold:
            entry.kept_us = max(entry.kept_us, ask.at_us + ask.ttl_us)

    def _move(self, entry: Entry, standing: Standing) -> None:
        if standing not in LEGAL[entry.standing]:
            raise Permanent(f"{entry.target} cannot go from {entry.standing} to {standing}: {entry}")
        entry.standing = standing

    def _end(self, entry: Entry) -> None:
        if None not in LEGAL[entry.standing]:
            raise Permanent(f"{entry.target} cannot end while {entry.standing}: {entry}")
        del self._entries[entry.target]

    def validate(self, now_us: int) -> None:
        """Each entry agrees with itself. Raises `Permanent`."""
        for target, entry in self._entries.items():
            if target != entry.target:
                raise Permanent(f"{entry.target} is kept as {target}")
            if entry.standing.rests and entry.asks:
                raise Permanent(f"{target} rests and is asked for")
            if entry.standing.rests and entry.rest_until_us - now_us > self._most_rest_us:
                raise Permanent(f"{target} rests longer than anything may")
            if any(ask.at_us > now_us for ask in entry.asks):
                raise Permanent(f"{target} was asked for later than now")
            if entry.expires_us - now_us > self._settings.lease_us:
                raise Permanent(f"{target} is held for longer than a lease")

    @property
    def _most_rest_us(self) -> int:
        return max(self._settings.refused_most_us, self._settings.stand_off_us)


def _place(target: Target) -> tuple[str, str]:
    return target.group, target.knob

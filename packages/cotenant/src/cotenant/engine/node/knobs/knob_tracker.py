"""Tracks what the keeper holds for the agent: the difference between the desired values and what was requested, over
time.

A value is desired every second, an answer may be lost, a knob may be refused for ever, and another process may keep
writing it. One entry per knob with a small state machine (`knob_entry.py`). A value is requested when it is new,
changed, or a third of its lease is over; a refused knob backs off, longer each time; a knob that another process wrote
is left alone for a while; what is no longer desired is given back at once, and again until that is answered or the
lease has expired.
Limits: answers are matched to requests by their order only, as the keeper guarantees.

A knob that cannot be undone (memory.reclaim) is a one-shot write, not a lease: requested once for each new verdict that
contains it, never renewed, never given back.
"""

from __future__ import annotations

from collections.abc import Mapping

from cotenant.engine.node.instructions import AgentCounts
from cotenant.engine.node.knobs.knob_entry import LEGAL, Changes, KnobEntry, KnobStatus, PendingRequest
from cotenant.engine.node.knobs.plan import Desired
from cotenant.engine.node.knobs.restrictiveness import restrictiveness
from cotenant.engine.node.settings import AgentSettings
from cotenant.model.errors import Permanent
from cotenant.model.machine.knob import GiveBack, Knob, KnobLease, KnobTarget, LeaseAnswer, LeaseState, SetKnob
from cotenant.model.machine.node_decision import DecisionTerm, Reason

RELEASE = "release"
_NOTHING = Changes((), (), (), ())


class KnobTracker:
    """All knobs that are held, requested, being given back or backing off."""

    def __init__(self, settings: AgentSettings, counts: AgentCounts) -> None:
        self._settings = settings
        self._counts = counts
        self._entries: dict[KnobTarget, KnobEntry] = {}
        # Desired values for which nothing has to be requested before `_unchanged_until_us`, unless something happens.
        self._unchanged: Mapping[KnobTarget, Desired] | None = None
        self._unchanged_until_us = 0

    def __len__(self) -> int:
        return len(self._entries)

    def entries(self) -> tuple[KnobEntry, ...]:
        """All entries, sorted by target."""
        return tuple(self._entries[target] for target in sorted(self._entries, key=_place))

    def get(self, target: KnobTarget) -> KnobEntry | None:
        """The entry of a knob."""
        return self._entries.get(target)

    def leases_found(self, leases: tuple[KnobLease, ...], now_us: int) -> None:
        """All leases of the keeper: those from before this agent's start count as desired by no policy until one
        asks; those it lost are over.
        """
        self._unchanged = None
        kept = {lease.target: lease for lease in leases if lease.state in (LeaseState.HELD, LeaseState.INTENDED)}
        for target, lease in kept.items():
            if target not in self._entries:
                expires = now_us + self._settings.lease_us
                # Renewed at once where it is desired: its expiry is on the keeper's clock, not on ours.
                self._entries[target] = KnobEntry(
                    target,
                    KnobStatus.HELD,
                    lease.value,
                    "",
                    lease.reason,
                    now_us,
                    expires,
                    now_us,
                    held_until_us=expires,
                )
        for target in [target for target in self._entries if target not in kept]:
            entry = self._entries[target]
            entry.held_until_us = entry.expires_us = entry.renew_us = now_us
            entry.pending.clear()
            if entry.status is KnobStatus.RETURNING:
                self._end(entry)

    def change(
        self, wanted: Mapping[KnobTarget, Desired], fresh: frozenset[str], now_us: int, measured: bool = True
    ) -> Changes:
        """The requests to send to the keeper.

        `fresh`: the policies that decided just now; only their one-shot writes are requested. `measured`: whether they
        had rates to decide by; until then, leases of an earlier agent that no policy asks for are left as they are.
        """
        if wanted is self._unchanged and now_us < self._unchanged_until_us:
            return _NOTHING
        holds: list[SetKnob] = []
        new: list[KnobEntry] = []
        for target, winner in wanted.items():
            before = self._entries.get(target)
            is_taken_over = (
                before is not None
                and target.knob.undoable
                and not before.status.is_backing_off
                and before.policy != winner.policy
            )
            changed, desired = self._decide(target, winner, fresh, now_us)
            if desired is not None:
                holds.append(desired)
            if changed or is_taken_over:
                new.append(self._entries[target])
        releases: list[GiveBack] = []
        released: list[tuple[KnobEntry, Reason]] = []
        for target in sorted(self._entries.keys() - wanted.keys(), key=_place):
            entry = self._entries[target]
            was = entry.status
            if not measured and was is KnobStatus.HELD and not entry.policy:
                continue
            reason = self._request_release(entry, now_us)
            if reason is not None:
                releases.append(GiveBack(target, reason))
                if was is not KnobStatus.RETURNING:
                    released.append((entry, reason))
        changes = Changes(tuple(holds), tuple(releases), tuple(new), tuple(released))
        self._remember_unchanged(wanted, changes == _NOTHING)
        return changes

    def _remember_unchanged(self, wanted: Mapping[KnobTarget, Desired], is_quiet: bool) -> None:
        """While the desired values do not change, most ticks have nothing to request; remember that to skip the
        per-knob checks.
        """
        entries = self._entries.values()
        is_unchanged = is_quiet and self._entries.keys() == wanted.keys()
        if is_unchanged and all(
            e.status is KnobStatus.HELD and not e.pending and e.target.knob.undoable for e in entries
        ):
            self._unchanged = wanted
            self._unchanged_until_us = min((min(e.renew_us, e.expires_us) for e in entries), default=0)
        else:
            self._unchanged = None

    def _decide(
        self, target: KnobTarget, winner: Desired, fresh: frozenset[str], now_us: int
    ) -> tuple[bool, SetKnob | None]:
        """Whether the value differs from before, and the request to send; None where there is nothing to send."""
        entry = self._entries.get(target)
        desired = winner.request
        one_shot = not target.knob.undoable
        if one_shot and winner.policy not in fresh:
            return False, None
        changed = True
        if entry is not None:
            entry.policy, entry.reason, entry.overruled = winner.policy, desired.reason, winner.overruled
            self._expire_pending(entry, now_us)
            if entry.status.is_backing_off and now_us < entry.retry_at_us and not _is_cut(entry, desired):
                return False, None
            if one_shot:
                if entry.pending:
                    return False, None
            elif entry.status in (KnobStatus.ASKED, KnobStatus.HELD) and now_us < entry.expires_us:
                changed = entry.value != desired.value
                if not changed and (entry.pending or (entry.status is KnobStatus.HELD and now_us < entry.renew_us)):
                    return False, None
        return changed, self._request_hold(entry, target, winner, changed, now_us)

    def _request_hold(
        self, entry: KnobEntry | None, target: KnobTarget, winner: Desired, changed: bool, now_us: int
    ) -> SetKnob:
        desired = winner.request
        longest = self._settings.lease_us
        ttl = longest if desired.ttl_us is None else min(desired.ttl_us, longest)
        if ttl != desired.ttl_us:
            desired = SetKnob(target, desired.value, desired.reason, ttl)
        if entry is None:
            entry = KnobEntry(
                target, KnobStatus.ASKED, desired.value, winner.policy, desired.reason, now_us, 0, 0, winner.overruled
            )
            self._entries[target] = entry
        elif entry.status is not KnobStatus.HELD or changed:
            self._move(entry, KnobStatus.ASKED)
        if changed:
            entry.value, entry.since_us, entry.detail = desired.value, now_us, ""
            self._counts.holds += 1
        else:
            self._counts.renewals += 1
        entry.pending.append(PendingRequest(True, desired.value, ttl, now_us))
        # What is requested may be held from now on, whatever the answer.
        entry.expires_us = max(entry.expires_us, now_us + ttl)
        entry.renew_us = now_us + max(1, ttl // 3)
        return desired

    def _request_release(self, entry: KnobEntry, now_us: int) -> Reason | None:
        """The reason to give it back now; None where there is nothing to send."""
        self._expire_pending(entry, now_us)
        if entry.status.is_backing_off and now_us >= entry.held_until_us:
            if now_us >= entry.retry_at_us:
                self._end(entry)
            return None
        if not entry.target.knob.undoable:
            if not entry.pending:
                self._end(entry)
            return None
        if now_us >= entry.expires_us:
            self._end(entry)  # the lease has expired
            return None
        if entry.status is KnobStatus.RETURNING and entry.pending:
            return None
        if entry.status is not KnobStatus.RETURNING:
            self._counts.given_back += 1
        self._move(entry, KnobStatus.RETURNING)
        entry.pending.append(PendingRequest(False, entry.value, 0, now_us))
        subject = f"{entry.policy} no longer wants" if entry.policy else "no policy wants"
        held = DecisionTerm("held for", (now_us - entry.since_us) // 1000, "ms")
        return Reason(RELEASE, f"{subject} {entry.target} at {entry.value!r}", (held,))

    def release_all(self, now_us: int) -> Changes:
        """Give back everything, for a clean stop."""
        return self.change({}, frozenset(), now_us)

    def expect_intermediate(self, desired: SetKnob, now_us: int) -> None:
        """The hold just requested is sent in two steps; this is the first, and it will be answered too."""
        self._unchanged = None
        entry = self._entries[desired.target]
        entry.pending.insert(len(entry.pending) - 1, PendingRequest(True, desired.value, desired.lasts_us, now_us))

    def answered(self, answer: LeaseAnswer, now_us: int) -> KnobEntry | None:
        """Process one answer. Returns its entry where that starts to back off for a new cause."""
        self._unchanged = None
        entry = self._entries.get(answer.target)
        if entry is None or not entry.pending:
            self._counts.stray_answers += 1
            return None
        request = entry.pending.popleft()
        if not request.hold:
            return self._given_back(entry, answer, now_us)
        return self._held(entry, request, answer, now_us)

    def _held(self, entry: KnobEntry, request: PendingRequest, answer: LeaseAnswer, now_us: int) -> KnobEntry | None:
        if answer.state in (LeaseState.HELD, LeaseState.INTENDED):
            if not entry.target.knob.undoable:
                self._end(entry)
            elif entry.status is not KnobStatus.RETURNING:
                self._move(entry, KnobStatus.HELD)
                entry.backoff_us, entry.detail, entry.last_reported = 0, answer.detail, ""
                entry.held_until_us = max(entry.held_until_us, request.at_us + request.ttl_us)
            return None
        if not entry.target.knob.undoable and answer.state is LeaseState.RESTORED:
            self._end(entry)  # done, nothing to undo
            return None
        if entry.status is KnobStatus.RETURNING:
            return None  # the answer to giving it back is still pending
        entry.detail = answer.detail
        settings = self._settings
        match answer.state:
            case LeaseState.YIELDED:
                self._counts.yielded += 1
                entry.held_until_us = 0
                return self._back_off(entry, KnobStatus.YIELDED, settings.stand_off_us, now_us)
            case LeaseState.GONE:
                self._counts.gone += 1
                # A lease may have ended because its group was recreated: retry at once, the next answer shows which.
                backoff_us = 0 if now_us < entry.held_until_us else settings.refused_us
                entry.held_until_us = 0
                return self._back_off(entry, KnobStatus.GONE, backoff_us, now_us)
            case LeaseState.RESTORED:  # it was over before it was renewed
                entry.expires_us = entry.renew_us = now_us
                return None
            case _:
                self._counts.refused += 1
                longer = min(settings.refused_most_us, max(settings.refused_us, 2 * entry.backoff_us))
                return self._back_off(entry, KnobStatus.REFUSED, longer, now_us)

    def _given_back(self, entry: KnobEntry, answer: LeaseAnswer, now_us: int) -> KnobEntry | None:
        if entry.status is not KnobStatus.RETURNING:
            # It was requested again before the answer came; those requests will be answered too.
            return None
        entry.detail = answer.detail
        if answer.state is LeaseState.YIELDED:
            self._counts.yielded += 1
        if answer.state is LeaseState.RESTORING:
            # The keeper retries by itself; ask for the outcome after the answer timeout.
            entry.pending.append(PendingRequest(False, entry.value, 0, now_us))
        elif answer.state is not LeaseState.HELD:
            self._end(entry)
        return None

    def _back_off(self, entry: KnobEntry, status: KnobStatus, backoff_us: int, now_us: int) -> KnobEntry | None:
        self._move(entry, status)
        entry.backoff_us, entry.retry_at_us = backoff_us, now_us + backoff_us
        entry.pending.clear()
        entry.expires_us = max(now_us, entry.held_until_us)
        cause = f"{status}: {entry.detail}"
        if entry.last_reported == cause:
            return None
        entry.last_reported = cause
        return entry

    def unreachable(self) -> None:
        """No pending request counts as in flight any more; what may be held counts until its lease would have
        expired.
        """
        self._unchanged = None
        for entry in self._entries.values():
            while entry.pending:
                self._drop_oldest(entry)
            if entry.status is KnobStatus.HELD:
                entry.renew_us = 0

    def groups_changed(self, groups: frozenset[str], now_us: int) -> None:
        """These groups were created or deleted: earlier answers for groups of the same name do not apply to them."""
        self._unchanged = None
        for entry in [entry for target, entry in self._entries.items() if target.group in groups]:
            if not entry.status.is_backing_off:
                entry.renew_us = now_us
            elif now_us >= entry.held_until_us:
                self._end(entry)
            else:
                entry.retry_at_us = now_us

    def _expire_pending(self, entry: KnobEntry, now_us: int) -> None:
        while entry.pending and now_us - entry.pending[0].at_us >= self._settings.answer_us:
            self._drop_oldest(entry)

    def _drop_oldest(self, entry: KnobEntry) -> None:
        """The oldest answer is lost: the request may have been carried out."""
        request = entry.pending.popleft()
        self._counts.lost_answers += 1
        if request.hold:
            entry.held_until_us = max(entry.held_until_us, request.at_us + request.ttl_us)

    def _move(self, entry: KnobEntry, status: KnobStatus) -> None:
        if status not in LEGAL[entry.status]:
            raise Permanent(f"{entry.target} cannot go from {entry.status} to {status}: {entry}")
        entry.status = status

    def _end(self, entry: KnobEntry) -> None:
        if None not in LEGAL[entry.status]:
            raise Permanent(f"{entry.target} cannot end while {entry.status}: {entry}")
        del self._entries[entry.target]

    def validate(self, now_us: int) -> None:
        """Check the invariants of each entry. Raises `Permanent`."""
        for target, entry in self._entries.items():
            if target != entry.target:
                raise Permanent(f"{entry.target} is stored as {target}")
            if entry.status.is_backing_off and entry.pending:
                raise Permanent(f"{target} backs off but has pending requests")
            if entry.status.is_backing_off and entry.retry_at_us - now_us > self._longest_backoff_us:
                raise Permanent(f"{target} backs off longer than allowed")
            if any(request.at_us > now_us for request in entry.pending):
                raise Permanent(f"{target} was requested later than now")
            if entry.expires_us - now_us > self._settings.lease_us:
                raise Permanent(f"{target} is held for longer than a lease")

    def check_against(self, wanted: Mapping[KnobTarget, Desired], measured: bool) -> None:
        """Check that what is held is what is wanted. Raises `Permanent`."""
        for entry in self.entries():
            desired = wanted.get(entry.target)
            held = entry.status in (KnobStatus.ASKED, KnobStatus.HELD) and (measured or entry.policy)
            if desired is None and held:
                raise Permanent(f"{entry.target} is {entry.status} and no policy wants it")
            if desired is not None and not entry.status.is_backing_off and entry.value != desired.request.value:
                raise Permanent(f"{entry.target} is {entry.status} at {entry.value!r}, not {desired.request.value!r}")

    @property
    def _longest_backoff_us(self) -> int:
        return max(self._settings.refused_most_us, self._settings.stand_off_us)


def _is_cut(entry: KnobEntry, desired: SetKnob) -> bool:
    """Whether a refused quota is to be less now: it is tried at once, since one that stands above its parent's new one
    would have that refused, too (cgroup v1).
    """
    if entry.status is not KnobStatus.REFUSED or entry.target.knob is not Knob.CPU_MAX:
        return False
    now, before = restrictiveness(Knob.CPU_MAX, desired.value), restrictiveness(Knob.CPU_MAX, entry.value)
    return now is not None and before is not None and now[0] < before[0]


def _place(target: KnobTarget) -> tuple[str, str]:
    return target.group, target.knob

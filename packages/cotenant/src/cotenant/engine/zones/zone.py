"""One Control Zone: a state machine without I/O. Events in, instructions out.

A kernel scheduler may be refused, attach without running, make a service slower, or be ejected; in each case the zone's
tasks must go on, under the best setting that is known to work, and a user must be able to ask why. One setting at a
time, each on trial first. A change of rows or setting is measured for `canary_s` against the reading before it, and
undone where the policy judges it worse. An ejection or a refusal bans the setting for a time that doubles with each
further one; the zone returns to the setting that last proved itself, else to the first on its ladder that is not
banned, down to the fair class (state `failed`). No change is made within `dwell_s` of the last one.
Limits: the first setting has nothing to be compared with unless a reading is given to `start`; the zone trusts the
caller's clock to be monotonic. Groups may come and go (`members`); a zone without any keeps its setting.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import inf

from cotenant.engine.zones import transitions
from cotenant.engine.zones.bans import Bans
from cotenant.engine.zones.reclaiming import Reclaiming
from cotenant.engine.zones.scene_memory import SceneMemory
from cotenant.engine.zones.trial import Trial
from cotenant.model.errors import InvalidInput, Permanent
from cotenant.model.machine.node_decision import DecisionTerm, Reason
from cotenant.model.zones.setting import FAIR, LADDER, USUAL_MODES, Backend, ZoneMode, ZoneSetting
from cotenant.model.zones.state import Attach, Detach, PutRows, Verify, ZoneChange, ZoneInstruction, ZoneState
from cotenant.model.zones.table import SchedulerExit, ZoneRow
from cotenant.model.zones.zone_reading import ChangeRows, Stay, SwitchTo, ZoneReading
from cotenant.policy.zone.deciding import Memory, ZoneConfig, decide
from cotenant.policy.zone.protecting import PROTECT_RULE
from cotenant.policy.zone.reclaiming import RECLAIM_RULE

HISTORY_LENGTH = 64
_BEYOND_CPU = (PROTECT_RULE, RECLAIM_RULE)  # no scheduler gives memory or disk


@dataclass(frozen=True, slots=True)
class ZoneLimits:
    """Times of a zone, in seconds."""

    canary_s: float = 5.0
    dwell_s: float = 15.0
    ban_s: float = 300.0

    def __post_init__(self) -> None:
        for name, value in (("canary_s", self.canary_s), ("dwell_s", self.dwell_s), ("ban_s", self.ban_s)):
            if not 0 < value < inf:  # refuses NaN, too
                raise InvalidInput(f"zone: {name}", value, "more than 0 seconds")


class Zone:
    """A zone of these groups. `ladder`: the settings to start with, best first; `modes`: the schedulers that it may
    switch to; `may_be_empty`: its groups come with `members`.
    """

    def __init__(
        self,
        name: str,
        rows: Mapping[str, ZoneRow],
        ladder: tuple[ZoneSetting, ...],
        modes: tuple[ZoneMode, ...] = USUAL_MODES,
        config: ZoneConfig | None = None,
        limits: ZoneLimits | None = None,
        *,
        may_be_empty: bool = False,
    ) -> None:
        if not rows and not may_be_empty:
            raise InvalidInput(f"zone {name}", "no groups", "one group at least")
        order = [LADDER.index(setting.backend) for setting in ladder]
        if not ladder or order != sorted(set(order)):
            raise InvalidInput(
                f"zone {name}: ladder", ", ".join(map(str, ladder)), f"some of {', '.join(LADDER)}, in this order"
            )
        self.name = name
        self.state = ZoneState.DEFINED
        self.setting = FAIR  # what runs, or is being attached
        self.history: deque[ZoneChange] = deque(maxlen=HISTORY_LENGTH)
        self._usual = dict(rows)
        self._rows = dict(rows)
        self._ladder = ladder
        self._modes = modes
        self._config = config or ZoneConfig()
        self._limits = limits or ZoneLimits()
        self._memory = Memory()
        self._proven: ZoneSetting | None = None
        self.bans = Bans(self._limits.ban_s)
        self._changed_s = 0.0
        self._last: ZoneReading | None = None  # in the state in which the zone is now
        self._trial: Trial | None = None
        self.reclaiming = Reclaiming(self._limits.ban_s)
        self.scenes = SceneMemory(self._config.late_per_s, self._config.burn) if self._config.scenes else None

    # Events

    def start(self, now_s: float, before: ZoneReading | None = None) -> tuple[ZoneInstruction, ...]:
        """Attach the first setting of the ladder that is not banned. A failed zone may be started again. `before`:
        a reading under the fair class, for the canary.
        """
        if self.state not in (ZoneState.DEFINED, ZoneState.FAILED):
            raise Permanent(f"zone {self.name} was started already: it is {self.state}")
        self._last = before
        reason = Reason("zone-start", "started")
        return (PutRows(tuple(self._rows.items())), *self._next(now_s, reason))

    def attached(self, now_s: float) -> tuple[ZoneInstruction, ...]:
        """The back end accepted the setting."""
        self._to(ZoneState.ATTACHED)
        return (Verify(self.setting),)

    def refused(self, now_s: float, text: str) -> tuple[ZoneInstruction, ...]:
        """The back end could not load or attach the setting."""
        if self.state is not ZoneState.PREPARING:
            raise Permanent(f"zone {self.name}: nothing is being attached, it is {self.state}")
        return self._give_up(now_s, Reason("zone-refused", f"{self.setting} was refused: {text}"), kept=False)

    def verified(self, now_s: float, runs: bool, text: str = "") -> tuple[ZoneInstruction, ...]:
        """Whether the kernel runs the setting, as read back after the attach."""
        if not runs:
            self._to(ZoneState.ROLLING_BACK)
            reason = Reason(
                "zone-not-running", f"{self.setting} was attached and does not run: {text or 'no reason given'}"
            )
            return self._give_up(now_s, reason, kept=False)
        self._to(ZoneState.VERIFIED)
        self._to(ZoneState.CANARY)
        return ()

    def measured(self, now_s: float, reading: ZoneReading, *, early: bool = False) -> tuple[ZoneInstruction, ...]:
        """A reading of the time since the last one, under the setting and rows in force. `early`: it ends with the
        dispatches that were late, before its period was over; it may change rows, and a switch waits for a whole
        reading, as steps of reclaim do.
        """
        if self.scenes is not None and not early:
            self.scenes.seen(reading, self.setting, self._rows)
        changes = self._decided(now_s, reading, early)
        if early or self.state not in (ZoneState.CANARY, ZoneState.ACTIVE):
            return changes
        return (*changes, *self.reclaiming.after(reading, self._rows, self._config.stall / 2))

    def _decided(self, now_s: float, reading: ZoneReading, early: bool) -> tuple[ZoneInstruction, ...]:
        if self.state is ZoneState.CANARY:
            return () if early else self._canary(now_s, reading)
        if self.state is not ZoneState.ACTIVE:
            return ()
        self._last = reading
        decision, memory = decide(
            reading,
            self.setting,
            self._rows,
            self._usual,
            self._open_modes(now_s),
            self._config,
            self._memory,
            reclaims=not early and self.reclaiming.may_begin(now_s),
        )
        if self.scenes is not None and decision.reason.rule not in _BEYOND_CPU:
            # which scheduler runs is what was learned; rows are the rules' under either
            stay = Stay(decision.reason) if isinstance(decision, SwitchTo) else decision
            wish = None if early else self.scenes.wish(self.setting, self._open_modes(now_s))
            decision = wish or stay
        if early and not isinstance(decision, ChangeRows):
            return ()
        if isinstance(decision, Stay):
            self._memory = memory
            return ()
        if now_s - self._changed_s < self._limits.dwell_s:
            # calm time goes on counting, so that the decision comes again when it may be carried out
            self._memory = replace(memory, calm_s=max(memory.calm_s, self._memory.calm_s + reading.length_s))
            return ()
        self._memory = memory
        if isinstance(decision, ChangeRows):
            return self._change_rows(now_s, decision, early)
        return self._switch(now_s, decision)

    def ejected(self, now_s: float, found: SchedulerExit) -> tuple[ZoneInstruction, ...]:
        """The kernel ended the scheduler; its tasks are under the fair class already. An exit that comes while
        nothing runs changes nothing.
        """
        if self.state not in (ZoneState.CANARY, ZoneState.ACTIVE) or self.setting.mode is None:
            return ()
        self._to(ZoneState.ROLLING_BACK)
        text = found.message or "no message"
        return self._give_up(
            now_s, Reason("zone-ejected", f"the kernel ejected {self.setting}: {found.reason}: {text}")
        )

    def request(self, now_s: float, setting: ZoneSetting) -> tuple[ZoneInstruction, ...]:
        """A user's switch: without dwell, also to a banned setting, with a canary as any other. Raises `Permanent`
        unless the zone is active.
        """
        if self.state is not ZoneState.ACTIVE:
            raise Permanent(f"zone {self.name} is {self.state}; a switch needs an active one")
        if setting == self.setting:
            return ()
        self.bans.lift(setting)
        return self._switch(now_s, SwitchTo(setting, Reason("zone-request", f"requested: {setting}")))

    def members(self, usual: Mapping[str, ZoneRow]) -> tuple[ZoneInstruction, ...]:
        """The zone's groups now, with their rows as defined: pods came or went. A group that stays keeps its row in
        force unless its definition changed.

        Not a change on trial: a canary under way goes on, and what it would restore is limited to the groups that are
        left.
        """
        if self.state is ZoneState.GONE or dict(usual) == self._usual:
            return ()
        kept = {group for group, row in usual.items() if self._usual.get(group) == row}
        self._rows = {group: self._rows[group] if group in kept else row for group, row in usual.items()}
        self._usual = dict(usual)
        if self._trial is not None and self._trial.rows_before is not None:
            self._trial.rows_before = tuple((group, row) for group, row in self._trial.rows_before if group in kept)
        if self.state is ZoneState.DEFINED:
            return ()
        return (PutRows(tuple(self._rows.items())),)

    def destroy(self) -> tuple[ZoneInstruction, ...]:
        """End the zone. Idempotent."""
        if self.state is ZoneState.GONE:
            return ()
        self._to(ZoneState.GONE)
        self._trial = None
        return (Detach(),)

    # Views

    @property
    def rows(self) -> dict[str, ZoneRow]:
        """The rows in force."""
        return dict(self._rows)

    def banned(self, now_s: float) -> dict[ZoneSetting, float]:
        """Settings that are not tried again yet, with the seconds left."""
        return self.bans.left_s(now_s, None if self.scenes is None else self.scenes.scene)

    def may_start(self, now_s: float) -> bool:
        """Whether a failed zone has a setting that is not banned any more."""
        banned = self.banned(now_s)
        open_settings = [setting for setting in self._ladder if setting != FAIR and setting not in banned]
        return self.state is ZoneState.FAILED and bool(open_settings)

    def acts_on(self, now_s: float, late_per_s: float) -> bool:
        """Whether a reading with so many late dispatches of services would be acted on now: the zone is active,
        beyond its dwell time, and services are pressed.
        """
        free = self.state is ZoneState.ACTIVE and now_s - self._changed_s >= self._limits.dwell_s
        return free and late_per_s > self._config.late_per_s

    def validate(self) -> None:
        """Check what must hold in every state. Raises `AssertionError`."""
        assert (self._trial is not None) <= (self.state not in (ZoneState.ACTIVE, ZoneState.FAILED, ZoneState.GONE))
        assert self.state is not ZoneState.FAILED or self.setting == FAIR
        assert self._rows.keys() == self._usual.keys()
        assert len(self.history) <= HISTORY_LENGTH
        open_changes = [change for change in self.history if change.kept is None]
        assert len(open_changes) <= 1, open_changes

    # Changes

    def _to(self, state: ZoneState) -> None:
        transitions.check(self.state, state)
        self.state = state

    def _attach(self, now_s: float, setting: ZoneSetting, reason: Reason) -> tuple[ZoneInstruction, ...]:
        self._to(ZoneState.PREPARING)
        self.setting = setting
        self._changed_s = now_s
        self._note_change()
        if self.scenes is not None:
            self.scenes.tried()
        change = ZoneChange(now_s, f"setting {setting}", reason, self._last)
        self._trial = Trial(change)
        self.history.append(change)
        return (Attach(setting),)

    def _note_change(self) -> None:
        if self.scenes is not None:
            self.scenes.changed()

    def _switch(self, now_s: float, decision: SwitchTo) -> tuple[ZoneInstruction, ...]:
        return self._attach(now_s, decision.setting, decision.reason)

    def _change_rows(self, now_s: float, decision: ChangeRows, early: bool) -> tuple[ZoneInstruction, ...]:
        before = tuple((group, self._rows[group]) for group, _ in decision.rows)
        self._rows.update(decision.rows)
        self._changed_s = now_s
        self._note_change()
        change = ZoneChange(
            now_s,
            f"rows of {', '.join(group for group, _ in decision.rows)}",
            decision.reason,
            self._last,
            rows=tuple((group, was, self._rows[group]) for group, was in before),
        )
        self._trial = Trial(change, before, early)
        self.history.append(change)
        self._to(ZoneState.CANARY)
        return (PutRows(decision.rows),)

    def _canary(self, now_s: float, reading: ZoneReading) -> tuple[ZoneInstruction, ...]:
        trial = self._trial
        assert trial is not None
        trial.after = reading if trial.after is None else trial.after.plus(reading)
        of_setting = self.scenes is not None and trial.rows_before is None
        worse = self.scenes.worse_than(self.setting) if self.scenes is not None and of_setting else None
        if worse is not None and self.setting != self._proven:
            self._to(ZoneState.ROLLING_BACK)
            return self._give_up(now_s, worse, hurt=True)
        if trial.after.length_s < self._limits.canary_s:
            return ()
        kept, reason = trial.verdict(self.setting, self._config, returning=self.setting == self._proven)
        if kept:
            self._settle(True, reason.text)
            self._proven = self.setting
            self._last = trial.after
            self._to(ZoneState.ACTIVE)
            return ()
        self._to(ZoneState.ROLLING_BACK)
        if trial.rows_before is None:
            return self._give_up(now_s, reason, hurt=True)
        rows = trial.rows_before
        if trial.change.reason.rule == RECLAIM_RULE:
            self.reclaiming.undone(now_s)
        self._rows.update(rows)
        self._settle(False, reason.text)
        self._to(ZoneState.ACTIVE)
        self._changed_s = now_s
        return (PutRows(rows),)

    def _give_up(
        self, now_s: float, reason: Reason, *, hurt: bool = False, kept: bool = True
    ) -> tuple[ZoneInstruction, ...]:
        """Ban the setting and return to one that works. `hurt`: by what it brought, which is of this scene; `kept`:
        the ban outlives the process.
        """
        scene = None
        if hurt and self.scenes is not None and self._trial is not None and self._trial.after is not None:
            scene = self.scenes.scene
            self.scenes.undone(self._trial.after, self.setting)
        length_s = self.bans.add(now_s, self.setting, scene, is_kept=kept)
        if self._proven == self.setting:
            self._proven = None
        self._undo_rows()
        self._settle(False, reason.text)
        self._last = None
        ban = DecisionTerm("ban", round(length_s), "s")
        return (*self._restored_rows(), *self._next(now_s, replace(reason, terms=(*reason.terms, ban))))

    def _undo_rows(self) -> None:
        if self._trial is not None and self._trial.rows_before is not None:
            self._rows.update(self._trial.rows_before)

    def _restored_rows(self) -> tuple[ZoneInstruction, ...]:
        """Rows are in maps that outlive a scheduler: write all again where it was ejected amid a change of rows."""
        return (PutRows(tuple(self._rows.items())),)

    def _next(self, now_s: float, reason: Reason) -> tuple[ZoneInstruction, ...]:
        banned = self.banned(now_s)
        choices = ([self._proven] if self._proven else []) + list(self._ladder)
        for setting in choices:
            if setting.backend is not Backend.FAIR and setting not in banned:
                return self._attach(now_s, setting, reason)
        if self.state is ZoneState.DEFINED:
            self._to(ZoneState.PREPARING)
        if self.state is not ZoneState.FAILED:
            self._to(ZoneState.FAILED)
        self.setting = FAIR
        self.history.append(ZoneChange(now_s, "fair class", reason, kept=True, outcome="no setting is left to try"))
        return (Detach(),)

    def _settle(self, kept: bool, outcome: str) -> None:
        """Record what the change on trial brought; an ejection long after it opens a line of its own."""
        trial, self._trial = self._trial, None
        if self.scenes is not None:
            self.scenes.settled()
        if trial is None:
            return
        settled = replace(trial.change, after=trial.after, kept=kept, outcome=outcome)
        for at in range(len(self.history) - 1, -1, -1):
            if self.history[at] is trial.change:
                self.history[at] = settled
                return

    def _open_modes(self, now_s: float) -> tuple[ZoneMode, ...]:
        banned = self.banned(now_s)
        if self.setting.mode is None:
            return ()
        return tuple(mode for mode in self._modes if ZoneSetting(self.setting.backend, mode) not in banned)

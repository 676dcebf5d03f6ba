"""The node's engine: measure, judge, hold, let go. A state machine without I/O, the same on a real node, on a recording and in the lab.

Problem: many policies want knobs of many groups at once, every second, for months; groups come and go, keepers refuse, clocks jump; and at
any time somebody asks why. Choice: a sample goes in and instructions come out; between them each policy decides on one `NodeState`, their
wishes are settled knob by knob, and only the difference to what is held is asked for. Limits: it trusts its process for one thing, to tell
answers in the order in which things were asked.

The way of a tick: `pods_seen` where discovery has news; `groups` and `watched` say what to read; `sampled` takes what was read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from cotenant.engine.leases.write_order import order_writes
from cotenant.engine.node.clock import NodeClock
from cotenant.engine.node.evictions import Evictions
from cotenant.engine.node.history import NodeHistory
from cotenant.engine.node.holding import Changes, Entry, Holding, Standing
from cotenant.engine.node.instructions import NOTHING, AgentCounts, Instructions
from cotenant.engine.node.judging import Judged, Judges
from cotenant.engine.node.owners import OwnersLists
from cotenant.engine.node.plan import Plan, Unfit, settle
from cotenant.engine.node.policies import NodePolicy, roster
from cotenant.engine.node.rates import Rates
from cotenant.engine.node.readings import Readings
from cotenant.engine.node.records import Decision, Happened, Hold, Log, Story
from cotenant.engine.node.report import NodeUsage
from cotenant.engine.node.settings import AgentSettings, Mode
from cotenant.engine.node.stories import story_of
from cotenant.engine.node.view import NodeView, check_health
from cotenant.model.cluster.report import NodeReport
from cotenant.model.errors import Permanent
from cotenant.model.machine.counters import LogicalCpu, NodeSample
from cotenant.model.machine.knob import Knob, Lease, LeaseAnswer, LeaseState, SetKnob, Target
from cotenant.model.machine.node_decision import EvictPod, Reason
from cotenant.model.machine.node_pod import NodePod
from cotenant.model.machine.node_state import PPM, Alarm, Allocatable, NodeState, ServiceHealth
from cotenant.model.machine.verdict import Verdict

_LEAST_PART = 20  # of a period; a sample after less is not worth comparing
_NO_PLAN = Plan({}, ())


class Agent:
    """One node. Times are microseconds of one clock that is meant to only grow; where it does not, nothing breaks."""

    def __init__(self, settings: AgentSettings, node: str, policies: Sequence[NodePolicy] | None = None) -> None:
        """`policies`: None = the roster for these settings."""
        self.settings = settings
        self.node = node
        self._counts = AgentCounts()
        self._clock = NodeClock()
        self._rates = Rates(settings.period_us // _LEAST_PART)
        self._view = NodeView(settings, self._counts)
        self._readings = Readings(settings.knob_age_us, settings.period_us)
        self._history = NodeHistory(settings, node)
        chosen = roster(settings.policies) if policies is None else tuple(policies)
        self._judges = Judges(chosen, settings.period_us, settings.lease_us, self._counts)
        self._holding = Holding(settings, self._counts)
        self._evictions = Evictions(settings.evictions, self._counts)
        self._log = Log(settings.decisions_kept)
        self._supported = frozenset(Knob)
        self._asked: tuple[Target, ...] = ()  # knobs to be read before the next sample
        self._state: NodeState | None = None
        self._plan = _NO_PLAN
        self._wishes: list[tuple[str, tuple[SetKnob, ...]]] = []  # that the plan is of, and the knobs there were
        self._wished_of: frozenset[Knob] = frozenset()
        self._settled = False  # nothing came since that the plan does not know of
        self._told: frozenset[tuple[str, Target, str]] = frozenset()  # rejections and conflicts that are on the log
        self._pressed_us: int | None = None
        self._there: set[str] = set()  # groups in the last sample
        self._stopping = False
        self._lists = OwnersLists()
        self._look()

    # What is known

    def pods_seen(self, pods: Sequence[NodePod], at_us: int) -> None:
        """Discovery's whole answer. What was kept of pods that are not in it is dropped."""
        now = self._clock.at(at_us)
        came, went = self._view.pods_seen(pods)
        self._holding.ask_again(came | went, now)
        self._history.keep(self._view.groups())
        self._look()

    def machine_seen(self, supported: frozenset[Knob]) -> None:
        """Which knobs this machine has; all, before anybody says so."""
        self._supported = supported
        self._settled = False
        self._look()

    def allocatable_seen(self, allocatable: Allocatable | None) -> None:
        """What the node has to give to pods, as its cluster says; None = nobody says."""
        self._view.allocatable = allocatable

    def found(self, leases: Sequence[Lease], at_us: int) -> None:
        """All that the keeper holds, asked at the start and when it was away.

        What no policy wants once rates are known is given back; what it lost is told anew.
        """
        self._holding.found(tuple(leases), self._clock.at(at_us))
        self._lists.found(leases)
        self._settled = False

    def health_reported(self, pod: str, health: ServiceHealth, at_us: int) -> bool:
        """A service's own latency report; `pod` is its namespace/name or UID. False, and counted, where nobody knows the pod.

        Raises `InvalidInput` where the report is nonsense.
        """
        check_health(health)
        now = self._clock.at(at_us)
        if self._view.health_reported(pod, health, now) is None:
            return False
        self._history.health_reported(health, now)
        return True

    def groups(self) -> tuple[str, ...]:
        """The cgroups to read for the next sample, sorted."""
        return self._view.groups()

    def watched(self) -> tuple[Target, ...]:
        """The knobs to read before the next sample, sorted: those that policies look at and whose value is old or unknown."""
        self._asked = self._readings.due(self._clock.now_us)
        return self._asked

    def _look(self) -> None:
        targets = self._judges.reads(self._view.outline(self._supported))
        self._readings.look_at({target for target in targets if target.knob in self._supported})

    # What to do

    def sampled(
        self,
        sample: NodeSample,
        knobs: Mapping[Target, str],
        cpus: Sequence[LogicalCpu] = (),
    ) -> Instructions:
        """The tick. `knobs`: what of `watched()` could be read; `cpus`: the machine's threads (empty: as last told)."""
        now = self._clock.at(sample.at_us)
        self._readings.read(self._asked, knobs, now)
        self._asked = ()
        rates = self._rates.advance(sample)
        if rates is None:
            self._counts.too_soon += 1
            return NOTHING
        self._notice({each.group for each in sample.groups}, rates.anew, now)
        self._counts.ticks += 1
        self._counts.late_ticks += rates.interval_us > 2 * self.settings.period_us
        self._counts.counter_resets += rates.resets
        values = self._readings.values()
        owners = self._lists.seen(values, self._holding)
        state = self._view.state(rates, values, cpus, self._supported, now, owners)
        self._state = state
        self._history.record(state)
        return self._act(self._judges.judge(state, now), now, rates.interval_us > 0)

    def _notice(self, there: set[str], anew: frozenset[str], now_us: int) -> None:
        """A group that came is taken up now that it is there: also where another of its name was held."""
        came = anew.union(there - self._there)
        self._there = there
        if came:
            self._holding.ask_again(came, now_us)
            self._readings.forget_groups(came, now_us)

    def pressed(self, at_us: int, group: str, what: str, stall_ppm: int = PPM) -> Instructions:
        """A PSI trigger or a late wake-up event between two ticks: urgent policies decide at once on the last state.

        `what`: "cpu", "memory" or "io"; `group` "" = the host; `stall_ppm`: how much of the trigger's window was lost at least.
        """
        now = self._clock.at(at_us)
        state = self._state
        resting = self._pressed_us is not None and now - self._pressed_us < self.settings.pressed_gap_us
        if state is None or resting or (group and self._view.owner(group) is None):
            self._counts.pressed_ignored += 1
            return NOTHING
        self._counts.pressed += 1
        self._pressed_us = now
        alarmed = replace(state, at_us=now, knobs=self._readings.values(), alarms=(Alarm(now, group, what, stall_ppm),))
        return self._act(self._judges.judge(alarmed, now, urgent_only=True), now, state.interval_us > 0)

    def _act(self, judged: Judged, now_us: int, measured: bool) -> Instructions:
        for policy, reasons in judged.changed:
            for reason in reasons:
                self._log.note(now_us, Happened.JUDGED, policy, "", reason)
        for policy, failure in judged.failed:
            self._log.note(now_us, Happened.FAILED, policy, "", Reason("failed", failure))
        verdicts = self._judges.verdicts()
        self._settle(verdicts)
        self._tell_unfit(now_us)
        if self._stopping:
            return NOTHING
        self._settled = True
        changes = self._holding.change(self._plan.wanted, judged.fresh, now_us, measured)
        self._note(changes, now_us)
        chosen = self._evictions.choose(verdicts, self._view.pods, now_us)
        for policy, wish in chosen:
            self._log.note(now_us, Happened.EVICTED, policy, "", wish.reason, pod=wish.key)
        return self._emit(changes, tuple(wish for _, wish in chosen), now_us)

    def _settle(self, verdicts: Sequence[tuple[str, Verdict]]) -> None:
        """A new plan, where the wishes are not those of the last one."""
        wishes = [(policy, verdict.knobs) for policy, verdict in verdicts]
        if wishes != self._wishes or self._supported != self._wished_of:
            self._plan = settle(verdicts, self.settings.roots, self._supported)
            self._wishes, self._wished_of = wishes, self._supported

    def _emit(self, changes: Changes, evict: tuple[EvictPod, ...], now_us: int) -> Instructions:
        if self.settings.mode is Mode.OBSERVE:
            # Nothing leaves; what would have been asked counts as done, so that the records go on as if it had been.
            for give in changes.give_back:
                self._holding.answered(LeaseAnswer(give.target, LeaseState.RESTORED), now_us)
            for wish in changes.hold:
                self._holding.answered(LeaseAnswer(wish.target, LeaseState.HELD), now_us)
            for gone in evict:
                self._evictions.answered(gone.uid, True, "observe only", now_us)
            return NOTHING
        hold = order_writes(changes.hold, self._readings.values())
        asked = {(wish.target, wish.value) for wish in changes.hold}
        for wish in hold:
            if (wish.target, wish.value) not in asked:
                self._holding.goes_by_way(wish, now_us)
        return Instructions(hold, changes.give_back, evict, dry=self.settings.mode is Mode.DRY_RUN)

    def _note(self, changes: Changes, now_us: int) -> None:
        for entry in changes.new:
            target = entry.target
            self._log.note(now_us, Happened.HELD, entry.policy, target.group, entry.reason, target, entry.value)
        for entry, reason in changes.released:
            target = entry.target
            self._log.note(now_us, Happened.RELEASED, entry.policy, target.group, reason, target, entry.value)

    def _tell_unfit(self, now_us: int) -> None:
        """Count and log what is not taken up, and conflicts, once while they last."""
        seen: set[tuple[str, Target, str]] = set()
        for rejected in self._plan.rejected:
            wish, mark = rejected.wish, (rejected.policy, rejected.wish.target, rejected.why.value)
            if mark in seen:
                continue
            seen.add(mark)
            if mark not in self._told:
                self._counts.outside_roots += rejected.why is Unfit.OUTSIDE
                self._counts.bad_wishes += rejected.why is not Unfit.OUTSIDE
                reason = Reason("unfit", f"{wish.target} at {wish.value!r} {rejected.why}")
                self._log.note(
                    now_us, Happened.REFUSED, rejected.policy, wish.target.group, reason, wish.target, wish.value
                )
        for target, wanted in self._plan.wanted.items():
            if wanted.lost:
                mark = (wanted.policy, target, "conflict")
                seen.add(mark)
                self._counts.conflicts += mark not in self._told
        self._told = frozenset(seen)

    def answered(self, answers: Sequence[LeaseAnswer], at_us: int) -> None:
        """The keeper's answers to the last instructions: those to `give_back`, then those to `hold`, as asked."""
        now = self._clock.at(at_us)
        for answer in answers:
            entry = self._holding.get(answer.target)
            value = entry.asks[0].value if entry is not None and entry.asks and entry.asks[0].hold else None
            rests = self._holding.answered(answer, now)
            if value is not None and answer.state is LeaseState.HELD:
                self._readings.told(answer.target, value, now)
            else:
                self._readings.forget(answer.target)
            if rests is not None:
                self._note_rest(rests, now)

    def _note_rest(self, entry: Entry, now_us: int) -> None:
        what = Happened.YIELDED if entry.standing is Standing.YIELDED else Happened.REFUSED
        rest_us = entry.rest_until_us - now_us
        again = f"not asked for again for {rest_us // 1_000_000} s" if rest_us else "asked for again at the next tick"
        reason = Reason(entry.standing.value, f"{entry.detail or entry.standing}; {again}")
        self._log.note(now_us, what, entry.policy, entry.target.group, reason, entry.target, entry.value)

    def unreachable(self, at_us: int) -> None:
        """The keeper could not be reached: what was asked and not answered is asked again at the next tick."""
        self._clock.at(at_us)
        self._holding.unreachable()

    def evicted(self, uid: str, accepted: bool, detail: str, at_us: int) -> None:
        """How asking a pod to leave went."""
        now = self._clock.at(at_us)
        asked = self._evictions.answered(uid, accepted, detail, now)
        if asked is not None and not accepted:
            self._log.note(now, Happened.STAYED, asked.policy, "", Reason("stayed", detail), pod=asked.wish.key)

    def stopping(self, at_us: int) -> Instructions:
        """A clean stop: give back everything. After it, `sampled` emits nothing."""
        now = self._clock.at(at_us)
        self._stopping = True
        self._plan, self._wishes = _NO_PLAN, []
        changes = self._holding.release_all(now)
        self._note(changes, now)
        return self._emit(changes, (), now)

    # What to tell

    def state(self) -> NodeState | None:
        """The last snapshot that policies decided on; None before the first sample."""
        return self._state

    def report(self, at_s: float) -> NodeReport | None:
        """The founding report over the last window, dated `at_s` (Unix time); None before the second sample."""
        return self._history.report(at_s)

    def usage(self, windows_us: Sequence[int]) -> NodeUsage | None:
        """What a NodeMetric says; the first window is the one of the averages. None before the first sample."""
        return self._history.usage(windows_us)

    def holds(self) -> tuple[Hold, ...]:
        """Every knob that is held, asked for, given back, refused or stood off from, sorted by target."""
        return tuple(self._hold(entry) for entry in self._holding.entries())

    def _hold(self, entry: Entry) -> Hold:
        policy = self._judges.policy(entry.policy)
        observed = self.settings.mode is Mode.OBSERVE and not entry.standing.rests
        return Hold(
            entry.target,
            entry.value,
            "would be held" if observed else entry.standing.value,
            entry.policy,
            entry.reason,
            entry.since_us,
            entry.lost,
            policy.lifts if policy else "",
            entry.detail,
        )

    def explain(self, asked: str) -> Story | None:
        """The story of a group (its path), or of a pod (namespace/name or UID); None where nobody knows it."""
        return story_of(
            asked,
            self._view,
            self.holds(),
            self._readings.values(),
            self._judges.verdicts(),
            self._evictions,
            self._log,
            self._clock.now_us,
        )

    def decisions(self, since: int = 0) -> tuple[Decision, ...]:
        """Decisions with a number above `since`, oldest first; as many as are kept."""
        return self._log.since(since)

    def counts(self) -> AgentCounts:
        """What happened since the start; a copy."""
        return replace(self._counts, clock_went_back=self._clock.went_back)

    def validate(self) -> None:
        """Everything derived agrees with what it is derived from. Raises `Permanent`."""
        now = self._clock.now_us
        self._holding.validate(now)
        self._evictions.validate(now)
        self._judges.validate()
        self._log.validate()
        self._history.validate()
        if not self._settled or self._stopping:
            return
        again = settle(self._judges.verdicts(), self.settings.roots, self._supported)
        if again.wanted != self._plan.wanted:
            raise Permanent("what is wanted is not what the verdicts come to")
        measured = self._state is None or self._state.interval_us > 0
        for entry in self._holding.entries():
            wanted = self._plan.wanted.get(entry.target)
            held = entry.standing in (Standing.ASKED, Standing.HELD) and (measured or entry.policy)
            if wanted is None and held:
                raise Permanent(f"{entry.target} is {entry.standing} and nobody wants it")
            if wanted is not None and not entry.standing.rests and entry.value != wanted.wish.value:
                raise Permanent(f"{entry.target} is {entry.standing} at {entry.value!r}, not {wanted.wish.value!r}")

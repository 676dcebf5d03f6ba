"""The node's engine: measure, decide, hold, release. A state machine without I/O, the same on a real node, on a
recording and in the lab.

Many policies want knobs of many groups at once, every second, for months; groups come and go, keepers refuse, clocks
jump; and users ask why at any time. A sample goes in and instructions come out; in between each policy decides on one
`NodeState`, their desired values are resolved knob by knob, and only the difference to what is held is requested.
Limits: it relies on its process to report answers in the order of the requests.

A tick: `pods_seen` where discovery has updates; `groups` and `knobs_to_read` say what to read; `sampled` takes what was
read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from cotenant.engine.autonomy.permissions import Permissions
from cotenant.engine.leases.write_order import order_writes
from cotenant.engine.node.clock import NodeClock
from cotenant.engine.node.decision_log import DecisionKind, DecisionLog, GroupExplanation, HeldKnob, KnobDecision
from cotenant.engine.node.evictions import Evictions
from cotenant.engine.node.explanation import explain_group, held_knob
from cotenant.engine.node.history import NodeHistory
from cotenant.engine.node.idle_cards import IdleCards
from cotenant.engine.node.instructions import NOTHING, AgentCounts, Instructions, PolicyFailure
from cotenant.engine.node.knobs.binding_limits import POLICY, binding_limits
from cotenant.engine.node.knobs.external_cpusets import ExternalCpusets
from cotenant.engine.node.knobs.knob_entry import Changes, KnobEntry, KnobStatus
from cotenant.engine.node.knobs.knob_tracker import KnobTracker
from cotenant.engine.node.knobs.plan import KnobPlan, resolve
from cotenant.engine.node.knobs.readings import KnobReadings
from cotenant.engine.node.knobs.rejected_requests import RejectedRequests
from cotenant.engine.node.mode import AgentMode
from cotenant.engine.node.policies import NodePolicy, enabled_policies
from cotenant.engine.node.policy_runner import PolicyResults, PolicyRunner
from cotenant.engine.node.rates import Rates
from cotenant.engine.node.recovery.policy import RecoveryMemory
from cotenant.engine.node.recovery.story import ServiceStory, story
from cotenant.engine.node.report import NodeUsage
from cotenant.engine.node.settings import AgentSettings
from cotenant.engine.node.view import NodePodsView, check_health
from cotenant.model.cluster.report import NodeReport
from cotenant.model.errors import Permanent
from cotenant.model.kubelet.facts import KubeletFacts
from cotenant.model.machine.counters import LogicalCpu, NodeSample
from cotenant.model.machine.knob import Knob, KnobLease, KnobTarget, LeaseAnswer, LeaseState, SetKnob
from cotenant.model.machine.node_decision import EvictPod, Reason
from cotenant.model.machine.node_metric import Use
from cotenant.model.machine.node_pod import NodePod
from cotenant.model.machine.node_state import PPM, Alarm, Allocatable, NodeState, ServiceHealth
from cotenant.model.machine.replica_signal import ReplicaSignal
from cotenant.model.machine.verdict import PolicyVerdict

_MIN_PART = 20  # of a period; samples closer together are not compared
_NO_PLAN = KnobPlan({}, ())


class Agent:
    """The agent of one node. Times are microseconds of a clock that should be monotonic; jumps are tolerated."""

    def __init__(self, settings: AgentSettings, node: str, policies: Sequence[NodePolicy] | None = None) -> None:
        """`policies`: None = those that the settings switch on."""
        self.settings = settings
        self.node = node
        self._counts = AgentCounts()
        self._clock = NodeClock()
        self._rates = Rates(settings.period_us // _MIN_PART)
        self._view = NodePodsView(settings, self._counts)
        self._readings = KnobReadings(settings.knob_age_us, settings.period_us)
        self._history = NodeHistory(settings, node)
        chosen = enabled_policies(settings.policies) if policies is None else tuple(policies)
        self._runner = PolicyRunner(chosen, settings.period_us, settings.lease_us, self._counts)
        self._tracker = KnobTracker(settings, self._counts)
        self._evictions = Evictions(settings.evictions, self._counts)
        self._log = DecisionLog(settings.decisions_kept)
        self._supported = frozenset(Knob)
        self._asked: tuple[KnobTarget, ...] = ()  # knobs to be read before the next sample
        self._state: NodeState | None = None
        self._plan = _NO_PLAN
        # the input of the plan: requests by policy, and the supported knobs
        self._requests: list[tuple[str, tuple[SetKnob, ...]]] = []
        self._planned_supported: frozenset[Knob] = frozenset()
        self._plan_is_current = False  # no input changed since the plan was made
        self._rejected = RejectedRequests(self._counts, self._log)
        self._pressed_us: int | None = None
        self._present: set[str] = set()  # groups in the last sample
        self._stopping = False
        self._external_cpusets = ExternalCpusets()
        self._grouped: str | None = None  # the common group, as the knobs that are read know it
        self._track_knobs()

    # Inputs

    def pods_seen(self, pods: Sequence[NodePod], at_us: int) -> None:
        """Discovery's complete answer. State of pods that are not in it is dropped."""
        now = self._clock.at(at_us)
        came, went = self._view.pods_seen(pods)
        self._tracker.groups_changed(came | went, now)
        self._history.keep(self._view.groups())
        self._track_knobs()

    def machine_seen(self, supported: frozenset[Knob]) -> None:
        """Which knobs this machine has; all until this is called."""
        self._supported = supported
        self._plan_is_current = False
        self._track_knobs()

    def allocatable_seen(self, allocatable: Allocatable | None) -> None:
        """The node's allocatable resources as reported by its cluster; None = not known."""
        self._view.allocatable = allocatable

    def obeys(self, permissions: Permissions) -> None:
        """Ask these, kept up to date by who reads them, before an action of recovery is begun."""
        self._view.permissions = permissions

    def kubelet_seen(self, facts: KubeletFacts) -> None:
        """What is known of the kubelet and systemd, which write knobs too."""
        self._view.kubelet = facts

    def leases_found(self, leases: Sequence[KnobLease], at_us: int) -> None:
        """All leases of the keeper, listed at the start and after it was unreachable.

        What no policy wants once rates are known is given back; what the keeper lost is requested again.
        """
        self._tracker.leases_found(tuple(leases), self._clock.at(at_us))
        self._external_cpusets.leases_found(leases)
        self._plan_is_current = False

    def health_reported(self, pod: str, health: ServiceHealth, at_us: int) -> bool:
        """A service's own latency report; `pod` is its namespace/name or UID. False, and counted, where the pod is not
        known.

        Raises `InvalidInput` for an impossible report.
        """
        check_health(health)
        now = self._clock.at(at_us)
        if self._view.health_reported(pod, health, now) is None:
            return False
        self._history.health_reported(health, now)
        return True

    def signal_reported(self, pod: str, signal: ReplicaSignal, at_us: int) -> bool:
        """What the trace process measured of a replica; `pod` as for `health_reported`. False where it is not
        known. Raises `InvalidInput`.
        """
        found = self._view.signal_reported(pod, signal, self._clock.at(at_us))
        self._regrouped()
        return found is not None

    def signal_withdrawn(self, pod: str, objective: str) -> None:
        """The objective no longer concerns the pod."""
        self._view.signal_withdrawn(pod, objective)
        self._regrouped()

    def groups(self) -> tuple[str, ...]:
        """The cgroups to read for the next sample, sorted."""
        return self._view.groups()

    def knobs_to_read(self) -> tuple[KnobTarget, ...]:
        """The knobs to read before the next sample, sorted: those that policies read and whose value is old or
        unknown.
        """
        self._asked = self._readings.due(self._clock.now_us)
        return self._asked

    def _regrouped(self) -> None:
        if self._view.best_effort_group != self._grouped:  # an objective named a pod that stands in it, or no longer
            self._track_knobs()

    def _track_knobs(self) -> None:
        self._grouped = self._view.best_effort_group
        targets = self._runner.reads(self._view.outline(self._supported))
        self._readings.track({target for target in targets if target.knob in self._supported})

    # Decisions

    def sampled(
        self, sample: NodeSample, knobs: Mapping[KnobTarget, str], cpus: Sequence[LogicalCpu] = ()
    ) -> Instructions:
        """The tick. `knobs`: the values of `knobs_to_read()` that could be read; `cpus`: the machine's threads
        (empty: unchanged).
        """
        now = self._clock.at(sample.at_us)
        self._readings.read(self._asked, knobs, now)
        self._asked = ()
        rates = self._rates.advance(sample)
        if rates is None:
            self._counts.too_soon += 1
            return NOTHING
        self._update_present({group.group for group in sample.groups}, rates.recreated, now)
        self._counts.ticks += 1
        self._counts.late_ticks += rates.interval_us > 2 * self.settings.period_us
        self._counts.counter_resets += rates.resets
        values = self._readings.values()
        owners = self._external_cpusets.seen(values, self._tracker)
        limits = binding_limits(self._tracker, self._runner.memory(POLICY))
        state = self._view.state(rates, values, cpus, self._supported, now, owners, sample.wall_s, limits, sample.gpus)
        self._state = state
        self._history.record(state)
        return self._act(self._runner.run(state, now), now, rates.interval_us > 0)

    def _update_present(self, present: set[str], recreated: frozenset[str], now_us: int) -> None:
        """Request knobs of new groups again, also where an earlier group of the same name was held."""
        came = recreated.union(present - self._present)
        self._present = present
        if came:
            self._tracker.groups_changed(came, now_us)
            self._readings.forget_groups(came, now_us)

    def pressed(self, at_us: int, group: str, what: str, stall_ppm: int = PPM) -> Instructions:
        """A PSI trigger or a late wake-up event between two ticks: urgent policies decide at once on the last state.

        `what`: "cpu", "memory" or "io"; `group` "" = the host; `stall_ppm`: the least part of the trigger's window that
        was lost.
        """
        now = self._clock.at(at_us)
        state = self._state
        too_soon = self._pressed_us is not None and now - self._pressed_us < self.settings.pressed_gap_us
        if state is None or too_soon or (group and self._view.owner(group) is None):
            self._counts.pressed_ignored += 1
            return NOTHING
        self._counts.pressed += 1
        self._pressed_us = now
        alarmed = replace(state, at_us=now, knobs=self._readings.values(), alarms=(Alarm(now, group, what, stall_ppm),))
        return self._act(self._runner.run(alarmed, now, urgent_only=True), now, state.interval_us > 0)

    def _act(self, results: PolicyResults, now_us: int, measured: bool) -> Instructions:
        for policy, reasons in results.changed:
            for reason in reasons:
                self._log.note(now_us, DecisionKind.JUDGED, policy, "", reason)
        for policy, failure in results.failed:
            self._log.note(now_us, DecisionKind.FAILED, policy, "", Reason("failed", failure))
        verdicts = self._runner.verdicts()
        self._update_plan(verdicts)
        self._rejected.note(self._plan, now_us)
        if self._stopping:
            return NOTHING
        self._plan_is_current = True
        changes = self._tracker.change(self._plan.desired, results.fresh, now_us, measured)
        self._note(changes, now_us)
        chosen = self._evictions.choose(verdicts, self._view.pods, now_us)
        for policy, desired_knob in chosen:
            self._log.note(now_us, DecisionKind.EVICTED, policy, "", desired_knob.reason, pod=desired_knob.key)
        emitted = self._emit(changes, tuple(desired_knob for _, desired_knob in chosen), now_us)
        return replace(emitted, failing=results.failing) if results.failing else emitted

    def _update_plan(self, verdicts: Sequence[tuple[str, PolicyVerdict]]) -> None:
        """Make a new plan where the requests changed."""
        requests = [(policy, verdict.knobs) for policy, verdict in verdicts]
        if requests != self._requests or self._supported != self._planned_supported:
            self._plan = resolve(verdicts, self.settings.roots, self._supported)
            self._requests, self._planned_supported = requests, self._supported

    def _emit(self, changes: Changes, evict: tuple[EvictPod, ...], now_us: int) -> Instructions:
        if self.settings.mode is AgentMode.OBSERVE:
            # Emit nothing; requests count as done, so that the records continue as if they were.
            for give in changes.give_back:
                self._tracker.answered(LeaseAnswer(give.target, LeaseState.RESTORED), now_us)
            for desired_knob in changes.hold:
                self._tracker.answered(LeaseAnswer(desired_knob.target, LeaseState.HELD), now_us)
            for gone in evict:
                self._evictions.answered(gone.uid, True, "observe only", now_us)
            return NOTHING
        hold = order_writes(changes.hold, self._readings.stands(wanted.target for wanted in changes.hold))
        requested = {(desired_knob.target, desired_knob.value) for desired_knob in changes.hold}
        for desired_knob in hold:
            if (desired_knob.target, desired_knob.value) not in requested:
                self._tracker.expect_intermediate(desired_knob, now_us)
        return Instructions(hold, changes.give_back, evict, dry=self.settings.mode is AgentMode.DRY_RUN)

    def _note(self, changes: Changes, now_us: int) -> None:
        for entry in changes.new:
            target = entry.target
            self._log.note(now_us, DecisionKind.HELD, entry.policy, target.group, entry.reason, target, entry.value)
        for entry, reason in changes.released:
            target = entry.target
            self._log.note(now_us, DecisionKind.RELEASED, entry.policy, target.group, reason, target, entry.value)

    def answered(self, answers: Sequence[LeaseAnswer], at_us: int) -> None:
        """The keeper's answers to the last instructions: those to `give_back`, then those to `hold`, in order."""
        now = self._clock.at(at_us)
        for answer in answers:
            entry = self._tracker.get(answer.target)
            value = entry.pending[0].value if entry is not None and entry.pending and entry.pending[0].hold else None
            backing_off = self._tracker.answered(answer, now)
            if value is not None and answer.state is LeaseState.HELD:
                self._readings.confirmed(answer.target, value, now)
            else:
                self._readings.forget(answer.target)
            if backing_off is not None:
                self._note_backoff(backing_off, now)

    def _note_backoff(self, entry: KnobEntry, now_us: int) -> None:
        what = DecisionKind.YIELDED if entry.status is KnobStatus.YIELDED else DecisionKind.REFUSED
        backoff_us = entry.retry_at_us - now_us
        again = f"retried in {backoff_us // 1_000_000} s" if backoff_us else "retried at the next tick"
        reason = Reason(entry.status.value, f"{entry.detail or entry.status}; {again}")
        self._log.note(now_us, what, entry.policy, entry.target.group, reason, entry.target, entry.value)

    def unreachable(self, at_us: int) -> None:
        """The keeper could not be reached: unanswered requests are repeated at the next tick."""
        self._clock.at(at_us)
        self._tracker.unreachable()

    def evicted(self, uid: str, accepted: bool, detail: str, at_us: int) -> None:
        """The outcome of an eviction request."""
        now = self._clock.at(at_us)
        rehearsed = self.settings.mode is AgentMode.DRY_RUN
        requested = self._evictions.answered(uid, accepted, detail, now, rehearsed=rehearsed)
        if requested is not None and not accepted:
            self._log.note(
                now, DecisionKind.STAYED, requested.policy, "", Reason("stayed", detail), pod=requested.eviction.key
            )

    def stopping(self, at_us: int) -> Instructions:
        """A clean stop: give back everything. After it, `sampled` emits nothing."""
        now = self._clock.at(at_us)
        self._stopping = True
        self._plan, self._requests = _NO_PLAN, []
        changes = self._tracker.release_all(now)
        self._note(changes, now)
        return self._emit(changes, (), now)

    # State and reports

    def state(self) -> NodeState | None:
        """The last snapshot that policies decided on; None before the first sample."""
        return self._state

    def report(self, at_s: float) -> NodeReport | None:
        """The founding report over the last window, dated `at_s` (Unix time); None before the second sample."""
        return self._history.report(at_s)

    def usage(self, windows_us: Sequence[int]) -> NodeUsage | None:
        """The contents of a NodeMetric; averages are over the first window. None before the first sample."""
        return self._history.usage(windows_us)

    def idle_cards(self) -> IdleCards:
        """GPUs that somebody holds and nobody uses."""
        return self._history.idle

    def room(self) -> Use | None:
        """CPU and memory for pods: allocatable as the cluster says, else the capacity less what is reserved. None
        before the first sample.
        """
        known, state = self._view.allocatable, self._state
        if known is not None:
            return Use(known.cpu_m, known.memory_bytes)
        if state is None:
            return None
        whole = Use(state.host.capacity_cpu_m, state.host.memory_total_bytes)
        return whole.beyond(Use(self.settings.reserved_cpu_m, self.settings.reserved_memory_bytes))

    def held_knobs(self) -> tuple[HeldKnob, ...]:
        """Every knob that is held, requested, being given back or backing off, sorted by target."""
        runner, mode = self._runner, self.settings.mode
        return tuple(held_knob(entry, runner.policy(entry.policy), mode) for entry in self._tracker.entries())

    def explain(self, requested: str) -> GroupExplanation | None:
        """The explanation of a group (its path), or of a pod (namespace/name or UID); None where it is not known."""
        return explain_group(
            requested,
            self._view,
            self.held_knobs(),
            self._readings.values(),
            self._runner.verdicts(),
            self._evictions,
            self._log,
            self._clock.now_us,
        )

    def service_story(self, asked: str) -> ServiceStory | None:
        """The incidents of a workload or pod (namespace/name), from objective to recovery; None where it is not
        known.
        """
        return story(asked, self.node, self._state, self.recovery(), self._clock.now_us)

    def recovery(self) -> RecoveryMemory | None:
        """The incidents of all services; None where the policy `recovery` is off."""
        memory = self.memory_of("recovery")
        return memory if isinstance(memory, RecoveryMemory) else None

    def memory_of(self, policy: str) -> object:
        """What a policy remembers; None where it is off."""
        return self._runner.memory(policy)

    def decisions(self, since: int = 0) -> tuple[KnobDecision, ...]:
        """Decisions with a number above `since`, oldest first; limited to those kept."""
        return self._log.since(since)

    def failing_policies(self) -> tuple[PolicyFailure, ...]:
        """Policies that failed when they last ran."""
        return self._runner.failures()

    def counts(self) -> AgentCounts:
        """Counters since the start; a copy."""
        return replace(self._counts, clock_went_back=self._clock.went_back)

    def validate(self) -> None:
        """Check that derived state agrees with its sources. Raises `Permanent`."""
        now = self._clock.now_us
        self._tracker.validate(now)
        self._evictions.validate(now)
        self._runner.validate()
        self._log.validate()
        self._history.validate()
        if not self._plan_is_current or self._stopping:
            return
        again = resolve(self._runner.verdicts(), self.settings.roots, self._supported)
        if again.desired != self._plan.desired:
            raise Permanent("what is desired is not what the verdicts come to")
        self._tracker.check_against(self._plan.desired, self._state is None or self._state.interval_us > 0)

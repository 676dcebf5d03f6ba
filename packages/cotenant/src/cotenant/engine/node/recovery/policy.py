"""The recovery of services as one node policy: samples, incidents, and the knobs and evictions of their leases.

The ladder must take part in the resolution of knobs, the pacing of evictions and the leases of the keeper like any
other policy. `decide` over one `NodeState` and a frozen memory; each open incident moves by one step per sample, and
the verdict is what the leases in force desire. Where the agent dies, the keeper's time to live ends them.
Limits: one incident per service at a time; the last ones that ended are kept for explanations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from cotenant.engine.node.knobs.restrictiveness import restrictiveness
from cotenant.engine.node.recovery.facts import ClearedCulprit, RecoveryFacts
from cotenant.engine.node.recovery.incident import Incident, IncidentEvent, Proof, TroubleReading
from cotenant.engine.node.recovery.ladder import step
from cotenant.engine.node.recovery.restraint import now_held
from cotenant.engine.node.recovery.settings import RecoverySettings
from cotenant.engine.node.recovery.stages import ENDED, LEAVING, IncidentStage, RecoveryRung
from cotenant.model.machine.knob import ALL_SERVERS, Knob, KnobTarget, SetKnob
from cotenant.model.machine.knob_values import SHORT_SLICE, USUAL_PERIOD_US, CpuMax, parse_io_max
from cotenant.model.machine.node_decision import DecisionTerm, EvictPod, Reason
from cotenant.model.machine.node_pod import NodePodPhase
from cotenant.model.machine.node_state import PPM, NodeState, PodUse
from cotenant.model.machine.verdict import PolicyVerdict
from cotenant.policy.interference.attribution.samples import NodeSamples, extended
from cotenant.policy.interference.series import job_of
from cotenant.policy.nodeqos.guard.signals import may_be_victim
from cotenant.policy.nodeqos.io.disk_limits import IoLimits, disk_groups, io_max

RULE = "recovery"
MAX_ENDED = 64
MOST_ASKED = 4  # services whose cause one sample asks for, each 70 to 170 ms on a node of 250 pods; the others later
_MIN_PART_M = 20  # of a pod, where a workload's cap is divided among its pods
_IN_FORCE = frozenset({IncidentStage.ACTING, IncidentStage.HOLDING})


@dataclass(frozen=True, slots=True)
class RecoveryMemory:
    """State between calls; bounded by the window, the services of the node and `MAX_ENDED`."""

    history: NodeSamples = field(default_factory=NodeSamples)
    incidents: tuple[Incident, ...] = ()  # open ones
    ended: tuple[Incident, ...] = ()  # oldest first
    cleared: tuple[ClearedCulprit, ...] = ()
    opened: int = 0  # number of the last incident
    proven: Mapping[tuple[RecoveryRung, bool], int] = field(
        default_factory=dict
    )  # actions by rung and whether they helped


def decide(
    state: NodeState, settings: RecoverySettings, memory: RecoveryMemory
) -> tuple[PolicyVerdict, RecoveryMemory]:
    """The knobs and evictions of all incidents."""
    if state.interval_us > 0 and not state.alarms:  # with alarms, the state was already evaluated
        memory = _advanced(state, settings, memory)
    return _verdict(state, settings, memory), memory


def _advanced(state: NodeState, settings: RecoverySettings, memory: RecoveryMemory) -> RecoveryMemory:
    history = extended(memory.history, state, settings.attribution)
    cleared = tuple(element for element in memory.cleared if state.at_us < element.until_us)
    open_ones: list[Incident] = []
    ended, opened = list(memory.ended), memory.opened
    proven = dict(memory.proven)
    asked = 0
    for before in _in_turn(memory.incidents):
        incident, more = step(before, RecoveryFacts(state, history, cleared, settings, asked < MOST_ASKED))
        asked += _was_asked(before, incident, state.at_us)
        cleared = (*cleared, *more)
        for proof in _newly_proven(before, incident):
            key = (proof.rung, bool(proof.helped))
            proven[key] = proven.get(key, 0) + 1
        (ended if incident.stage in ENDED else open_ones).append(incident)
    known = {incident.victim for incident in open_ones}
    for entry in state.services:
        uid, facts = entry.pod.uid, RecoveryFacts(state, history, cleared, settings, asked < MOST_ASKED)
        if uid not in known and may_be_victim(entry) and (facts.in_trouble(uid) or _is_held_for(uid, facts)):
            opened += 1
            begun = _opened(entry, history, state, settings, opened)
            incident, more = step(begun, facts)
            asked += _was_asked(begun, incident, state.at_us)
            cleared = (*cleared, *more)
            open_ones.append(incident)
    open_ones.sort(key=lambda incident: incident.number)
    return RecoveryMemory(history, tuple(open_ones), tuple(ended[-MAX_ENDED:]), cleared, opened, proven)


def _in_turn(incidents: Sequence[Incident]) -> Sequence[Incident]:
    """Where not all can be asked about, those first that have waited longest."""
    if len(incidents) <= MOST_ASKED:
        return incidents
    return sorted(incidents, key=lambda incident: -1 if incident.asked_us is None else incident.asked_us)


def _was_asked(before: Incident, after: Incident, now_us: int) -> bool:
    is_named_now = before.stage is IncidentStage.OWN and after.stage is IncidentStage.SUSPECTED
    return after.asked_us == now_us or is_named_now


def _is_held_for(uid: str, facts: RecoveryFacts) -> bool:
    """Whether a service misses its objective and another policy holds who ran a moment ago: mostly that ends the
    trouble before it has lasted for an incident, and it is to be told all the same.
    """
    if not facts.misses(uid):
        return False
    found = now_held(facts)
    return found is not None and bool(found.held)


def _newly_proven(before: Incident, after: Incident) -> list[Proof]:
    open_ones = {(proof.at_us, proof.rung) for proof in before.proofs if proof.helped is None}
    return [proof for proof in after.proofs if proof.helped is not None and (proof.at_us, proof.rung) in open_ones]


def _opened(entry: PodUse, history: NodeSamples, state: NodeState, settings: RecoverySettings, number: int) -> Incident:
    """The incident of a service that is in trouble since its first bad sample of the last few."""
    uid = entry.pod.uid
    signal = history.deciding(uid, settings.attribution)
    threshold = None if signal is None else history.threshold_ppm(uid, signal, settings.attribution)
    assert signal is not None, "a service in trouble has a signal"
    assert threshold is not None, "and its threshold"
    last = history.of(uid)[-settings.attribution.trouble_of :]
    bad = [(sample, service) for sample, service in last if service.levels.get(signal, 0) > threshold]
    burns = [service.burn_milli for _, service in bad if service.burn_milli is not None]
    level = sum(service.levels[signal] for _, service in bad) // len(bad)
    before = TroubleReading(level, sum(burns) // len(burns) if burns else None, len(bad))
    first_us = bad[0][0].at_us
    burn = "" if before.burn_milli is None else f", budget burns {before.burn_milli / 1000:.1f} x"
    text = f"{entry.pod.key}: {signal} {level / PPM:.2f}, threshold {threshold / PPM:.2f}{burn}"
    return Incident(
        number=number,
        victim=uid,
        name=entry.pod.key,
        service=job_of(entry),
        objective=entry.health.objective if entry.health is not None else "",
        objective_us=entry.pod.objective_p99_us,
        opened_us=first_us,
        stage=IncidentStage.SUSPECTED,
        since_us=state.at_us,
        before=before,
        threshold_ppm=threshold,
        events=(IncidentEvent(first_us, IncidentStage.SUSPECTED, text),),
    )


def _verdict(state: NodeState, settings: RecoverySettings, memory: RecoveryMemory) -> PolicyVerdict:
    knobs: dict[KnobTarget, SetKnob] = {}
    evictions: dict[str, EvictPod] = {}
    reasons = []
    for incident in memory.incidents:
        reason = _reason(incident)
        reasons.append(reason)
        lease = incident.lease
        if lease is None or incident.stage not in _IN_FORCE:
            continue
        members = RecoveryFacts(state, memory.history, memory.cleared, settings).members(lease.culprit)
        pods = [entry.pod.group for entry in members if entry.pod.group]
        if lease.disk_bps is not None:
            _limit_disks(knobs, state, members, lease.disk_bps, reason)
        for uuid, power_mw in lease.card_power:
            _limit_card(knobs, KnobTarget(uuid, Knob.GPU_POWER), str(power_mw), reason)
        for uuid, clock_mhz in lease.card_clocks:
            _limit_card(knobs, KnobTarget(uuid, Knob.GPU_CLOCKS), f"{clock_mhz} {clock_mhz}", reason)
        for uuid in lease.card_slices:
            _limit_card(knobs, KnobTarget(uuid, Knob.GPU_TIMESLICE), SHORT_SLICE, reason)
        if lease.threads_percent is not None:
            _limit_card(knobs, KnobTarget(ALL_SERVERS, Knob.MPS_THREADS), str(lease.threads_percent), reason)
        groups = [state.best_effort_group] if lease.rung is RecoveryRung.TIGHTEN else pods
        for group in groups:
            if not group or lease.group_m is None:
                continue
            part_m = lease.group_m if len(groups) == 1 else max(_MIN_PART_M, lease.group_m // len(groups))
            _restrict(knobs, KnobTarget(group, Knob.CPU_MAX), part_m, reason)
            if (
                lease.rung in (RecoveryRung.IDLE, RecoveryRung.FREEZE) or lease.rung in LEAVING
            ) and Knob.CPU_IDLE in state.supported:
                target = KnobTarget(group, Knob.CPU_IDLE)
                knobs[target] = SetKnob(target, "1", reason)
            if lease.rung is RecoveryRung.FREEZE:
                target = KnobTarget(group, Knob.CGROUP_FREEZE)
                knobs[target] = SetKnob(target, "1", reason)
        leaves = lease.rung is RecoveryRung.EVICT and incident.stage is IncidentStage.ACTING
        for entry in members if leaves else ():
            pod, use = entry.pod, entry.use
            if pod.phase is not NodePodPhase.RUNNING:
                continue
            evictions.setdefault(
                pod.uid, EvictPod(pod.uid, pod.key, reason, use.cpu_m or 0, use.working_set_bytes or 0)
            )
    return PolicyVerdict(
        tuple(reasons) or (Reason(RULE, "no service is in trouble"),), tuple(knobs.values()), tuple(evictions.values())
    )


def _restrict(knobs: dict[KnobTarget, SetKnob], target: KnobTarget, cap_m: int, reason: Reason) -> None:
    """The smaller cap where two incidents limit one group."""
    quota = CpuMax(cap_m * USUAL_PERIOD_US // 1000, USUAL_PERIOD_US)
    known = knobs.get(target)
    if known is None or int(known.value.split()[0]) > (quota.quota_us or 0):
        knobs[target] = SetKnob(target, str(quota), reason)


def _limit_card(knobs: dict[KnobTarget, SetKnob], target: KnobTarget, limit: str, reason: Reason) -> None:
    """The smaller limit where two incidents have one card."""
    known, rank = knobs.get(target), restrictiveness(target.knob, limit)
    stands = None if known is None else restrictiveness(target.knob, known.value)
    if stands is None or rank is None or rank < stands:
        knobs[target] = SetKnob(target, limit, reason)


def _limit_disks(
    knobs: dict[KnobTarget, SetKnob], state: NodeState, members: Sequence[PodUse], limit_bps: int, reason: Reason
) -> None:
    """Divide the limit among the culprit's groups; the smaller one where two incidents limit one group."""
    groups = [group for entry in members for group in disk_groups(entry.pod, state.kubelet.cgroup_version)]
    part = IoLimits(limit_bps, limit_bps).divided(max(1, len(groups)))
    value = io_max(tuple((number, part) for number in state.host.disks))
    for group in groups:
        target = KnobTarget(group, Knob.IO_MAX)
        known = knobs.get(target)
        if known is None or (parse_io_max(known.value)[0].rbps or 0) > (part.read_bps or 0):
            knobs[target] = SetKnob(target, value, reason)


def _reason(incident: Incident) -> Reason:
    last = incident.events[-1]
    terms = (
        DecisionTerm("before", incident.before.level_ppm, "ppm"),
        DecisionTerm("threshold", incident.threshold_ppm, "ppm"),
        *(incident.attribution.reason.terms if incident.attribution is not None else ()),
    )
    return Reason(f"{RULE}:{incident.stage}", f"{incident.name} ({incident.stage}): {last.text}", terms)

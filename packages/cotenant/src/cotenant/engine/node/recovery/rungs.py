"""Which rung may be used against a culprit, and what it sets.

A rung must be configured, permitted by the objective of the service, and possible for the culprit: a service is never
limited, and a move needs a process that asks for it. The mildest rung that is all three; caps are shares of what was
used while the service was in trouble.
Limits: whether a move is answered is not known here; the time to live of its lease ends it.
"""

from __future__ import annotations

from cotenant.engine.node.recovery.cards import (
    card_path,
    clock_limits,
    has_card_memory,
    may_leave_for,
    power_limits,
    sliced_cards,
)
from cotenant.engine.node.recovery.facts import RecoveryFacts
from cotenant.engine.node.recovery.incident import Incident, IncidentAction
from cotenant.engine.node.recovery.settings import RecoverySettings
from cotenant.engine.node.recovery.stages import RecoveryRung, permitted
from cotenant.model.machine.knob import Knob
from cotenant.model.machine.node_state import PPM, PodUse
from cotenant.model.machine.replica_signal import MaxAction
from cotenant.policy.interference.attribution.samples import AttributionSample
from cotenant.policy.interference.attribution.settings import SECOND_US


def next_rung(
    incident: Incident,
    facts: RecoveryFacts,
    culprit: str,
    above: RecoveryRung | None,
    least: RecoveryRung | None = None,
) -> RecoveryRung | None:
    """The mildest rung above one, or not below `least`, that is configured, permitted by the objective, and
    possible for this culprit.
    """
    most, order = max_action(facts.entry(incident.victim), facts.settings), list(RecoveryRung)
    for rung in facts.settings.rungs:
        if above is not None and order.index(rung) <= order.index(above):
            continue
        if least is not None and order.index(rung) < order.index(least):
            continue
        if permitted(rung, most) and _is_possible(rung, facts, culprit, incident):
            return rung
    return None


def max_action(entry: PodUse | None, settings: RecoverySettings) -> MaxAction:
    """The strongest action for a service: its objective's, where its health is judged by one, else the configured
    one.
    """
    if entry is None or entry.health is None or not entry.health.objective:
        return settings.max_action
    signal = next(
        (replica_signal for replica_signal in entry.signals if replica_signal.objective == entry.health.objective), None
    )
    if signal is None:
        return settings.max_action
    return signal.max_action if signal.guard else MaxAction.OBSERVE


def _is_possible(rung: RecoveryRung, facts: RecoveryFacts, culprit: str, incident: Incident) -> bool:
    members = facts.members(culprit)
    if not members:
        return False
    may_leave = may_leave_for(incident, culprit) and all(
        entry.pod.is_named and not entry.pod.host_application for entry in members
    )
    if rung is RecoveryRung.MOVE:
        # Requests travel with the reports for objectives, and the process that asks for the move checks the objective.
        # One pod of many would be of no use.
        return bool(incident.objective) and may_leave and len(members) == 1
    if not all(entry.pod.best_effort for entry in members):
        return False
    if rung is RecoveryRung.DISK:
        found = incident.attribution.culprit if incident.attribution is not None else None
        by_disk = found is not None and found.by_disk and found.identity == culprit
        return by_disk and Knob.IO_MAX in facts.state.supported and bool(facts.state.host.disks)
    if rung is RecoveryRung.POWER:
        return bool(power_limits(incident, facts, culprit))
    if rung is RecoveryRung.CLOCKS:
        return bool(clock_limits(incident, facts, culprit))
    if rung is RecoveryRung.TIMESLICE:
        return bool(sliced_cards(incident, facts, culprit))
    if rung is RecoveryRung.TIGHTEN:
        if card_path(incident, culprit):
            return False  # it is not aimed at the pod, and leaves it most of what it needs to feed a card
        group = facts.state.best_effort_group
        return bool(group) and all(entry.pod.group.startswith(f"{group}/") for entry in members)
    if rung is RecoveryRung.EVICT:
        return may_leave
    if rung is RecoveryRung.FREEZE and not (_may_be_frozen(facts) and has_card_memory(incident, facts, culprit)):
        return False
    return any(entry.pod.group for entry in members)


def _may_be_frozen(facts: RecoveryFacts) -> bool:
    """A frozen pod keeps its memory, which is nobody else's while it lasts."""
    host = facts.state.host
    available_bytes = host.memory_total_bytes - host.memory_used_bytes
    is_roomy = available_bytes * PPM >= facts.settings.freeze_memory_ppm * host.memory_total_bytes
    return is_roomy and Knob.CGROUP_FREEZE in facts.state.supported


def no_rung(incident: Incident, facts: RecoveryFacts, culprit: str) -> str:
    """Why no rung is possible."""
    if any(not entry.pod.best_effort for entry in facts.members(culprit)):
        return (
            "it is itself a service: nothing on this node may limit it, and a move needs a ServiceObjective with "
            "maxAction evict"
        )
    most = max_action(facts.entry(incident.victim), facts.settings)
    return f"no stronger action is permitted (maxAction {most})"


def cap_m(incident: Incident, facts: RecoveryFacts, culprit: str, rung: RecoveryRung) -> int | None:
    """The cap of the rung's group, milli-CPU; None where the rung sets none."""
    settings = facts.settings
    if rung in (RecoveryRung.DISK, RecoveryRung.POWER, RecoveryRung.CLOCKS, RecoveryRung.TIMESLICE):
        return None
    if rung is RecoveryRung.EVICT and card_path(incident, culprit):
        return None  # its checkpoint has to be written within its grace
    if rung is RecoveryRung.MOVE:
        held = any(entry.pod.best_effort and entry.pod.group for entry in facts.members(culprit))
        return settings.idle_cap_m if held else None
    if rung in (RecoveryRung.IDLE, RecoveryRung.FREEZE, RecoveryRung.EVICT):
        return settings.idle_cap_m
    bad = _bad(incident, facts)
    if rung is RecoveryRung.CAP:
        used_m = sum(_used_m(sample, culprit) for sample in bad) // max(1, len(bad))
        return max(settings.min_cap_m, used_m * settings.cap_ppm // PPM)
    best_effort = {entry.pod.uid for entry in facts.state.best_effort_pods}
    used_m = sum(sum(map(sample.free_m, best_effort)) for sample in bad) // max(1, len(bad))
    return max(settings.min_cap_m, used_m * settings.tighten_ppm // PPM)


def disk_bps(incident: Incident, facts: RecoveryFacts, culprit: str, rung: RecoveryRung) -> int | None:
    """The limit of what the culprit reads, and of what it writes, bytes per second.

    None where it is not named by its use of disks. Each stronger rung takes the same share of the earlier limit.
    """
    settings = facts.settings
    if RecoveryRung.DISK not in settings.rungs or not _is_possible(RecoveryRung.DISK, facts, culprit, incident):
        return None
    earlier = incident.lease.disk_bps if incident.lease is not None and incident.lease.culprit == culprit else None
    if rung is not RecoveryRung.DISK and earlier is not None:
        return max(settings.min_disk_bps, earlier * settings.disk_ppm // PPM)
    bad = _bad(incident, facts)
    moved = sum(
        sum(amount for uid, amount in sample.disk.items() if culprit in (uid, sample.workloads.get(uid, uid)))
        for sample in bad
    )
    return max(settings.min_disk_bps, moved // max(1, len(bad)) * settings.disk_ppm // PPM)


def _bad(incident: Incident, facts: RecoveryFacts) -> list[AttributionSample]:
    """The samples in which the service was in trouble; the last one where there are none."""
    return [
        sample
        for sample, service in facts.history.of(incident.victim)
        if any(
            level > incident.threshold_ppm
            for signal, level in service.levels.items()
            if incident.attribution is not None and signal is incident.attribution.signal
        )
    ] or list(facts.history.samples[-1:])


def _used_m(sample: AttributionSample, culprit: str) -> int:
    members = (uid for uid in sample.activity if culprit in (uid, sample.workloads.get(uid, uid)))
    return sum(map(sample.free_m, members))


def longest_proof_us(rung: RecoveryRung, facts: RecoveryFacts, culprit: str) -> int:
    """How long an action may wait for its proof; an eviction at least for the time that the pod may take to end."""
    settings = facts.settings
    grace_us = max((entry.pod.grace_s or 0 for entry in facts.members(culprit)), default=0) * SECOND_US
    evict_us = max(settings.leave_us, grace_us + settings.settle_us if grace_us else 0)
    leave_us = {RecoveryRung.EVICT: evict_us, RecoveryRung.MOVE: settings.move_us}.get(rung, 0)
    return settings.settle_us + settings.proof_us + leave_us


def limited_clients(percent: int) -> str:
    """The limit of who starts later, for people."""
    return f"each MPS client of offline work that starts from now on has {percent} % of a GPU's threads"


def described(lease: IncidentAction, victim: str) -> str:
    """What the lease does, for people."""
    cap = "" if lease.group_m is None else f" at {lease.group_m / 1000:g} CPU"
    match lease.rung:
        case RecoveryRung.DISK:
            limit = f"{(lease.disk_bps or 0) / (1 << 20):.1f} MiB/s"
            return f"what {lease.called} reads and what it writes are limited to {limit} each"
        case RecoveryRung.POWER:
            limits = ", ".join(f"{uuid} to {power_mw / 1000:g} W" for uuid, power_mw in lease.card_power)
            return f"the power of GPUs that {lease.called} has alone is limited: {limits}"
        case RecoveryRung.CLOCKS:
            limits = ", ".join(f"{uuid} to {clock_mhz} MHz" for uuid, clock_mhz in lease.card_clocks)
            return f"the clocks of GPUs that {lease.called} has alone are locked: {limits}"
        case RecoveryRung.TIMESLICE:
            return f"everybody on {', '.join(lease.card_slices)} has a short time-slice, {lease.called} too"
        case RecoveryRung.TIGHTEN:
            return f"all best-effort work is held{cap}"
        case RecoveryRung.CAP:
            return f"{lease.called} is capped{cap}"
        case RecoveryRung.IDLE:
            return f"{lease.called} is put into the idle class{cap}"
        case RecoveryRung.FREEZE:
            return f"the processes of {lease.called} are suspended"
        case RecoveryRung.EVICT:
            later = "" if lease.threads_percent is None else f"; {limited_clients(lease.threads_percent)}"
            return f"{lease.called} is to be evicted{later}"
        case RecoveryRung.MOVE:
            return f"the rebalancer is asked to move {lease.called} or {victim}"

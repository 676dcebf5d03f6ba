"""What the ladder may turn on a card: power, clocks, time-slice, MPS clients to come; and whether its memory allows a
freeze.

A knob of a card is everybody's on it. So its power and clocks are limited only where the card is the culprit's alone,
under the PCI root of the service, and was named by the node's owner; on a card that both share only the culprit itself
can be held, by its CPU, by which it launches, its suspension or its eviction, or everybody's turn be made shorter. A
limit of MPS changes nothing for a client that runs, and is therefore no rung: it is held with an eviction, for what
starts in the pod's place.
"""

from __future__ import annotations

from cotenant.engine.node.recovery.facts import RecoveryFacts
from cotenant.engine.node.recovery.incident import Incident, IncidentAction
from cotenant.engine.node.recovery.stages import LEAVING, MILD, RecoveryRung
from cotenant.model.devices.card_sample import CardPath
from cotenant.model.machine.counters import EXCLUSIVE_PROCESS, GpuCounters
from cotenant.model.machine.knob import Knob
from cotenant.model.machine.node_state import PPM
from cotenant.policy.interference.attribution.cards import beside, card_loads

_MILD_ON_A_CARD = (RecoveryRung.POWER, RecoveryRung.CLOCKS, RecoveryRung.TIMESLICE, RecoveryRung.IDLE)


def card_path(incident: Incident, culprit: str) -> str:
    """The path on a card by which this culprit is named; "" where it is named by what it does on the host."""
    found = incident.attribution.culprit if incident.attribution is not None else None
    return found.by_card if found is not None and found.identity == culprit else ""


def power_limits(incident: Incident, facts: RecoveryFacts, culprit: str) -> tuple[tuple[str, int], ...]:
    """The cards that are the culprit's alone and that disturb by PCIe, with a limit in milliwatts."""
    found = []
    for gpu in _own_cards(incident, facts, culprit, Knob.GPU_POWER):
        if gpu.power_mw and gpu.least_power_mw:
            limit_mw = max(gpu.least_power_mw, gpu.power_mw * facts.settings.power_ppm // PPM)
            if limit_mw < gpu.power_mw:
                found.append((gpu.uuid, limit_mw))
    return tuple(found)


def clock_limits(incident: Incident, facts: RecoveryFacts, culprit: str) -> tuple[tuple[str, int], ...]:
    """The same cards, with a clock in MHz: it holds where a limit of the power does not reach what the card draws."""
    return tuple(
        (gpu.uuid, max(1, gpu.sm_clock_mhz * facts.settings.clocks_ppm // PPM))
        for gpu in _own_cards(incident, facts, culprit, Knob.GPU_CLOCKS)
        if gpu.sm_clock_mhz
    )


def sliced_cards(incident: Incident, facts: RecoveryFacts, culprit: str) -> tuple[str, ...]:
    """The cards on which the service and the culprit take turns, so that a shorter turn lets the service wait less.
    Clients of MPS take none.
    """
    state, settings = facts.state, facts.settings
    if card_path(incident, culprit) != CardPath.SM or Knob.GPU_TIMESLICE not in state.supported:
        return ()
    members, found = {entry.pod.uid for entry in facts.members(culprit)}, []
    for gpu in state.gpus:
        uids = {use.uid for use in gpu.pods}
        may = gpu.uuid in settings.cards and gpu.healthy and not gpu.divided and gpu.compute_mode != EXCLUSIVE_PROCESS
        if may and incident.victim in uids and uids & members:
            found.append(gpu.uuid)
    return tuple(found)


def _own_cards(incident: Incident, facts: RecoveryFacts, culprit: str, knob: Knob) -> list[GpuCounters]:
    """Cards that are the culprit's alone, under the PCI root of the service, and that may be limited."""
    state = facts.state
    if card_path(incident, culprit) != CardPath.PCIE or knob not in state.supported:
        return []
    members = {entry.pod.uid for entry in facts.members(culprit)}
    cards = {card.uuid: card for card in card_loads(state)}
    roots = {card.root for card in cards.values() if incident.victim in card.uids}
    return [
        gpu
        for gpu in state.gpus
        if gpu.uuid in facts.settings.cards
        and gpu.healthy
        and not gpu.divided
        and cards[gpu.uuid].root in roots
        and cards[gpu.uuid].uids
        and cards[gpu.uuid].uids <= members
    ]


def power_of(incident: Incident, facts: RecoveryFacts, culprit: str, rung: RecoveryRung) -> tuple[tuple[str, int], ...]:
    """The limits beside a rung: those that stand already, but for an eviction, which has a checkpoint to write."""
    stands = _standing(incident, culprit, rung)
    limits = () if stands is None else stands.card_power
    return limits or (power_limits(incident, facts, culprit) if rung is RecoveryRung.POWER else ())


def clocks_of(
    incident: Incident, facts: RecoveryFacts, culprit: str, rung: RecoveryRung
) -> tuple[tuple[str, int], ...]:
    """As `power_of`."""
    stands = _standing(incident, culprit, rung)
    limits = () if stands is None else stands.card_clocks
    return limits or (clock_limits(incident, facts, culprit) if rung is RecoveryRung.CLOCKS else ())


def slices_of(incident: Incident, facts: RecoveryFacts, culprit: str, rung: RecoveryRung) -> tuple[str, ...]:
    """As `power_of`."""
    stands = _standing(incident, culprit, rung)
    cards = () if stands is None else stands.card_slices
    return cards or (sliced_cards(incident, facts, culprit) if rung is RecoveryRung.TIMESLICE else ())


def _standing(incident: Incident, culprit: str, rung: RecoveryRung) -> IncidentAction | None:
    lease = incident.lease
    return lease if lease is not None and lease.culprit == culprit and rung is not RecoveryRung.EVICT else None


def threads_after(incident: Incident, facts: RecoveryFacts, culprit: str, rung: RecoveryRung) -> int | None:
    """What MPS clients that start from now on get; None for no limit."""
    is_on_card = card_path(incident, culprit) in (CardPath.SM, CardPath.MEMORY_BANDWIDTH)
    may = is_on_card and rung is RecoveryRung.EVICT and Knob.MPS_THREADS in facts.state.supported
    return facts.settings.threads_percent or None if may else None


def has_card_memory(incident: Incident, facts: RecoveryFacts, culprit: str) -> bool:
    """Whether the service's cards have memory to spare for as long as a suspended pod keeps its own."""
    if not card_path(incident, culprit):
        return True
    members = {entry.pod.uid for entry in facts.members(culprit)}
    for gpu in facts.state.gpus:
        uids = {use.uid for use in gpu.pods}
        free_bytes = gpu.memory_total_bytes - gpu.memory_used_bytes
        is_short = free_bytes * PPM < facts.settings.freeze_card_memory_ppm * gpu.memory_total_bytes
        if incident.victim in uids and uids & members and is_short:
            return False
    return True


def took_less(incident: Incident, facts: RecoveryFacts, lease: IncidentAction) -> bool:
    """Whether a culprit on a card took less of it while it was held: else what is better has another reason."""
    path = card_path(incident, lease.culprit)
    before: list[int] = []
    during: list[int] = []
    for sample, _ in facts.history.of(incident.victim) if path else ():
        taken = beside(sample.cards, incident.victim).taken.get(CardPath(path), {})
        amount = sum(part for uid, part in taken.items() if lease.culprit in (uid, sample.workloads.get(uid, uid)))
        if sample.at_us - sample.length_us >= lease.since_us + facts.settings.settle_us:
            during.append(amount)
        elif sample.at_us > incident.opened_us and sample.at_us <= lease.since_us and amount:
            before.append(amount)
    return bool(before and during) and 4 * sum(during) * len(before) <= 3 * sum(before) * len(during)


def may_leave_for(incident: Incident, culprit: str) -> bool:
    """Whether a culprit may be made to leave: one that was named on a card only where something that returns, such as
    its suspension, lowered what it took and took at least half of the excess away.
    """
    if not card_path(incident, culprit):
        return True
    most, named = incident.threshold_ppm, incident.attribution.culprit if incident.attribution is not None else None
    called = "" if named is None else named.workload or named.name
    return any(
        proof.took_less
        and proof.during is not None
        and 2 * (proof.during.level_ppm - most) <= proof.before.level_ppm - most
        for proof in incident.proofs
        if proof.rung not in LEAVING and proof.called == called
    )


def is_mild(lease: IncidentAction, incident: Incident) -> bool:
    """Whether an action that did not help acquits nobody who is still named, so that the next rung may be used: what a
    few large kernels do to a card follows no limit of their CPU.
    """
    on_card = card_path(incident, lease.culprit) and lease.rung in _MILD_ON_A_CARD
    return lease.rung in MILD or bool(on_card)

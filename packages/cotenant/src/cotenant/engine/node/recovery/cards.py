"""What the ladder may turn on a card: its power, MPS clients to come, and whether its memory allows a freeze.

A knob of a card is everybody's on it. So its power is limited only where the card is the culprit's alone, under the PCI
root of the service, and was named by the node's owner; on a card that both share only the culprit itself can be held:
its CPU, by which it launches, its suspension, its eviction. A limit of MPS changes nothing for a client that runs, and
is therefore no rung: it is held with an eviction, for what starts in the pod's place.
"""

from __future__ import annotations

from cotenant.engine.node.recovery.facts import RecoveryFacts
from cotenant.engine.node.recovery.incident import Incident, IncidentAction
from cotenant.engine.node.recovery.stages import LEAVING, MILD, RecoveryRung
from cotenant.model.devices.card_sample import CardPath
from cotenant.model.machine.knob import Knob
from cotenant.model.machine.node_state import PPM
from cotenant.policy.interference.attribution.cards import beside, card_loads


def card_path(incident: Incident, culprit: str) -> str:
    """The path on a card by which this culprit is named; "" where it is named by what it does on the host."""
    found = incident.attribution.culprit if incident.attribution is not None else None
    return found.by_card if found is not None and found.identity == culprit else ""


def power_limits(incident: Incident, facts: RecoveryFacts, culprit: str) -> tuple[tuple[str, int], ...]:
    """The cards that are the culprit's alone and that disturb by PCIe, with a limit in milliwatts."""
    settings, state = facts.settings, facts.state
    if card_path(incident, culprit) != CardPath.PCIE or Knob.GPU_POWER not in state.supported:
        return ()
    members = {entry.pod.uid for entry in facts.members(culprit)}
    cards = {card.uuid: card for card in card_loads(state)}
    roots = {card.root for card in cards.values() if incident.victim in card.uids}
    found = []
    for gpu in state.gpus:
        card = cards[gpu.uuid]
        if gpu.uuid not in settings.cards or not gpu.healthy or gpu.divided or card.root not in roots:
            continue
        if not card.uids or not card.uids <= members or not gpu.power_mw or not gpu.least_power_mw:
            continue
        limit_mw = max(gpu.least_power_mw, gpu.power_mw * settings.power_ppm // PPM)
        if limit_mw < gpu.power_mw:
            found.append((gpu.uuid, limit_mw))
    return tuple(found)


def power_of(incident: Incident, facts: RecoveryFacts, culprit: str, rung: RecoveryRung) -> tuple[tuple[str, int], ...]:
    """The limits beside a rung: those that stand already, but for an eviction, which has a checkpoint to write."""
    lease = incident.lease
    stands = lease.card_power if lease is not None and lease.culprit == culprit else ()
    if rung is RecoveryRung.POWER:
        return stands or power_limits(incident, facts, culprit)
    return () if rung is RecoveryRung.EVICT else stands


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
    on_card = card_path(incident, lease.culprit) and lease.rung in (RecoveryRung.POWER, RecoveryRung.IDLE)
    return lease.rung in MILD or bool(on_card)

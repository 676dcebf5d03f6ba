"""Lending of idle GPUs as one node policy: what is offered, and which borrowers are told to leave.

A borrower leaves where the holders of its card need more than is left beside it: memory at once, since an allocation
that fails is an error of the model server, multiprocessors after a few seconds; where a holder that was just given the
card counts by its request; and where a holder misses its objective beside it. The youngest leaves first, since least
of its work is lost, one after another while the objective is missed. Beside holders that say how they serve, borrowers
are suspended first (`beside.py`). It is told with the time that the server
tolerates, or its own where that is shorter: its checkpoint has to be written by then. How many leave is limited as all
evictions are, and each says why.
Limits: an agent that is gone leaves its offer standing, and evicts nobody; a holder that needs memory faster than a
borrower leaves meets the limit of the card.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cotenant.engine.node.gpu_lending.beside import BesideMemory, BesideVerdict, held_by, judge_beside
from cotenant.engine.node.gpu_lending.cards import SECOND_US, WHOLE, CardBorrower, HeldCard, borrows, held_cards
from cotenant.engine.node.gpu_lending.settings import GpuLendingSettings
from cotenant.model.machine.knob import Knob, KnobTarget, SetKnob
from cotenant.model.machine.node_decision import DecisionTerm, EvictPod, Reason
from cotenant.model.machine.node_state import PPM, NodeState, ServiceHealth
from cotenant.model.machine.verdict import PolicyVerdict

if TYPE_CHECKING:  # NumPy comes with it: only where there is a GPU
    from cotenant.engine.node.gpu_lending.offers import CardOffer, LearntCards

RULE = "gpu-lending"
_BUDGET_PPM = 10_000  # of requests, where the objective says none
_FEW = 20  # requests that say nothing about an objective
_PERCENT = 100


@dataclass(frozen=True, slots=True)
class GpuLendingMemory:
    """State between calls. Cards by UUID, pods by UID; times in microseconds."""

    learnt: LearntCards | None = None
    known_us: Mapping[str, int] = field(default_factory=dict)  # when each pod was first seen
    short_us: Mapping[str, int] = field(default_factory=dict)  # since when a card's multiprocessors are short
    missed_us: Mapping[str, int] = field(default_factory=dict)  # when a card's holder last missed its objective
    left_us: Mapping[str, int] = field(default_factory=dict)  # when a borrower was last told to leave for that
    beside: BesideMemory = field(default_factory=BesideMemory)

    def percent(self) -> dict[str, int]:
        """What is lent of each card now."""
        return {} if self.learnt is None else {uuid: card.offer.percent for uuid, card in self.learnt.cards.items()}


def decide(
    state: NodeState, settings: GpuLendingSettings, memory: GpuLendingMemory
) -> tuple[PolicyVerdict, GpuLendingMemory]:
    """The evictions that are wanted now; what is offered is in the memory."""
    if not state.gpus:
        return PolicyVerdict((Reason(RULE, "no GPU is read here"),)), GpuLendingMemory()
    from cotenant.engine.node.gpu_lending.offers import learn, nothing_learnt

    now = state.at_us
    known = {entry.pod.uid: memory.known_us.get(entry.pod.uid, now) for entry in state.pods}
    cards = held_cards(state, known, settings.starting_s * SECOND_US)
    beside, beside_memory = judge_beside(state, cards, known, settings, memory.beside)
    cards = tuple(held_by(card, beside.get(card.gpu.uuid), settings) for card in cards)
    health = {entry.pod.uid: entry.health for entry in state.pods}
    here = {card.gpu.uuid for card in cards}
    missed = {uuid: at for uuid, at in memory.missed_us.items() if uuid in here and uuid not in beside}
    for card in cards:
        in_part = card.gpu.uuid in beside
        if card.borrowers and not in_part and any(_misses(health.get(holder.uid)) for holder in card.holders):
            missed[card.gpu.uuid] = now
    pause = settings.pause_s * SECOND_US
    paused = frozenset(uuid for uuid, at in missed.items() if now - at < pause)
    before = memory.learnt or nothing_learnt(settings, now)
    learnt = learn(before, cards, paused, settings, now, state.lending_frozen)
    short, left = dict[str, int](), {uuid: at for uuid, at in memory.left_us.items() if uuid in here}
    reasons: list[Reason] = []
    evictions: list[EvictPod] = []
    knobs: dict[KnobTarget, SetKnob] = {}
    for card in cards:
        uuid, part = card.gpu.uuid, beside.get(card.gpu.uuid)
        if part is None and card.sm + card.taken > WHOLE and card.taken:
            short[uuid] = memory.short_us.get(uuid, now)
        going, why = _leaving(
            card, known, missed.get(uuid) == now, short.get(uuid), left.get(uuid), settings, now, part
        )
        if going and not why.startswith("its holders need"):
            left[uuid] = now
        evictions += [_eviction(card, borrower, why, settings) for borrower in going]
        stays = tuple(borrower for borrower in part.suspended if borrower not in going) if part is not None else ()
        reasons.append(_reason(card, learnt.cards[uuid].offer, [one.pod.key for one in going], why, part, stays))
        if part is not None:
            knobs |= _suspensions(card, part, stays)
    verdict = PolicyVerdict(
        tuple(reasons) or (Reason(RULE, "no healthy GPU"),), tuple(knobs.values()), tuple(evictions)
    )
    return verdict, GpuLendingMemory(learnt, known, short, missed, left, beside_memory)


def reads(state: NodeState) -> tuple[KnobTarget, ...]:
    """Whether who borrows is suspended."""
    groups = sorted({entry.pod.group for entry in state.pods if entry.pod.group and borrows(entry.pod)})
    return tuple(KnobTarget(group, Knob.CGROUP_FREEZE) for group in groups)


def _leaving(
    card: HeldCard,
    known: Mapping[str, int],
    is_missing: bool,
    short_us: int | None,
    left_us: int | None,
    settings: GpuLendingSettings,
    now_us: int,
    part: BesideVerdict | None = None,
) -> tuple[Sequence[CardBorrower], str]:
    """The borrowers that are to leave, and why."""
    youngest = sorted(
        (borrower for borrower in card.borrowers if not borrower.leaves),
        key=lambda borrower: (-known.get(borrower.pod.uid, now_us), borrower.pod.uid),
    )
    if not youngest:
        return (), ""
    is_short = short_us is not None and (
        now_us - short_us >= settings.busy_s * SECOND_US or any(holder.sm is None for holder in card.holders)
    )
    needed = max(card.memory, card.sm if is_short else 0)
    going: list[CardBorrower] = []
    taken = card.taken
    while youngest and needed + taken > WHOLE:
        going.append(youngest.pop(0))
        taken -= going[-1].taken
    if going:
        what = "memory" if card.memory >= needed else "multiprocessors"
        return going, f"its holders need {needed / 10:.0f} % of its {what}, {card.taken / 10:.0f} % are lent"
    leaves = any(borrower.leaves for borrower in card.borrowers)
    if leaves or (left_us is not None and now_us - left_us < settings.return_s * SECOND_US):
        return (), ""
    if is_missing:
        return youngest[:1], "it misses its objective beside what is lent"
    overdue = [borrower for borrower in youngest if part is not None and borrower.pod.uid in part.overdue]
    if part is not None and overdue:
        return overdue[:1], f"{part.cause}, and {overdue[0].pod.key} has no part: {part.overdue[overdue[0].pod.uid]}"
    return (), ""


def _eviction(card: HeldCard, borrower: CardBorrower, why: str, settings: GpuLendingSettings) -> EvictPod:
    own = borrower.pod.grace_s
    grace_s = settings.return_s if own is None else min(own, settings.return_s)
    text = f"GPU {card.gpu.index} is wanted back: {why}; {borrower.pod.key} borrowed {borrower.taken / 10:.0f} % of it"
    terms = (
        DecisionTerm("memory of holders", card.memory, "permille of the card"),
        DecisionTerm("multiprocessors of holders", card.sm, "permille of the card"),
        DecisionTerm("lent to pods", card.taken, "permille of the card"),
        DecisionTerm("seconds to leave in", grace_s, "s"),
    )
    return EvictPod(borrower.pod.uid, borrower.pod.key, Reason(RULE, text, terms), grace_s=grace_s)


def _reason(
    card: HeldCard,
    offer: CardOffer,
    going: Sequence[str],
    why: str,
    part: BesideVerdict | None,
    suspended: Sequence[CardBorrower],
) -> Reason:
    holders = ", ".join(sorted({holder.name for holder in card.holders})) or "nobody"
    text = f"GPU {card.gpu.index} of {holders}: {offer.percent} % is lent, {card.taken // 10} % taken"
    if card.why:
        text = f"GPU {card.gpu.index} of {holders}: nothing is lent, {card.why}"
    if part is not None and card.borrowers:
        text = f"{text}; {part.part // 10} % of its multiprocessors are left beside it"
    if suspended:
        text = f"{text}; suspended: {', '.join(borrower.pod.key for borrower in suspended)}"
    if going:
        text = f"{text}; {', '.join(going)} leaves: {why}"
    return Reason(RULE, text, offer.terms)


def _suspensions(card: HeldCard, part: BesideVerdict, borrowers: Iterable[CardBorrower]) -> dict[KnobTarget, SetKnob]:
    found = {}
    for borrower in borrowers:
        target = KnobTarget(borrower.pod.group, Knob.CGROUP_FREEZE)
        found[target] = SetKnob(target, "1", _suspension(card, borrower, part))
    return found


def _suspension(card: HeldCard, borrower: CardBorrower, part: BesideVerdict) -> Reason:
    text = (
        f"{borrower.pod.key} is suspended: it borrowed {borrower.taken / 10:.0f} % of GPU {card.gpu.index}, and "
        f"{part.part / 10:.0f} % of its multiprocessors are left to who borrows: {part.cause}"
    )
    return Reason(RULE, text, (DecisionTerm("error budget spent", part.spent_percent, "percent"),))


def _misses(health: ServiceHealth | None) -> bool:
    if health is None or health.requests < _FEW:
        return False
    budget = _BUDGET_PPM if health.budget_ppm is None else health.budget_ppm
    return health.over_objective * PPM > budget * health.requests

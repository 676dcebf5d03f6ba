"""What is offered of each card: down to the predicted peak of its holders' use, at a stated risk.

The policy is the one by which CPU and memory are lent (policy/overcommit/peak.py), once for a card's memory and once
for its multiprocessors, of each the largest value between two measurements; the smaller of both is offered, less a
headroom, in whole steps. An offer falls at once and grows by a step a measurement. The risk is corrected by the
card-hours in which holders and offer exceeded the card.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from cotenant.engine.node.gpu_lending.cards import SECOND_US, WHOLE, HeldCard
from cotenant.engine.node.gpu_lending.settings import GpuLendingSettings
from cotenant.model.cluster.qos import PriorityClass
from cotenant.model.machine.node_decision import DecisionTerm
from cotenant.policy.overcommit.facts import Amount
from cotenant.policy.overcommit.peak import (
    LearntPool,
    MeasuredPodUse,
    PeakHistory,
    PeakSettings,
    calibrated,
    new_history,
    new_pool,
    observe,
    peak_amount,
)

HOUR_S = 3600
HOUR_US = HOUR_S * SECOND_US
_PERCENT = 100
_UNIT = "permille of the card"
_PARTS = ("memory", "multiprocessors")
_Peaks = Mapping[str, tuple[int | None, int | None]]  # by holder: memory and multiprocessors


@dataclass(frozen=True, slots=True)
class CardOffer:
    """What is lent of a card, in percent of it, and the terms that add up to it."""

    percent: int = 0
    terms: tuple[DecisionTerm, ...] = ()


@dataclass(frozen=True, slots=True)
class LearntCard:
    """What is learnt of one card."""

    histories: tuple[PeakHistory, PeakHistory]
    given: Mapping[str, int] = field(default_factory=dict)  # by holder, at the last tick
    peaks: _Peaks = field(default_factory=dict)  # since the last measurement
    broken: tuple[bool, bool] = (False, False)  # within this hour
    offer: CardOffer = CardOffer()


@dataclass(frozen=True, slots=True)
class LearntCards:
    """What is learnt of all cards of the node together. Cards by UUID."""

    pools: tuple[LearntPool, LearntPool]
    cards: Mapping[str, LearntCard] = field(default_factory=dict)
    measured_us: int = 0
    hour_us: int = 0


def nothing_learnt(settings: GpuLendingSettings, now_us: int) -> LearntCards:
    """The beginning."""
    peak, an_hour = _peak(settings), HOUR_S / settings.measured_every_s
    return LearntCards((new_pool(peak, an_hour), new_pool(peak, an_hour)), {}, now_us, now_us)


def learn(
    learnt: LearntCards,
    cards: Sequence[HeldCard],
    paused: frozenset[str],
    settings: GpuLendingSettings,
    now_us: int,
    frozen: str = "",
) -> LearntCards:
    """One tick. `paused`: cards of which nothing is offered now. `frozen`: why no offer may rise; "" = it may."""
    peak = _peak(settings)
    found = {card.gpu.uuid: _seen(card, learnt.cards.get(card.gpu.uuid), peak) for card in cards}
    learnt = replace(learnt, cards=found)
    if now_us - learnt.hour_us >= HOUR_US:
        learnt = _of_an_hour(learnt, peak, now_us)
    if now_us - learnt.measured_us >= settings.measured_every_s * SECOND_US:
        return _measured(learnt, cards, paused, settings, now_us, frozen)
    held = {card.gpu.uuid: _lowered(found[card.gpu.uuid], card, card.gpu.uuid in paused) for card in cards}
    return replace(learnt, cards=held)


def _seen(card: HeldCard, before: LearntCard | None, peak: PeakSettings) -> LearntCard:
    before = before or LearntCard((new_history(peak), new_history(peak)))
    peaks = {
        holder.uid: (_most(before, holder.uid, 0, holder.memory), _most(before, holder.uid, 1, holder.sm))
        for holder in card.holders
    }
    offered = before.offer.percent * WHOLE // _PERCENT
    broken = (
        before.broken[0] or (bool(offered) and card.memory + offered > WHOLE),
        before.broken[1] or (bool(offered) and card.most is None and card.sm + offered > WHOLE),
    )
    return replace(before, given={holder.uid: holder.given for holder in card.holders}, peaks=peaks, broken=broken)


def _most(before: LearntCard, uid: str, part: int, now: int | None) -> int | None:
    then = before.peaks.get(uid, (None, None))[part]
    return then if now is None else max(now, then or 0)


def _of_an_hour(learnt: LearntCards, peak: PeakSettings, now_us: int) -> LearntCards:
    hours = sum(bool(card.offer.percent) or any(card.broken) for card in learnt.cards.values())
    memory, sm = (
        calibrated(pool, sum(card.broken[part] for card in learnt.cards.values()), hours, peak)
        for part, pool in enumerate(learnt.pools)
    )
    cards = {uuid: replace(card, broken=(False, False)) for uuid, card in learnt.cards.items()}
    return replace(learnt, pools=(memory, sm), cards=cards, hour_us=now_us)


def _measured(
    learnt: LearntCards,
    cards: Sequence[HeldCard],
    paused: frozenset[str],
    settings: GpuLendingSettings,
    now_us: int,
    frozen: str,
) -> LearntCards:
    peak, pools, found = _peak(settings), list(learnt.pools), dict[str, LearntCard]()
    for card in cards:
        known = learnt.cards[card.gpu.uuid]
        histories = []
        for part in range(len(_PARTS)):
            history, pools[part] = observe(
                known.histories[part], pools[part], _uses(known, part), WHOLE, peak, now_us / SECOND_US
            )
            histories.append(history)
        found[card.gpu.uuid] = replace(known, histories=(histories[0], histories[1]))
    learnt = LearntCards((pools[0], pools[1]), found, now_us, learnt.hour_us)
    offered = {
        card.gpu.uuid: replace(
            found[card.gpu.uuid],
            peaks={},
            offer=_offer(card, found[card.gpu.uuid], learnt, card.gpu.uuid in paused, settings, frozen),
        )
        for card in cards
    }
    return replace(learnt, cards=offered)


def _lowered(known: LearntCard, card: HeldCard, is_paused: bool) -> LearntCard:
    """Between two measurements an offer only falls: where a holder came, or needs more than is left."""
    left = 0 if is_paused or card.why else max(0, WHOLE - max(card.memory, card.sm)) * _PERCENT // WHOLE
    if card.most is not None:
        left = min(left, card.most * _PERCENT // WHOLE)
    if known.offer.percent <= left:
        return known
    why = "until the next measurement, by present use"
    terms = (*known.offer.terms, DecisionTerm(why, (left - known.offer.percent) * WHOLE // _PERCENT, _UNIT))
    return replace(known, offer=CardOffer(left, terms))


def _offer(
    card: HeldCard, known: LearntCard, learnt: LearntCards, is_paused: bool, settings: GpuLendingSettings, frozen: str
) -> CardOffer:
    if is_paused or card.why:
        return CardOffer()
    amounts = [
        peak_amount(name, known.histories[part], learnt.pools[part], _uses(known, part), WHOLE, 0, _peak(settings))
        for part, name in enumerate(_PARTS)
    ]
    amounts[0] = amounts[0].then("room into which KV caches may grow", max(0, amounts[0].value - card.growth))
    least = min(amounts, key=lambda amount: amount.value)
    headroom = settings.headroom_percent * WHOLE // _PERCENT
    amount = least.then("headroom", max(0, least.value - headroom))
    if card.most is not None:
        amount = amount.then("most beside its holders", min(amount.value, card.most))
    amount = amount.then("a step more than before", min(amount.value, _grown(known, settings)))
    if frozen:
        amount = amount.then(frozen, min(amount.value, known.offer.percent * WHOLE // _PERCENT))
    whole = amount.value - amount.value % (settings.step_percent * WHOLE // _PERCENT)
    return CardOffer(whole * _PERCENT // WHOLE, _terms(amount.then("whole steps", whole), least.resource))


def _grown(known: LearntCard, settings: GpuLendingSettings) -> int:
    return (known.offer.percent + settings.step_percent) * WHOLE // _PERCENT


def _terms(amount: Amount, part: str) -> tuple[DecisionTerm, ...]:
    return tuple(
        DecisionTerm(f"{part}: {term.name}" if place == 0 else term.name, term.amount, _UNIT)
        for place, term in enumerate(amount.terms)
        if term.amount or place == 0
    )


def _uses(known: LearntCard, part: int) -> dict[str, MeasuredPodUse]:
    return {
        uid or "programs outside pods": MeasuredPodUse(PriorityClass.PROD, given, known.peaks[uid][part])
        for uid, given in known.given.items()
    }


def _peak(settings: GpuLendingSettings) -> PeakSettings:
    return PeakSettings(risk=settings.risk)

"""What lending has earned: days of a pool as trials of the ladder.

A trial is a day and not an hour: at a stated risk of one percent some hours of every week are exceeded, and two of a
week would end what keeps its promise. A day has held unless its share of exceeded node-hours lies above the risk with
the lower end of its 95 % interval (Wilson), or an objective began to burn. Hours that were only suggested count on the
rungs that only suggest; a day on a rung that may lend counts where it was lent in at least half of its hours.
Limits: hours of one day are not independent, so the interval is narrower than it says; a day of few node-hours fails
late (of 24, two are exceeded before it does at one percent).
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from cotenant.model.autonomy.autonomy import AutonomyRung
from cotenant.model.autonomy.pool_lending import DAY_S, LendingDay, LendingOutcome, LendingReceipt, LendMode
from cotenant.policy.autonomy.ladder import Earned, JudgedChange, LadderSettings, earned, interval

MIN_HOURS = 12  # node-hours that a day needs to be judged
LADDER = LadderSettings(start=AutonomyRung.SUGGEST)
_FIXED = {
    LendMode.SHADOW: AutonomyRung.SHADOW,
    LendMode.SUGGEST: AutonomyRung.SUGGEST,
    LendMode.APPROVE: AutonomyRung.APPROVE,
    LendMode.ACT: AutonomyRung.ACT,
}


def rung_of(mode: LendMode, receipts: Iterable[LendingReceipt]) -> tuple[AutonomyRung, str]:
    """How far a pool may go by itself, and why."""
    if mode is not LendMode.EARNED:
        return _FIXED[mode], f"lendMode {mode}"
    stands = standing(receipts)
    return stands.rung, f"lendMode earned: {stands.why}"


def standing(receipts: Iterable[LendingReceipt]) -> Earned:
    """Where these days lead to."""
    return earned([_outcome(receipt) for receipt in receipts], LADDER)


def judged(day: LendingDay, risk: float, rung: AutonomyRung, allowed_by: str) -> LendingReceipt | None:
    """The receipt of a day that is over; None where it tells nothing."""
    if not day.objective and (day.hours < MIN_HOURS or (rung >= AutonomyRung.APPROVE and 2 * day.lent < day.hours)):
        return None
    why = _words(day, risk)
    outcome = LendingOutcome.HELD
    if day.objective:
        outcome, why = LendingOutcome.OBJECTIVE, f"{day.objective} began to burn; {why}"
    elif interval(day.exceeded, day.hours)[0] > risk:
        outcome = LendingOutcome.EXCEEDED
    return LendingReceipt(id_of(day.day), outcome, day, rung.name.lower(), allowed_by, why)


def taken_back(day: LendingDay, risk: float, rung: AutonomyRung, allowed_by: str) -> LendingReceipt:
    """The receipt of a day that a person takes back."""
    why = f"taken back by a person; {_words(day, risk)}"
    return LendingReceipt(id_of(day.day), LendingOutcome.UNDONE, day, rung.name.lower(), allowed_by, why)


def id_of(day: int) -> str:
    """The date of a day since 1970."""
    return datetime.fromtimestamp(day * DAY_S, UTC).date().isoformat()


def _words(day: LendingDay, risk: float) -> str:
    return f"{day.exceeded} of {day.hours} node-hours exceeded at {100 * risk:g} % risk"


def _outcome(receipt: LendingReceipt) -> JudgedChange:
    is_held = receipt.outcome is LendingOutcome.HELD
    return JudgedChange((receipt.day.day + 1) * DAY_S, is_held, receipt.outcome is LendingOutcome.OBJECTIVE)

"""Receipts as outcomes of the ladder: what was proven and stayed, and what was taken back."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from cotenant.engine.sizing.suggesting import PROBATION_S
from cotenant.model.sizes.right_sizing import SizingOutcome, SizingReceipt
from cotenant.policy.autonomy.ladder import JudgedChange


def judged(receipts: Sequence[SizingReceipt], now_s: float) -> list[JudgedChange]:
    """One outcome a change: a proven one counts once it has stayed for its day, one that was taken back counts as
    one that did not hold, whoever took it back. What no kubelet took, or somebody else ended, tells nothing.
    """
    taken_back = {receipt.id for receipt in receipts if receipt.outcome is SizingOutcome.UNDONE}
    found = []
    for receipt in receipts:
        try:
            at_s = datetime.fromisoformat(receipt.at).timestamp()
        except ValueError:  # of a status that somebody else wrote
            continue
        if receipt.outcome is SizingOutcome.UNDONE:
            found.append(JudgedChange(at_s, held=False, broke_objective=receipt.broke_objective))
        elif receipt.outcome is SizingOutcome.DONE and receipt.id not in taken_back and now_s - at_s >= PROBATION_S:
            found.append(JudgedChange(at_s, held=True))
    return found

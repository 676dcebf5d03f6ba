"""What the objects of a cluster allow now: the lowest ceiling counts, any freeze freezes, any blackout waits.

Where several objects have windows, a time must be in one of each. A window that begins before midnight and ends after
it belongs to the day on which it begins; in the hour that a clock is set back by, it lasts twice.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from cotenant.model.autonomy.autonomy import FREE, Action, ActionWindow, Autonomy, AutonomyRung, Permission

_DAY_MIN = 24 * 60


def permission(objects: Iterable[Autonomy], action: Action, namespace: str, now_s: float) -> Permission:
    """What may be done of this kind in this namespace; "" = what has none."""
    rung, may_begin, is_frozen = FREE.rung, True, False
    reasons: list[str] = []
    for found in sorted(objects, key=lambda one: (one.freeze is None, one.name)):
        if not found.covers(action, namespace):
            continue
        if found.freeze is not None:
            is_frozen = True
            by = f" by {found.freeze.by}" if found.freeze.by else ""
            reasons.append(f"frozen{by}: {found.freeze.why or 'no reason was given'}")
        if found.wrong:
            rung = min(rung, AutonomyRung.SUGGEST)
            reasons.append(f"Autonomy {found.name} cannot be read: {found.wrong[0]}")
        if found.ceiling < rung:
            rung = found.ceiling
            reasons.append(f"Autonomy {found.name} allows {found.ceiling.name.lower()} at most")
        for blackout in found.blackouts:
            if blackout.from_s <= now_s < blackout.until_s:
                may_begin = False
                reasons.append(f"Autonomy {found.name}: nothing is begun now: {blackout.why or 'blackout'}")
        if found.windows and not any(is_open(window, now_s) for window in found.windows):
            may_begin = False
            reasons.append(f"Autonomy {found.name}: outside of its windows")
    return Permission(rung, may_begin, is_frozen, "; ".join(reasons))


def may_begin_by(found: Autonomy, now_s: float) -> bool:
    """Whether an object's windows and blackouts let something be begun at this Unix time."""
    is_out = any(blackout.from_s <= now_s < blackout.until_s for blackout in found.blackouts)
    return not is_out and (not found.windows or any(is_open(window, now_s) for window in found.windows))


def is_open(window: ActionWindow, now_s: float) -> bool:
    """Whether a window is open at this Unix time."""
    here = datetime.fromtimestamp(now_s, window.zone)
    minute, today = here.hour * 60 + here.minute, here.weekday()
    if window.from_min < window.until_min:
        return today in window.days and window.from_min <= minute < window.until_min
    is_evening = today in window.days and minute >= window.from_min
    return is_evening or ((today - 1) % 7 in window.days and minute < window.until_min)

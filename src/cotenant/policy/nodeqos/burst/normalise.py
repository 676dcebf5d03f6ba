"""Quotas on machines of unlike speed: the same limit should buy the same work everywhere.

Problem: a CPU of a fast machine does more than one of a slow one, and a limit counts CPU time. Choice: a machine's ratio to the reference is
known to the node (annotation); quotas are divided by it. Limits: one ratio a machine, whatever the program does with its CPU; shares and
requests are not scaled.

Source: Koordinator's CPU normalisation (annotation and the runtime hook that divides quotas by the ratio).
"""

from __future__ import annotations

import re

from cotenant.model.errors import InvalidInput

ANNOTATION = "node.koordinator.sh/cpu-normalization-ratio"
REFERENCE_MILLI = 1000
LEAST_MILLI, MOST_MILLI = 100, 10_000
_RATIO = re.compile(r"([0-9]{1,2})(?:\.([0-9]{1,9}))?")


def ratio_milli(text: str | None) -> int:
    """The annotation's ratio in thousandths, rounded to the nearest; 1000 where there is none. Raises `InvalidInput`."""
    if text is None or not text.strip():
        return REFERENCE_MILLI
    match = _RATIO.fullmatch(text.strip())
    digits = ((match[2] or "") + "0000")[:4] if match else ""
    ratio = (int(match[1]) * 10_000 + int(digits) + 5) // 10 if match else 0
    if not LEAST_MILLI <= ratio <= MOST_MILLI:
        raise InvalidInput(ANNOTATION, text, "a decimal number from 0.1 to 10")
    return ratio


def scaled_quota_us(quota_us: int, ratio: int) -> int:
    """A quota that buys on this machine what `quota_us` buys on the reference, rounded up. `ratio` in thousandths."""
    return -(-quota_us * REFERENCE_MILLI // ratio)

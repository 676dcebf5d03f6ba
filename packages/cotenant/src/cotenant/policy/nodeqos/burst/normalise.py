"""CPU normalisation: scale quotas to the machine's speed, so that a limit means the same amount of work everywhere.

A CPU of a fast machine does more work than one of a slow machine, and a limit counts CPU time. The node knows its
machine's ratio to the reference (annotation); quotas are divided by it.
Limits: one ratio per machine, whatever the program; weights and requests are not scaled.

Source: Koordinator's CPU normalisation (annotation and the runtime hook that divides quotas by the ratio).
"""

from __future__ import annotations

import re

from cotenant.model.errors import InvalidInput

ANNOTATION = "node.koordinator.sh/cpu-normalization-ratio"
REFERENCE_MILLI = 1000
MIN_MILLI, MAX_MILLI = 100, 10_000
_RATIO = re.compile(r"([0-9]{1,2})(?:\.([0-9]{1,9}))?")


def ratio_milli(text: str | None) -> int:
    """The annotation's ratio in thousandths, rounded to the nearest; 1000 where it is absent. Raises `InvalidInput`."""
    if text is None or not text.strip():
        return REFERENCE_MILLI
    match = _RATIO.fullmatch(text.strip())
    digits = ((match[2] or "") + "0000")[:4] if match else ""
    ratio = (int(match[1]) * 10_000 + int(digits) + 5) // 10 if match else 0
    if not MIN_MILLI <= ratio <= MAX_MILLI:
        raise InvalidInput(ANNOTATION, text, "a decimal number from 0.1 to 10")
    return ratio


def scaled_quota_us(quota_us: int, ratio: int) -> int:
    """The quota that does the same work on this machine as `quota_us` on the reference, rounded up. `ratio` in
    thousandths.
    """
    return -(-quota_us * REFERENCE_MILLI // ratio)

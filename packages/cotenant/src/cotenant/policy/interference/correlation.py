"""Correlation of a suspect's activity with the victim's signal, by the published formula.

    score = sum over samples of  u_i (1 - c_t / c_i)  where the victim's signal c_i is above the threshold c_t
                                 u_i (c_i / c_t - 1)  where it is not

with the suspect's activity u_i made to sum to 1. It lies in [-1, 1], and is near 1 for a suspect that is active only
while the victim suffers badly. Limits: where the victim suffers all the time, all suspects score alike, and only the
rank is meaningful. Directly measured blame (`ranking.by_blame`) does not have this weakness.

Source: Zhang et al., CPI2, EuroSys'13, section 4.2.
"""

from __future__ import annotations

from collections.abc import Sequence

from cotenant.model.machine.node_state import PPM


def score_ppm(pairs: Sequence[tuple[int, int]], threshold_ppm: int) -> int | None:
    """The score in millionths over (victim's signal, suspect's activity) of each sample; None where the suspect was
    never active.

    `threshold_ppm` must be above 0.
    """
    total = sum(amount for _, amount in pairs)
    if total <= 0:
        return None
    score = 0
    for level, amount in pairs:
        if level > threshold_ppm:
            score += amount * (level - threshold_ppm) * PPM // level
        else:
            score -= amount * (threshold_ppm - level) * PPM // threshold_ppm
    return (2 * score + total) // (2 * total)  # to the nearest

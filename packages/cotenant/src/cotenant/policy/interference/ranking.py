"""Ranking of the suspects of one victim, by correlation or by direct blame.

Correlation needs a window with variation; which group ran while the victim waited is known at once, but does not cover
caches or disks. Both, by the settings; each suspect with the inputs of its score.
Limits: direct blame counts only samples in which the victim suffered.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cotenant.model.machine.node_state import PPM
from cotenant.policy.interference.correlation import score_ppm
from cotenant.policy.interference.series import SampleSlice, is_informative
from cotenant.policy.interference.settings import InterferenceSettings


@dataclass(frozen=True, slots=True)
class Suspect:
    """One suspect: a correlation in -1..1, or a share of the blame in 0..1, in millionths."""

    uid: str
    score_ppm: int
    samples: int  # number of samples behind the score
    blame_us: int | None = None  # direct blame behind the share


def by_correlation(
    slices: Sequence[SampleSlice], victim: str, threshold_ppm: int, settings: InterferenceSettings
) -> tuple[Suspect, ...]:
    """Best-effort pods by the published score, highest first; equal ones by uid."""
    levels = [
        (part, sample.level_ppm)
        for part in slices
        if (sample := part.victim(victim)) is not None and is_informative(sample, settings)
    ]
    pairs: dict[str, list[tuple[int, int]]] = {}
    for part, level in levels:
        for uid, amount in part.activity:
            pairs.setdefault(uid, []).append((level, amount))
    suspects = [
        Suspect(uid, score, len(points))
        for uid, points in pairs.items()
        if (score := score_ppm(points, threshold_ppm)) is not None
    ]
    return tuple(sorted(suspects, key=lambda suspect: (-suspect.score_ppm, suspect.uid)))


def by_blame(
    slices: Sequence[SampleSlice], victim: str, threshold_ppm: int, settings: InterferenceSettings
) -> tuple[Suspect, ...]:
    """Pods by their share of the victim's waiting behind others while it suffered, largest first; its own tasks are
    excluded.

    Services are included: where one is to blame it ranks first, so that no best-effort pod is capped instead.
    """
    shares: dict[str, int] = {}
    others = samples = 0
    for part in slices:
        sample = part.victim(victim)
        if sample is None or sample.level_ppm <= threshold_ppm or not is_informative(sample, settings):
            continue
        samples += 1
        for blamed in part.blame:
            if blamed.victim == victim:
                others += blamed.by_others
                for uid, ran_us in blamed.by_pod:
                    shares[uid] = shares.get(uid, 0) + ran_us
    total = others + sum(shares.values())
    if not total:
        return ()
    suspects = [Suspect(uid, ran_us * PPM // total, samples, ran_us) for uid, ran_us in shares.items()]
    return tuple(sorted(suspects, key=lambda suspect: (-suspect.score_ppm, suspect.uid)))

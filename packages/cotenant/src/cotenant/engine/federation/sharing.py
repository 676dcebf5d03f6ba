"""What a joined cluster says of its shared workloads, and what of the others' belongs into its own objects.

Only figures that its own scheduler learned are stated. Workloads of one shared name (in several namespaces) are stated
as one. What others learned stands in the objects for as long as weights stand, and placement starts from it where
nothing of its own is known.
Limits: what was learned started from a prior, which may have been the others': the first figure of a workload that is
new here still leans to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from cotenant.model.cluster.workload_profile import (
    NO_OVERALL,
    NOT_SEEN,
    FigureSource,
    Overall,
    ProfileFigure,
    Reading,
    WorkloadProfile,
)
from cotenant.policy.federation.shared_profiles import Evidence, SharedProfile, is_empty, together
from cotenant.policy.federation.statement import MAX_PROFILES


@dataclass(frozen=True, slots=True)
class WriteShared:
    """What others learned of the workload with this profile, for its status. `clusters` 0: nothing any more."""

    key: str
    uid: str
    overall: Overall
    clusters: int


def stated(profiles: Iterable[WorkloadProfile]) -> tuple[SharedProfile, ...]:
    """By shared name, the first `MAX_PROFILES` of them; those without a figure ask only."""
    by_name: dict[str, list[SharedProfile]] = {}
    for profile in profiles:
        if profile.shared_as:
            learned = profile.learned_overall
            by_name.setdefault(profile.shared_as, []).append(
                SharedProfile(
                    profile.shared_as,
                    _evidence(learned.sensitivity),
                    _evidence(learned.pressure),
                    _evidence(learned.tolerates),
                )
            )
    return tuple(_of_here(name, by_name[name]) for name in sorted(by_name)[:MAX_PROFILES])


def shared_writes(profiles: Iterable[WorkloadProfile], in_force: Mapping[str, SharedProfile]) -> list[WriteShared]:
    """What to write so that each profile has what the others learned, and nothing that no longer counts."""
    found = []
    for profile in profiles:
        learned = in_force.get(profile.shared_as) if profile.shared_as else None
        if learned is None or is_empty(learned):
            overall, clusters = NO_OVERALL, 0
        else:
            overall = Overall(_reading(learned.sensitivity), _reading(learned.pressure), _reading(learned.tolerates))
            clusters = max(1, learned.clusters)
        if (overall, clusters) != (profile.shared, profile.shared_by):
            found.append(WriteShared(profile.key, profile.uid, overall, clusters))
    return found


def _of_here(name: str, told: list[SharedProfile]) -> SharedProfile:
    found = together(name, told)
    return SharedProfile(name, found.sensitivity, found.pressure, found.tolerates)


def _evidence(reading: Reading) -> Evidence | None:
    if not isinstance(reading, ProfileFigure) or reading.source is not FigureSource.LEARNED or not reading.samples:
        return None
    return Evidence(reading.value, reading.low, reading.high, reading.samples)


def _reading(found: Evidence | None) -> Reading:
    if found is None:
        return NOT_SEEN
    return ProfileFigure(found.value, found.low, found.high, found.windows, FigureSource.SHARED)

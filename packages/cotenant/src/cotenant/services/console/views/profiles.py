"""WorkloadProfiles for the radars of the page.

    /api/profiles   every profile: for each axis the figure that counts, or why there is none

An object has up to three figures for an axis, and which one counts is decided by the model, not by the page. The
objects are watched, and `WorkloadProfile.axis` chooses (measured before learned before declared).
Limits: the other figures of an axis are not sent; `cotenant profile show` has them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cotenant.drivers.kube.client.errors import NotFound
from cotenant.drivers.kube.kinds.custom.workload_profile import axes_fields, bound_fields, overall_fields
from cotenant.model.cluster.workload_profile import ProfileAxis, WorkloadProfile
from cotenant.policy.interference.bound import bound_by


@dataclass(frozen=True, slots=True)
class ProfileView:
    """One profile. `axes` and `overall` have the form of the object's status."""

    profile: str  # namespace/name
    kind: str
    workload: str
    axes: list[dict[str, object]]  # every axis, in the order of `ProfileAxis`
    overall: dict[str, object]
    bound_by: str  # the resource that binds it, "mixed", or "" where nothing is known
    bound: dict[str, object]  # shares, in the form of the object's status
    updated: str  # RFC 3339; empty = never
    measured: str  # the same, of the last run
    measured_on: str
    wrong: tuple[str, ...]


class Profiles:
    """The profiles of the cluster."""

    def __init__(self) -> None:
        self._by_key: dict[str, WorkloadProfile] = {}

    def seen(self, profile: WorkloadProfile) -> None:
        """A profile was added or changed."""
        self._by_key[profile.key] = profile

    def gone(self, key: str) -> None:
        """A profile was deleted."""
        self._by_key.pop(key, None)

    async def answer(self, names: Sequence[str], query: Mapping[str, str]) -> object:
        """The answer to `/api/profiles`. Raises `NotFound`."""
        if names:
            raise NotFound("there is no such page")
        return [_view(self._by_key[key]) for key in sorted(self._by_key)]


def _view(profile: WorkloadProfile) -> ProfileView:
    return ProfileView(
        profile=profile.key,
        kind=profile.workload.kind,
        workload=profile.workload.name,
        axes=axes_fields({axis: profile.axis(axis) for axis in ProfileAxis}),
        overall=overall_fields(profile.overall),
        bound_by=bound_by(profile.bound),
        bound=bound_fields(profile.bound),
        updated=profile.updated_at,
        measured=profile.measured_at,
        measured_on=profile.measured_on,
        wrong=profile.wrong,
    )

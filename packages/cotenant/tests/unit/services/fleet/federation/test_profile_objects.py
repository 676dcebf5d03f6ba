"""Shared figures are written to each profile's status; those that changed or went are left for the next period."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest

from cotenant.drivers.kube.client.client import Client
from cotenant.drivers.kube.client.errors import Conflict, Forbidden, NotFound, Unavailable
from cotenant.drivers.kube.kinds.custom.workload_profile import WORKLOAD_PROFILES, overall_fields
from cotenant.drivers.kube.kinds.kind import Kind
from cotenant.engine.federation.sharing import WriteShared
from cotenant.model.cluster.workload_profile import NO_OVERALL
from cotenant.services.fleet.federation.profile_objects import read_profiles, write_shared


class Profiles:
    """Takes each status, or raises what its name says."""

    def __init__(self, **raises: Exception) -> None:
        self.raises = raises
        self.written: list[tuple[str, str, str, dict[str, Any], bool]] = []

    async def set_status(
        self, kind: Kind[Any], namespace: str, name: str, uid: str, status: dict[str, Any], keeps: bool = False
    ) -> None:
        assert kind is WORKLOAD_PROFILES
        if name in self.raises:
            raise self.raises[name]
        self.written.append((namespace, name, uid, status, keeps))

    async def all_of(self, kind: Kind[Any]) -> list[Any]:
        assert kind is WORKLOAD_PROFILES
        raise self.raises["all"]


def written(profiles: Profiles, *wanted: WriteShared) -> int:
    return asyncio.run(write_shared(cast(Client, profiles), wanted))


def test_each_is_written_by_its_uid_and_nothing_of_nobody() -> None:
    profiles = Profiles()
    assert written(profiles, WriteShared("a/x", "u1", NO_OVERALL, 3), WriteShared("b/y", "u2", NO_OVERALL, 0)) == 2
    assert profiles.written == [
        ("a", "x", "u1", {"shared": {"clusters": 3, "overall": overall_fields(NO_OVERALL)}}, True),
        ("b", "y", "u2", {"shared": {}}, True),
    ]
    assert written(profiles) == 0


@pytest.mark.parametrize("error", [Conflict, NotFound])
def test_one_that_changed_or_went_is_skipped_and_not_counted(error: Callable[[str], Exception]) -> None:
    profiles = Profiles(x=error("x"))
    assert written(profiles, *(WriteShared(f"a/{name}", "u", NO_OVERALL, 1) for name in "xyz")) == 2
    assert [name for _, name, *_ in profiles.written] == ["y", "z"]


def test_a_server_that_is_away_ends_the_period() -> None:
    with pytest.raises(Unavailable):
        written(Profiles(x=Unavailable("away")), WriteShared("a/x", "u", NO_OVERALL, 1))


@pytest.mark.parametrize("error", [NotFound, Forbidden])
def test_there_are_none_where_they_may_not_be_listed(error: Callable[[str], Exception]) -> None:
    assert asyncio.run(read_profiles(cast(Client, Profiles(all=error("no"))))) == ()

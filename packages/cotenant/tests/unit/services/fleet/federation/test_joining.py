"""A joiner asks the cluster's Autonomy objects before it weighs a quota; it always may give back."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import numpy as np
import pytest

from cotenant.drivers.kube.client.errors import Forbidden, NotFound, Unavailable
from cotenant.drivers.kube.kinds.custom.autonomy import AutonomyObject
from cotenant.drivers.kube.kinds.kind import Kind
from cotenant.drivers.nats.keys import made_seed
from cotenant.engine.federation.hub import FederationWeights
from cotenant.engine.federation.joined import KeptWeight, WeighedQuota
from cotenant.model.cluster.workload_profile import WorkloadProfile, WorkloadRef
from cotenant.model.errors import CotenantError
from cotenant.model.groups.quota import SHARED_WEIGHT
from cotenant.model.resources import Amounts
from cotenant.policy.federation.statement import ClusterRoom, TenantSums, check_statement
from cotenant.services.fleet.federation.envelopes import EnvelopeKind, sealed
from cotenant.services.fleet.federation.joining import Joiner, JoinOptions
from cotenant.services.fleet.federation.own_statement import ReadCluster
from cotenant.services.fleet.places import BusOptions

FREEZE = {"freeze": {"why": "sale"}}


class Api:
    """Lists Autonomy objects, and notes what is written."""

    def __init__(self) -> None:
        self.autonomy: dict[str, Any] | CotenantError | None = None
        self.written: list[tuple[str, str | None]] = []

    async def all_of(self, kind: Kind[AutonomyObject]) -> list[AutonomyObject]:
        if isinstance(self.autonomy, CotenantError):
            raise self.autonomy
        spec = self.autonomy
        return [] if spec is None else [msgspec.convert({"metadata": {"name": "one"}, "spec": spec}, AutonomyObject)]

    async def patch(self, kind: Kind[Any], namespace: str, name: str, body: Any, *, content_type: str) -> None:
        self.written.append((name, body["metadata"]["annotations"][SHARED_WEIGHT]))


class World:
    """A joiner with the hub's answer: tenant `a` weighs double."""

    def __init__(self) -> None:
        self.api = Api()
        options = JoinOptions(BusOptions(), "east")
        self.joiner = Joiner(options, self.api, "", "", np.random.default_rng(1))  # type: ignore[arg-type]
        self.answered(("a", 2000))

    def answered(self, *factors: tuple[str, int]) -> None:
        now_ms = 1 << 60  # beyond any machine's clock: it does not expire
        assert self.joiner.joined.answered(FederationWeights("east", 0, 1, factors), 0, now_ms) == ""

    def period(self, quota: WeighedQuota) -> list[tuple[str, str | None]]:
        self.api.written.clear()
        asyncio.run(self.joiner._apply((quota,)))
        return list(self.api.written)


def quota(cpu: int, kept: int = 0, namespace: str = "shop") -> WeighedQuota:
    """`kept`: the owner's weight, where a joiner wrote the one that stands."""
    weight, original = (Amounts.of({"cpu": milli}) for milli in (cpu, kept))
    note = msgspec.json.encode(KeptWeight(f'{{"cpu":"{kept}m"}}', "x")).decode() if kept else None
    return WeighedQuota(
        f"{namespace}/a", "u", "7", "a", weight, "x", weight, note, weight if kept else None,
        original if kept else None,
    )  # fmt: skip


def test_a_frozen_clusters_quotas_are_not_weighed_anew_and_are_given_back() -> None:
    world = World()
    world.api.autonomy = FREEZE
    assert world.period(quota(1000)) == []
    weighed = quota(1500, kept=1000)  # it stood before the freeze
    assert world.period(weighed) == []
    world.answered()
    assert world.period(weighed) == [("a", '{"cpu":"1000m"}')]
    world.answered(("a", 2000))
    world.api.autonomy = None
    assert world.period(quota(1000)) == [("a", '{"cpu":"2"}')]


@pytest.mark.parametrize(
    ("spec", "is_held"),
    [
        ({**FREEZE, "actions": ["weights"]}, True),
        ({**FREEZE, "actions": ["sizes", "lending"]}, False),
        ({**FREEZE, "namespaces": ["shop"]}, True),
        ({**FREEZE, "namespaces": ["other"]}, False),
        ({"ceiling": "approve"}, True),
        ({"blackouts": [{"from": "2020-01-01", "to": "2999-01-01"}]}, True),
    ],
)
def test_what_an_autonomy_covers(spec: dict[str, Any], is_held: bool) -> None:
    world = World()
    world.api.autonomy = spec
    assert bool(world.period(quota(1000))) is not is_held


@pytest.mark.parametrize("error", [NotFound("no such kind"), Forbidden("no right")])
def test_a_cluster_without_the_kind_or_the_right_holds_nothing_back(error: CotenantError) -> None:
    world = World()
    world.api.autonomy = error
    assert len(world.period(quota(1000))) == 1


def test_while_nothing_can_be_read_what_was_read_last_counts() -> None:
    world = World()
    world.api.autonomy = Unavailable("away")
    assert world.period(quota(1000)) == []  # a freeze may be stored there
    world.api.autonomy = None
    assert len(world.period(quota(1000))) == 1
    world.api.autonomy = Unavailable("away")
    assert len(world.period(quota(1000))) == 1
    world.api.autonomy = FREEZE
    world.period(quota(1000))
    world.api.autonomy = Unavailable("away")
    assert world.period(quota(1000)) == []


def test_a_statement_of_many_long_names_fits_into_a_message_and_leaves_the_smallest_out() -> None:
    world = World()
    capacity = (10**9, 10**9, 0)
    tenants = tuple(TenantSums(f"{i:0>253}", (i, i, 0), (10**6, 10**6, 0)) for i in range(9000))
    millionths = [i // 1000 for i in range(9000)]  # of the capacity
    profiles = [
        WorkloadProfile(f"shop/{i}", WorkloadRef("Deployment", "a"), shared_as=f"{i:0>253}") for i in range(900)
    ]
    statement = world.joiner._statement(ReadCluster(ClusterRoom(capacity, (0, 0, 0)), tenants, ()), profiles, (), 1)
    sealed(EnvelopeKind.STATEMENT, statement, made_seed())
    check_statement(statement, capacity)
    stated = {int(sums.tenant) for sums in statement.tenants}
    assert min(millionths[i] for i in stated) >= max(millionths[i] for i in range(9000) if i not in stated)
    assert (len(stated) > 2000, len(statement.profiles) > 400) == (True, True)

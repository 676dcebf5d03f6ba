"""Messages to the hub: who signed them, and what is not one."""

from __future__ import annotations

import pytest

from cotenant.drivers.nats.contract import BusMessage
from cotenant.engine.federation.hub import FederationView, FederationWeights
from cotenant.model.errors import InvalidInput
from cotenant.policy.federation.statement import MAX_TENANTS, ClusterRoom, Statement, TenantSums
from cotenant.services.fleet.federation.envelopes import (
    STATEMENT_SUBJECT,
    VIEW_SUBJECT,
    EnvelopeKind,
    is_by,
    opened,
    sealed,
)
from cotenant.services.fleet.federation.hub_main import HubService
from cotenant.services.fleet.federation.members import MemberKey

keys = pytest.importorskip("cotenant.drivers.nats.keys")
pytest.importorskip("nkeys", reason="nkeys is not installed")

WALL = 1_700_000_000_000
CAPACITY = (10**9, 10**9, 0)
EAST, WEST, HUB = keys.made_seed(), keys.made_seed(), keys.made_seed()


def service() -> HubService:
    members = {"east": EAST, "west": WEST}
    return HubService({name: MemberKey(keys.public_key(seed), CAPACITY) for name, seed in members.items()}, HUB)


def statement(cluster: str, count: int = 2) -> Statement:
    tenants = tuple(TenantSums(f"team-of-{i:014}", (60_000, 65_536 + i, 0), (30_000, 65_536, 0)) for i in range(count))
    return Statement(cluster, "s", 1, WALL, 30_000, 1000, ClusterRoom(CAPACITY, (0, 0, 0)), tenants)


def answer_to(data: bytes, of: HubService) -> FederationWeights:
    answer = of.answered(BusMessage(STATEMENT_SUBJECT, data, reply="r"), WALL, 0)
    assert is_by(EnvelopeKind.WEIGHTS, answer, keys.public_key(HUB))
    return opened(EnvelopeKind.WEIGHTS, answer, FederationWeights)


def test_ten_thousand_tenants_fit_into_a_message() -> None:
    found = answer_to(sealed(EnvelopeKind.STATEMENT, statement("east", MAX_TENANTS), EAST), service())
    assert not found.refused


def test_what_no_bus_carries_is_refused_by_its_sender() -> None:
    with pytest.raises(InvalidInput, match="size of a statement"):
        sealed(EnvelopeKind.STATEMENT, statement("east", 3 * MAX_TENANTS), EAST)


def test_another_clusters_name_is_refused() -> None:
    of = service()
    assert "not by this cluster's key" in answer_to(sealed(EnvelopeKind.STATEMENT, statement("east"), WEST), of).refused
    view = opened(EnvelopeKind.VIEW, of.answered(BusMessage(VIEW_SUBJECT, b""), WALL, 0), FederationView)
    assert [cluster.room for cluster in view.clusters] == [None, None]


def test_a_changed_byte_or_another_kind_is_refused() -> None:
    good = sealed(EnvelopeKind.STATEMENT, statement("east"), EAST)
    changed = good.replace(b'"epoch":1,', b'"epoch":2,')
    assert "not by this cluster's key" in answer_to(changed, service()).refused
    assert (
        "not by this cluster's key"
        in answer_to(sealed(EnvelopeKind.WEIGHTS, statement("east"), EAST), service()).refused
    )


@pytest.mark.parametrize("data", [b"", b"x" * 64, b"x" * 64 + b"{", b"x" * 64 + b"[" * 100_000, b"\xff" * 200])
def test_what_is_no_statement_is_answered(data: bytes) -> None:
    assert answer_to(data, service()).refused


def test_amounts_beyond_any_integer_are_refused() -> None:
    good = sealed(EnvelopeKind.STATEMENT, statement("east"), EAST)
    assert answer_to(good.replace(b"60000", b"9" * 400), service()).refused
    assert answer_to(good.replace(b"60000", b"6e4"), service()).refused

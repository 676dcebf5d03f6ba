"""What no honest cluster states is refused, and names the field."""

from __future__ import annotations

import msgspec
import pytest

from cotenant.model.errors import InvalidInput
from cotenant.policy.federation.statement import (
    MAX_TENANTS,
    ClusterRoom,
    Statement,
    TenantSums,
    check_statement,
    fit_to,
)

REGISTERED = (64_000, 65_536, 8)
GOOD = Statement(
    "east", "s", 1, 0, 30_000, 0, ClusterRoom((64_000, 65_536, 0), (32_000, 32_768, 0)), (TenantSums("a", (1, 1, 0)),)
)


def test_a_good_one_passes() -> None:
    check_statement(GOOD, REGISTERED)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"cluster": "East"}, "cluster"),
        ({"cluster": "x" * 300}, "cluster"),
        ({"session": ""}, "session"),
        ({"epoch": 0}, "epoch"),
        ({"epoch": 10**30}, "epoch"),
        ({"lasts_ms": 10**9}, "lasts_ms"),
        ({"lasts_ms": -1}, "lasts_ms"),
        ({"epsilon_milli": -1}, "epsilon_milli"),
        ({"room": ClusterRoom((64_001, 0, 0), (0, 0, 0))}, "capacity cpu_milli"),
        ({"room": ClusterRoom((64_000, 0, 0), (64_000, 1, 0))}, "free memory_mib"),
        ({"room": ClusterRoom((64_000, 0, 0), (-1, 0, 0))}, "free cpu_milli"),
        ({"room": ClusterRoom((0, 0, 0), (0, 0, 0), objectives=1, objectives_missed=2)}, "objectives_missed"),
        ({"tenants": (TenantSums("a", (-1, 0, 0)),)}, "a.used cpu_milli"),
        ({"tenants": (TenantSums("a", (10**400, 0, 0)),)}, "a.used cpu_milli"),
        ({"tenants": (TenantSums("a", (0, 0, 0), credit=1001),)}, "a.credit"),
        ({"tenants": (TenantSums("a", (0, 0, 0), violations=-1),)}, "a.violations"),
        ({"tenants": (TenantSums("a", (0, 0, 0)), TenantSums("a", (0, 0, 0)))}, "tenants"),
        ({"tenants": (TenantSums("a b", (0, 0, 0)),)}, "tenant"),
        ({"tenants": (TenantSums("a", (40_000, 0, 0)), TenantSums("b", (40_000, 0, 0)))}, "sum of used cpu_milli"),
        ({"tenants": tuple(TenantSums(f"t{i}", (0, 0, 0)) for i in range(MAX_TENANTS + 1))}, "tenants"),
    ],
)
def test_impossible_ones_are_refused(change: dict[str, object], field: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        check_statement(msgspec.structs.replace(GOOD, **change), REGISTERED)
    assert refused.value.field == field
    assert len(str(refused.value)) < 400


def test_ten_thousand_tenants_are_taken() -> None:
    tenants = tuple(TenantSums(f"t{i}", (6, 6, 0)) for i in range(MAX_TENANTS))
    check_statement(msgspec.structs.replace(GOOD, tenants=tenants), REGISTERED)


def test_noise_is_scaled_into_the_capacity() -> None:
    tenants = (TenantSums("a", (90, 10, 0)), TenantSums("b", (60, 10, 1)))
    fitted = fit_to((100, 100, 0), tenants)
    assert [sums.used for sums in fitted] == [(60, 10, 0), (40, 10, 0)]
    assert fit_to((150, 100, 1), tenants) == tenants

"""Which changes of a claim make the engine look at its pods again: not those that change nothing for them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.fakes.cluster.claims_world import ByModel

from cotenant.engine.rules.claims.facts import ClaimFacts
from cotenant.model.claims.claim import Allocation, ResourceClaim
from cotenant.model.claims.requests import ClaimSpec

CLAIM = ResourceClaim("default", "c", "u", ClaimSpec(()), reserved_for=("a", "b"), version=1)


def looked_at(*claims: ResourceClaim) -> list[str]:
    facts, found = ClaimFacts(ByModel()), list[str]()
    facts.claim = found.append
    for claim in claims:
        facts.claim_seen(claim)
    return found


def test_a_new_claim_is_looked_at() -> None:
    assert looked_at(CLAIM) == ["default/c"]


@pytest.mark.parametrize(
    ("changed", "is_looked_at"),
    [
        ({}, False),
        ({"reserved_for": ("a", "b", "c")}, False),  # one more pod uses it
        ({"reserved_for": ("a",)}, True),
        ({"is_ending": True}, True),
        ({"uid": "another"}, True),
        ({"allocation": Allocation(())}, True),
    ],
)
def test_a_change_is_looked_at_where_it_matters_to_pods(changed: dict[str, object], is_looked_at: bool) -> None:
    after = replace(CLAIM, version=2, **changed)  # type: ignore[arg-type]
    assert looked_at(CLAIM, after) == ["default/c"] * (1 + is_looked_at)


def test_an_older_version_says_nothing() -> None:
    assert looked_at(replace(CLAIM, version=3), replace(CLAIM, version=2, is_ending=True)) == ["default/c"]

"""Walking from a pod's owner to the owners above it."""

from __future__ import annotations

from cotenant.model.cluster.observed import OwnedBy
from cotenant.model.groups.workload_kind import MAX_OWNERS, chain_of


def owner(name: str) -> OwnedBy:
    return OwnedBy("example.com/v1", "Thing", name, name, True)


def test_the_owners_of_a_pod() -> None:
    above = {"a": owner("b"), "b": owner("c")}
    found = chain_of(owner("a"), above.get)
    assert ([one.name for one in found.owners], found.refused) == (["a", "b", "c"], "")
    assert chain_of(None, above.get).owners == ()


def test_owners_in_a_circle_are_refused() -> None:
    found = chain_of(owner("a"), {"a": owner("b"), "b": owner("a")}.get)
    assert ([one.name for one in found.owners], found.refused) == (["a", "b"], "Thing a is among its own owners")
    assert chain_of(owner("a"), {"a": owner("a")}.get).refused == "Thing a is among its own owners"


def test_a_chain_that_is_too_long_is_refused() -> None:
    found = chain_of(owner("0"), lambda uid: owner(str(int(uid) + 1)))
    assert (len(found.owners), found.refused) == (MAX_OWNERS, f"it has more than {MAX_OWNERS} owners above one another")

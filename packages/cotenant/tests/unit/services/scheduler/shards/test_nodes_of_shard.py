"""What a shard counts of nodes that were deleted, and what it says of replicas that divide pods in another way."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from bench.shards import OneOf, Table

from cotenant.engine.sharding.territory import Territory
from cotenant.model.cluster.node import Node
from cotenant.model.resources import Amounts
from cotenant.services.scheduler.shards.shard import Shard

NAMES = tuple(f"n{number}" for number in range(12))


def node(name: str) -> Node:
    return Node(name, Amounts.of({"cpu": 4000, "memory": 8 << 30}))


def alone() -> tuple[OneOf, Shard]:
    """One that acts alone."""
    one = OneOf("cotenant-requests", 0, Table())
    shard = one.shard
    assert shard is not None
    for name in NAMES:
        shard.node_seen(node(name))
    shard.begin(0)
    for _ in range(6):
        one.now_s += 0.6
        asyncio.run(shard.turn())
    assert shard.samples()["nodes"] == len(NAMES)
    return one, shard


def test_deleted_nodes_count_no_more_whoevers_they_were() -> None:
    one, shard = alone()
    shard._occupy(Territory(0, ((0, 1),)))
    theirs = one.cluster.closed.names
    assert 0 < len(theirs) < len(NAMES)
    for name in NAMES:
        shard.node_gone(name, one.now_s)
    assert shard.samples()["nodes"] == 0
    assert not one.cluster.closed.names
    for name in theirs:  # one of the same name is another shard's as before
        shard.node_seen(node(name))
    assert one.cluster.closed.names == theirs


@pytest.mark.parametrize("is_lent", [True, False])
def test_a_node_that_is_deleted_while_it_is_lent_does_not_come_back(is_lent: bool) -> None:
    one, shard = alone()
    territory = shard.territory
    there = replace(territory, away=frozenset({"n3"})) if is_lent else replace(territory, borrowed=frozenset({"n3"}))
    shard._occupy(there)
    shard.node_gone("n3", one.now_s)
    shard._occupy(territory)
    assert shard.samples()["nodes"] == len(NAMES) - 1
    assert "n3" not in one.cluster.closed.names


def test_who_divides_pods_as_an_older_version_is_named() -> None:
    _, shard = alone()
    member = shard.member
    assert member is not None
    assert "older" not in shard.standing()
    table = member.table
    member.table_seen(replace(table, members=tuple(replace(m, format=0) for m in table.members)), 1 << 40)
    assert shard.standing().endswith("; shard 0 divides pods as an older version: stop all, then start all")

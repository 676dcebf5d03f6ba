"""Who waits for a quota: the most important pod first, then the oldest."""

from __future__ import annotations

import pytest
from tests.fakes.cluster.quota_world import World, cpu, node, pod, quota

from cotenant.engine.plugins.quotas.accounts import TreeAccounts
from cotenant.engine.plugins.quotas.waiting import jobs_waiting, who_waits
from cotenant.model.cluster.labels import HOSTNAME, Labels
from cotenant.model.resources import Amounts
from cotenant.policy.quota.headroom import HeadroomRules


def waiting(*ranks: tuple[str, int, float, float]) -> tuple[World, TreeAccounts]:
    """Pods (name, priority, created, cores) that wait in a quota of 4 cores, 3 of which are used; the node that
    they select is full.
    """
    here = Labels.of({HOSTNAME: "n"})
    world = World(node("n", 3), node("other", 9))
    world.write(quota("team", 4, 4))
    world.create(pod("there", 3, "team", on="n"))
    for name, priority, created_s, cores in ranks:
        asks = Amounts.of({"cpu": int(1000 * cores)})
        world.create(pod(name, 0, "team", priority=priority, created_s=created_s, requests=asks, node_selector=here))
    world.go(1.0)
    (books,) = [tree for tree in world.quotas._world.trees.values() if "team" in tree.members]
    return world, books


@pytest.mark.parametrize(
    ("first", "second"),
    [(("a", 9, 5.0, 1), ("b", 1, 0.0, 1)), (("b", 5, 1.0, 1), ("a", 5, 2.0, 1)), (("a", 5, 1.0, 1), ("b", 5, 1.0, 1))],
)
def test_the_most_important_waits_first_then_the_oldest(
    first: tuple[str, int, float, float], second: tuple[str, int, float, float]
) -> None:
    _, books = waiting(second, first)
    assert [wait.entry.seen.pod.name for wait in who_waits(books)["team"]] == [first[0], second[0]]


def test_jobs_are_listed_by_their_most_important_member() -> None:
    """Room is made for the first of the list, which therefore has to be the most important one."""
    world, books = waiting(("low", 1, 0.0, 0.5), ("high", 9, 5.0, 1))
    jobs = jobs_waiting(books.tree, who_waits(books), HeadroomRules(), world.quotas.host)
    assert jobs["team"] == [cpu(1), Amounts.of({"cpu": 500})]

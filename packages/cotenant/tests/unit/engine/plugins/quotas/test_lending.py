"""What the shard of a quota's tree lends: what its account admits after those that go first there."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cotenant.engine.framework.pod_state import PodInfo
from cotenant.engine.framework.queueing import AlikePods
from cotenant.engine.plugins.quotas.accounts import Account, ForeignUse, TreeAccounts
from cotenant.engine.plugins.quotas.lending import RoomWanted, is_whole, lendable, request_of
from cotenant.engine.plugins.quotas.outside import UNCOUNTED
from cotenant.model.cluster.observed import ObservedPod
from cotenant.model.cluster.pod import Pod
from cotenant.model.groups.quota import Quota
from cotenant.model.resources import NOTHING, Amounts
from cotenant.model.shards.table import QuotaRoom, RoomFor
from cotenant.policy.quota.headroom import HeadroomRules
from cotenant.policy.quota.tree import QuotaTree

PLAIN, KEPT = RoomFor("team"), RoomFor("team", preemptible=False)
GANG, OTHER = RoomFor("team", gang="ns/g"), RoomFor("team", gang="ns/h")


def cpu(amount: int) -> Amounts:
    return Amounts.of({"cpu": amount})


def tree(most: int = 10, least: int = 4) -> TreeAccounts:
    made = QuotaTree((Quota("team", cpu(most), cpu(least)),), cpu(100))
    return TreeAccounts("", made, HeadroomRules(by_runtime=False), ())


def wanted(of: RoomFor, pods: int, priority: int = 0, rests: bool = False, created_s: float = 0.0) -> RoomWanted:
    made = Pod("p", requests=cpu(1), priority=priority)
    entries = [PodInfo(ObservedPod(made, f"u{i}", "cotenant", created_s)) for i in range(pods)]
    return RoomWanted(of, AlikePods(entries[0], pods, tuple(entries) if of.gang else (), frozenset()), rests)


def ask(pods: int, each: int = 1, priority: int = 0) -> QuotaRoom:
    return QuotaRoom(pods, cpu(each), priority)


def test_what_goes_first_is_of_a_higher_priority_or_a_gang_or_cannot_be_preempted() -> None:
    assert lendable(PLAIN, ask(10), (), tree()) == 10
    assert lendable(PLAIN, ask(10), (wanted(PLAIN, 3, priority=1),), tree()) == 7
    assert lendable(PLAIN, ask(10), (wanted(GANG, 3),), tree()) == 7
    assert lendable(PLAIN, ask(10), (wanted(KEPT, 3),), tree()) == 7
    lower = (wanted(GANG, 3, priority=-1), wanted(KEPT, 3, priority=-1), wanted(PLAIN, 3, priority=-1))
    assert lendable(PLAIN, ask(10), lower, tree()) == 10
    assert lendable(GANG, ask(1, 8), (wanted(KEPT, 3), wanted(PLAIN, 3)), tree()) == 1
    assert lendable(KEPT, ask(4), (wanted(PLAIN, 9),), tree()) == 4


def test_who_would_not_be_admitted_and_who_waits_for_nodes_keep_no_room() -> None:
    assert lendable(PLAIN, ask(10), (wanted(GANG, 11),), tree()) == 10  # a gang that never fits
    assert lendable(PLAIN, ask(10), (wanted(KEPT, 9),), tree()) == 6  # four of them fit into the minimum
    assert lendable(PLAIN, ask(10), (wanted(GANG, 3, rests=True), wanted(PLAIN, 3, 1, rests=True)), tree()) == 10


def test_of_two_gangs_the_older_goes_first_and_each_is_lent_whole_or_not_at_all() -> None:
    assert lendable(GANG, ask(1, 6), (wanted(OTHER, 6, created_s=2.0),), tree(), since_s=1.0) == 1
    assert lendable(GANG, ask(1, 6), (wanted(OTHER, 6, created_s=1.0),), tree(), since_s=2.0) == 0
    assert lendable(GANG, ask(1, 11), (), tree()) == 0
    mixed = RoomFor("team", preemptible=False, gang=GANG.gang)
    assert lendable(GANG, ask(1, 2), (wanted(mixed, 1),), tree()) == 0  # it needs room of two kinds


def test_those_that_wait_at_home_share_and_are_given_up_where_they_are_asked_for() -> None:
    assert lendable(PLAIN, replace(ask(8), is_lent=True), (wanted(PLAIN, 8),), tree()) == 5
    assert lendable(PLAIN, ask(8), (wanted(PLAIN, 8),), tree()) == 8


def test_what_is_lent_to_those_that_nobody_may_preempt_counts_as_used_and_as_held() -> None:
    books = tree()
    books.lend("team", ForeignUse(cpu(5), cpu(5), cpu(3)))
    assert lendable(KEPT, ask(9), (), books) == 1
    assert lendable(PLAIN, ask(9), (), books) == 5
    books.validate()
    books.lend("team", ForeignUse(cpu(2), cpu(2)))
    assert lendable(KEPT, ask(9), (), books) == 4
    books.lend("team", ForeignUse(NOTHING, NOTHING))
    assert dict(books.tree.used("team")) == {"cpu": 0}
    books.validate()


@pytest.mark.parametrize(
    ("pods", "asked", "lacks", "whole"), [(3, 3, 3, True), (3, 3, 4, False), (3, 2, 2, False), (2, 3, 2, False)]
)
def test_a_gang_is_whole_where_all_that_waits_is_asked_for_and_can_run(
    pods: int, asked: int, lacks: int, whole: bool
) -> None:
    entries = wanted(GANG, pods).pods.together
    accounts = [Account(entry, "ns", "team", True, cpu(1), UNCOUNTED) for entry in entries]
    each = Amounts.of((name, asked * amount) for name, amount in request_of(cpu(1)))
    assert is_whole(QuotaRoom(1, each), accounts, lacks) is whole

"""What has one owner."""

from __future__ import annotations

from cotenant.policy.sharding.borrowing import BorrowableNode, LoanLimits, choose, may_lend
from cotenant.policy.sharding.groups import Belonging, group_of, in_words, node_of


def test_a_quotas_tree_comes_before_a_gang_and_a_gang_before_a_workload() -> None:
    pod = Belonging("u1", "", ("ns/b", "ns/a"), "n1", "w1")
    assert group_of(pod) == "quota:"
    assert in_words("quota:") == "the default quota tree"
    assert group_of(Belonging("u1", None, ("ns/b", "ns/a"), "n1", "w1")) == "gang:ns/a"
    assert group_of(Belonging("u1", None, (), "n1", "w1")) == "node:n1"
    assert node_of("node:n1") == "n1"
    assert group_of(Belonging("u1", workload="w1")) == group_of(Belonging("u2", workload="w1"))
    assert group_of(Belonging("u1")) != group_of(Belonging("u2"))
    assert group_of(Belonging("u1", reservation="r")) == "reservation:r"


def test_the_roomiest_nodes_are_asked_for_until_all_pods_have_room() -> None:
    rooms = [BorrowableNode("a", 1), BorrowableNode("b", 3), BorrowableNode("c", 2), BorrowableNode("d", 0)]
    assert choose(rooms, 4) == ("b", "c")
    assert choose(rooms, 99) == ("b", "c", "a")
    assert choose(rooms, 99, at_most=1) == ("b",)


def test_at_most_half_is_lent_and_nothing_that_somebody_waits_for() -> None:
    limits = LoanLimits()
    assert may_lend(0, 1, False, limits)
    assert may_lend(4, 10, False, limits)
    assert not may_lend(5, 10, False, limits)
    assert not may_lend(0, 10, True, limits)

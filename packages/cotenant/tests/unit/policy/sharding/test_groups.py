"""What has one owner."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from cotenant.model.cluster.affinity import PodTerm, SpreadConstraint
from cotenant.model.cluster.labels import HOSTNAME, LabelSelector
from cotenant.model.cluster.pod import Pod
from cotenant.policy.sharding.borrowing import BorrowableNode, LoanLimits, choose, may_lend
from cotenant.policy.sharding.groups import (
    Belonging,
    group_of,
    in_words,
    is_judged_with_its_workload,
    node_of,
)
from cotenant.policy.sharding.rendezvous import owner


def test_a_quotas_tree_comes_before_a_gang_and_a_gang_before_a_workload() -> None:
    pod = Belonging("u1", "", ("ns/b", "ns/a"), "n1", "w1")
    assert group_of(pod) == "quota:"
    assert in_words("quota:") == "the default quota tree"
    assert group_of(Belonging("u1", None, ("ns/b", "ns/a"), "n1", "w1")) == "gang:ns/a"
    assert group_of(Belonging("u1", None, (), "n1", "w1")) == "node:n1"
    assert node_of("node:n1") == "n1"
    assert group_of(Belonging("u1", workload="w1")) == group_of(Belonging("u2", workload="w1"))
    assert group_of(Belonging("u1")) != group_of(Belonging("u2"))
    assert in_words(group_of(Belonging("u1"))) == "its UID"
    assert group_of(Belonging("u1", reservation="r")) == "reservation:r"


def test_a_pod_goes_with_its_workload_only_where_what_it_asks_for_reaches_beyond_a_node() -> None:
    chosen = LabelSelector.of({"app": "web"})
    plain = Pod("p")
    assert not is_judged_with_its_workload(plain, has_claims=False)
    assert is_judged_with_its_workload(plain, has_claims=True)
    apart = replace(plain, anti_affinity=(PodTerm(HOSTNAME, chosen), PodTerm(HOSTNAME, chosen, weight=5)))
    assert not is_judged_with_its_workload(apart, has_claims=False)
    for reaching in (
        replace(plain, anti_affinity=(*apart.anti_affinity, PodTerm("topology.kubernetes.io/zone", chosen))),
        replace(plain, affinity=(PodTerm(HOSTNAME, chosen),)),  # whichever shard has the node where the others are
        replace(plain, spread=(SpreadConstraint(HOSTNAME, chosen),)),  # the emptiest node is anybody's
        replace(plain, default_selector=chosen),
    ):
        assert is_judged_with_its_workload(reaching, has_claims=False)


def test_pods_of_a_workload_are_divided_evenly() -> None:
    shards: Counter[int] = Counter()
    for number in range(4000):
        uid = f"{number:08x}-5d1d-4a39-9d0e-abcdef012345"
        shards[owner(group_of(Belonging(uid)), range(4))] += 1
    assert all(850 <= count <= 1150 for count in shards.values())


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

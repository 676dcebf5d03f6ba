"""What a waiting gang is told, and which changes of its PodGroup let it try again."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.fakes.cluster.gang_world import binds, cluster, group, members, node, pod, see, settle, told

from cotenant.engine.framework.instructions import HELD, Unschedulable
from cotenant.model.cluster.affinity import PodTerm
from cotenant.model.cluster.labels import HOSTNAME, Labels, LabelSelector
from cotenant.model.groups.gang import GangMode

ORDINALS = {
    1: "1st",
    2: "2nd",
    3: "3rd",
    4: "4th",
    10: "10th",
    11: "11th",
    12: "12th",
    13: "13th",
    14: "14th",
    20: "20th",
    21: "21st",
    22: "22nd",
    23: "23rd",
    24: "24th",
}


@pytest.mark.parametrize("first", ORDINALS)
def test_a_gang_hears_how_many_members_fit_and_which_does_not(first: int) -> None:
    c = cluster(first - 1)
    if first == 1:
        c.node_seen(node("small", 500))
    see(c, *members("a", 24))
    said = told(settle(c, 0.0))
    assert set(said) == {f"a-{i}" for i in range(24)}
    assert len(set(said.values())) == 1
    wanted = f"gang default/a: {first - 1} of 24 members fit; the {ORDINALS[first]}, default/a-{first - 1}, does not: "
    assert said["a-0"].startswith(wanted)


def test_only_a_change_of_what_a_pod_group_asks_for_ends_its_back_off() -> None:
    c = cluster(1)
    asks = group("a", 2, mode=GangMode.NON_STRICT, wait_s=30.0)
    c.plugins.gangs.pod_group_seen(asks, 0.0)
    see(c, *(pod(f"a-{i}", label="a") for i in range(2)))
    settle(c, 0.0)
    settle(c, 30.0)
    for at_s in (31.0, 32.0):
        c.plugins.gangs.pod_group_seen(replace(asks, status=replace(asks.status, scheduled=int(at_s))), at_s)
        out = settle(c, at_s)
        assert not binds(out)
        assert not c.reserved()
    c.plugins.gangs.pod_group_seen(group("a", 1, mode=GangMode.NON_STRICT, wait_s=30.0), 40.0)
    assert len(binds(settle(c, 40.0))) == 1


def test_a_pod_group_that_asks_for_less_is_judged_at_once() -> None:
    c = cluster(2)
    c.plugins.gangs.pod_group_seen(group("a", 3), 0.0)
    see(c, *(pod(f"a-{i}", label="a") for i in range(3)))
    assert not binds(settle(c, 0.0) + settle(c, 50.0))
    c.plugins.gangs.pod_group_seen(group("a", 2), 50.0)
    assert len(binds(settle(c, 50.0))) == 2


def test_an_event_that_helps_only_another_member_than_the_first_that_did_not_fit_wakes_the_gang() -> None:
    c = cluster(2, 4000)
    near = PodTerm(HOSTNAME, LabelSelector.of({"app": "db"}))
    of_gang = {"of": "a", "least": 2}
    large = pod("large", cpu=9000, **of_gang)  # type: ignore[arg-type]
    wants = pod("wants", cpu=500, **of_gang)  # type: ignore[arg-type]
    see(c, large, replace(wants, pod=replace(wants.pod, affinity=(near,))), pod("small", cpu=500, **of_gang))  # type: ignore[arg-type]
    said = told(settle(c, 0.0))
    assert "1 of 3 members fit; the 2nd, default/large, does not" in said["small"]
    db = pod("db", cpu=500)
    see(c, replace(db, pod=replace(db.pod, labels=Labels.of({"app": "db"}))), now_s=20.0)
    assert set(binds(settle(c, 20.0))) == {"db", "small", "wants"}


def test_a_member_that_holds_a_node_is_told_so_instead_of_why_it_waited_before() -> None:
    c = cluster(0)
    see(c, *members("a", 2, mode=GangMode.NON_STRICT))
    assert told(settle(c, 0.0))["a-0"].endswith("no nodes available to schedule pods")
    c.node_seen(node("n0"))
    out = settle(c, 20.0)
    assert binds(out) == {}
    said = next(said for said in out if isinstance(said, Unschedulable) and said.key == "default/a-0")
    assert (said.message, said.reason) == ("It holds n0 and waits for the rest of its gang.", HELD)
    c.node_seen(node("n1"))
    out = settle(c, 40.0)
    assert (set(binds(out)), told(out)) == ({"a-0", "a-1"}, {})


def test_members_that_are_bound_in_one_round_are_told_nothing() -> None:
    c = cluster(2)
    see(c, *members("a", 2, mode=GangMode.NON_STRICT))
    out = settle(c, 0.0)
    assert (set(binds(out)), told(out)) == ({"a-0", "a-1"}, {})

"""What a quota's promise keeps others from, and who may try again when it ends."""

from __future__ import annotations

from typing import cast

import pytest
from tests.fakes.cluster.quota_world import pod

from cotenant.engine.framework.pod_state import PodInfo
from cotenant.engine.plugins.quotas.accounts import Account, Accounting
from cotenant.engine.plugins.quotas.preemption import QuotaPreempting
from cotenant.engine.plugins.quotas.promise import Promise, evictions
from cotenant.model.resources import NOTHING
from cotenant.policy.quota.headroom import HeadroomRules


def account(name: str, quota: str = "q", priority: int = 0) -> Account:
    seen = pod(name, 1, quota, priority=priority)
    nobody = cast(Accounting, None)  # nothing is counted here
    return Account(PodInfo(seen, node="n"), "work", quota, True, NOTHING, nobody, quota, node="n")


def promised(*names: str, quota: str = "q", together: bool = False, awaited: tuple[str, ...] = ()) -> Promise:
    uids = frozenset(f"uid-{name}" for name in names)
    return Promise(uids, "work/vip", quota, 5, 60.0, {}, together=together, awaited=awaited)


def preempting(*promises: Promise) -> QuotaPreempting:
    """With w waiting behind the promise of q, and x for a pod of q to leave; y and z do the same in r."""
    made = QuotaPreempting(HeadroomRules())
    made._of = {promise.quota: promise for promise in promises}
    made._behind = {"uid-w": "q", "uid-y": "r"}
    made._later = {"uid-x": "q", "uid-z": "r"}
    return made


def ready(made: QuotaPreempting) -> str:
    return "".join(name for name in "abcwxyz" if made.may_try(account(name)))


def test_only_less_important_pods_that_it_was_not_made_for_wait_behind_it() -> None:
    made = preempting(promised("a", "b"))
    words = "Quota q keeps what comes free for work/vip, which is more important."
    assert [made.obstacle(account("c", priority=priority)) for priority in (4, 5, 6)] == [words, "", ""]
    assert made.obstacle(account("a")) == ""
    assert made.obstacle(account("c", "r")) == ""


@pytest.mark.parametrize(
    ("awaited", "words"),
    [
        ((), ""),
        (("w/x",), "w/x of the same quota would leave for it: that waits for their disruption budgets."),
        (("w/x", "w/y", "w/z"), "w/x and 2 more of the same quota would leave for it"),
    ],
)
def test_a_promise_says_what_it_awaits(awaited: tuple[str, ...], words: str) -> None:
    made = preempting(promised("a", awaited=awaited))
    assert made.awaits(account("a")).startswith(words)
    assert bool(made.awaits(account("a"))) == bool(awaited)
    assert made.awaits(account("c")) == ""
    assert made.awaits(account("a", "r")) == ""


def test_a_promise_for_pods_that_are_alike_ends_with_the_last_and_a_gangs_with_any() -> None:
    made = preempting(promised("a", "b", "c"))
    assert not made.end(account("a"))
    left = made.promise_of("q")
    assert left is not None
    assert left.uids == {"uid-b", "uid-c"}
    assert ready(made) == ""
    assert not made.end(account("b"))
    assert made.end(account("c"))
    assert made.promise_of("q") is None
    assert ready(made) == "w"
    of_gang = preempting(promised("a", "b", together=True), promised("c", quota="r"))
    assert of_gang.end(account("b"))
    assert (of_gang.promise_of("q"), ready(of_gang)) == (None, "w")
    assert of_gang.promise_of("r") is not None


def test_who_leaves_waits_for_nothing_any_more() -> None:
    made = preempting(promised("a"))
    made._ready = {"uid-b"}
    for name in "bwx":
        assert not made.end(account(name))
    assert ready(made) == ""
    made.left("q")
    assert made.end(account("a"))
    assert ready(made) == ""


def test_a_pod_that_left_lets_those_of_its_quota_try_again() -> None:
    made = preempting()
    made.left("q")
    assert ready(made) == "x"
    made.left("r")
    assert ready(made) == "xz"
    made.left("r")
    assert ready(made) == "xz"


def test_promises_end_where_all_their_pods_are_admitted_in_one_round() -> None:
    made = preempting(promised("a", "b"), promised("c", quota="r"))
    assert not made.let_through([account("a")])
    assert made.promise_of("q") is not None
    assert made.let_through([account("a"), account("b")])
    assert (made.promise_of("q"), ready(made)) == (None, "w")
    assert made.promise_of("r") is not None
    assert not made.let_through([account("z", "s")])
    assert not made.let_through([])


def test_a_promise_that_is_over_lets_its_pods_and_those_behind_it_try_again() -> None:
    made = preempting(promised("a", "b"))
    assert not made.expire(59.9)
    assert ready(made) == ""
    assert made.expire(60.0)
    assert (made.promise_of("q"), ready(made)) == (None, "abw")
    assert not made.expire(1000.0)


def test_evictions_say_for_whom() -> None:
    (told,) = evictions("work/vip", "q", 7, [account("low")])
    assert (told.victim.uid, told.victim.key, told.victim.node) == ("uid-low", "work/low", "n")
    assert told.reason == "QuotaPreempted"

"""Who is asked to evict a pod or a plain group, and what is said where nobody does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from cotenant.model.errors import Permanent, Transient
from cotenant.model.machine.node_decision import EvictPod, Reason
from cotenant.services.agent.actions.evictions import ApiEvictor


class Api:
    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.asked: list[tuple[str, str, str, int | None]] = []

    async def evict(self, namespace: str, pod: str, uid: str = "", *, grace_s: int | None = None) -> None:
        self.asked.append((namespace, pod, uid, grace_s))
        if self.error is not None:
            raise self.error


def evicted(evictor: ApiEvictor, key: str = "shop/web", uid: str = "u") -> tuple[bool, str]:
    return asyncio.run(evictor.evict(EvictPod(uid, key, Reason("r", ""))))


def test_a_pod_is_evicted_by_the_cluster_as_the_one_that_was_meant() -> None:
    api = Api()
    assert evicted(ApiEvictor(api)) == (True, "evicted through the API")
    assert api.asked == [("shop", "web", "u", None)]


def test_a_pod_that_has_a_time_to_leave_in_is_given_it() -> None:
    api = Api()
    asyncio.run(ApiEvictor(api).evict(EvictPod("u", "shop/web", Reason("r", ""), grace_s=7)))
    assert api.asked == [("shop", "web", "u", 7)]


@pytest.mark.parametrize(
    ("error", "said"), [(Transient("a budget"), "not now: a budget"), (Permanent("it is gone"), "it is gone")]
)
def test_a_refusal_is_told_as_it_is(error: Exception, said: str) -> None:
    assert evicted(ApiEvictor(Api(error))) == (False, said)


@pytest.mark.parametrize("key", ["", "web", "/web", "shop/"])
def test_a_pod_without_a_name_is_not_asked_about(key: str) -> None:
    api = Api()
    assert evicted(ApiEvictor(api), key) == (False, "no source has named the pod")
    assert api.asked == []


def test_without_a_cluster_pods_stay() -> None:
    assert evicted(ApiEvictor()) == (False, "no cluster is configured")


def test_where_nothing_may_be_evicted_nobody_is_asked_whatever_it_is() -> None:
    api, killed = Api(), list[str]()
    evictor = ApiEvictor(
        api, killed.append, ("batch",), lambda namespace: f"{namespace} is frozen" * (namespace == "shop")
    )
    assert evicted(evictor) == (False, "not now: shop is frozen")
    assert evicted(evictor, uid="group:batch") == (False, "not now: shop is frozen")
    assert (api.asked, killed) == ([], [])
    assert evicted(evictor, "bank/web")[0]


@pytest.mark.parametrize(
    ("group", "is_killed"),
    [("batch", True), ("batch/a", True), ("batch-2/a", False), ("other", False), ("x/batch", False), ("low", True)],
)
def test_a_plain_group_is_killed_only_below_the_writable_ones(group: str, is_killed: bool) -> None:
    killed = list[str]()
    found = evicted(ApiEvictor(None, killed.append, ("batch", "low")), uid=f"group:{group}")
    said = "its processes were killed" if is_killed else "it is not below a writable group"
    assert (found, killed) == ((is_killed, said), [group] * is_killed)


def _raises(error: Exception) -> Callable[[str], None]:
    def kill(group: str) -> None:
        raise error

    return kill


def test_a_plain_group_that_is_only_told_or_cannot_be_killed_stays() -> None:
    assert evicted(ApiEvictor(Api(), None, ("batch",)), uid="group:batch") == (
        False,
        "the eviction of a plain group is only reported (plain_eviction: told)",
    )
    for error in (Permanent("no such group"), OSError("busy")):
        assert evicted(ApiEvictor(None, _raises(error), ("batch",)), uid="group:batch") == (False, str(error))

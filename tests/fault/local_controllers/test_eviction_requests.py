"""EvictionRequests on the local cluster, with a responder as an owner would write one."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.fakes.processes.plain_cluster import template
from tests.fault.local_controllers.test_running import Cluster, serve

from cotenant_local.controllers.cluster_controllers import BudgetController
from cotenant_local.controllers.eviction_controllers import EvictionController, EvictionRequestController
from cotenant_local.controllers.runtime.actions import BUDGETS, EVICTION_REQUESTS, EVICTIONS, PODS
from cotenant_local.controllers.views.core import stamp

COPY = "example.com/copy"


def request(uid: str, requester: str = "cotenant.io/rebalancer", pod: str = "p") -> dict[str, Any]:
    return {
        "apiVersion": "lifecycle.k8s.io/v1alpha1",
        "kind": "EvictionRequest",
        "metadata": {"name": f"of-{requester.replace('/', '-')}", "namespace": "default"},
        "spec": {"target": {"pod": {"name": pod, "uid": uid}}, "requester": requester, "intent": "Eviction"},
    }


async def a_pod(c: Cluster, *responders: str, node: str = "n") -> str:
    spec = {**template()["spec"], "nodeName": node, "terminationGracePeriodSeconds": 0}
    spec["evictionResponders"] = [{"name": name, "priority": 10_000} for name in responders]
    metadata = {"name": "p", "namespace": "default", "labels": {"app": "web"}}
    made = await c.make(PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    ready = [{"type": "Ready", "status": "True"}]
    await c.patch(PODS, "p", {"status": {"phase": "Running", "conditions": ready}}, "status")
    return str(made["metadata"]["uid"])


async def run(c: Cluster) -> None:
    """The controllers of this part alone: no node reports here, and pods would be evicted for that."""
    clock = lambda: c.now[0]  # noqa: E731
    await c.run(
        (
            EvictionRequestController(c.informers, clock),
            EvictionController(c.informers, clock),
            BudgetController(c.informers, clock),
        )
    )


class Copier:
    """Copies a pod's data before it lets the pod go: the example of a responder. It works on one Eviction at a time and
    writes only its own entry.
    """

    def __init__(self, c: Cluster, steps: int) -> None:
        self._c, self._left = c, steps

    async def work(self) -> str:
        """One step; what it did."""
        for eviction in await self._c.all(EVICTIONS):
            turns = {one["name"]: one["state"] for one in eviction["status"].get("targetResponders", ())}
            if turns.get(COPY) != "Active":
                continue
            now = stamp(self._c.now[0])
            self._left -= 1
            own: dict[str, Any] = {"heartbeatTime": now, "message": f"{self._left} parts left"}
            if self._left == 0:
                own["completionTime"] = now
            else:
                own["expectedCompletionTime"] = stamp(self._c.now[0] + 10 * self._left)
            responders = [{**one, **own} if one["name"] == COPY else one for one in eviction["status"]["responders"]]
            version = {"resourceVersion": eviction["metadata"]["resourceVersion"]}
            body = {"metadata": version, "status": {"responders": responders}}
            await self._c.patch(EVICTIONS, eviction["metadata"]["name"], body, "status")
            return "worked"
        return "nothing to do"


def states(eviction: dict[str, Any]) -> dict[str, str]:
    return {one["name"]: one["state"] for one in eviction["status"]["targetResponders"]}


def condition(obj: dict[str, Any], type_: str) -> tuple[str, str]:
    return next((one["status"], one["reason"]) for one in obj["status"]["conditions"] if one["type"] == type_)


def test_a_responder_finishes_its_work_and_then_the_pod_is_evicted() -> None:
    async def case(c: Cluster) -> None:
        await run(c)
        uid = await a_pod(c, COPY)
        await c.make(EVICTION_REQUESTS, request(uid))
        await c.later(1)
        copier = Copier(c, steps=3)
        for _ in range(2):
            assert await copier.work() == "worked"
            await c.later(10)
            (eviction,) = await c.all(EVICTIONS)
            assert states(eviction)[COPY] == "Active"
            assert (await c.all(PODS))[0]["metadata"]["uid"] == uid
        assert await copier.work() == "worked"
        await c.later(20)
        assert await c.all(PODS) == []
        (eviction,) = await c.all(EVICTIONS)
        assert states(eviction) == {COPY: "Completed", "imperative-eviction.k8s.io/evictor": "Interrupted"}
        (asked,) = await c.all(EVICTION_REQUESTS)
        assert condition(asked, "TargetEvicted") == ("True", "PodDeleted")
        assert await copier.work() == "nothing to do"

    serve(case)


def test_withdrawn_before_it_began_nothing_happens_to_the_pod() -> None:
    async def case(c: Cluster) -> None:
        await run(c)
        uid = await a_pod(c, COPY)
        await c.make(EVICTION_REQUESTS, request(uid))
        await c.make(EVICTION_REQUESTS, request(uid, "example.com/drain"))
        await c.later(1)
        await c.patch(EVICTION_REQUESTS, "of-cotenant.io-rebalancer", {"spec": {"intent": "Withdrawn"}})
        await c.later(1)
        (eviction,) = await c.all(EVICTIONS)
        assert states(eviction)[COPY] == "Active"  # the other one wants it still
        await c.api.delete(c.api.target(*EVICTION_REQUESTS, "default", "of-example.com-drain"))
        await c.later(1)
        (eviction,) = await c.all(EVICTIONS)
        assert states(eviction)[COPY] == "Canceled"
        assert condition(eviction, "Failed") == ("True", "CanceledDueToNoRequesters")
        assert len(await c.all(PODS)) == 1

    serve(case)


def test_the_last_responder_keeps_to_budgets_and_tries_again() -> None:
    async def case(c: Cluster) -> None:
        await run(c)
        uid = await a_pod(c)
        budget = {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "web", "namespace": "default"},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}},
        }
        await c.make(BUDGETS, budget)
        await c.later(1)
        await c.make(EVICTION_REQUESTS, request(uid))
        await c.later(30)
        assert len(await c.all(PODS)) == 1
        await c.api.delete(c.api.target(*BUDGETS, "default", "web"))
        await asyncio.sleep(0)
        await c.later(60)
        assert await c.all(PODS) == []

    serve(case)


def test_a_pod_that_is_recreated_under_its_name_is_not_touched() -> None:
    async def case(c: Cluster) -> None:
        await run(c)
        uid = await a_pod(c, COPY)
        await c.make(EVICTION_REQUESTS, request(uid))
        await c.later(1)
        await c.api.delete(c.api.target(*PODS, "default", "p"))
        await c.later(1)
        second = await a_pod(c, COPY)
        await c.later(10)
        assert [pod["metadata"]["uid"] for pod in await c.all(PODS)] == [second]
        (asked,) = await c.all(EVICTION_REQUESTS)
        assert condition(asked, "TargetEvicted") == ("True", "PodDeleted")

    serve(case)

"""Evictions and disruption budgets."""

from __future__ import annotations

from typing import Any

import pytest

from cotenant.drivers.kube.manifests.errors import ApiError

EVICTION = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}}


async def running_pod(server: Any, pod: Any, name: str = "p", ready: bool = True) -> None:
    made = await server.make(server.at("pods"), pod(name, nodeName="n1"))
    made["status"] = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True" if ready else "False"}]}
    await server.put(server.at("pods", name, sub="status"), made)


async def budget(server: Any, name: str = "b", spec: Any = None, **status: Any) -> None:
    at = server.at("poddisruptionbudgets", name, group="policy")
    made = await server.make(
        at,
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": name},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "a"}}, **(spec or {})},
        },
    )
    if status:
        made["status"] = status
        await server.put(server.at("poddisruptionbudgets", name, sub="status", group="policy"), made)


async def evict(server: Any) -> None:
    await server.make(server.at("pods", "p", sub="eviction"), dict(EVICTION))


def test_without_a_budget_the_pod_is_deleted_gracefully(serve: Any, pod: Any) -> None:
    async def case(server: Any) -> None:
        await running_pod(server, pod)
        await evict(server)
        found = await server.get(server.at("pods", "p"))
        assert found["metadata"]["deletionTimestamp"]
        target = next(c for c in found["status"]["conditions"] if c["type"] == "DisruptionTarget")
        assert target["reason"] == "EvictionByEvictionAPI"

    serve(case)


def test_an_unprocessed_budget_gives_429_with_retry_after(serve: Any, pod: Any) -> None:
    async def case(server: Any) -> None:
        await running_pod(server, pod)
        await budget(server)
        with pytest.raises(ApiError, match="would violate the pod's disruption budget") as caught:
            await evict(server)
        assert (caught.value.code, caught.value.reason) == (429, "TooManyRequests")
        assert caught.value.retry_after_s == 10
        assert caught.value.causes[0].reason == "DisruptionBudget"
        assert "is still being processed by the server" in caught.value.causes[0].message

    serve(case)


def test_an_exhausted_budget_refuses_the_eviction(serve: Any, pod: Any) -> None:
    async def case(server: Any) -> None:
        await running_pod(server, pod)
        await budget(server, observedGeneration=1, disruptionsAllowed=0, currentHealthy=1, desiredHealthy=1)
        with pytest.raises(ApiError) as caught:
            await evict(server)
        assert caught.value.code == 429
        assert caught.value.causes[0].message == "The disruption budget b needs 1 healthy pods and has 1 currently"

    serve(case)


def test_an_eviction_consumes_one_disruption(serve: Any, pod: Any) -> None:
    async def case(server: Any) -> None:
        await running_pod(server, pod)
        await budget(
            server,
            observedGeneration=1,
            disruptionsAllowed=1,
            currentHealthy=2,
            desiredHealthy=1,
            conditions=[{"type": "DisruptionAllowed", "status": "True", "reason": "SufficientPods", "message": ""}],
        )
        await evict(server)
        status = (await server.get(server.at("poddisruptionbudgets", "b", group="policy")))["status"]
        assert status["disruptionsAllowed"] == 0
        assert list(status["disruptedPods"]) == ["p"]
        assert status["conditions"][0]["status"] == "False"

    serve(case)


def test_a_pending_pod_is_evicted_whatever_the_budget(serve: Any, pod: Any) -> None:
    async def case(server: Any) -> None:
        await server.make(server.at("pods"), pod(nodeName="n1", terminationGracePeriodSeconds=0))
        await budget(server)
        await evict(server)
        with pytest.raises(ApiError, match="not found"):
            await server.get(server.at("pods", "p"))

    serve(case)


@pytest.mark.parametrize(
    ("spec", "healthy", "is_allowed"),
    [({}, 1, True), ({}, 0, False), ({"unhealthyPodEvictionPolicy": "AlwaysAllow"}, 0, True)],
)
def test_an_unready_pod_may_be_evicted_if_enough_are_healthy(
    serve: Any, pod: Any, spec: Any, healthy: int, is_allowed: bool
) -> None:
    async def case(server: Any) -> None:
        await running_pod(server, pod, ready=False)
        await budget(
            server, spec=spec, observedGeneration=1, disruptionsAllowed=0, currentHealthy=healthy, desiredHealthy=1
        )
        if is_allowed:
            await evict(server)
        else:
            with pytest.raises(ApiError):
                await evict(server)

    serve(case)


def test_two_budgets_for_one_pod_are_an_error(serve: Any, pod: Any) -> None:
    async def case(server: Any) -> None:
        await running_pod(server, pod)
        await budget(server)
        await budget(server, "b2")
        with pytest.raises(ApiError, match="more than one PodDisruptionBudget") as caught:
            await evict(server)
        assert caught.value.code == 500

    serve(case)

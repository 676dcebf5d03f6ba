from __future__ import annotations

import asyncio
import json
from collections.abc import Callable

import numpy as np
import pytest

from cotenant.drivers.kube.client.errors import Forbidden, Unavailable
from cotenant.drivers.kube.usage.sampling import SamplingPeriod, sample_use
from cotenant.model.assess.history import ClusterHistory
from cotenant.model.errors import InvalidInput


def pod(name: str, at: str, *cpu: str) -> dict[str, object]:
    containers = [{"name": str(i), "usage": {"cpu": text, "memory": "128Mi"}} for i, text in enumerate(cpu)]
    return {"metadata": {"name": name, "namespace": "ns"}, "timestamp": at, "containers": containers}


def node(at: str, cpu: str) -> dict[str, object]:
    return {"metadata": {"name": "n1"}, "timestamp": at, "usage": {"cpu": cpu, "memory": "2Gi"}}


def sampled(
    pods: Callable[[int], list[dict[str, object]]], watch: SamplingPeriod, slow_s: float = 0.0
) -> ClusterHistory:
    """Each tick's pods; one node. A tick takes `slow_s`."""
    clock = [100.0]
    asked = [0]

    async def ask(path: str) -> bytes:
        clock[0] += slow_s
        if path.endswith("/pods"):
            asked[0] += 1
            return json.dumps({"items": pods(asked[0] - 1)}).encode()
        assert path == "/apis/metrics.k8s.io/v1beta1/nodes"
        return json.dumps({"items": [node(f"t{asked[0]}", "1500m")]}).encode()

    async def sleep(pause_s: float) -> None:
        assert pause_s > 0
        clock[0] += pause_s

    return asyncio.run(sample_use(ask, watch, now=lambda: clock[0], sleep=sleep))


def test_a_watch_of_pods_that_come_and_go() -> None:
    def pods(tick: int) -> list[dict[str, object]]:
        found = [pod("a", f"t{tick}", "250m", "1500000n")]
        return [*found, pod("b", "x", "1")] if tick else found  # b is the same sample at the last two ticks

    found = sampled(pods, SamplingPeriod(90.0, 30.0))
    use = found.pods.use
    assert (use.names, use.start_s, use.step_s) == (("ns/a", "ns/b"), 100.0, 30.0)
    np.testing.assert_allclose(use.cpu_m, [[251.5] * 3, [np.nan, 1000, np.nan]])
    np.testing.assert_array_equal(use.memory_mib, [[256] * 3, [np.nan, 128, np.nan]])
    np.testing.assert_array_equal(found.nodes.cpu_m, [[1500] * 3])
    assert found.nodes.memory_mib[0, 0] == 2048
    assert "no daily peak, no back-test" in use.source
    assert found.faults == ()


def test_a_tick_that_fails_is_named_and_the_watch_goes_on() -> None:
    def pods(tick: int) -> list[dict[str, object]]:
        if tick == 1:
            raise Unavailable("the API server is away")
        return [pod("a", f"t{tick}", "1")]

    found = sampled(pods, SamplingPeriod(90.0, 30.0), slow_s=40.0)
    np.testing.assert_array_equal(found.pods.use.cpu_m, [[1000, np.nan, 1000]])
    assert found.faults == ("metrics.k8s.io: the API server is away",)


def test_an_api_that_may_not_be_read_ends_the_watch() -> None:
    asked: list[int] = []

    def pods(tick: int) -> list[dict[str, object]]:
        asked.append(tick)
        raise Forbidden("pods.metrics.k8s.io is forbidden", 403)

    found = sampled(pods, SamplingPeriod(90.0, 30.0))
    assert asked == [0]
    assert found.pods.use.names == ()
    assert found.pods.use.source == "No use was measured, so all figures are by requests."
    assert "forbidden" in found.faults[0]


def test_an_amount_that_is_none_is_named_and_the_others_count() -> None:
    found = sampled(lambda tick: [pod("a", "t", "much"), pod("b", "t", "1")], SamplingPeriod(30.0, 30.0))
    assert found.pods.use.names == ("ns/b",)
    assert "ns/a: cpu: much" in found.faults[0]


@pytest.mark.parametrize(("lasts_s", "period_s"), [(10.0, 30.0), (60.0, 0.0), (float("nan"), 1.0), (1e6, 1.0)])
def test_watches_that_cannot_be_are_refused(lasts_s: float, period_s: float) -> None:
    with pytest.raises(InvalidInput, match="--watch"):
        SamplingPeriod(lasts_s, period_s)


def test_containers_where_they_are_asked_for() -> None:
    found = sampled(lambda tick: [pod("a", f"t{tick}", "250m", "1")], SamplingPeriod(60.0, 30.0, by_container=True))
    assert found.pods.use.names == ("ns/a/0", "ns/a/1")
    assert found.pods.use.cpu_m.tolist() == [[250, 250], [1000, 1000]]

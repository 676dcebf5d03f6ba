"""The manager under faults: killed at any instant, two replicas, an API server that fails, nodes that leave, bad
ConfigMaps, clocks that are off.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from tests.fakes.processes.manager_process import amount_writes, configure, eventually, lent, managing, measure, seen
from tests.fakes.servers.fake_api import FakeApi

from cotenant.drivers.kube.client.client import Client
from cotenant.drivers.kube.leaderelection.election import Timing
from cotenant.drivers.kube.leaderelection.lease import LeaderElector
from cotenant.services.kube_process.leadership import Leadership

pytestmark = pytest.mark.slow


def _cluster(api: FakeApi, nodes: int = 1) -> None:
    configure(api)
    for i in range(nodes):
        api.node(f"n{i}", "100")
        measure(api, f"n{i}", 20_000)


def test_amounts_terms_and_objects_of_each_node_are_written() -> None:
    async def scenario() -> None:
        async with FakeApi() as api:
            _cluster(api, 3)
            async with managing(api):
                await eventually(lambda: all(lent(api, f"n{i}") == "40000" for i in range(3)))
                await eventually(lambda: len(api.objects["nodeslos"]) == 3)
                await eventually(lambda: "metricCollectPolicy" in api.objects["nodemetrics"]["n0"]["spec"])
                node = api.objects["nodes"]["n0"]
                assert '"value":40000' in node["metadata"]["annotations"]["cotenant.io/lent"]
                assert node["status"]["capacity"]["kubernetes.io/batch-cpu"] == "40000"

    asyncio.run(scenario())


@pytest.mark.parametrize("requests", [1, 3, 6, 8])
def test_a_manager_killed_at_any_instant_is_continued_by_the_next(requests: int) -> None:
    """Killed = every further request of it fails, and nothing of its memory remains."""

    async def scenario() -> None:
        async with FakeApi() as api:
            _cluster(api, 3)
            writes = 0

            def refuse(method: str, path: str) -> int:
                nonlocal writes
                writes += method in ("PATCH", "POST", "DELETE")
                return 500 if writes > requests else 0

            api.faults.refuse = refuse
            async with managing(api):
                await eventually(lambda: writes > requests)
            api.faults.refuse = lambda method, path: 0
            async with managing(api, identity="two"):
                await eventually(lambda: all(lent(api, f"n{i}") == "40000" for i in range(3)))
                await eventually(lambda: len(api.objects["nodeslos"]) == 3)

    asyncio.run(scenario())


def test_a_restart_writes_no_amount_that_stands() -> None:
    async def scenario() -> None:
        async with FakeApi() as api:
            _cluster(api, 3)
            async with managing(api):
                await eventually(lambda: all(lent(api, f"n{i}") == "40000" for i in range(3)))
            before = amount_writes(api)
            api.requests.clear()
            async with managing(api, identity="two") as second:
                await eventually(lambda: second.manager.totals()[1].get("lent") == 3)
                measure(api, "n0", 50_000)
                await eventually(lambda: lent(api, "n0") == "10000")
            assert before == 3
            assert amount_writes(api) == 1

    asyncio.run(scenario())


def test_of_two_managers_one_writes_and_the_other_takes_over() -> None:
    timing = Timing(60.0, 30.0, 0.1)  # it is given back, and no late renewal loses it

    def elected(identity: str):  # type: ignore[no-untyped-def]
        def make(client: Client) -> Leadership:
            return LeaderElector(client, "kube-system", "cotenant-manager", identity, timing)

        return make

    async def scenario() -> None:
        async with FakeApi() as api:
            _cluster(api)
            async with managing(api, elected("b"), "b") as second:
                await eventually(lambda: second.kube.leads)
                async with managing(api, elected("a"), "a") as first:
                    await eventually(lambda: lent(api, "n0") == "40000" and first.manager.explain("n0", 0.0))
                    assert not first.kube.leads
                    before = amount_writes(api)
                    measure(api, "n0", 50_000)
                    await eventually(lambda: lent(api, "n0") == "10000")
                    await eventually(lambda: first.manager.explain("n0", 0.0).lent["batch-cpu"] == 10_000)
                    assert amount_writes(api) == before + 1
            async with managing(api, elected("c"), "c"):
                measure(api, "n0", 20_000)
                await eventually(lambda: lent(api, "n0") == "40000")

    asyncio.run(scenario())


def test_an_api_server_that_fails_for_a_while_loses_nothing() -> None:
    async def scenario() -> None:
        async with FakeApi() as api:
            _cluster(api)
            async with managing(api):
                await eventually(lambda: lent(api, "n0") == "40000")
                await api.go()
                measure(api, "n0", 50_000)
                await api.come()
                await eventually(lambda: lent(api, "n0") == "10000", 20.0)

    asyncio.run(scenario())


def test_answers_that_are_lost_do_no_harm() -> None:
    async def scenario() -> None:
        async with FakeApi() as api:
            _cluster(api)
            lost = 0

            def lose(method: str, path: str) -> bool:
                nonlocal lost
                lost += method == "PATCH"
                return method == "PATCH" and lost <= 2

            api.faults.lose_answers = lose
            async with managing(api):
                await eventually(lambda: lent(api, "n0") == "40000" and lost >= 2)

    asyncio.run(scenario())


def test_a_bad_config_is_refused_with_field_and_value_in_an_event() -> None:
    async def scenario() -> None:
        async with FakeApi() as api:
            _cluster(api)
            async with managing(api):
                await eventually(lambda: lent(api, "n0") == "40000")
                configure(api, cpuReclaimThresholdPercent=700)
                await eventually(lambda: bool(api.events("ColocationCfgUnmarshalFailed")))
                (event,) = api.events("ColocationCfgUnmarshalFailed")
                assert "cpuReclaimThresholdPercent: 700" in (event.get("note") or event.get("message") or "")
                assert lent(api, "n0") == "40000"
                configure(api, cpuReclaimThresholdPercent=70)
                await eventually(lambda: lent(api, "n0") == "50000")

    asyncio.run(scenario())


def test_a_config_map_that_is_deleted_withdraws_as_its_defaults_say() -> None:
    async def scenario() -> None:
        async with FakeApi() as api:
            _cluster(api)
            async with managing(api):
                await eventually(lambda: lent(api, "n0") == "40000")
                api.drop("configmaps", "koordinator-system/slo-controller-config")
                await eventually(lambda: lent(api, "n0") is None)

    asyncio.run(scenario())


def test_a_node_that_leaves_takes_its_objects_with_it() -> None:
    async def scenario() -> None:
        async with FakeApi() as api:
            _cluster(api, 2)
            async with managing(api) as process:
                await eventually(lambda: len(api.objects["nodeslos"]) == 2)
                api.drop("nodes", "n1")
                await eventually(lambda: "n1" not in api.objects["nodeslos"])
                await eventually(lambda: "n1" not in api.objects["nodemetrics"])
                assert process.manager.nodes() == ("n0",)

    asyncio.run(scenario())


@pytest.mark.parametrize("hours", [-3, 3])
def test_an_agent_with_another_clock_is_measured_while_it_reports(hours: int) -> None:
    async def scenario() -> None:
        async with FakeApi() as api:
            configure(api)
            api.node("n0", "100")
            async with managing(api) as process:
                for i in range(2):
                    at = datetime.now(UTC) + timedelta(hours=hours, seconds=i)
                    measure(api, "n0", 20_000, at)
                    await eventually(lambda at=at: seen(process, "n0", at))
                await eventually(lambda: lent(api, "n0") == "40000")

    asyncio.run(scenario())


def test_a_stale_measurement_withdraws_and_a_fresh_one_lends_again() -> None:
    async def scenario() -> None:
        async with FakeApi() as api:
            _cluster(api)
            async with managing(api):
                await eventually(lambda: lent(api, "n0") == "40000")
            measure(api, "n0", 20_000, datetime.now(UTC) - timedelta(minutes=16))
            async with managing(api):
                await eventually(lambda: lent(api, "n0") is None)
                measure(api, "n0", 20_000)
                await eventually(lambda: lent(api, "n0") == "40000")

    asyncio.run(scenario())

"""The rebalancer process against an API server: a dry run writes nothing, options decide whether it acts, and its
metrics say so.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from tests.fakes.processes.manager_process import measure
from tests.fakes.servers.fake_api import FakeApi
from tests.fakes.waiting import soon
from tests.unit.services.rebalancer.test_planning import CONFIG, hot, node, pod

from cotenant.drivers.http.address import Address
from cotenant.drivers.kube.client.access import Access
from cotenant.drivers.kube.client.credentials import Credential, FixedCredential
from cotenant.model.errors import InvalidInput
from cotenant.services.autonomy.moves import MoveReceipts
from cotenant.services.kube_process.leadership import Alone
from cotenant.services.rebalancer.main import options_of
from cotenant.services.rebalancer.options import LISTEN
from cotenant.services.rebalancer.rebalancer_arguments import RunArguments, check
from cotenant.services.rebalancer.rebalancer_process import RebalancerProcess

ONE_ROUND = CONFIG.replace(
    "highThresholds: {cpu: 60}", "highThresholds: {cpu: 60}, anomalyCondition: {consecutiveAbnormalities: 1}"
)
ROOM = """
kind: DeschedulerConfiguration
dryRun: false
profiles:
- plugins: {balance: {enabled: [{name: Defragmentation}]}}
  pluginConfig:
  - {name: MigrationController, args: {skipCheckExpectedReplicas: true}}
"""


def test_a_dry_run_plans_and_writes_nothing(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(ONE_ROUND)
    options = options_of(RunArguments(config=tmp_path / "config.yaml"), Address("127.0.0.1", 0))
    assert not options.acts

    async def scenario() -> None:
        async with FakeApi() as api:
            await hot(api)
            access = Access(api.url, FixedCredential(Credential("")))
            process = RebalancerProcess(access, options, "one", lambda client: Alone())
            stop = asyncio.Event()
            running = asyncio.create_task(process.run(stop))
            try:
                await soon("a round", lambda: process.rounds.number > 0)
                assert process.rounds.planned == 1
                assert process.rounds.created == 0
                page = process.kube.metrics.page().decode()
            finally:
                stop.set()
                await running
            assert {method for method, _ in api.requests} == {"GET"}
            assert "cotenant_rebalancer_acting 0.0" in page
            assert "cotenant_rebalancer_planned_moves_total 1.0" in page
            assert 'cotenant_rebalancer_nodes{state="overloaded"} 1.0' in page

    asyncio.run(scenario())


def test_frozen_it_moves_nothing_and_thawed_it_does(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("dryRun: false" + ONE_ROUND)
    options = options_of(RunArguments(config=tmp_path / "config.yaml", interval_s=0.2), Address("127.0.0.1", 0))
    assert options.acts

    async def scenario() -> None:
        async with FakeApi() as api:
            await hot(api)
            api.put("autonomies", {"metadata": {"name": "freeze"}, "spec": {"freeze": {"why": "outage"}}})
            access = Access(api.url, FixedCredential(Credential("")))
            process = RebalancerProcess(access, options, "one", lambda client: Alone())
            stop = asyncio.Event()
            running = asyncio.create_task(process.run(stop))
            try:
                await soon("rounds", lambda: process.rounds.number > 1)
                assert process.rounds.planned >= 1
                assert {method for method, _ in api.requests} == {"GET"}
                api.drop("autonomies", "freeze")
                await soon("a job", lambda: process.rounds.created > 0)
            finally:
                stop.set()
                await running

    asyncio.run(scenario())


def test_below_approve_a_move_is_an_event_of_its_pod(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("dryRun: false" + ONE_ROUND)
    options = options_of(RunArguments(config=tmp_path / "config.yaml", interval_s=0.2), Address("127.0.0.1", 0))

    async def scenario() -> None:
        async with FakeApi() as api:
            await hot(api)
            api.put("autonomies", {"metadata": {"name": "low"}, "spec": {"ceiling": "suggest"}})
            access = Access(api.url, FixedCredential(Credential("")))
            process = RebalancerProcess(access, options, "one", lambda client: Alone())
            stop = asyncio.Event()
            running = asyncio.create_task(process.run(stop))
            try:
                await soon("an event", lambda: bool(api.events("MoveSuggested")))
            finally:
                stop.set()
                await running
            assert api.events("MoveSuggested")[0]["involvedObject"]["name"] == "p0"
            assert not any("podmigrationjobs" in path for method, path in api.requests if method != "GET")

    asyncio.run(scenario())


def test_in_mode_approve_a_job_waits_for_a_person(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("dryRun: false" + ONE_ROUND)
    arguments = RunArguments(config=tmp_path / "config.yaml", interval_s=0.2, mode="approve")
    options = options_of(arguments, Address("127.0.0.1", 0))
    kubeconfig = tmp_path / "kubeconfig"

    async def scenario() -> None:
        async with FakeApi() as api:
            await hot(api)
            cluster = {"clusters": [{"name": "c", "cluster": {"server": api.url}}], "current-context": "c"}
            users = {"users": [{"name": "u", "user": {}}], "contexts": [{"name": "c", "context": {"cluster": "c"}}]}
            kubeconfig.write_text(json.dumps({**cluster, **users}))
            access = Access(api.url, FixedCredential(Credential("")))
            process = RebalancerProcess(access, options, "one", lambda client: Alone())
            stop = asyncio.Event()
            running = asyncio.create_task(process.run(stop))
            try:
                await soon("a job", lambda: bool(process.migrations.jobs))
                (name,) = process.migrations.jobs
                first = process.rounds.number
                await soon("more rounds", lambda: process.rounds.number > first + 1)
                assert list(api.objects["podmigrationjobs"]) == [name], "one suggestion, not one a round"
                assert api.objects["podmigrationjobs"][name]["spec"]["paused"] is True
                receipts = MoveReceipts(kubeconfig)
                (waits,) = await asyncio.to_thread(receipts.all)
                assert (waits.suggested, waits.allowed_by) == (True, "")
                await asyncio.to_thread(receipts.approve, name, "ada")
                (begun,) = await asyncio.to_thread(receipts.all)
                assert (begun.paused, begun.suggested, begun.allowed_by) == (False, True, "ada")
                await soon("it goes on", lambda: not process.migrations.jobs[name].paused)
                with pytest.raises(InvalidInput, match="waits for approval"):
                    await asyncio.to_thread(receipts.approve, name, "eve")
                with pytest.raises(InvalidInput, match="a move"):
                    await asyncio.to_thread(receipts.approve, "other", "eve")
            finally:
                stop.set()
                await running

    asyncio.run(scenario())


def test_room_is_marked_on_the_pod_that_waits_before_a_job_is_created(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(ROOM)
    options = options_of(RunArguments(config=tmp_path / "config.yaml"), Address("127.0.0.1", 0))

    async def scenario(refused: bool) -> None:
        async with FakeApi() as api:
            for name, use_m in (("a", 8000), ("b", 0)):
                node(api, name)
                measure(api, name, use_m)
                api.objects["nodemetrics"][name]["status"]["podsMetric"] = []
            pod(api, "p0", "a", 2000)
            for name, on, cpu in (("big", "", "10"), ("fills", "b", "9")):
                requests = {"requests": {"cpu": cpu, "memory": "1Gi"}}
                spec = {"schedulerName": "cotenant", "containers": [{"name": "c", "resources": requests}]}
                phase = {"phase": "Running" if on else "Pending"}
                api.put(
                    "pods",
                    {
                        "metadata": {"name": name, "namespace": "default", "creationTimestamp": "2026-01-01T00:00:00Z"},
                        "spec": {**spec, **({"nodeName": on} if on else {})},
                        "status": phase,
                    },
                )
            if refused:
                api.faults.refuse = lambda method, path: (
                    403 if (method, path.rpartition("/")[2]) == ("PATCH", "big") else 0
                )
            access = Access(api.url, FixedCredential(Credential("")))
            process = RebalancerProcess(access, options, "one", lambda client: Alone())
            stop = asyncio.Event()
            running = asyncio.create_task(process.run(stop))
            try:
                await soon("a round", lambda: process.rounds.number > 0 and bool(process.rounds.created or refused))
                await soon("writes", lambda: any(method in ("POST", "PATCH") for method, _ in api.requests))
                if not refused:
                    await soon(
                        "a job",
                        lambda: any(method == "POST" and "podmigrationjobs" in path for method, path in api.requests),
                    )
            finally:
                stop.set()
                await running
            (room,) = process.rounds.last.rooms if process.rounds.last is not None else ()
            uid = api.objects["pods"]["default/p0"]["metadata"]["uid"]
            assert (room.pod, room.node, room.pods) == ("default/big", "a", (uid,))
            writes = [(method, path.rpartition("/")[2]) for method, path in api.requests if method in ("POST", "PATCH")]
            assert writes[0] == ("PATCH", "big")
            assert process.rounds.created == (0 if refused else 1)
            if not refused:
                written = api.objects["pods"]["default/big"]["metadata"]["annotations"]["cotenant.io/expected-room"]
                assert '"node":"a"' in written

    for refused in (False, True):
        asyncio.run(scenario(refused))


def test_the_command_line_overrides_the_configuration(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("dryRun: false\ndeschedulingInterval: 30s\n" + CONFIG)
    assert options_of(RunArguments(config=config), LISTEN).acts
    assert not options_of(RunArguments(config=config, act=False), LISTEN).acts
    assert options_of(RunArguments(act=True), LISTEN).acts
    assert options_of(RunArguments(config=config), LISTEN).settings.acting.interval_s == 30.0
    changed = options_of(RunArguments(config=config, interval_s=5.0, watch_s=7.0), LISTEN).settings.acting
    assert (changed.interval_s, changed.migration.watch_s) == (5.0, 7.0)


@pytest.mark.parametrize("value", [0.0, -1.0, float("nan"), float("inf")])
def test_times_must_be_positive(value: float) -> None:
    with pytest.raises(InvalidInput, match="--interval-s"):
        check(RunArguments(interval_s=value))
    with pytest.raises(InvalidInput, match="--watch-s"):
        check(RunArguments(watch_s=value))


@pytest.mark.parametrize(("status", "counted"), [(0, "done"), (403, "refused"), (422, "refused"), (409, "conflict")])
def test_what_became_of_a_write_is_counted(status: int, counted: str, tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("dryRun: false" + ONE_ROUND)
    options = options_of(RunArguments(config=tmp_path / "config.yaml", interval_s=0.2), Address("127.0.0.1", 0))

    async def scenario() -> None:
        async with FakeApi() as api:
            await hot(api)
            api.faults.refuse = lambda method, path: (
                status if method == "POST" and path.endswith("podmigrationjobs") else 0
            )
            access = Access(api.url, FixedCredential(Credential("")))
            process = RebalancerProcess(access, options, "one", lambda client: Alone())
            stop = asyncio.Event()
            running = asyncio.create_task(process.run(stop))
            try:
                await soon("a write is answered", lambda: process.rounds.writes[counted])
                assert bool(process.migrations.jobs) is (counted == "done")
                if status:
                    assert {how for how, number in process.rounds.writes.items() if number} == {counted}
            finally:
                stop.set()
                await running

    asyncio.run(scenario())

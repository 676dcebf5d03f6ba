"""The scheduler and the extender are killed: `cotenant up` restarts them, and the cluster continues."""

from __future__ import annotations

import asyncio
import os
import random
import signal
from collections.abc import Iterator

import pytest
from bench.chaos import MEMBERS, a_round, children
from bench.kube.load import Server
from tests.e2e.manifests import bound_once, deployment, is_running
from tests.e2e.running import Client, Up, eventually, metric
from tests.fakes.waiting import patience

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    with Up(tmp_path_factory.mktemp("children") / "up", "--nodes", 10) as running:
        running.ready()
        yield running


@pytest.fixture(scope="module")
def api(up: Up) -> Client:
    return Client(up.kubeconfig)


def replaced(up: Up, name: str, pid: int) -> bool:
    return up.children().get(name, pid) != pid


def test_the_scheduler_killed_while_it_places(up: Up, api: Client) -> None:
    pods = api.namespace("place")
    since = api.get(pods)["metadata"]["resourceVersion"]
    wanted = 300
    scheduler = up.children()["scheduler"]
    api.create("/apis/apps/v1/namespaces/place/deployments", deployment("web", wanted))

    def bound() -> int:
        return sum("nodeName" in entry["spec"] for entry in api.items(pods))

    eventually("some are placed", lambda: bound() > 0)
    os.kill(scheduler, signal.SIGKILL)
    eventually("another is started", lambda: replaced(up, "scheduler", scheduler))
    eventually("all run", lambda: sum(map(is_running, api.items(pods))) == wanted, 60)
    found = api.items(pods)
    assert len(found) == wanted  # none had to be replaced, so no node was given more than it holds
    where = bound_once(api.changes(pods, since))
    assert where == {entry["metadata"]["uid"]: entry["spec"]["nodeName"] for entry in found}
    assert "scheduler ended with status -9" in up.said
    told = [entry for entry in api.items("/api/v1/namespaces/place/events") if entry["reason"] == "Scheduled"]
    assert len({entry["involvedObject"]["uid"] for entry in told}) == len(told)
    eventually(
        "it is ready, and counts", lambda: metric(up.page("scheduler"), "cotenant_scheduler_leading") == 1, away=True
    )


def test_parts_killed_and_paused_in_any_order_during_an_install_lose_nothing(up: Up, api: Client) -> None:
    """The short form of `python -m bench.chaos`: quotas, a gang and deployments are created meanwhile; without
    moves, which need a rebalancer.
    """
    found = asyncio.run(
        a_round(
            Server.of(up.kubeconfig),
            lambda: children(up.pid),
            random.Random(7),
            "chaos",
            deployments=3,
            replicas=10,
            kills=3,
            pause_s=0.5,
            within_s=patience(90.0),
            moves=False,
        )
    )
    assert found["pods"] == 3 * 10 + MEMBERS + 1
    assert sum(count for name, count in found.items() if name.startswith(("kill", "pause"))) == 3


def test_the_extender_killed(up: Up) -> None:
    extender = up.children()["extender"]
    os.kill(extender, signal.SIGKILL)
    eventually("another is started", lambda: replaced(up, "extender", extender))
    taken = 'cotenant_extender_reports_total{outcome="taken"}'
    eventually("nodes report to it", lambda: metric(up.page("extender"), taken) >= 10, 40, away=True)
    assert "extender ended with status -9" in up.said

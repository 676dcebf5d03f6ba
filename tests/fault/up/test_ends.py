"""`cotenant up` ends by a signal or is killed: no acknowledged write is lost, no child is left, and the next start
continues.
"""

from __future__ import annotations

import signal
import threading
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.manifests import deployment, is_running, job
from tests.e2e.running import AWAY, Client, Refused, Up, eventually, is_alive
from tests.fakes.waiting import patience

from cotenant_local.apiserver.storage.sqlite import Database

pytestmark = pytest.mark.slow

CONFIGS = "/api/v1/namespaces/busy/configmaps"


class Writers:
    """Threads that write until the server is gone, and record what it acknowledged: resourceVersion by name."""

    def __init__(self, api: Client) -> None:
        self.acknowledged: dict[str, int] = {}
        self._api = api
        self._threads = [threading.Thread(target=self._write, args=(i,), daemon=True) for i in range(4)]
        for thread in self._threads:
            thread.start()

    def join(self) -> None:
        for thread in self._threads:
            thread.join(patience(30))
            assert not thread.is_alive()

    def _write(self, me: int) -> None:
        at = 0
        while True:
            at += 1
            name = f"c{me}-{at}"
            try:
                made = self._api.create(CONFIGS, {"metadata": {"name": name}, "data": {"x": "y" * 500}})
            except (*AWAY, Refused):
                return
            self.acknowledged[name] = int(made["metadata"]["resourceVersion"])


def run_of(entry: Any) -> tuple[str, str, str, int]:
    """What must not change while a pod keeps running."""
    status = entry["status"]
    (container,) = status["containerStatuses"]
    return entry["spec"]["nodeName"], status["startTime"], str(container["state"]), container["restartCount"]


def test_kill_9_in_the_middle_of_writes(tmp_path: Path) -> None:
    directory = tmp_path / "up"
    up = Up(directory, "--nodes", 5, console=True)
    api = up.ready()
    pods = api.namespace("busy")
    deployments = "/apis/apps/v1/namespaces/busy/deployments"
    api.create(deployments, deployment("web", 4))
    api.create("/apis/batch/v1/namespaces/busy/jobs", job("long", 1, 86_400))
    before = eventually(
        "all run", lambda: found if len(found := [p for p in api.items(pods) if is_running(p)]) == 5 else None
    )
    writers = Writers(api)
    eventually("writes are under way", lambda: len(writers.acknowledged) > 100)
    children = up.kill()
    assert sorted(children) == ["console", "extender", "scheduler"]
    writers.join()
    assert len(writers.acknowledged) > 100
    eventually("the children die with it", lambda: not any(map(is_alive, children.values())), 15)

    with Up(directory, "--nodes", 5) as second:
        api = second.ready()
        kept = {entry["metadata"]["name"]: entry for entry in api.items(CONFIGS)}
        for name, version in writers.acknowledged.items():
            assert int(kept[name]["metadata"]["resourceVersion"]) == version
            assert len(kept[name]["data"]["x"]) == 500
        newest = max(int(entry["metadata"]["resourceVersion"]) for entry in kept.values())
        made = api.create(CONFIGS, {"metadata": {"name": "after"}})
        assert int(made["metadata"]["resourceVersion"]) > newest
        after = {entry["metadata"]["uid"]: entry for entry in api.items(pods)}
        for entry in before:
            assert run_of(after[entry["metadata"]["uid"]]) == run_of(entry)
        assert len(after) == len(before)
        api.patch(f"{deployments}/web", {"spec": {"replicas": 6}})
        eventually(
            "the deployment grows", lambda: api.get(f"{deployments}/web")["status"].get("readyReplicas") == 6, 40
        )
        uids = {entry["metadata"]["uid"] for entry in api.items(pods)}
        assert {entry["metadata"]["uid"] for entry in before} <= uids
        assert second.end(signal.SIGINT) == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_in_order(tmp_path: Path, number: signal.Signals) -> None:
    directory = tmp_path / "up"
    with Up(directory, "--nodes", 5, console=True) as up:
        api = up.ready()
        api.namespace("busy")
        writers = Writers(api)
        eventually("writes are under way", lambda: len(writers.acknowledged) > 20)
        assert len(up.children()) == 3
        assert up.end(number) == 0  # in time, and no child is left
        writers.join()
        assert "Traceback" not in up.said
        for log in (directory / "logs").iterdir():
            assert "Traceback" not in log.read_text(), log.name
    database = Database(directory)  # no process holds its lock
    try:
        found = {row.name: row.revision for row in database.rows() if row.resource == "/configmaps"}
        assert found.items() >= writers.acknowledged.items()
        assert database.revision() >= max(writers.acknowledged.values())
    finally:
        database.close()


def test_a_signal_while_it_starts(tmp_path: Path) -> None:
    up = Up(tmp_path / "up", "--nodes", 5)
    eventually("the children begin", lambda: len(up.children()) == 2 or up.process.poll() is not None, 180)
    assert up.end(signal.SIGTERM) == 0, up.said
    assert "Traceback" not in up.said
    Database(tmp_path / "up").close()


def test_kill_9_while_it_starts(tmp_path: Path) -> None:
    directory = tmp_path / "up"
    up = Up(directory, "--nodes", 5)
    eventually("a child begins", lambda: up.children() or up.process.poll() is not None, 180)
    children = up.kill()
    assert children
    eventually("the children die with it", lambda: not any(map(is_alive, children.values())), 15)
    with Up(directory, "--nodes", 5) as second:
        assert len(second.ready().items("/api/v1/nodes")) == 5

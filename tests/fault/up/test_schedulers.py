"""Several scheduler processes on one cluster: leader election, hand-over, and an API server that hangs or restarts."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.manifests import bound_once, node, pod
from tests.e2e.running import AWAY, ENVIRONMENT, Client, Story, Up, eventually
from tests.fakes.servers.ports import free_port
from tests.fakes.waiting import patience

pytestmark = pytest.mark.slow

LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
LEASE = f"{LEASES}/cotenant-scheduler"
RENEW_DEADLINE_S = 4.0
AWAY_S = RENEW_DEADLINE_S + 1.0


def election(lease_s: float, renew_deadline_s: float) -> tuple[str, ...]:
    return (
        *("--leader-elect-lease-s", str(lease_s)),
        *("--leader-elect-renew-deadline-s", str(renew_deadline_s)),
        *("--leader-elect-retry-s", "0.5"),
    )


ELECTION = election(6.0, RENEW_DEADLINE_S)
LEASE_S = 15.0  # of two: a machine that stands still for as long has another leader
OF_TWO = election(LEASE_S, 10.0)


class Scheduler:
    """One `cotenant scheduler`."""

    def __init__(self, kubeconfig: Path, log: Path, state: str, election: tuple[str, ...]) -> None:
        self.log = log
        words = (
            "scheduler",
            "--kubeconfig",
            str(kubeconfig),
            "--listen",
            "127.0.0.1:0",
            "--state-dir",
            state,
            *election,
        )
        with log.open("wb") as out:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "cotenant", *words], stdout=out, stderr=out, env=ENVIRONMENT
            )

    def listed(self) -> None:
        """Wait until it has listed the cluster."""
        eventually("it has listed", lambda: re.search(r"listed \d+ nodes", self.log.read_text()), 180)

    def holds(self, lease: Any) -> bool:
        return f"-{self.process.pid}-" in lease["spec"].get("holderIdentity", "")

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


@pytest.fixture
def scheduler(tmp_path: Path) -> Iterator[Callable[..., Scheduler]]:
    """Starts scheduler processes on this case's cluster."""
    started: list[Scheduler] = []

    def start(state: str = "", election: tuple[str, ...] = ELECTION) -> Scheduler:
        log = tmp_path / f"scheduler-{len(started)}.log"
        started.append(Scheduler(tmp_path / "up" / "kubeconfig", log, state, election))
        return started[-1]

    yield start
    for entry in started:
        entry.stop()


def new_cluster(tmp_path: Path, *options: object) -> tuple[Up, Client]:
    up = Up(tmp_path / "up", "--bare", *options)
    api = up.ready()
    for i in range(4):
        api.create("/api/v1/nodes", node(f"n{i}", 16))
    return up, api


def submit(api: Client, pods: str, names: list[str]) -> None:
    for name in names:
        api.create(pods, pod(name))


def placed(api: Client, pods: str) -> int:
    return sum("nodeName" in entry["spec"] for entry in api.items(pods))


def scheduled_once(api: Client, namespace: str) -> None:
    told = [e for e in api.items(f"/api/v1/namespaces/{namespace}/events") if e["reason"] == "Scheduled"]
    assert len({entry["involvedObject"]["uid"] for entry in told}) == len(told)
    assert all(entry.get("count", 1) == 1 for entry in told)


def _seconds(text: str) -> float:
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def leader(api: Client, among: list[Scheduler]) -> Scheduler | None:
    status, lease = api.exchange("GET", LEASE)
    return next((scheduler for scheduler in among if status == 200 and scheduler.holds(lease)), None)


def holders(api: Client, since: str, among: list[Scheduler]) -> list[Scheduler | None]:
    """Who has held the lease one after another; None where it was released."""
    found: list[Scheduler | None] = []
    for change in api.changes(LEASES, since):
        holder = next((scheduler for scheduler in among if scheduler.holds(change["object"])), None)
        if not found or found[-1] is not holder:
            found.append(holder)
    return found


def test_a_lone_replica_that_was_killed_leads_again_without_waiting_for_its_lease(
    tmp_path: Path, scheduler: Callable[..., Scheduler]
) -> None:
    """The lease lasts far longer than the case may take, so only its own identity lets it lead."""
    long = ("--leader-elect-lease-s", "600", "--leader-elect-renew-deadline-s", "500")
    up, api = new_cluster(tmp_path)
    with up:
        pods = api.namespace("work")
        first = scheduler(str(tmp_path / "state"), long)
        first.listed()
        submit(api, pods, ["a"])
        eventually("it places", lambda: placed(api, pods) == 1)
        before = api.get(LEASE)["spec"]
        first.stop()
        scheduler(str(tmp_path / "state"), long).listed()
        submit(api, pods, ["b"])
        eventually("its successor places", lambda: placed(api, pods) == 2)
        after = api.get(LEASE)["spec"]
        assert after["holderIdentity"] == before["holderIdentity"]
        assert after["leaseTransitions"] == before["leaseTransitions"]


def test_leadership_is_handed_over(tmp_path: Path, scheduler: Callable[..., Scheduler]) -> None:
    up, api = new_cluster(tmp_path)
    with up:
        pods = api.namespace("work")
        since = api.get(pods)["metadata"]["resourceVersion"]
        story = Story(api, pods, since)
        both = [scheduler(election=OF_TWO), scheduler(election=OF_TWO)]
        for entry in both:
            entry.listed()
        first = eventually("one leads", lambda: leader(api, both))
        second = both[1 - both.index(first)]
        submit(api, pods, [f"a{i}" for i in range(30)])
        eventually("it places", lambda: placed(api, pods) == 30)
        assert " leads" not in second.log.read_text()

        # Terminated in the middle of its work: it releases the lease, and the other one does not wait until it expires.
        submit(api, pods, [f"b{i}" for i in range(30)])
        first.process.send_signal(signal.SIGTERM)
        assert first.process.wait(patience(30)) == 0
        eventually("the other leads", lambda: leader(api, both) is second)
        assert holders(api, since, both) == [first, None, second]
        eventually("it places the rest", lambda: placed(api, pods) == 60)
        assert "gave up the lease" in first.log.read_text()
        story.so_far()

        # Killed: another one waits until the lease expires.
        third = scheduler(election=OF_TWO)
        third.listed()
        second.process.send_signal(signal.SIGKILL)
        second.process.wait()
        renewed = _seconds(api.get(LEASE)["spec"]["renewTime"])
        submit(api, pods, [f"c{i}" for i in range(30)])
        eventually("the third leads", lambda: leader(api, [third]))
        assert _seconds(api.get(LEASE)["spec"]["acquireTime"]) >= renewed + LEASE_S
        eventually("it places the rest", lambda: placed(api, pods) == 90)
        assert len(bound_once(story.so_far())) == 90
        scheduled_once(api, "work")


def test_an_api_server_that_hangs_and_restarts(tmp_path: Path, scheduler: Callable[..., Scheduler]) -> None:
    port = free_port()  # nobody gets it while the server is away
    up, api = new_cluster(tmp_path, "--port", port)
    try:
        pods = api.namespace("work")
        mine = scheduler()
        mine.listed()
        submit(api, pods, [f"a{i}" for i in range(10)])
        eventually("it places", lambda: placed(api, pods) == 10)
        since = api.get(pods)["metadata"]["resourceVersion"]

        # The server hangs: connections stay open, requests get no answer.
        submit(api, pods, [f"b{i}" for i in range(30)])
        up.process.send_signal(signal.SIGSTOP)
        time.sleep(AWAY_S)  # the fault itself: a hang that outlasts the renew deadline
        up.process.send_signal(signal.SIGCONT)
        eventually("it continues", lambda: placed(api, pods) == 40, 60)
        submit(api, pods, [f"c{i}" for i in range(10)])
        eventually("new ones too", lambda: placed(api, pods) == 50)
        assert len(bound_once(api.changes(pods, since))) >= 40
        where = {entry["metadata"]["uid"]: entry["spec"]["nodeName"] for entry in api.items(pods)}

        # The server is killed and restarts at the same address with the same objects.
        up.kill()
        with pytest.raises(AWAY):
            api.get(pods)
        up = Up(tmp_path / "up", "--bare", "--port", port)
        up.ready()
        submit(api, pods, [f"d{i}" for i in range(10)])
        eventually("it continues after the restart", lambda: placed(api, pods) == 60, 60)
        now = {entry["metadata"]["uid"]: entry["spec"]["nodeName"] for entry in api.items(pods)}
        assert now.items() >= where.items()
        assert mine.process.poll() is None
        scheduled_once(api, "work")
        mine.process.send_signal(signal.SIGTERM)
        assert mine.process.wait(patience(30)) == 0
        assert "Traceback" not in mine.log.read_text()
    finally:
        up.kill()

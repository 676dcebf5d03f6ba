"""Several schedulers that all act, as real processes: killed, stopped for longer than their Lease, and going on.

Whatever happens to them: no pod is bound twice, no node has more than it holds, no quota uses more than it may, and a
gang starts whole. The server keeps every version of a pod for the check. The second case is against a real API server.
"""

from __future__ import annotations

import json
import os
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.manifests import bound_once, node, pod
from tests.e2e.running import Client, Story, eventually
from tests.fault.up.test_schedulers import LEASES, Scheduler, new_cluster

pytestmark = pytest.mark.long

SHARDS = (
    *("--shards", "3"),
    *("--leader-elect-lease-s", "3"),
    *("--leader-elect-renew-deadline-s", "2"),
    *("--leader-elect-retry-s", "0.5"),
)
PODS = "/api/v1/namespaces/default/pods"
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
MARK = "cotenant.io/shard-evicts"
NODES, SLOTS = 12, 8
REAL = os.environ.get("COTENANT_TEST_KUBECONFIG", "")


def table(api: Client) -> dict[str, Any]:
    status, lease = api.exchange("GET", f"{LEASES}/cotenant-scheduler-shards")
    return json.loads(lease["metadata"]["annotations"]["cotenant.io/shards"]) if status == 200 else {}


def is_settled(api: Client, members: int) -> bool:
    found = table(api)
    return (
        bool(found)
        and len(found["members"]) == members
        and not found["lost"]
        and all(member[3] == found["rings"][-1][0] for member in found["members"])
    )


def shard_pod(name: str, gang: str = "", of: int = 0) -> dict[str, Any]:
    """A pod of a whole CPU, so that a node holds `SLOTS`."""
    made = pod(name)
    made["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1", "memory": "1Mi"}}
    made["spec"]["terminationGracePeriodSeconds"] = 0  # who is evicted is gone, where there are no kubelets either
    if gang:
        made["metadata"].setdefault("labels", {})["pod-group.scheduling.sigs.k8s.io"] = gang
        made["metadata"].setdefault("annotations", {}).update(
            {"gang.scheduling.koordinator.sh/name": gang, "gang.scheduling.koordinator.sh/min-available": str(of)}
        )
    return made


def full_nodes(api: Client) -> Counter[str]:
    return Counter(one["spec"]["nodeName"] for one in api.items(PODS) if "nodeName" in one["spec"])


Start = Callable[[Path], Scheduler]


@pytest.fixture
def shards(tmp_path: Path) -> Iterator[Start]:
    """Starts shards; what still runs at the end is killed."""
    started: list[Scheduler] = []

    def start(kubeconfig: Path) -> Scheduler:
        log = tmp_path / f"shard-{len(started)}.log"
        started.append(Scheduler(kubeconfig, log, "", SHARDS))
        return started[-1]

    yield start
    for entry in started:
        if entry.process.poll() is None:
            entry.process.send_signal(signal.SIGCONT)
        entry.stop()


def test_killed_and_stopped_shards(tmp_path: Path, shards: Start) -> None:
    up, api = new_cluster(tmp_path)
    with up:
        for number in range(4, NODES):
            api.create("/api/v1/nodes", node(f"n{number}", SLOTS))
        trouble(api, up.kubeconfig, shards)


def test_killed_and_stopped_shards_of_a_real_api_server(shards: Start) -> None:
    if not REAL:
        pytest.skip("no real API server: COTENANT_TEST_KUBECONFIG names one, to throw away")
    api = Client(Path(REAL))
    for number in range(NODES):
        api.create("/api/v1/nodes", node(f"n{number}", 16 if number < 4 else SLOTS))
        api.patch(f"/api/v1/nodes/n{number}", {"spec": {"taints": None}})  # no node controller takes it away
    trouble(api, Path(REAL), shards)


def trouble(api: Client, kubeconfig: Path, start: Start) -> None:
    """Three shards; one is killed and one stopped while pods arrive; both come back; then room is scarce."""
    story = Story(api, PODS, api.get(PODS)["metadata"]["resourceVersion"])
    running = [start(kubeconfig) for _ in range(3)]
    for one in running:
        one.listed()
    eventually("three shards agree", lambda: is_settled(api, 3), 60)
    room = 4 * 16 + (NODES - 4) * SLOTS
    for number in range(room // 2):
        api.create(PODS, shard_pod(f"first-{number}"))
    eventually("the first half is placed", lambda: sum(full_nodes(api).values()) == room // 2, 120)
    story.so_far()

    running[0].process.kill()
    running[1].process.send_signal(signal.SIGSTOP)
    for gang in range(3):
        for member in range(4):
            api.create(PODS, shard_pod(f"gang-{gang}-{member}", f"gang-{gang}", 4))
    for number in range(room // 2 - 12):
        api.create(PODS, shard_pod(f"second-{number}"))
    eventually("one shard is left in the ring", lambda: is_settled(api, 1), 120)
    eventually("the only shard fills every node", lambda: sum(full_nodes(api).values()) == room, 120)
    story.so_far()
    running[1].process.send_signal(signal.SIGCONT)
    eventually("the stopped shard is in the ring again", lambda: is_settled(api, 2), 120)
    running.append(start(kubeconfig))
    eventually("a third joins", lambda: is_settled(api, 3), 300)
    story.so_far()
    within_room(api)

    for number in range(40):  # all nodes are full: what becomes free is used by whoever's pod waits
        api.create(PODS, shard_pod(f"third-{number}"))
    for number in range(40):
        api.delete(f"{PODS}/first-{number}?gracePeriodSeconds=0")
    eventually("all of the third are placed", lambda: sum(full_nodes(api).values()) == room, 180)
    within_room(api)
    assert len(bound_once(story.so_far())) == room + 40
    evicted(api, story, room)


def evicted(api: Client, story: Story, room: int) -> None:
    """Pods that come first find no room: as many others leave, and each was marked by its shard before."""
    api.create(CLASSES, {"metadata": {"name": "urgent"}, "value": 1000})
    before = {one["metadata"]["uid"] for one in api.items(PODS)}
    for number in range(6):
        one = shard_pod(f"urgent-{number}")
        one["spec"]["priorityClassName"] = "urgent"
        api.create(PODS, one)

    def urgent() -> list[Any]:
        return [one for one in api.items(PODS) if one["spec"].get("priorityClassName") == "urgent"]

    eventually("the urgent ones are placed", lambda: all("nodeName" in one["spec"] for one in urgent()), 120)
    left = before - {one["metadata"]["uid"] for one in api.items(PODS)}
    versions = [change["object"]["metadata"] for change in story.so_far()]
    assert len(left) >= 6
    assert left <= {meta["uid"] for meta in versions if MARK in meta.get("labels", {})}
    within_room(api)
    assert sum(full_nodes(api).values()) <= room


def within_room(api: Client) -> None:
    """No node holds more pods than CPUs, although no server looked at that."""
    held = full_nodes(api)
    assert all(held[f"n{number}"] <= (16 if number < 4 else SLOTS) for number in range(NODES)), held

"""Four shards and one quota, most of whose pods find no room on the nodes of the shard that decides for the quota, so
that the others are lent room of it. While it is lent, one that has some is killed, one is stopped for longer than its
Lease, and then the shard of the quota itself is killed; the stopped one goes on later, with what it had under way.

Gangs of another quota of the same tree, one of which nobody may preempt, arrive with the first kill.

Each version of a pod that the server stored is judged: the quota is never overrun, no node either, and no pod has two
nodes. At the end all of the quota is used again, every gang is whole, and nothing is lent for nothing. The second case
is against a real API server.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.manifests import node
from tests.e2e.running import Client, Story, eventually
from tests.fault.up.test_schedulers import LEASES, Scheduler, new_cluster
from tests.fault.up.test_shard_storm import (
    NODES,
    PREFIX,
    QUOTA,
    QUOTAS,
    SHARDS,
    SLOTS,
    install_quota,
    is_of_quota,
    judge,
    quota,
)
from tests.fault.up.test_shards import PODS, REAL, is_settled, shard_pod, table

from cotenant.policy.sharding.rendezvous import owner

pytestmark = pytest.mark.long

MAY_USE = 72  # of 96; a shard's own nodes and what it can borrow are fewer
WAITING = 30
GANGS, MEMBERS, TEAMS = 3, 4, "teams"


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as made:
        yield made


def test_a_quota_over_shards(tmp_path: Path, stack: ExitStack) -> None:
    up, api = new_cluster(tmp_path)
    with up:
        for number in range(4):
            api.delete(f"/api/v1/nodes/n{number}")
        with stack:
            trouble(api, up.kubeconfig, tmp_path, stack)


def test_a_quota_over_shards_of_a_real_api_server(tmp_path: Path, stack: ExitStack) -> None:
    if not REAL:
        pytest.skip("no real API server: COTENANT_TEST_KUBECONFIG names one, to throw away")
    with stack:
        trouble(Client(Path(REAL)), Path(REAL), tmp_path, stack)


def trouble(api: Client, kubeconfig: Path, folder: Path, stack: ExitStack) -> None:
    """See the module."""
    install_quota(api, MAY_USE, more=GANGS * MEMBERS)
    api.create(QUOTAS, quota(TEAMS, {"parent": "all"}, GANGS * MEMBERS))
    for number in range(NODES):
        api.create("/api/v1/nodes", node(f"s{number}", SLOTS))
        api.patch(f"/api/v1/nodes/s{number}", {"spec": {"taints": None}})  # no node controller takes it away
    pods = Story(api, PODS, api.get(PODS)["metadata"]["resourceVersion"])
    leases = Story(api, LEASES, api.get(LEASES)["metadata"]["resourceVersion"])
    shards: list[Scheduler] = []

    def start() -> None:
        made = Scheduler(kubeconfig, folder / f"shard-{len(shards)}.log", "", SHARDS)
        shards.append(made)
        stack.callback(_end, made)

    for _ in range(4):
        start()
    for replica in shards:
        replica.listed()
    eventually("four shards agree", lambda: is_settled(api, 4), 180)
    lender = owner(f"quota:{QUOTA}", range(4))

    for number in range(MAY_USE + WAITING):
        api.create(PODS, of_quota(f"first-{number}"))
    eventually("others have room of the quota", lambda: bool(borrowers(leases.so_far())), 180)
    theirs = sorted(borrowers(leases.so_far()))
    killed = theirs[0]
    stopped = next(slot for slot in (*theirs[1:], *range(4)) if slot not in (killed, lender))
    for number in range(GANGS * MEMBERS):
        api.create(PODS, of_gang(number % GANGS, number // GANGS))
    of_slot(api, shards, killed).process.kill()
    asleep = of_slot(api, shards, stopped)
    asleep.process.send_signal(signal.SIGSTOP)
    for number in range(WAITING):
        api.create(PODS, of_quota(f"second-{number}"))
    eventually("two shards are left in the ring", lambda: is_settled(api, 2), 240)
    eventually("all of the quota is used", lambda: used(api) == MAY_USE, 300)
    eventually("every gang is whole", lambda: in_gangs(api) == [MEMBERS] * GANGS, 300)
    judge(pods.so_far(), MAY_USE)

    for number in range(MAY_USE + WAITING):  # whoever runs of these ends: others wait, with whatever shard
        api.delete(f"{PODS}/first-{number}?gracePeriodSeconds=0")
    of_slot(api, shards, lender).process.kill()
    asleep.process.send_signal(signal.SIGCONT)
    start()
    for number in range(MAY_USE):
        api.create(PODS, of_quota(f"third-{number}"))
    eventually("three shards agree", lambda: is_settled(api, 3), 300)
    eventually("all of the quota is used again", lambda: used(api) == MAY_USE, 300)
    judge(pods.so_far(), MAY_USE)
    for one in api.items(PODS):
        if "nodeName" not in one["spec"]:
            api.delete(f"{PODS}/{one['metadata']['name']}?gracePeriodSeconds=0")
    eventually("nothing is lent any more", lambda: not table(api).get("rooms"), 240)
    assert used(api) == MAY_USE
    assert in_gangs(api) == [MEMBERS] * GANGS


def _end(replica: Scheduler) -> None:
    if replica.process.poll() is None:
        replica.process.send_signal(signal.SIGCONT)
    replica.stop()


def of_quota(name: str) -> dict[str, Any]:
    """A pod of no workload: each has a shard of its own."""
    made = shard_pod(name)
    made["metadata"].setdefault("labels", {})[PREFIX + "name"] = QUOTA
    return made


def of_gang(gang: int, number: int) -> dict[str, Any]:
    """A member; nobody may preempt those of the first gang."""
    made = shard_pod(f"team-{gang}-{number}", f"team-{gang}", MEMBERS)
    made["metadata"]["labels"] |= {PREFIX + "name": TEAMS} | ({PREFIX + "preemptible": "false"} if not gang else {})
    return made


def in_gangs(api: Client) -> list[int]:
    """How many of each gang run."""
    placed = [one["metadata"]["name"] for one in api.items(PODS) if "nodeName" in one["spec"]]
    return [sum(name.startswith(f"team-{gang}-") for name in placed) for gang in range(GANGS)]


def of_slot(api: Client, shards: list[Scheduler], slot: int) -> Scheduler:
    """The process that has a slot."""
    (identity,) = [member[1] for member in table(api)["members"] if member[0] == slot]
    (found,) = [one for one in shards if f"-{one.process.pid}-" in identity]
    return found


def borrowers(told: list[Any]) -> set[int]:
    """Slots that had room of the quota, in any version of the table."""
    found: set[int] = set()
    for event in told:
        text = event["object"]["metadata"].get("annotations", {}).get("cotenant.io/shards", "")
        if text:
            found |= {slot for _, slot, is_lent, *_ in json.loads(text).get("rooms", ()) if is_lent}
    return found


def used(api: Client) -> int:
    return sum("nodeName" in one["spec"] and is_of_quota(one) for one in api.items(PODS))

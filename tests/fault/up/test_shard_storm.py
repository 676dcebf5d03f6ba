"""Four shards while pods arrive: one is killed, one stopped for longer than its Lease, and one cut off from the server,
first of what it sends, then of everything; these two go on later, with what they had under way.

The server keeps every version of a pod, and each version is judged: no pod has two nodes, no node more than it holds,
no quota more than it may use; at the end every gang is whole. The second case is against a real API server.
"""

from __future__ import annotations

import json
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml
from tests.e2e.manifests import node
from tests.e2e.running import Client, Story, eventually
from tests.fakes.servers.cable import Cable, cable
from tests.fault.up.test_schedulers import Scheduler, new_cluster
from tests.fault.up.test_shards import PODS, REAL, is_settled, shard_pod

from cotenant.drivers.kube.kinds.custom.definitions import manifests

pytestmark = pytest.mark.long

SHARDS = (
    *("--shards", "4"),
    *("--leader-elect-lease-s", "3"),
    *("--leader-elect-renew-deadline-s", "2"),
    *("--leader-elect-retry-s", "0.5"),
)
NODES, GANG_NODES, SLOTS = 12, 4, 8
GANGS, MEMBERS = 3, 4
QUOTA, MAY_USE = "storm", 6
FIRST, SECOND, URGENT = 30, 34, 40
FULL = (NODES - GANG_NODES) * SLOTS + GANGS * MEMBERS + MAY_USE
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
QUOTAS = "/apis/scheduling.sigs.k8s.io/v1alpha1/namespaces/default/elasticquotas"
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
PREFIX = "quota.scheduling.koordinator.sh/"


class Shards:
    """The replicas, each behind a cable of its own."""

    def __init__(self, kubeconfig: Path, folder: Path, stack: ExitStack) -> None:
        self._kubeconfig = yaml.safe_load(kubeconfig.read_text())
        self._cluster = self._kubeconfig["clusters"][0]["cluster"]
        self._server = urlsplit(self._cluster["server"])
        self._folder, self._stack = folder, stack
        self.replicas: list[Scheduler] = []
        self.cables: list[Cable] = []

    def start(self) -> Scheduler:
        number, host, port = len(self.replicas), self._server.hostname, self._server.port
        assert host
        assert port
        made = self._stack.enter_context(cable(host, port))
        self._cluster["server"] = f"https://{host}:{made.port}"
        config = self._folder / f"shard-{number}.yaml"
        config.write_text(yaml.safe_dump(self._kubeconfig))
        self.cables.append(made)
        replica = Scheduler(config, self._folder / f"shard-{number}.log", "", SHARDS)
        self.replicas.append(replica)
        self._stack.callback(_end, replica)
        return replica


def _end(replica: Scheduler) -> None:
    if replica.process.poll() is None:
        replica.process.send_signal(signal.SIGCONT)
    replica.stop()


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as made:
        yield made


def test_a_storm(tmp_path: Path, stack: ExitStack) -> None:
    up, api = new_cluster(tmp_path)
    with up:
        for number in range(4):
            api.delete(f"/api/v1/nodes/n{number}")
        with stack:
            storm(api, Shards(up.kubeconfig, tmp_path, stack))


def test_a_storm_at_a_real_api_server(tmp_path: Path, stack: ExitStack) -> None:
    if not REAL:
        pytest.skip("no real API server: COTENANT_TEST_KUBECONFIG names one, to throw away")
    with stack:
        storm(Client(Path(REAL)), Shards(Path(REAL), tmp_path, stack))


def storm(api: Client, shards: Shards) -> None:
    """See the module."""
    install(api)
    for number in range(NODES):
        made = node(f"s{number}", SLOTS)
        made["metadata"]["labels"]["pool"] = "gangs" if number < GANG_NODES else "plain"
        api.create("/api/v1/nodes", made)
        api.patch(f"/api/v1/nodes/s{number}", {"spec": {"taints": None}})  # no node controller takes it away
    story = Story(api, PODS, api.get(PODS)["metadata"]["resourceVersion"])
    for _ in range(4):
        shards.start()
    for replica in shards.replicas:
        replica.listed()
    eventually("four shards agree", lambda: is_settled(api, 4), 120)

    killed, stopped, cut, _ = shards.replicas
    for number in range(FIRST):
        api.create(PODS, of_pool("plain", shard_pod(f"first-{number}")))
    killed.process.kill()
    stopped.process.send_signal(signal.SIGSTOP)
    shards.cables[2].hold_requests()  # it hears of the pods below, and what it decides is on its way until the end
    for number in range(SECOND):
        api.create(PODS, of_pool("plain", shard_pod(f"second-{number}")))
    for number in range(MAY_USE):
        api.create(PODS, of_quota(shard_pod(f"quota-{number}")))
    for number in range(GANGS * MEMBERS):
        gang = f"gang-{number % GANGS}"
        api.create(PODS, of_pool("gangs", shard_pod(f"{gang}-{number // GANGS}", gang, MEMBERS)))
    # Whoever takes over places these first, so that what is still on its way would be too much.
    for number in range(MAY_USE):
        api.create(PODS, urgent(of_quota(shard_pod(f"urgent-quota-{number}"))))
    for number in range(URGENT):
        api.create(PODS, urgent(of_pool("plain", shard_pod(f"urgent-{number}"))))
    eventually("one shard is left in the ring", lambda: is_settled(api, 1), 180)
    shards.cables[2].cut()
    eventually("it fills all that may be filled", lambda: placed(api) == FULL, 180)
    story.so_far()

    assert cut.process.poll() is None
    shards.cables[2].mend()
    stopped.process.send_signal(signal.SIGCONT)
    eventually("both are in the ring again", lambda: is_settled(api, 3), 180)
    shards.start()
    eventually("a fourth joins", lambda: is_settled(api, 4), 300)
    story.so_far()

    for number in range(20):  # what becomes free is used by whoever's pod waits
        api.create(PODS, of_pool("plain", shard_pod(f"third-{number}")))
    for number in range(20):
        api.delete(f"{PODS}/first-{number}?gracePeriodSeconds=0")
    gone = {f"first-{number}" for number in range(20)}
    eventually("they are gone", lambda: not gone & {one["metadata"]["name"] for one in api.items(PODS)}, 60)
    eventually("all is full again", lambda: placed(api) == FULL, 240)
    judge(story.so_far())
    there = api.items(PODS)
    for gang in range(GANGS):
        assert sum("nodeName" in one["spec"] for one in there if of_gang(one) == f"gang-{gang}") == MEMBERS
    assert sum("nodeName" in one["spec"] for one in there if is_of_quota(one)) == MAY_USE


def urgent(made: dict[str, Any]) -> dict[str, Any]:
    made["spec"]["priorityClassName"] = "urgent"
    return made


def of_quota(made: dict[str, Any]) -> dict[str, Any]:
    made["metadata"]["labels"][PREFIX + "name"] = QUOTA
    return of_pool("gangs", made)


def of_pool(pool: str, made: dict[str, Any]) -> dict[str, Any]:
    """Gangs and the quota have nodes with room for all of them; plain pods are more than their nodes hold."""
    made["spec"]["nodeSelector"] = {"pool": pool}
    return made


def install(api: Client) -> None:
    """A quota of six cores, and a class that comes first and evicts nobody."""
    install_quota(api, MAY_USE)
    api.create(CLASSES, {"metadata": {"name": "urgent"}, "value": 1000, "preemptionPolicy": "Never"})


def install_quota(api: Client, cores: int, more: int = 0) -> None:
    """A quota, whose kind a real server does not have, in a tree that divides as much, and so much more."""
    definitions = {plural: yaml.load(text, Loader=yaml.CSafeLoader) for plural, text in manifests()}
    status, _ = api.exchange("POST", CRDS, definitions["elasticquotas"])
    assert status in (201, 409), status
    eventually("quotas are served", lambda: api.exchange("GET", QUOTAS)[0] == 200, 60)
    labels = {"is-parent": "true", "is-root": "true", "tree-id": QUOTA}
    api.create(QUOTAS, quota("all", labels, cores + more))
    api.create(QUOTAS, quota(QUOTA, {"parent": "all"}, cores))


def quota(name: str, labels: dict[str, str], cores: int = MAY_USE) -> dict[str, Any]:
    """One of so many cores; a tree's root has as much to divide."""
    amounts = {"cpu": str(cores), "memory": "1Gi"}
    meta: dict[str, Any] = {"name": name, "labels": {PREFIX + key: value for key, value in labels.items()}}
    if "is-root" in labels:
        meta["annotations"] = {PREFIX + "total-resource": json.dumps(amounts)}
    spec = {"min": amounts, "max": amounts}
    return {"apiVersion": "scheduling.sigs.k8s.io/v1alpha1", "kind": "ElasticQuota", "metadata": meta, "spec": spec}


def placed(api: Client) -> int:
    return sum("nodeName" in one["spec"] for one in api.items(PODS))


def of_gang(one: Any) -> str:
    return str(one["metadata"]["labels"].get("pod-group.scheduling.sigs.k8s.io", ""))


def is_of_quota(one: Any) -> bool:
    return bool(one["metadata"]["labels"].get(PREFIX + "name") == QUOTA)


def judge(told: list[Any], may_use: int = MAY_USE) -> None:
    """Every version in the order in which the server made them."""
    held: Counter[str] = Counter()
    where: dict[str, str] = {}
    used = 0
    for event in told:
        one = event["object"]
        uid, there = one["metadata"]["uid"], one["spec"].get("nodeName", "")
        if event["type"] == "DELETED":
            if where.get(uid):
                held[where[uid]] -= 1
                used -= is_of_quota(one)
            continue
        assert where.get(uid) in (None, "", there), f"{one['metadata']['name']} went from {where[uid]} to {there}"
        if there and not where.get(uid):
            held[there] += 1
            used += is_of_quota(one)
            assert held[there] <= SLOTS, f"{there} has {held[there]} of {SLOTS} at {one['metadata']['name']}"
            assert used <= may_use, f"the quota has {used} of {may_use} at {one['metadata']['name']}"
        where[uid] = there

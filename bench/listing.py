"""Memory and start of a scheduler from a list: nodes and running pods as the server lists them, through the reader and
the engine, until the first decision.

Pages of 500 objects, as JSON with what a Deployment's pod of one container carries (labels, tolerations, owner, a
volume of its token, conditions, container statuses); ten pods of one owner. Garbage collection is as in the process
(`spare_filling` before the list, `freeze_heap` after it). `longest_s`: the most CPU time without a turn of the event
loop while lists are handed on, `freeze_s` that of the one collection after them, neither of which a probe interrupts.
Goals: at 100,000 nodes and 1,000,000 pods 6 GiB, and 60 s from the list.
`cpu_s`: CPU time of a core, writing the pages not counted; `bytes_a_pod`: resident growth by the pods.
`--again PERCENT`: the same list once more, as after an outage in which so many percent of the pods changed:
`again_cpu_s`, `again_longest_s`, and `again_mib`, by which the most memory during it is above that before it.
The network and the server's time come on top. `us_update`: CPU time of an update that the watch tells of running pods,
of what is read (the start time), and `us_idle_update` of what is not (a condition). `--types N` prints what the memory
is made of, by number and shallow size of Python objects.
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from bench.machine import peak_memory_mib, show
from cotenant.drivers.kube.cache.cache import Cache
from cotenant.drivers.kube.cache.decoding import ListWatchDecoder, WatchEvent
from cotenant.drivers.kube.client.access import Access
from cotenant.drivers.kube.client.client import Client
from cotenant.drivers.kube.client.credentials import Credential, FixedCredential
from cotenant.drivers.kube.kinds.kind import Kind
from cotenant.drivers.kube.kinds.node import NODES
from cotenant.drivers.kube.kinds.pod.reader import PodReader
from cotenant.drivers.kube.kinds.pod.schema import PODS, PodObject
from cotenant.engine.state.reports import NodeReports
from cotenant.policy.placement.profiles import profile
from cotenant.services.heap import freeze_heap, spare_filling
from cotenant.services.kube_process.watches import Watches
from cotenant.services.scheduling.claims import ClaimBinder
from cotenant.services.scheduling.engine import scheduling_engine
from cotenant.services.scheduling.options import Options
from cotenant.services.scheduling.watches import EngineWatches

PAGE = 500
UPDATES = 5000
MIB = 1 << 20


def resident() -> int:
    """Resident bytes now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def node_of(i: int) -> dict[str, Any]:
    """One node."""
    amounts = {"cpu": "64", "memory": "256Gi", "pods": "250", "ephemeral-storage": "500Gi"}
    zone = f"zone-{i % 3}"
    labels = {
        "kubernetes.io/hostname": f"node-{i:06d}",
        "kubernetes.io/arch": "amd64",
        "topology.kubernetes.io/zone": zone,
    }
    conditions = [{"type": kind, "status": "False"} for kind in ("MemoryPressure", "DiskPressure", "PIDPressure")]
    return {
        "metadata": {"name": f"node-{i:06d}", "uid": f"node-uid-{i:06d}", "resourceVersion": "7", "labels": labels},
        "spec": {"podCIDR": "10.0.0.0/24"},
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": [*conditions, {"type": "Ready", "status": "True"}],
        },
    }


def pod_of(i: int, nodes: int) -> dict[str, Any]:
    """One running pod."""
    app = i // 10
    size = {"cpu": f"{100 * (1 + app % 8)}m", "memory": f"{128 * (1 + app % 5)}Mi"}
    token = {"name": "token", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount", "readOnly": True}
    return {
        "metadata": {
            "name": f"app-{app}-7d4b9c-{i:07d}",
            "namespace": f"team-{app % 200}",
            "uid": f"{i:08x}-1111-4222-8333-444455556666",
            "resourceVersion": str(1000 + i),
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {"app": f"app-{app}", "pod-template-hash": "7d4b9c"},
            "ownerReferences": [
                {
                    "apiVersion": "apps/v1",
                    "kind": "ReplicaSet",
                    "name": f"app-{app}-7d4b9c",
                    "uid": f"{app:08x}-owner",
                    "controller": True,
                }
            ],
        },
        "spec": {
            "nodeName": f"node-{i % nodes:06d}",
            "schedulerName": "cotenant",
            "priority": 0,
            "containers": [{"name": "c", "image": "app:1", "resources": {"requests": size}, "volumeMounts": [token]}],
            "volumes": [{"name": "token", "projected": {"sources": []}}],
            "tolerations": [
                {
                    "key": f"node.kubernetes.io/{key}",
                    "operator": "Exists",
                    "effect": "NoExecute",
                    "tolerationSeconds": 300,
                }
                for key in ("not-ready", "unreachable")
            ],
        },
        "status": {
            "phase": "Running",
            "startTime": "2026-01-01T00:00:05Z",
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:09Z"}],
            "containerStatuses": [{"name": "c", "ready": True, "restartCount": 0, "image": "app:1", "imageID": "x"}],
        },
    }


class Turns:
    """The longest CPU time between two turns that others have; writing the pages is not counted."""

    def __init__(self, lists: Lists) -> None:
        self._lists = lists
        self._last_s = time.process_time() - lists.writing_s
        self.longest_s = 0.0

    def __call__(self) -> None:
        now_s = time.process_time() - self._lists.writing_s
        self.longest_s = max(self.longest_s, now_s - self._last_s)
        self._last_s = now_s


class Lists:
    """The pages of both kinds, and the time that writing them took."""

    def __init__(self, nodes: int, pods: int) -> None:
        self._counts = {NODES.name: nodes, PODS.name: pods}
        self._nodes = nodes
        self.changed_percent = 0  # of the pods, that have another version than at first
        self.most = 0
        self.writing_s = 0.0
        self.before_pods = 0

    def pages(self, kind: Kind[Any]) -> Iterator[bytes]:
        """Those of a kind; one empty page of any other."""
        count = self._counts.get(kind.name, 0)
        if kind.name == PODS.name:
            self.before_pods = self.before_pods or resident()
        for at in range(0, max(1, count), PAGE):
            begun = time.process_time()
            upto = min(count, at + PAGE)
            self.most = max(self.most, resident())
            made = [node_of(i) if kind.name == NODES.name else self._pod(i) for i in range(at, upto)]
            more = {"continue": "more"} if upto < count else {}
            body = msgspec.json.encode({"metadata": {"resourceVersion": "9", **more}, "items": made})
            self.writing_s += time.process_time() - begun
            yield body

    def _pod(self, i: int) -> dict[str, Any]:
        pod = pod_of(i, self._nodes)
        if i % 100 < self.changed_percent:
            pod["metadata"]["resourceVersion"] = str(10**7 + i)
            pod["status"]["startTime"] = "2026-01-01T00:00:07Z"
        return pod


def measure(nodes: int, pods: int, types: int, again_percent: int | None = None) -> dict[str, Any]:
    """One size."""
    before, lists = resident(), Lists(nodes, pods)
    spare_filling()
    begun = time.process_time()
    cluster = scheduling_engine(profile("cotenant-requests"), Options())
    client = Client(Access("http://list.invalid", FixedCredential(Credential(""))), qps=1.0, burst=1, in_flight=1)
    watches, reader = Watches(client, later_in_portions=True), PodReader()
    claims = ClaimBinder(client, reader.volumes)
    watched = EngineWatches(watches, cluster, reader, claims, NodeReports(), lambda: 1e9)
    turns = Turns(lists)
    watches.replay(lists.pages, turns)
    turns()
    listed = time.process_time() - begun - lists.writing_s
    cluster.decide(1e9)
    frozen = time.process_time()
    freeze_heap()
    frozen = time.process_time() - frozen
    ready = time.process_time() - begun - lists.writing_s
    now = resident()
    if types:
        _print_types(types)
    assert len(cluster.assigned()) == pods
    again = {} if again_percent is None else listed_again(watches, lists, again_percent)
    assert len(cluster.assigned()) == pods
    return {
        "nodes": nodes,
        "pods": pods,
        "listed_cpu_s": round(listed, 1),
        "ready_cpu_s": round(ready, 1),
        "longest_s": round(turns.longest_s, 2),
        "freeze_s": round(frozen, 2),
        "us_a_pod": round(ready / (nodes + pods) * 1e6, 1),
        "resident_mib": round((now - before) / MIB),
        "bytes_a_pod": round((now - lists.before_pods) / max(1, pods)),
        **again,
        "us_update": round(update_us(watched, nodes, pods, is_read=True), 1),
        "us_idle_update": round(update_us(watched, nodes, pods, is_read=False), 1),
    }


def listed_again(watches: Watches, lists: Lists, percent: int) -> dict[str, Any]:
    """The same list once more."""
    lists.changed_percent, lists.writing_s, before = percent, 0.0, resident()
    lists.most = before
    begun, turns = time.process_time(), Turns(lists)

    def turn() -> None:
        lists.most = max(lists.most, resident())
        turns()

    watches.replay(lists.pages, turn)
    turn()
    return {
        "again_cpu_s": round(time.process_time() - begun - lists.writing_s, 1),
        "again_longest_s": round(turns.longest_s, 2),
        "again_mib": round((lists.most - before) / MIB),
    }


def update_us(watched: EngineWatches, nodes: int, pods: int, is_read: bool) -> float:
    """Microseconds of CPU time of an update, the mean over some pods."""
    decoder, count = ListWatchDecoder(PODS), min(UPDATES, pods)
    lines, cache = [], Cache[PodObject](PODS.name)
    for i in range(count):
        told = pod_of(i, nodes)
        cache.put(decoder.page(msgspec.json.encode({"items": [told]})).objects[0])
        told["metadata"]["resourceVersion"] = str(10**7 + i)
        told["status"]["conditions"][0]["status"] = "False"
        if is_read:
            told["status"]["startTime"] = "2026-01-01T00:00:06Z"
        lines.append(msgspec.json.encode({"type": "MODIFIED", "object": told}))
    begun = time.process_time()
    for line in lines:
        event = decoder.line(line)
        assert isinstance(event, WatchEvent)
        watched.pods_delivered(cache.put(event.obj))
    return (time.process_time() - begun) * 1e6 / max(1, count)


def _print_types(count: int) -> None:
    gc.unfreeze()
    number: Counter[str] = Counter()
    size: Counter[str] = Counter()
    seen: set[int] = set()
    left: list[Any] = gc.get_objects()
    while left:
        one = left.pop()
        if id(one) in seen or one is seen or one is left:
            continue
        seen.add(id(one))
        name = f"{type(one).__module__}.{type(one).__qualname__}"
        number[name] += 1
        size[name] += sys.getsizeof(one)
        referred = gc.get_referents(one)
        if isinstance(one, msgspec.Struct):  # of which the collector knows nothing
            referred = [getattr(one, field) for field in one.__struct_fields__]
        left += [other for other in referred if id(other) not in seen]
    for name, held in size.most_common(count):
        print(f"{held / MIB:9.1f} MiB  {number[name]:10,}  {name}")


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=10_000)
    parser.add_argument("--pods", type=int, default=100_000)
    parser.add_argument("--types", type=int, default=0)
    parser.add_argument("--again", type=int, metavar="PERCENT")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    row = measure(given.nodes, given.pods, given.types, given.again)
    show([row], given.json, (f"peak memory {peak_memory_mib():.0f} MiB",))


if __name__ == "__main__":
    main()

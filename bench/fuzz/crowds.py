"""`python -m bench.fuzz.crowds`: what many small pods cost a scheduler that differ from each other in one thing;
milliseconds of CPU for a pod.

Each value that a pod's owner invents (the name of a resource, of a group, a selector, a port) may become a column or
a row of what the engine holds of every node, and whoever invents a new one for each pod then stops the others. `n`:
seen and decided, for each of the first `--pods`; `2n`: for each of as many more; `usual`, `beside` and `after`: an
ordinary pod before, beside all these, and once they are deleted; `again`: for each of as many new ones then; `MiB`:
by which the process grew for the second half. A row fails where a pod of the second half, or of the new ones, costs
more than `--most` times one of the first, an ordinary pod more than so many times a usual one, or the second half
more than `--mib`.
Limits: an engine without the process around it; values that only an administrator writes are not varied.
"""

from __future__ import annotations

import argparse
import gc
import sys
from collections.abc import Callable
from time import thread_time
from typing import Any

import msgspec
import numpy as np

from bench.fuzz.giants import small_pod
from cotenant.drivers.kube.kinds.pod.reader import PodReader
from cotenant.drivers.kube.kinds.pod.schema import PodObject
from cotenant.engine.cluster import Cluster
from cotenant.engine.framework.instructions import Bind
from cotenant.engine.framework.settings import EngineSettings
from cotenant.engine.registry import PluginRegistry
from cotenant.model.cluster.labels import HOSTNAME, ZONE, Labels
from cotenant.model.cluster.node import Node
from cotenant.model.resources import Amounts
from cotenant.policy.placement.profiles import profile

_DECODER = msgspec.json.Decoder(PodObject)
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_ORDINARY = 200
Document = dict[str, Any]


def _spec(document: Document, **fields: Any) -> None:
    document["spec"].update(fields)


def _label(document: Document, key: str, value: str) -> None:
    document["metadata"]["labels"][key] = value


def _annotation(document: Document, key: str, value: str) -> None:
    document["metadata"].setdefault("annotations", {})[key] = value


def _container(document: Document, **fields: Any) -> None:
    document["spec"]["containers"][0].update(fields)


def _request(document: Document, name: str, amount: str) -> None:
    document["spec"]["containers"][0]["resources"]["requests"][name] = amount


def _affinity(document: Document, kind: str, when: str, terms: list[Any] | Document) -> None:
    _spec(document, affinity={kind: {when: terms}})


def _expression(i: int) -> Document:
    return {"matchExpressions": [{"key": HOSTNAME, "operator": "NotIn", "values": [f"x{i}"]}]}


def _own(document: Document, i: int) -> Document:
    _label(document, "app", f"a{i}")
    return {"matchLabels": {"app": f"a{i}"}}


def _anti(document: Document, i: int, key: str = HOSTNAME) -> None:
    term = {"topologyKey": key, "labelSelector": _own(document, i)}
    _affinity(document, "podAntiAffinity", _REQUIRED, [term])


def _soft(document: Document, i: int, kind: str) -> None:
    term = {"topologyKey": ZONE, "labelSelector": _own(document, i)}
    _affinity(document, kind, _PREFERRED, [{"weight": 1, "podAffinityTerm": term}])


def _spread(document: Document, i: int, when: str) -> None:
    constraint = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": when, "labelSelector": _own(document, i)}
    _spec(document, topologySpreadConstraints=[constraint])


def _gang(document: Document, i: int, minimum: int) -> None:
    _annotation(document, "gang.scheduling.koordinator.sh/name", f"g{i}")
    _annotation(document, "gang.scheduling.koordinator.sh/min-available", str(minimum))


def _owner(document: Document, i: int) -> None:
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": f"j{i}", "uid": f"j{i}", "controller": True}
    document["metadata"]["ownerReferences"] = [owner]


def _namespace(document: Document, i: int) -> None:
    document["metadata"]["namespace"] = f"ns{i}"


def _volume(document: Document, **source: Any) -> None:
    _spec(document, volumes=[{"name": "v", **source}])


CROWDS: dict[str, Callable[[Document, int], None]] = {
    "nothing but the name": lambda pod, i: None,
    "group": lambda pod, i: _annotation(pod, "cotenant.io/group", f"g{i}"),
    "a made-up resource": lambda pod, i: _request(pod, f"e.io/r{i}", "1"),
    "request of CPU": lambda pod, i: _request(pod, "cpu", f"{1 + i % 50_000}m"),
    "node selector": lambda pod, i: _spec(pod, nodeSelector={f"k{i}": "v"}),
    "node affinity": lambda pod, i: _affinity(pod, "nodeAffinity", _REQUIRED, {"nodeSelectorTerms": [_expression(i)]}),
    "soft node affinity": lambda pod, i: _affinity(
        pod, "nodeAffinity", _PREFERRED, [{"weight": 1, "preference": _expression(i)}]
    ),
    "toleration": lambda pod, i: _spec(pod, tolerations=[{"key": f"k{i}", "operator": "Exists"}]),
    "label": lambda pod, i: _label(pod, "app", f"a{i}"),
    "label's key": lambda pod, i: _label(pod, f"app{i}", "a"),
    "anti-affinity, nodes": _anti,
    "anti-affinity, zones": lambda pod, i: _anti(pod, i, ZONE),
    "anti-affinity, a made-up topology": lambda pod, i: _anti(pod, i, f"t{i}"),
    "soft anti-affinity": lambda pod, i: _soft(pod, i, "podAntiAffinity"),
    "soft affinity": lambda pod, i: _soft(pod, i, "podAffinity"),
    "spread": lambda pod, i: _spread(pod, i, "DoNotSchedule"),
    "soft spread": lambda pod, i: _spread(pod, i, "ScheduleAnyway"),
    "priority": lambda pod, i: _spec(pod, priority=i % 10**9),
    "host port": lambda pod, i: _container(pod, ports=[{"containerPort": 1 + i % 65_000, "hostPort": 1 + i % 65_000}]),
    "image": lambda pod, i: _container(pod, image=f"i{i}"),
    "claim of a volume": lambda pod, i: _volume(pod, persistentVolumeClaim={"claimName": f"c{i}"}),
    "disk": lambda pod, i: _volume(pod, awsElasticBlockStore={"volumeID": f"d{i}"}),
    "claim of a device": lambda pod, i: _spec(pod, resourceClaims=[{"name": "r", "resourceClaimName": f"c{i}"}]),
    "namespace": _namespace,
    "owner": _owner,
    "tenant": lambda pod, i: _annotation(pod, "cotenant.io/tenant", f"t{i}"),
    "quota": lambda pod, i: _label(pod, "quota.scheduling.koordinator.sh/name", f"q{i}"),
    "gang of one": lambda pod, i: _gang(pod, i, 1),
    "gang that waits": lambda pod, i: _gang(pod, i, 2),
    "scheduling group": lambda pod, i: _spec(pod, schedulingGroup={"podGroupName": f"g{i}"}),
    "gate": lambda pod, i: _spec(pod, schedulingGates=[{"name": f"g{i}"}]),
    "objective": lambda pod, i: _annotation(pod, "cotenant.io/objective-p99-ms", f"{i + 1}"),
    "deadline": lambda pod, i: _annotation(
        pod, "cotenant.io/deadline", f"2030-01-01T00:{i // 60 % 60:02}:{i % 60:02}Z"
    ),
    "load limit": lambda pod, i: _annotation(pod, "cotenant.io/load-limit", f"0.{i + 1}"),
    "reservation wanted": lambda pod, i: _annotation(
        pod, "scheduling.koordinator.sh/reservation-affinity", f'{{"reservationSelector":{{"r":"r{i}"}}}}'
    ),
}


class _Scene:
    """An engine with nodes, and its clock."""

    def __init__(self, nodes: int) -> None:
        self._cluster = Cluster(
            profile("cotenant-requests"),
            np.random.default_rng(1),
            EngineSettings(cpu_s=thread_time),
            plugins=PluginRegistry(),
        )
        self._reader, self._now_s = PodReader(), 0.0
        size = Amounts.of({"cpu": 64_000, "memory": 1 << 38, "pods": 500})
        for i in range(nodes):
            self._cluster.node_seen(Node(f"n{i}", size, Labels.of({HOSTNAME: f"n{i}", ZONE: "abc"[i % 3]})))

    def pods(self, documents: list[Document]) -> float:
        """See these in portions, as they would come, and decide after each; seconds for a pod."""
        seen = [self._reader.pod(_DECODER.decode(msgspec.json.encode(document))) for document in documents]
        begun_s = thread_time()
        for first in range(0, len(seen), 50):
            for pod in seen[first : first + 50]:
                self._cluster.pod_seen(pod, self._now_s)
            self._decide()
        return (thread_time() - begun_s) / len(seen)

    def ordinary(self, tag: str) -> float:
        """Seconds for an ordinary pod, the median of its kind: each comes alone."""
        found = [self.pods([small_pod(f"{tag}{i}")]) for i in range(_ORDINARY)]
        return float(np.median(found))

    def gone(self, documents: list[Document]) -> None:
        for document in documents:
            self._cluster.pod_gone(document["metadata"]["uid"], self._now_s)
        self._decide()

    def _decide(self) -> None:
        for _ in range(20):
            for instruction in self._cluster.decide(self._now_s):
                if isinstance(instruction, Bind):
                    self._cluster.sending(instruction.uid, self._now_s)
                    self._cluster.bound(instruction.uid, self._now_s)
            self._now_s += 0.01
            if self._cluster.next_s() > self._now_s:
                return


def _crowd(vary: Callable[[Document, int], None], first: int, pods: int) -> list[Document]:
    made = []
    for i in range(first, first + pods):
        document = small_pod(f"c{i}")
        vary(document, i)
        document["metadata"]["uid"] = f"uid-{i}"
        made.append(document)
    return made


def costs(vary: Callable[[Document, int], None], nodes: int, pods: int) -> dict[str, float]:
    """Milliseconds and MiB by column."""
    scene = _Scene(nodes)
    scene.ordinary("warm")
    scene.gone(_crowd(vary, 10**6, 1))
    scene.pods(_crowd(vary, 2 * 10**6, 60))
    gc.unfreeze()
    gc.collect()
    gc.freeze()
    found = {"usual": scene.ordinary("before")}
    first, second, third = (_crowd(vary, part * pods, pods) for part in range(3))
    found["n"] = scene.pods(first)
    before = _resident_mib()
    found["2n"] = scene.pods(second)
    grown = _resident_mib() - before
    found["beside"] = scene.ordinary("beside")
    scene.gone(first + second)
    found["after"] = scene.ordinary("after")
    found["again"] = scene.pods(third)
    return {name: 1e3 * seconds for name, seconds in found.items()} | {"MiB": grown}


def _resident_mib() -> float:
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * 4096 / 2**20


_COLUMNS = ("usual", "n", "2n", "beside", "after", "again", "MiB")


def main() -> int:
    """Print a table. 1 where a row fails."""
    options = argparse.ArgumentParser(prog="python -m bench.fuzz.crowds", description=__doc__)
    options.add_argument("--nodes", type=int, default=1000)
    options.add_argument("--pods", type=int, default=2000, help="of the first half")
    options.add_argument("--crowd", default="", help="only crowds whose name contains this")
    options.add_argument("--most", type=float, default=2.0, help="times the cost of the first half, or of a usual pod")
    options.add_argument("--mib", type=float, default=64.0, help="that the second half may take")
    asked = options.parse_args()
    failed = 0
    print(f"{'pods that differ in':36}" + "".join(f"{column:>9}" for column in _COLUMNS))
    for name, vary in CROWDS.items():
        if asked.crowd not in name:
            continue
        found = costs(vary, asked.nodes, asked.pods)
        wrong = (
            max(found["2n"], found["again"]) > asked.most * found["n"] + 0.05
            or max(found["beside"], found["after"]) > asked.most * found["usual"] + 0.5
            or found["MiB"] > asked.mib
        )
        failed += wrong
        row = "".join(f"{found[column]:9.3f}" for column in _COLUMNS)
        print(f"{name:36}{row}{'  TOO MUCH' if wrong else ''}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

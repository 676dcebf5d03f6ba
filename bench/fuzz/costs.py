"""`python -m bench.fuzz.costs`: what the largest pods cost a scheduler's loop, list by list and in pairs; milliseconds
of CPU.

`read`: decoding and reading the object; `seen`: the engine takes it; `decide`: rounds until it is bound or waits; then
a hundred ordinary pods while it waits (`during`), once it is on a node (`beside`), and once it was deleted (`after`),
with `before` for comparison. A row fails where `decide` costs more than twice the limit of a judgement, or `during`,
`beside` or `after` more than `--most` times `before`. Limits: pods only, and an engine without the process around it;
`read` is shown and not judged.
"""

from __future__ import annotations

import argparse
import gc
import sys
from itertools import combinations
from time import thread_time
from typing import Any

import msgspec
import numpy as np

from bench.fuzz.giants import LARGEST_BYTES, LISTS, List, giant, small_pod
from cotenant.drivers.kube.kinds.pod.reader import PodReader
from cotenant.drivers.kube.kinds.pod.schema import PodObject
from cotenant.engine.cluster import Cluster
from cotenant.engine.framework.budget import USUAL_S
from cotenant.engine.framework.instructions import Bind
from cotenant.engine.framework.settings import EngineSettings
from cotenant.model.cluster.labels import HOSTNAME, ZONE, Labels
from cotenant.model.cluster.node import Node
from cotenant.model.resources import Amounts
from cotenant.policy.placement.profiles import profile

_COLUMNS = ("read", "seen", "decide", "before", "during", "beside", "after")
_OTHERS, _APPLICATIONS = 100, 30
_DECODER = msgspec.json.Decoder(PodObject)


class _Scene:
    """An engine with nodes, and its clock."""

    def __init__(self, nodes: int) -> None:
        self.cluster = Cluster(
            profile("cotenant-requests"), np.random.default_rng(1), EngineSettings(cpu_s=thread_time)
        )
        self._reader, self._now_s = PodReader(), 0.0
        for i in range(nodes):
            labels = Labels.of({HOSTNAME: f"n{i}", ZONE: "abc"[i % 3]})
            size = Amounts.of({"cpu": 64_000, "memory": 1 << 38, "pods": 200})
            self.cluster.node_seen(Node(f"n{i}", size, labels))

    def see(self, text: bytes) -> float:
        """Read and deliver a pod; seconds of reading."""
        begun_s = thread_time()
        seen = self._reader.pod(_DECODER.decode(text))
        read_s = thread_time() - begun_s
        self.cluster.pod_seen(seen, self._now_s)
        return read_s

    def decide(self) -> None:
        """Rounds until nothing is left to do now; binds succeed."""
        while True:
            given = self.cluster.decide(self._now_s)
            self._now_s += 0.01
            for instruction in given:
                if isinstance(instruction, Bind):
                    self.cluster.sending(instruction.uid, self._now_s)
                    self.cluster.bound(instruction.uid, self._now_s)
            if not given and self.cluster.next_s() > self._now_s:
                return

    def others(self, tag: str) -> float:
        """A hundred ordinary pods; seconds."""
        begun_s = thread_time()
        for i in range(_OTHERS):
            self.see(msgspec.json.encode(_ordinary(i, tag)))
        self.decide()
        self._now_s += 1.0
        return thread_time() - begun_s


def _ordinary(i: int, tag: str) -> dict[str, Any]:
    made = small_pod(f"{tag}{i}")
    selector = {"matchLabels": {"app": f"a{i % _APPLICATIONS}"}}
    made["metadata"]["labels"] = {**selector["matchLabels"], "tag": tag}
    if i % 5 == 0:
        term = {"topologyKey": HOSTNAME, "labelSelector": selector}
        made["spec"]["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    return made


def costs(lists: tuple[List, ...], nodes: int, size: int) -> dict[str, float]:
    """Seconds by column."""
    scene = _Scene(nodes)
    scene.others("warm")
    gc.unfreeze()  # those of the last one go
    gc.collect()
    gc.freeze()  # a collection is then about this pod's objects, and not about the process's modules and all nodes
    found = {"before": scene.others("before")}
    document = giant("big", lists, size)
    begun_s = thread_time()
    found["read"] = scene.see(msgspec.json.encode(document))
    found["seen"] = thread_time() - begun_s - found["read"]
    begun_s = thread_time()
    scene.decide()
    found["decide"] = thread_time() - begun_s
    found["during"] = scene.others("during")
    document["spec"]["nodeName"], document["status"]["phase"] = "n0", "Running"
    scene.see(msgspec.json.encode(document))
    scene.decide()
    found["beside"] = scene.others("beside")
    scene.cluster.pod_gone(document["metadata"]["uid"], 0.0)
    scene.decide()
    found["after"] = scene.others("after")
    return found


def main() -> int:
    """Print a table. 1 where a row fails."""
    options = argparse.ArgumentParser(prog="python -m bench.fuzz.costs", description=__doc__)
    options.add_argument("--nodes", type=int, default=1000)
    options.add_argument("--bytes", type=int, default=LARGEST_BYTES, help="of the pod")
    options.add_argument("--list", default="", help="only lists whose name contains this")
    options.add_argument("--pairs", action="store_true", help="two lists at a time, half and half")
    options.add_argument("--most", type=float, default=10.0, help="times the usual cost of other pods")
    asked = options.parse_args()
    chosen = [list_ for list_ in LISTS if asked.list in list_.name]
    failed = 0
    print(f"{'list':52}" + "".join(f"{column:>9}" for column in _COLUMNS))
    for lists in combinations(chosen, 2) if asked.pairs else ((list_,) for list_ in chosen):
        found = costs(lists, asked.nodes, asked.bytes)
        usual_s = asked.most * found["before"]
        wrong = found["decide"] > 2 * USUAL_S or max(found[name] for name in ("during", "beside", "after")) > usual_s
        failed += wrong
        row = "".join(f"{1e3 * found[column]:9.1f}" for column in _COLUMNS)
        print(f"{' + '.join(list_.name for list_ in lists):52}{row}{'  TOO MUCH' if wrong else ''}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

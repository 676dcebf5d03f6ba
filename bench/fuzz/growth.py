"""`python -m bench.fuzz.growth`: CPU of one piece of work at n and at 2n, for what is no pod's list before a scheduler
(bench.fuzz.costs); milliseconds.

Admission reviews and extender requests with the longest pods, patches (bench.fuzz.patches) and selectors of the local
API server, trees of quotas, disruption budgets, gangs, owners of a reservation. A row fails where 2n costs more than
`--most` times n, and 4n more than that times 2n: work that grows with the square would cost 4 times as much. Limits:
one process, without HTTP; the smaller of three measurements.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from random import Random
from time import thread_time
from typing import Any

import msgspec
import numpy as np

from bench.fuzz import patches
from bench.fuzz.giants import LARGEST_BYTES, LISTS, List, giant, small_pod
from cotenant.drivers.kube.kinds.pod.reader import PodReader
from cotenant.drivers.kube.kinds.pod.schema import PodObject
from cotenant.drivers.kube.manifests.errors import ApiError
from cotenant.engine.cluster import Cluster
from cotenant.engine.framework.instructions import Bind
from cotenant.engine.framework.settings import EngineSettings
from cotenant.engine.plugins.quotas.plugin import Quotas
from cotenant.engine.plugins.quotas.settings import QuotaSettings
from cotenant.engine.registry import PluginRegistry
from cotenant.model.cluster.labels import HOSTNAME, NO_LABELS, Labels, LabelSelector
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.observed import DisruptionBudget, NamespaceFacts
from cotenant.model.cluster.pod import Pod
from cotenant.model.groups.quota import ROOT_QUOTA, Quota, QuotaObject
from cotenant.model.groups.reservation import Reservation, ReservationOwner
from cotenant.model.resources import Amounts
from cotenant.policy.placement.profiles import profile
from cotenant.services.extender.pod_reader import PodDemandReader
from cotenant.services.reviewing.facts import WebhookFacts
from cotenant.services.reviewing.review import read_review, write_review
from cotenant.services.reviewing.reviewer import Reviewer
from cotenant.services.reviewing.rules import ReviewRules
from cotenant_local.apiserver.selectors import parse_fields, parse_labels

Work = Callable[[], object]
_SIZE = Amounts.of({"cpu": 64_000, "memory": 1 << 38, "pods": 500})
_GANG = {"gang.scheduling.koordinator.sh/name": "g"}


def _webhook(document: dict[str, Any]) -> Work:
    async def has_pods(_: Quota) -> bool:
        return False

    facts = WebhookFacts(lambda: 0.0)
    facts.namespace_seen(NamespaceFacts("default", NO_LABELS))
    reviewer = Reviewer(facts, ReviewRules(checks_devices=True, limits_quotas=True), has_pods, Random(0))
    kind = {"group": "", "version": "v1"}
    request = {
        "uid": "u",
        "kind": kind | {"kind": "Pod"},
        "resource": kind | {"resource": "pods"},
        "namespace": "default",
        "operation": "CREATE",
        "object": document,
        "oldObject": None,
    }
    body = msgspec.json.encode({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request})

    def work() -> None:
        for path in ("/mutate-pod", "/validate-pod"):
            asked = read_review(body)
            write_review(asked.uid, asyncio.run(reviewer.review(path, asked)))

    return work


def _extender(document: dict[str, Any]) -> Work:
    text = msgspec.json.encode(document)
    return lambda: PodDemandReader().read(text)


def _with_list(made: Callable[[dict[str, Any]], Work], filled: List, size: int) -> Work:
    return made(giant("big", (filled,), size))


def _selector(text: Callable[[int], str], size: int) -> Work:
    return _refused_or_not(lambda: parse_labels(text(size)))


def _refused_or_not(parse: Callable[[], object]) -> Work:
    def work() -> None:
        with suppress(ApiError):
            parse()

    return work


def _cluster(plugins: PluginRegistry | None = None, nodes: int = 100) -> Cluster:
    cluster = Cluster(
        profile("cotenant-requests"),
        np.random.default_rng(1),
        EngineSettings(cpu_s=thread_time),
        plugins=plugins or PluginRegistry(),
    )
    for i in range(nodes):
        cluster.node_seen(Node(f"n{i}", _SIZE, Labels.of({HOSTNAME: f"n{i}"})))
    cluster.decide(0.0)
    return cluster


def _see(cluster: Cluster, *documents: dict[str, Any]) -> None:
    reader = PodReader()
    for document in documents:
        cluster.pod_seen(reader.pod(msgspec.json.decode(msgspec.json.encode(document), type=PodObject)), 0.0)


def _decided(cluster: Cluster) -> None:
    now_s = 0.0
    for _ in range(100):
        for instruction in cluster.decide(now_s):
            if isinstance(instruction, Bind):
                cluster.sending(instruction.uid, now_s)
                cluster.bound(instruction.uid, now_s)
        now_s += 0.01
        if cluster.next_s() > now_s:
            return


def _quotas(count: int, parent: Callable[[int], str]) -> Work:
    def work() -> None:
        quotas = Quotas(QuotaSettings(status_every_s=3600.0))
        cluster = _cluster(PluginRegistry(quotas=quotas))
        for i in range(count):
            quota = Quota(f"q{i}", _SIZE, Amounts.of({"cpu": 1}), parent(i), is_parent=True)
            quotas.quota_seen(QuotaObject(f"q/q{i}", "", quota), 0.0)
        pods = [small_pod(f"p{i}") for i in range(100)]
        for i, pod in enumerate(pods):
            pod["metadata"]["labels"]["quota.scheduling.koordinator.sh/name"] = f"q{count - 1 - i}"
        _see(cluster, *pods)
        _decided(cluster)

    return work


def _budgets(count: int) -> Work:
    """Every budget covers every pod; an important pod then needs the room of one."""

    def work() -> None:
        cluster = _cluster(nodes=10)
        for i in range(count):
            cluster.budget_seen(DisruptionBudget("default", f"b{i}", LabelSelector.of({"app": "giant"}), i % 2))
        for i in range(100):
            document = small_pod(f"p{i}")
            document["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "6"
            _see(cluster, document)
        _decided(cluster)
        important = small_pod("important")
        important["spec"]["priority"] = 1000
        important["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "60"
        _see(cluster, important)
        _decided(cluster)

    return work


def _gang(count: int, requested: str) -> Work:
    def work() -> None:
        cluster = _cluster()
        documents = [small_pod(f"p{i}") for i in range(count)]
        for document in documents:
            document["metadata"]["annotations"] = _GANG | {"gang.scheduling.koordinator.sh/min-available": str(count)}
            document["spec"]["containers"][0]["resources"]["requests"]["cpu"] = requested
        _see(cluster, *documents)
        _decided(cluster)

    return work


def _bundle(count: int, named: Callable[[int], list[int]]) -> Work:
    """Gangs of one pod that name one another."""

    def work() -> None:
        cluster = _cluster()
        documents = [small_pod(f"p{i}") for i in range(count)]
        for i, document in enumerate(documents):
            groups = msgspec.json.encode([f"default/g{other}" for other in named(i)]).decode()
            prefix = "gang.scheduling.koordinator.sh/"
            document["metadata"]["annotations"] = {
                f"{prefix}name": f"g{i}",
                f"{prefix}min-available": "1",
                f"{prefix}groups": groups,
            }
        _see(cluster, *documents)
        _decided(cluster)

    return work


def _reservation(count: int, owner: Callable[[int], ReservationOwner]) -> Work:
    owners = tuple(owner(i) for i in range(count))

    def work() -> None:
        plugins = PluginRegistry()
        cluster = _cluster(plugins)
        template = Pod("r", "default", Amounts.of({"cpu": 4000}))
        plugins.reservations.seen(Reservation("r", "uid-r", template, owners), 0.0)
        _see(cluster, *(small_pod(f"p{i}") for i in range(200)))
        _decided(cluster)

    return work


def cases() -> Iterator[tuple[str, int, Callable[[int], Work]]]:
    """Name, n, and the work of a size."""
    for list_ in LISTS:
        for name, made in (("webhook", _webhook), ("extender", _extender)):
            yield f"{name}: {list_.name}, bytes", LARGEST_BYTES // 2, partial(_with_list, made, list_)
    yield from patches.cases()
    texts: dict[str, Callable[[int], str]] = {
        "terms": lambda n: ",".join(f"k{i}=v" for i in range(n // 8)),
        "values": lambda n: "a in (" + ",".join(f"v{i}" for i in range(n // 6)) + ")",
        "one key": lambda n: "a" * n + "%",
        "dots": lambda n: "a" + "." * n,
        "slashes": lambda n: "a/" * (n // 2),
        "spaces": lambda n: "a" + " " * n + "%",
        "spaces before": lambda n: " " * n + "%",
        "spaces in front of in": lambda n: "a" + " " * n + "in" + " " * n + "(",
        "open list": lambda n: "a in (" + "b," * (n // 2),
    }
    for name, text in texts.items():
        yield f"label selector: {name}, bytes", 30_000, partial(_selector, text)
    yield (
        "field selector: terms, bytes",
        30_000,
        lambda n: _refused_or_not(
            lambda: parse_fields(",".join("spec.nodeName!=a" for _ in range(n // 17)), {"spec.nodeName"})
        ),
    )
    yield "quotas: flat", 2_500, lambda n: _quotas(n, lambda i: ROOT_QUOTA)
    yield "quotas: 50 deep", 2_500, lambda n: _quotas(n, lambda i: f"q{i - 1}" if i % 50 else ROOT_QUOTA)
    yield "quotas: one chain", 500, lambda n: _quotas(n, lambda i: f"q{i - 1}" if i else ROOT_QUOTA)
    yield "budgets of all pods", 500, _budgets
    yield "gang that fits", 2_500, lambda n: _gang(n, "10m")
    yield "gang that does not", 2_500, lambda n: _gang(n, "60")
    yield "gangs that name all others", 100, lambda n: _bundle(n, lambda i: list(range(n)))
    yield "gangs that name the next", 100, lambda n: _bundle(n, lambda i: [i, (i + 1) % n])
    yield (
        "reservation: owners of others",
        1_000,
        lambda n: _reservation(n, lambda i: ReservationOwner(selector=LabelSelector.of({"app": f"o{i}"}))),
    )
    yield (
        "reservation: owners of all",
        1_000,
        lambda n: _reservation(n, lambda i: ReservationOwner(selector=LabelSelector.of({"app": "giant"}))),
    )


def cost_s(work: Work) -> float:
    """CPU seconds of the calling thread, the least of up to three."""
    found: list[float] = []
    while len(found) < 3 and sum(found) < 1.0:
        gc.collect()
        begun_s = thread_time()
        work()
        found.append(thread_time() - begun_s)
    return min(found)


def main() -> int:
    """Print a table. 1 where a row fails."""
    options = argparse.ArgumentParser(prog="python -m bench.fuzz.growth", description=__doc__)
    options.add_argument("--case", default="", help="only cases whose name contains this")
    options.add_argument("--most", type=float, default=3.0, help="times the cost of n, that 2n may cost")
    asked = options.parse_args()
    failed = 0
    print(f"{'case':52}{'n':>9}{'n ms':>9}{'2n ms':>9}")
    for name, n, made in cases():
        if asked.case not in name:
            continue
        made(max(1, n // 100))()  # compiles and imports
        gc.freeze()  # a collection is then about this case's objects
        once, twice = cost_s(made(n)), cost_s(made(2 * n))
        wrong = twice > asked.most * once and twice > 0.02
        # a step is no growth: from some size on a collection goes over all objects
        wrong = wrong and cost_s(made(4 * n)) > asked.most * twice
        failed += wrong
        print(f"{name:52}{n:9}{1e3 * once:9.1f}{1e3 * twice:9.1f}{'  TOO MUCH' if wrong else ''}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

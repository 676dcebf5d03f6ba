"""Readers of the manager, the webhook and `cotenant lint`: the objects that they watch or read, and admission reviews.

Both are run as their processes run them, less HTTP: the manager decides now and then, every review is answered from
what the webhook's watches were given before.
Limits: writes are not carried out; the API server's answer to the webhook's one question is always the same.
"""

from __future__ import annotations

from random import Random
from typing import Any

import msgspec

from bench.fuzz.inputs import changed, damaged, document_maker, text_input
from bench.fuzz.reader import Clock, CollectedWatches, Reader
from cotenant.drivers.kube.kinds.custom.colocation_profile import COLOCATION_PROFILES
from cotenant.drivers.kube.kinds.custom.elastic_quota import ELASTIC_QUOTAS
from cotenant.drivers.kube.kinds.custom.reservation import RESERVATIONS
from cotenant.drivers.kube.kinds.kind import Kind
from cotenant.drivers.kube.kinds.node import NODES
from cotenant.drivers.kube.kinds.pod.schema import PODS
from cotenant.engine.manager.gpu_nodes import GpuNodes
from cotenant.engine.manager.manager import Manager
from cotenant.engine.manager.node_ratios import NodeRatioKeeper
from cotenant.engine.manager.quota_profiles import QuotaProfiles
from cotenant.model.errors import InvalidInput
from cotenant.model.groups.quota import Quota
from cotenant.services.lint.manifest_reading import read_manifests
from cotenant.services.lint.manifest_verdicts import lint
from cotenant.services.manager.watches import ConfigSource, ManagerWatches
from cotenant.services.reviewing.facts import WebhookFacts
from cotenant.services.reviewing.review import API_VERSION, KIND, read_review, write_review
from cotenant.services.reviewing.reviewer import Reviewer
from cotenant.services.reviewing.rules import ReviewRules
from cotenant.services.webhook.watches import add_watches

_CONFIG: dict[str, Any] = {
    "colocation-config": {
        "enable": True,
        "cpuCalculatePolicy": "peak",
        "peakRiskPercent": 1,
        "memoryCalculatePolicy": "usage",
        "cpuReclaimThresholdPercent": 60,
        "memoryReclaimThresholdPercent": 65,
        "degradeTimeMinutes": 15,
        "updateTimeThresholdSeconds": 300,
        "resourceDiffThreshold": 0.1,
        "midCPUThresholdPercent": 45,
        "metricAggregatePolicy": {"durations": ["5m", "10m"]},
        "nodeConfigs": [
            {"name": "a", "nodeSelector": {"matchLabels": {"pool": "x"}}, "cpuReclaimThresholdPercent": 70}
        ],
    },
    "resource-threshold-config": {"clusterStrategy": {"enable": True, "cpuSuppressThresholdPercent": 65}},
    "resource-qos-config": {
        "clusterStrategy": {"lsClass": {"cpuQOS": {"enable": True, "groupIdentity": 2}}, "beClass": {}}
    },
    "cpu-burst-config": {
        "clusterStrategy": {"policy": "auto"},
        "nodeStrategies": [{"nodeSelector": {"matchLabels": {"pool": "x"}}, "cpuBurstPercent": 500}],
    },
    "system-config": {
        "clusterStrategy": {"minFreeKbytesFactor": 100, "watermarkScaleFactor": 150, "totalNetworkBandwidth": "1G"}
    },
    "cpu-normalization-config": {
        "enable": True,
        "defaultRatio": 1.1,
        "ratioModel": {"A CPU": {"baseRatio": 1.2, "hyperThreadEnabledRatio": 1.1, "turboEnabledRatio": 1.3}},
        "nodeConfigs": [{"nodeSelector": {"matchLabels": {"pool": "x"}}, "enable": False}],
    },
    "resource-amplification-config": {"enable": True, "resourceAmplificationRatio": {"cpu": 1.5, "memory": 1.1}},
    "host-application-config": {
        "applications": [{"name": "nginx", "priority": "koord-prod", "qos": "LS", "cgroupPath": {"base": "CgroupRoot"}}]
    },
}
_PATCHES: tuple[dict[str, Any], ...] = (
    {"metadata": {"labels": {"a": "b"}, "annotations": {"c": None}}},
    {"spec": {"containers": [{"name": "a", "resources": {"limits": {"cpu": "1"}}}], "tolerations": [{"key": "x"}]}},
    {"spec": {"nodeSelector": {"pool": "x"}, "priority": 5000, "terminationGracePeriodSeconds": 30}},
)
_OPERATIONS = ("CREATE", "CREATE", "CREATE", "UPDATE", "UPDATE", "DELETE")


def manager_readers() -> list[Reader]:
    """One for each kind that the manager watches; the ConfigMap's values are JSON texts."""
    watches, manager, clock = CollectedWatches(), Manager(), Clock()
    profiles, ratios, gpus = QuotaProfiles(), NodeRatioKeeper(), GpuNodes()
    ManagerWatches(watches, manager, ConfigSource(), clock.now, lambda uid, errors: None, profiles, ratios, gpus)
    manager.leads_now(clock.now())

    def decide() -> None:
        now_s = clock.now()
        for engine in (manager, profiles, ratios, gpus):
            msgspec.json.encode([str(write_amounts) for write_amounts in engine.decide(now_s)])
        for name in manager.nodes():
            manager.explain(name, clock.now())

    def config(document: Any, rng: Random) -> None:
        document["data"] = {}
        for key in rng.sample(tuple(_CONFIG), rng.choice((1, 2, len(_CONFIG)))):
            text = msgspec.json.encode(changed(_CONFIG[key], rng))
            document["data"][key] = (damaged(text, rng) if rng.random() < 0.1 else text).decode("utf-8", "replace")

    return watches.readers("manager", clock, decide, {"configmaps": config})


def webhook_readers() -> list[Reader]:
    """One for each kind that the webhook watches, and one of reviews at every path."""
    watches, clock = CollectedWatches(), Clock()
    facts = WebhookFacts(clock.now)
    rules = ReviewRules(reservations=True, amplifies_nodes=True, limits_quotas=True, checks_devices=True)
    add_watches(watches, facts, rules)

    async def has_pods(quota: Quota) -> bool:
        return len(quota.name) % 2 == 0

    reviewer = Reviewer(facts, rules, has_pods, Random(0))

    def profile(document: Any, rng: Random) -> None:
        spec = document.get("spec")
        if isinstance(spec, dict):
            spec["patch"] = changed(rng.choice(_PATCHES), rng) if rng.random() < 0.7 else None
            if rng.random() < 0.7:
                spec["selector"], spec["namespaceSelector"] = {}, None

    def read(text: bytes) -> None:
        request = read_review(text)
        clock.deliveries += 1
        path = {"pods": "pod", "elasticquotas": "quota", "reservations": "reservation", "nodes": "node-status"}.get(
            request.resource.resource, "pod"
        )
        for step in ("mutate", "validate"):
            if f"/{step}-{path}" in reviewer.paths:
                answer = reviewer.review(f"/{step}-{path}", request)
                try:
                    answer.send(None)
                except StopIteration as end:
                    write_review(request.uid, end.value)

    return [
        *watches.readers("webhook", clock, lambda: None, {COLOCATION_PROFILES.plural: profile}),
        Reader("webhook AdmissionReview", _review_maker(), read, (InvalidInput,), 0.3),
    ]


def lint_reader() -> Reader:
    """Manifests as `cotenant lint` reads them: several documents in one file."""
    pod = {
        "metadata": {"labels": {"koordinator.sh/qosClass": "BE", "a": "b"}, "annotations": {"c": "1"}},
        "spec": {
            "priorityClassName": "koord-batch",
            "nodeSelector": {"pool": "x"},
            "containers": [
                {"name": "a", "resources": {"requests": {"cpu": "1", "koordinator.sh/gpu": 50}, "limits": {"cpu": 2}}}
            ],
        },
    }
    quota = {"min": {"cpu": 1}, "max": {"cpu": "10", "memory": "1Gi"}}
    profile = {
        "selector": {"matchLabels": {"a": "b"}},
        "probability": "50%",
        "qosClass": "BE",
        "priorityClassName": "koord-batch",
    }
    made: list[dict[str, Any]] = [
        {"apiVersion": "v1", "kind": "Pod"} | pod,
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": {"template": pod}},
        {"apiVersion": "batch/v1", "kind": "CronJob", "spec": {"jobTemplate": {"spec": {"template": pod}}}},
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default", "labels": {"pool": "x"}}},
        {"apiVersion": "v1", "kind": "List", "items": [{"apiVersion": "v1", "kind": "Pod"} | pod]},
        {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "p"}, "value": 5500},
        {"apiVersion": COLOCATION_PROFILES.api_version, "kind": COLOCATION_PROFILES.name, "metadata": {"name": "c"},
            "spec": profile},
        {"apiVersion": ELASTIC_QUOTAS.api_version, "kind": ELASTIC_QUOTAS.name, "metadata": {"name": "q"},
            "spec": quota},
        {"apiVersion": RESERVATIONS.api_version, "kind": RESERVATIONS.name, "metadata": {"name": "r"},
            "spec": {"template": pod}},
    ]  # fmt: skip

    def make(rng: Random) -> bytes:
        documents = [changed(entry, rng) for entry in rng.sample(made, rng.choice((1, 3, len(made))))]
        text = b"\n---\n".join(msgspec.json.encode(document) for document in documents)
        return damaged(text, rng) if rng.random() < 0.1 else text

    return Reader("lint", make, lambda text: lint(read_manifests("a.yaml", text)), (InvalidInput,), 0.03)


def _review_maker() -> Any:
    kinds: tuple[Kind[Any], ...] = (PODS, PODS, ELASTIC_QUOTAS, RESERVATIONS, NODES)
    makers = {kind: document_maker(kind.form) for kind in kinds}

    def make(rng: Random) -> bytes:
        kind = rng.choice(kinds)
        new, old = (_object(makers[kind](rng), kind, rng) for _ in range(2))
        request = {
            "uid": f"r{rng.randrange(100)}",
            "operation": rng.choice(_OPERATIONS),
            "resource": {"group": kind.group, "version": "v1", "resource": kind.plural},
            "subResource": "status" if kind is NODES else "",
            "namespace": rng.choice(("default", "kube-system", "a", None)),
            "userInfo": {"username": rng.choice(("system:node:nod1", "admin", text_input(rng))), "groups": []},
            "object": new,
            "oldObject": changed(new, rng) if rng.random() < 0.6 else old,
            "dryRun": rng.random() < 0.2,
        }
        text = msgspec.json.encode({"apiVersion": API_VERSION, "kind": KIND, "request": request})
        return damaged(text, rng) if rng.random() < 0.1 else text

    return make


def _object(document: object, kind: Kind[Any], rng: Random) -> object:
    if isinstance(document, dict) and isinstance(meta := document.get("metadata"), dict) and rng.random() < 0.95:
        meta |= {"name": f"{kind.plural[:3]}{rng.randrange(12)}", "namespace": rng.choice(("default", "a"))}
    return document

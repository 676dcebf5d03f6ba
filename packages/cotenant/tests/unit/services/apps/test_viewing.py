"""The page of a release, from a server with its objects and others' beside them."""

from __future__ import annotations

import asyncio

from tests.fakes.processes.kept_objects import KeptObjects

from cotenant.model.apps.release import ReleaseName
from cotenant.model.assess.prices import NodeRule, PriceTable, UnitPrices
from cotenant.model.json_object import JsonObject
from cotenant.services.apps.carrying import Carrier
from cotenant.services.apps.records import ReleaseRecords
from cotenant.services.apps.viewing import AppObjectiveView, CostView, KnownRelease, QuotaView, ReleaseView, view

KNOWN = KnownRelease("manifests", 4, "deployed", "well", "")
PRICES = PriceTable("EUR", (), UnitPrices(0.1, 0.01, 2.0))


def deployment(name: str = "web", replicas: int = 2) -> JsonObject:
    metadata = {"name": name, "namespace": "shop"}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": {"replicas": replicas}}


def made_by(kind: str, name: str) -> list[JsonObject]:
    return [{"kind": kind, "name": name, "uid": f"uid-{name}", "controller": True}]


def pod(name: str, maker: str = "web-1", phase: str = "Running", node: str = "n1", **requests: str) -> JsonObject:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "shop",
            "uid": f"{len(name):08x}-{name}",
            "ownerReferences": made_by("ReplicaSet", maker),
            "labels": {"koordinator.sh/qosClass": "LS"},
        },
        "spec": {"nodeName": node, "containers": [{"image": "shop/web:1", "resources": {"requests": requests}}]},
        "status": {"phase": phase},
    }


def server(*pods: JsonObject) -> KeptObjects:
    objects = KeptObjects()
    status = {"updatedReplicas": 2, "replicas": 2, "availableReplicas": 1}
    objects.put(deployment(), **status)
    maker: JsonObject = {"name": "web-1", "ownerReferences": made_by("Deployment", "web")}
    objects.put({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": maker})
    for one in pods:
        objects.put(one)
    return objects


def shown(
    objects: KeptObjects, known: KnownRelease = KNOWN, prices: PriceTable | None = None, *documents: JsonObject
) -> ReleaseView:
    release = ReleaseName("shop", "web")
    carrier = Carrier(objects, ReleaseRecords(objects, "shop"), release, lambda line: None)
    return asyncio.run(view(carrier, documents or (deployment(),), known, prices))


def test_the_page_has_the_pods_that_the_releases_workloads_own_and_no_others() -> None:
    page = shown(server(pod("b"), pod("a"), pod("strange", maker="other")))
    assert [(one.name, one.of, one.node, one.qos, one.phase) for one in page.pods] == [
        ("a", "Deployment web", "n1", "LS", "Running"),
        ("b", "Deployment web", "n1", "LS", "Running"),
    ]
    assert page.pods[0].guid == page.pods[1].guid  # of an image's name and the UID's first digits
    assert (page.name, page.namespace, page.source, page.revision, page.state, page.message) == (
        "web", "shop", "manifests", 4, "deployed", "well",
    )  # fmt: skip


def test_an_object_says_how_many_of_its_pods_are_ready_and_why_it_is_not() -> None:
    objects = server()
    (found,) = shown(objects).objects
    assert (found.kind, found.name, found.ready, found.wanted, found.is_stopped) == ("Deployment", "web", 1, 2, False)
    objects.put(
        deployment(), conditions=[{"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"}]
    )
    assert shown(objects).objects[0].why == ("no progress within 600 s",)
    page = shown(objects, KNOWN, None, deployment("gone"))
    assert page.objects[0].why == ("it is not there",)
    assert page.pods == ()


def test_a_pod_that_is_being_deleted_is_terminating_whatever_its_phase() -> None:
    going = pod("a")
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert [one.phase for one in shown(server(going)).pods] == ["Terminating"]


def test_a_release_is_stopped_where_an_object_of_it_is_and_only_if_it_had_been_deployed() -> None:
    objects = server()
    objects.named("deployments", "web")["metadata"]["annotations"] = {"cotenant.io/stopped-from": "2"}
    assert shown(objects).state == "stopped"
    assert shown(objects, KnownRelease("manifests", 4, "failed")).state == "failed"


def test_pods_that_were_made_before_the_class_are_named() -> None:
    batch = pod("with")
    batch["metadata"]["labels"]["koordinator.sh/qosClass"] = "BE"
    batch["spec"]["priorityClassName"] = "koord-batch"
    page = shown(server(batch, pod("without")), KnownRelease("manifests", 4, "deployed", "", "batch"))
    assert (page.class_name, page.without_class) == ("batch", ("without",))
    assert shown(server(batch, pod("without"))).without_class == ()


def test_objectives_are_the_releases_own_and_those_about_its_services() -> None:
    objects = server()
    service: JsonObject = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "front", "namespace": "shop"}}
    own: JsonObject = {
        "apiVersion": "slo.cotenant.io/v1alpha1",
        "kind": "ServiceObjective",
        "metadata": {"name": "own", "namespace": "shop"},
        "spec": {"service": {"name": "elsewhere"}, "target": "99%"},
    }
    objects.put(service)
    objects.put(own, state="burning")
    for name, about in (("of-service", "front"), ("of-workload", "web"), ("of-others", "back")):
        spec = {"service": {"name": about}, "target": "99.9%"}
        objects.put({**own, "metadata": {"name": name, "namespace": "shop"}, "spec": spec})
    page = shown(objects, KNOWN, None, deployment(), service, own)
    assert page.objectives == (
        AppObjectiveView("of-service", "front", "99.9%", "not measured"),
        AppObjectiveView("of-workload", "web", "99.9%", "not measured"),
        AppObjectiveView("own", "elsewhere", "99%", "burning"),
    )
    objects.unserved.add("ServiceObjective")
    assert shown(objects, KNOWN, None, deployment(), service).objectives == ()


def test_quotas_are_the_namespaces_and_those_that_the_pods_name() -> None:
    named = pod("a")
    named["metadata"]["labels"]["quota.scheduling.koordinator.sh/name"] = "team"
    objects = server(named)
    quota: JsonObject = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "all", "namespace": "shop"}}
    objects.put(quota, used={"pods": 3}, hard={"pods": "10"})
    objects.put({**quota, "metadata": {"name": "far", "namespace": "elsewhere"}})
    elastic = {"apiVersion": "scheduling.sigs.k8s.io/v1alpha1", "kind": "ElasticQuota"}
    for name in ("team", "others"):
        metadata = {"name": name, "namespace": "quotas"}
        objects.put({**elastic, "metadata": metadata, "spec": {"max": {"cpu": "9"}}}, used={"cpu": "2"})
    assert shown(objects).quotas == (
        QuotaView("ResourceQuota", "shop/all", {"pods": "3"}, {"pods": "10"}),
        QuotaView("ElasticQuota", "quotas/team", {"cpu": "2"}, {"cpu": "9"}),
    )
    objects.forbidden |= {"resourcequotas", "elasticquotas"}  # what may not be read is left out
    assert shown(objects).quotas == ()


def test_cost_is_of_what_running_pods_request() -> None:
    objects = server(
        pod("a", cpu="1500m", memory="2Gi", **{"nvidia.com/gpu": "1"}),
        pod("b", **{"kubernetes.io/batch-cpu": "500", "kubernetes.io/batch-memory": "1Gi"}),
        pod("ended", phase="Succeeded", cpu="4"),
        pod("failed", phase="Failed", cpu="4"),
        pod("waits", node="", phase="Pending", cpu="4"),
        pod("unreadable", cpu="many"),
    )
    capacity = {"cpu": "8", "memory": "32Gi", "nvidia.com/gpu": "2"}
    objects.put({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}, capacity=capacity)
    assert shown(objects).cost == CostView(2000, 3072)
    cost = shown(objects, KNOWN, PRICES).cost
    assert (cost.cpu_m, cost.memory_mib, cost.currency) == (2000, 3072, "EUR")
    assert cost.per_hour is not None
    assert abs(cost.per_hour - (2.0 * 0.1 + 3.0 * 0.01 + 1 * 2.0)) < 1e-9


def test_a_nodes_price_is_found_by_what_it_is_and_has() -> None:
    objects = server(pod("a", cpu="2"))
    node: JsonObject = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n1", "labels": {"pool": "own"}},
        "spec": {"providerID": "cloud://7"},
    }
    objects.put(node, capacity={"cpu": "4", "memory": "32Gi"})
    for rule in (
        NodeRule(0.8, labels={"pool": "own"}),
        NodeRule(0.8, provider_id="cloud://7"),
        NodeRule(0.8, cpu_m=4000, memory_mib=32768),
    ):
        cost = shown(objects, KNOWN, PriceTable("EUR", (rule,)))
        assert cost.cost.per_hour is not None
        assert abs(cost.cost.per_hour - 0.2) < 1e-9  # 2 of the 4 cores that are worth half of the node


def test_no_price_is_said_where_that_of_one_node_is_not_known() -> None:
    objects = server(pod("a", cpu="1"), pod("b", cpu="1", node="n2"))
    objects.put({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}, capacity={"cpu": "4"})
    cost = shown(objects, KNOWN, PRICES).cost
    assert (cost.cpu_m, cost.per_hour, cost.currency) == (2000, None, "EUR")

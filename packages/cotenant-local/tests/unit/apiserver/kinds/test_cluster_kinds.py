"""Namespaces, nodes, priority classes, services, claims, data, events, leases, reviews."""

from __future__ import annotations

import base64
from typing import Any

import msgspec
import pytest

from cotenant.drivers.kube.manifests.errors import ApiError
from cotenant_local.apiserver.contract import ListOptions
from cotenant_local.apiserver.kinds.built_in import BUILT_IN
from cotenant_local.apiserver.kinds.events import EventBehaviour


def obj(kind: str, name: str, version: str = "v1", **more: Any) -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, **more}


def test_default_objects_of_a_cluster(serve: Any) -> None:
    async def case(server: Any) -> None:
        spaces = await server.api.list(server.at("namespaces", namespace=""))
        assert [item.name for item in spaces.items] == ["default", "kube-node-lease", "kube-public", "kube-system"]
        classes = await server.api.list(server.at("priorityclasses", namespace="", group="scheduling.k8s.io"))
        assert [item.name for item in classes.items] == ["system-cluster-critical", "system-node-critical"]
        assert (await server.get(server.at("services", "kubernetes")))["spec"]["clusterIP"] == "10.96.0.1"
        revision = server.api.store.revision
        await server.api.bootstrap()
        assert server.api.store.revision == revision

    serve(case)


def test_a_namespace_is_removed_when_its_finalizer_is(serve: Any) -> None:
    async def case(server: Any) -> None:
        at = server.at("namespaces", "team", namespace="")
        made = await server.make(at, obj("Namespace", "team"))
        assert made["status"] == {"phase": "Active"}
        assert made["spec"] == {"finalizers": ["kubernetes"]}
        assert made["metadata"]["labels"] == {"kubernetes.io/metadata.name": "team"}
        await server.make(server.at("configmaps", namespace="team"), obj("ConfigMap", "c"))
        await server.api.delete(at)
        going = await server.get(at)
        assert going["status"]["phase"] == "Terminating"
        assert "deletionGracePeriodSeconds" not in going["metadata"]
        late = "unable to create new content in namespace team because it is being terminated"
        with pytest.raises(ApiError, match=f'configmaps "d" is forbidden: {late}') as caught:
            await server.make(server.at("configmaps", namespace="team"), obj("ConfigMap", "d"))
        assert (caught.value.code, caught.value.causes[0].reason) == (403, "NamespaceTerminating")
        going["spec"]["finalizers"] = []
        await server.put(at, going)
        going = await server.get(at)
        assert going["spec"]["finalizers"] == ["kubernetes"]
        going["spec"]["finalizers"] = []
        await server.put(server.at("namespaces", "team", namespace="", sub="finalize"), going)
        with pytest.raises(ApiError, match="not found"):
            await server.get(at)

    serve(case)


def test_system_namespaces_cannot_be_deleted(serve: Any) -> None:
    async def case(server: Any) -> None:
        with pytest.raises(ApiError, match='namespaces "default" is forbidden: this namespace may not be deleted'):
            await server.api.delete(server.at("namespaces", "default", namespace=""))

    serve(case)


@pytest.mark.parametrize("taints", [True, False])
def test_a_new_node_gets_the_not_ready_taint(serve: Any, taints: bool) -> None:
    async def case(server: Any) -> None:
        at = server.at("nodes", "n", namespace="")
        made = await server.make(at, obj("Node", "n", status={"capacity": {"cpu": "4"}}))
        expected = [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]
        assert made.get("spec", {}).get("taints") == (expected if taints else None)
        assert made["status"] == {"capacity": {"cpu": "4"}}
        made.setdefault("spec", {})["taints"] = []
        made["status"] = {}
        made = await server.put(at, made)
        assert made["spec"]["taints"] == []
        assert made["status"] == {"capacity": {"cpu": "4"}}
        made["spec"]["providerID"] = "x"
        made = await server.put(at, made)
        made["spec"]["providerID"] = "y"
        with pytest.raises(ApiError, match="node updates may not change providerID"):
            await server.put(at, made)

    serve(case, taints_new_nodes=taints)


def test_priority_class_values_are_immutable(serve: Any) -> None:
    async def case(server: Any) -> None:
        at = server.at("priorityclasses", "p", namespace="", group="scheduling.k8s.io")
        version = "scheduling.k8s.io/v1"
        made = await server.make(at, obj("PriorityClass", "p", version, value=5))
        made["value"] = 6
        with pytest.raises(ApiError, match="value: Forbidden: may not be changed in an update"):
            await server.put(at, made)
        every = server.at("priorityclasses", namespace="", group="scheduling.k8s.io")
        with pytest.raises(ApiError, match="reserved for system use only"):
            await server.make(every, obj("PriorityClass", "system-x", version, value=5))
        with pytest.raises(ApiError, match="maximum allowed value of a user defined priority is 1000000000"):
            await server.make(every, obj("PriorityClass", "q", version, value=2_000_000_000))

    serve(case)


def test_services_get_an_immutable_cluster_ip(serve: Any) -> None:
    async def case(server: Any) -> None:
        at = server.at("services")
        first = await server.make(at, obj("Service", "a", spec={"ports": [{"port": 80}]}))
        second = await server.make(at, obj("Service", "b", spec={"ports": [{"port": 80}]}))
        assert first["spec"]["clusterIP"].startswith("10.96.")
        assert first["spec"]["clusterIP"] != second["spec"]["clusterIP"]
        headless = await server.make(at, obj("Service", "c", spec={"clusterIP": "None"}))
        assert headless["spec"]["clusterIP"] == "None"
        kept = await server.put(server.at("services", "a"), obj("Service", "a", spec={"ports": [{"port": 81}]}))
        assert kept["spec"]["clusterIP"] == first["spec"]["clusterIP"]
        kept["spec"].update(clusterIP="10.96.9.9", clusterIPs=["10.96.9.9"])
        with pytest.raises(ApiError, match="may not change once set"):
            await server.put(server.at("services", "a"), kept)

    serve(case)


def test_a_claim_starts_pending_with_an_immutable_spec(serve: Any) -> None:
    async def case(server: Any) -> None:
        at = server.at("persistentvolumeclaims", "c")
        made = await server.make(at, obj("PersistentVolumeClaim", "c", spec={"accessModes": ["ReadWriteOnce"]}))
        assert made["status"] == {"phase": "Pending"}
        made["spec"]["volumeName"] = "pv1"
        made = await server.put(at, made)
        made["spec"]["accessModes"] = ["ReadWriteMany"]
        with pytest.raises(ApiError, match="spec is immutable after creation"):
            await server.put(at, made)

    serve(case)


def test_immutable_data_cannot_change(serve: Any) -> None:
    async def case(server: Any) -> None:
        at = server.at("configmaps", "c")
        made = await server.make(at, obj("ConfigMap", "c", data={"a": "1"}, immutable=True))
        for change in ({"data": {"a": "2"}}, {"immutable": False}):
            with pytest.raises(ApiError, match="field is immutable when `immutable` is set"):
                await server.put(at, {**made, **change})
        made["metadata"]["labels"] = {"x": "1"}
        await server.put(at, made)
        secret = server.at("secrets", "s")
        made = await server.make(secret, obj("Secret", "s", stringData={"a": "plain"}))
        assert made["type"] == "Opaque"
        assert base64.b64decode(made["data"]["a"]) == b"plain"
        assert "stringData" not in made
        with pytest.raises(ApiError, match="type: Invalid value"):
            await server.put(secret, {**made, "type": "example.com/other"})

    serve(case)


def test_one_event_is_served_in_both_api_groups(serve: Any) -> None:
    async def case(server: Any) -> None:
        about = {"kind": "Pod", "name": "p", "namespace": "default"}
        event = obj("Event", "e", involvedObject=about, message="m", count=2, source={"component": "c"}, type="Normal")
        await server.make(server.at("events"), event)
        newer = server.api.registry.find("events.k8s.io", "v1", "events")
        target = server.at("events", "e", group="events.k8s.io")
        assert target.resource is newer
        found = await server.get(target)
        assert found["apiVersion"] == "events.k8s.io/v1"
        assert (found["regarding"], found["note"], found["deprecatedCount"]) == (about, "m", 2)
        other = obj(
            "Event", "f", "events.k8s.io/v1", regarding=about, note="n", eventTime="2027-01-15T08:00:00.000000Z"
        )
        watch = server.api.watch(
            server.at("events", group="events.k8s.io"), ListOptions(resource_version=str(server.api.store.revision))
        )
        shown = await server.make(server.at("events", group="events.k8s.io"), other)
        assert shown["note"] == "n"
        assert msgspec.json.decode(await anext(watch))["object"] == shown
        old_form = await server.get(server.at("events", "f"))
        assert (old_form["apiVersion"], old_form["message"], old_form["involvedObject"]) == ("v1", "n", about)
        page = await server.api.list(server.at("events"), ListOptions(fields="involvedObject.name=p"))
        assert len(page.items) == 2

    serve(case)


def test_an_event_must_be_in_the_namespace_of_its_object(serve: Any) -> None:
    async def case(server: Any) -> None:
        about = {"kind": "Pod", "name": "p", "namespace": "kube-system"}
        with pytest.raises(ApiError, match="does not match"):
            await server.make(server.at("events"), obj("Event", "e", involvedObject=about))
        await server.make(server.at("events"), obj("Event", "e", involvedObject={"kind": "Node", "name": "n"}))

    serve(case)


def test_only_core_events_may_generate_names_with_a_dot(serve: Any) -> None:
    async def case(server: Any) -> None:
        event = obj("Event", "", involvedObject={"kind": "Node", "name": "n"})
        event["metadata"] = {"generateName": "n."}
        assert (await server.make(server.at("events"), event))["metadata"]["name"].startswith("n.")
        newer = {"apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"generateName": "n."}}
        with pytest.raises(ApiError, match=r'metadata\.generateName: Invalid value: "n."') as caught:
            await server.make(server.at("events", group="events.k8s.io"), newer)
        assert caught.value.code == 422

    serve(case)


def test_events_expire_after_an_hour_and_beyond_a_maximum(serve: Any) -> None:
    async def case(server: Any) -> None:
        server.api.context.behaviours[("", "events")] = EventBehaviour(max_events=3)
        about = {"kind": "Node", "name": "n"}

        async def names() -> list[str]:
            return [item.name for item in (await server.api.list(server.at("events"))).items]

        await server.make(server.at("events"), obj("Event", "a", involvedObject=about))
        await server.make(server.at("events"), obj("Event", "b", involvedObject=about))
        server.time[0] += 3_000
        await server.put(server.at("events", "a"), obj("Event", "a", involvedObject=about, count=2))
        server.time[0] += 1_000
        await server.make(server.at("events"), obj("Event", "c", involvedObject=about))
        assert await names() == ["a", "c"]
        for name in "def":
            await server.make(server.at("events"), obj("Event", name, involvedObject=about))
        assert await names() == ["d", "e", "f"]

    serve(case)


def test_a_lease_is_created_by_put_and_updates_need_a_version(serve: Any) -> None:
    async def case(server: Any) -> None:
        at = server.at("leases", "l", group="coordination.k8s.io")
        lease = obj("Lease", "l", "coordination.k8s.io/v1", spec={"holderIdentity": "a"})
        answer = await server.api.update(at, dict(lease))
        assert answer.created
        with pytest.raises(
            ApiError, match=r"metadata.resourceVersion: Invalid value: 0: must be specified for an update"
        ):
            await server.put(at, obj("Lease", "l", "coordination.k8s.io/v1"))

    serve(case)


def test_reviews_allow_everything_and_are_not_stored(serve: Any) -> None:
    async def case(server: Any) -> None:
        before = server.api.store.revision
        at = server.at("selfsubjectaccessreviews", namespace="", group="authorization.k8s.io")
        answer = await server.make(at, {"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}})
        assert answer["status"]["allowed"] is True
        with pytest.raises(ApiError, match="exactly one of"):
            await server.make(at, {"spec": {}})
        assert server.api.store.revision == before

    serve(case)


def test_short_names_and_kinds_are_unique() -> None:
    seen: dict[tuple[str, str], str] = {}
    for resource in BUILT_IN:
        for name in (resource.plural, *resource.short_names):
            assert seen.setdefault((resource.group, name), resource.kind) == resource.kind
    assert all(("status" in r.subresources) <= ("update" in r.verbs) for r in BUILT_IN)

"""Pods: defaults at creation, binding, immutable fields, graceful deletion."""

from __future__ import annotations

from typing import Any

import pytest

from cotenant.drivers.kube.manifests.errors import ApiError
from cotenant_local.apiserver.contract import DeletionOptions, ListOptions


def binding(name: str = "p", node: str = "n1", **metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name, **metadata},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }


def test_a_new_pod_is_pending_with_priority_tolerations_and_service_account(serve: Any, pod: Any) -> None:
    async def case(server: Any) -> None:
        made = await server.make(server.at("pods"), {**pod(), "status": {"phase": "Running"}})
        assert made["status"] == {"phase": "Pending", "qosClass": "BestEffort"}
        assert made["spec"]["priority"] == 0
        assert made["spec"]["preemptionPolicy"] == "PreemptLowerPriority"
        assert made["spec"]["serviceAccountName"] == "default"
        assert made["metadata"]["generation"] == 1
        assert [(t["key"], t["tolerationSeconds"]) for t in made["spec"]["tolerations"]] == [
            ("node.kubernetes.io/not-ready", 300),
            ("node.kubernetes.io/unreachable", 300),
        ]

    serve(case)


@pytest.mark.parametrize(
    ("given", "added"),
    [
        ([{"operator": "Exists"}], []),
        ([{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}], ["unreachable"]),
        (
            [{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoSchedule"}],
            ["not-ready", "unreachable"],
        ),
    ],
)
def test_default_tolerations_do_not_replace_the_pods_own(serve: Any, pod: Any, given: Any, added: list[str]) -> None:
    async def case(server: Any) -> None:
        made = await server.make(server.at("pods"), pod(tolerations=given))
        assert [t["key"].rpartition("/")[2] for t in made["spec"]["tolerations"][len(given) :]] == added

    serve(case)


def test_priority_comes_from_the_class(serve: Any, pod: Any) -> None:
    async def case(server: Any) -> None:
        classes = server.at("priorityclasses", namespace="", group="scheduling.k8s.io")
        high = {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": "high"},
            "value": 100,
        }
        await server.make(classes, {**high, "preemptionPolicy": "Never"})
        made = await server.make(server.at("pods"), pod("a", priorityClassName="high"))
        assert (made["spec"]["priority"], made["spec"]["preemptionPolicy"]) == (100, "Never")
        with pytest.raises(ApiError, match='pods "b" is forbidden: no PriorityClass with name low was found') as caught:
            await server.make(server.at("pods"), pod("b", priorityClassName="low"))
        assert caught.value.code == 403
        with pytest.raises(ApiError, match=r"the integer value of priority \(7\) must not be provided"):
            await server.make(server.at("pods"), pod("b", priority=7))
        made = await server.make(server.at("pods"), pod("c", priorityClassName="system-node-critical"))
        assert made["spec"]["priority"] == 2_000_001_000
        await server.make(classes, {**high, "metadata": {"name": "usual"}, "value": 5, "globalDefault": True})
        made = await server.make(server.at("pods"), pod("d"))
        assert (made["spec"]["priority"], made["spec"]["priorityClassName"]) == (5, "usual")
        with pytest.raises(ApiError, match="PriorityClass usual is already marked as default"):
            await server.make(classes, {**high, "metadata": {"name": "second"}, "globalDefault": True})

    serve(case)


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        ({}, "BestEffort"),
        ({"requests": {"cpu": "1"}}, "Burstable"),
        ({"limits": {"cpu": "1", "memory": "1Gi"}}, "Guaranteed"),
        ({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1000m", "memory": "1024Mi"}}, "Guaranteed"),
        ({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m"}}, "Burstable"),
        ({"limits": {"nvidia.com/gpu": "1"}}, "BestEffort"),
    ],
)
def test_quality_of_service(serve: Any, pod: Any, resources: Any, expected: str) -> None:
    async def case(server: Any) -> None:
        made = await server.make(
            server.at("pods"), pod(containers=[{"name": "c", "image": "i", "resources": resources}])
        )
        assert made["status"]["qosClass"] == expected

    serve(case)


def test_a_bind_sets_the_node_and_merges_annotations_and_labels(serve: Any, pod: Any) -> None:
    async def case(server: Any) -> None:
        made = await server.make(server.at("pods"), pod())
        answer = await server.make(
            server.at("pods", "p", sub="binding"),
            binding(uid=made["metadata"]["uid"], annotations={"why": "fits"}, labels={"zone": "z"}),
        )
        assert answer["status"] == "Success"
        bound = await server.get(server.at("pods", "p"))
        assert bound["spec"]["nodeName"] == "n1"
        assert bound["metadata"]["annotations"] == {"why": "fits"}
        assert bound["metadata"]["labels"] == {"app": "a", "zone": "z"}
        (condition,) = bound["status"]["conditions"]
        assert (condition["type"], condition["status"]) == ("PodScheduled", "True")
        assert bound["metadata"]["generation"] == 1

    serve(case)


def test_the_bindings_resource_binds_too_and_does_not_check_the_node(serve: Any, pod: Any) -> None:
    async def case(server: Any) -> None:
        await server.make(server.at("pods"), pod())
        await server.make(server.at("bindings"), binding(node="nowhere"))
        assert (await server.get(server.at("pods", "p")))["spec"]["nodeName"] == "nowhere"

    serve(case)


def test_an_impossible_bind_is_a_conflict(serve: Any, pod: Any) -> None:
    async def case(server: Any) -> None:
        await server.make(server.at("pods"), pod())
        at = server.at("pods", "p", sub="binding")
        with pytest.raises(ApiError, match="Precondition failed: UID in precondition: other") as caught:
            await server.make(at, binding(uid="other"))
        assert caught.value.code == 409
        await server.make(at, binding())
        again = 'Operation cannot be fulfilled on pods/binding "p": pod p is already assigned to node "n1"'
        with pytest.raises(ApiError, match=again) as caught:
            await server.make(at, binding(node="n2"))
        assert (caught.value.code, caught.value.reason) == (409, "Conflict")
        await server.make(server.at("pods"), pod("g", schedulingGates=[{"name": "example.com/wait"}]))
        with pytest.raises(ApiError, match=r"pod g has non-empty .spec.schedulingGates") as caught:
            await server.make(server.at("pods", "g", sub="binding"), binding("g"))
        assert caught.value.code == 409
        with pytest.raises(ApiError, match='pods "x" not found'):
            await server.make(server.at("pods", "x", sub="binding"), binding("x"))
        with pytest.raises(ApiError, match="name in URL does not match name in Binding object"):
            await server.make(at, binding("q"))

    serve(case)


def test_scheduling_gates_set_a_condition_and_can_only_be_removed(serve: Any, pod: Any) -> None:
    async def case(server: Any) -> None:
        gates = [{"name": "a.b/c"}, {"name": "a.b/d"}]
        made = await server.make(server.at("pods"), pod(schedulingGates=gates))
        assert made["status"]["conditions"][0]["reason"] == "SchedulingGated"
        made["spec"]["schedulingGates"] = [*gates, {"name": "a.b/e"}]
        with pytest.raises(ApiError, match=r"only deletion is allowed, but found new scheduling gate 'a.b/e'"):
            await server.put(server.at("pods", "p"), made)
        made = await server.get(server.at("pods", "p"))
        made["spec"]["nodeSelector"] = {"disk": "ssd"}
        made["spec"]["schedulingGates"] = []
        changed = await server.put(server.at("pods", "p"), made)
        assert changed["spec"]["nodeSelector"] == {"disk": "ssd"}
        assert changed["metadata"]["generation"] == 2
        changed["spec"]["nodeSelector"] = {"disk": "hdd"}
        with pytest.raises(ApiError, match="pod updates may not change fields other than"):
            await server.put(server.at("pods", "p"), changed)

    serve(case)


@pytest.mark.parametrize(
    ("change", "is_allowed"),
    [
        ({"containers": [{"name": "c", "image": "i:2"}]}, True),
        ({"containers": [{"name": "c", "image": "i:1", "command": ["x"]}]}, False),
        ({"containers": [{"name": "c", "image": "i:1"}, {"name": "d", "image": "i"}]}, False),
        ({"containers": [{"name": "c", "image": ""}]}, False),
        ({"activeDeadlineSeconds": 10}, True),
        ({"schedulerName": "other"}, False),
        ({"nodeName": "n1"}, False),
        ({"terminationGracePeriodSeconds": 5}, False),
        ({"tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Equal", "effect": "NoExecute"}]}, False),
    ],
)
def test_only_some_fields_of_a_pod_are_mutable(serve: Any, pod: Any, change: Any, is_allowed: bool) -> None:
    async def case(server: Any) -> None:
        made = await server.make(server.at("pods"), pod())
        made["spec"].update(change)
        if is_allowed:
            assert (await server.put(server.at("pods", "p"), made))["metadata"]["generation"] == 2
        else:
            with pytest.raises(ApiError) as caught:
                await server.put(server.at("pods", "p"), made)
            assert (caught.value.code, caught.value.reason) == (422, "Invalid")

    serve(case)


def test_tolerations_can_be_added_and_their_duration_changed(serve: Any, pod: Any) -> None:
    async def case(server: Any) -> None:
        made = await server.make(server.at("pods"), pod())
        made["spec"]["tolerations"][0]["tolerationSeconds"] = 5
        made["spec"]["tolerations"].append({"key": "k", "operator": "Exists"})
        assert len((await server.put(server.at("pods", "p"), made))["spec"]["tolerations"]) == 3

    serve(case)


def test_status_and_spec_are_written_separately(serve: Any, pod: Any) -> None:
    async def case(server: Any) -> None:
        made = await server.make(server.at("pods"), pod())
        made["status"] = {"phase": "Running"}
        made["spec"]["schedulerName"] = "ignored"
        made["metadata"]["ownerReferences"] = [{"apiVersion": "v1", "kind": "X", "name": "x", "uid": "u"}]
        status = await server.put(server.at("pods", "p", sub="status"), made)
        assert status["status"] == {"phase": "Running", "qosClass": "BestEffort"}
        assert "schedulerName" not in status["spec"]
        assert "ownerReferences" not in status["metadata"]
        assert status["metadata"]["generation"] == 1
        status["status"] = {"phase": "Failed"}
        again = await server.put(server.at("pods", "p"), status)
        assert again["status"]["phase"] == "Running"
        assert again["metadata"]["resourceVersion"] == status["metadata"]["resourceVersion"]

    serve(case)


def test_an_unassigned_pod_is_deleted_immediately(serve: Any, pod: Any) -> None:
    async def case(server: Any) -> None:
        await server.make(server.at("pods"), pod(terminationGracePeriodSeconds=60))
        await server.api.delete(server.at("pods", "p"))
        with pytest.raises(ApiError, match="not found"):
            await server.get(server.at("pods", "p"))

    serve(case)


def test_a_bound_pod_terminates_gracefully(serve: Any, pod: Any) -> None:
    async def case(server: Any) -> None:
        await server.make(server.at("pods"), pod(terminationGracePeriodSeconds=60, nodeName="n1"))
        at = server.at("pods", "p")
        await server.api.delete(at)
        marked = (await server.get(at))["metadata"]
        assert (marked["deletionTimestamp"], marked["deletionGracePeriodSeconds"]) == ("2027-01-15T08:01:00Z", 60)
        assert marked["generation"] == 2
        await server.api.delete(at, DeletionOptions(grace_s=90))
        assert (await server.get(at))["metadata"] == marked
        await server.api.delete(at, DeletionOptions(grace_s=10))
        assert (await server.get(at))["metadata"]["deletionTimestamp"] == "2027-01-15T08:00:10Z"
        with pytest.raises(ApiError, match="is being deleted, cannot be assigned to a host"):
            await server.make(server.at("pods", "p", sub="binding"), binding())
        await server.api.delete(at, DeletionOptions(grace_s=0))
        with pytest.raises(ApiError, match="not found"):
            await server.get(at)

    serve(case)


def test_a_finished_pod_is_deleted_immediately(serve: Any, pod: Any) -> None:
    async def case(server: Any) -> None:
        made = await server.make(server.at("pods"), pod(nodeName="n1"))
        made["status"] = {"phase": "Succeeded"}
        await server.put(server.at("pods", "p", sub="status"), made)
        await server.api.delete(server.at("pods", "p"))
        with pytest.raises(ApiError, match="not found"):
            await server.get(server.at("pods", "p"))

    serve(case)


def test_a_bind_is_a_deletion_under_an_unassigned_field_selector(serve: Any, pod: Any) -> None:
    import msgspec

    async def case(server: Any) -> None:
        watch = server.api.watch(server.at("pods", namespace=""), ListOptions(fields="spec.nodeName="))
        await server.make(server.at("pods"), pod())
        await server.make(server.at("pods", "p", sub="binding"), binding())
        events = [msgspec.json.decode(await anext(watch)) for _ in range(2)]
        assert [event["type"] for event in events] == ["ADDED", "DELETED"]
        assert "nodeName" not in events[1]["object"]["spec"]
        bound = await server.get(server.at("pods", "p"))
        assert events[1]["object"]["metadata"]["resourceVersion"] == bound["metadata"]["resourceVersion"]

    serve(case)


def test_a_resize_changes_cpu_and_memory_only(serve: Any, pod: Any) -> None:
    async def case(server: Any) -> None:
        resources = {"requests": {"cpu": "100m", "memory": "64Mi"}}
        await server.make(server.at("pods"), pod(containers=[{"name": "c", "image": "i", "resources": resources}]))
        at = server.at("pods", "p", sub="resize")
        wanted = await server.get(server.at("pods", "p"))
        wanted["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "200m"
        wanted["spec"]["containers"][0]["image"] = "ignored"
        resized = await server.put(at, wanted)
        assert resized["spec"]["containers"][0]["resources"]["requests"]["cpu"] == "200m"
        assert resized["spec"]["containers"][0]["image"] == "i"
        assert resized["metadata"]["generation"] == 2
        resized["spec"]["containers"][0]["resources"] = {}
        with pytest.raises(ApiError, match="Pod QOS Class may not change as a result of resizing"):
            await server.put(at, resized)

    serve(case)


def test_ephemeral_containers_can_be_added(serve: Any, pod: Any) -> None:
    async def case(server: Any) -> None:
        made = await server.make(server.at("pods"), pod())
        made["spec"]["ephemeralContainers"] = [{"name": "debug", "image": "busybox"}]
        at = server.at("pods", "p", sub="ephemeralcontainers")
        made = await server.put(at, made)
        assert made["spec"]["ephemeralContainers"][0]["name"] == "debug"
        made["spec"]["ephemeralContainers"] = []
        with pytest.raises(ApiError, match="may not be removed"):
            await server.put(at, made)

    serve(case)

"""Workloads: immutable selectors, generated Job selectors, generations, and the scale subresource."""

from __future__ import annotations

from typing import Any

import pytest

from cotenant.drivers.kube.manifests.errors import ApiError
from cotenant_local.apiserver.contract import DeletionOptions

APPS = [
    ("Deployment", "deployments"),
    ("ReplicaSet", "replicasets"),
    ("StatefulSet", "statefulsets"),
    ("DaemonSet", "daemonsets"),
]


def workload(kind: str, name: str = "w", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": {"app": "a"}},
            "template": {
                "metadata": {"labels": {"app": "a"}},
                "spec": {"containers": [{"name": "c", "image": "i:1"}]},
            },
            **spec,
        },
    }


def a_job(name: str = "j", **spec: Any) -> dict[str, Any]:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i:1"}]}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": {"template": template, **spec}}


@pytest.mark.parametrize(("kind", "plural"), APPS)
def test_generation_counts_spec_changes_only(serve: Any, kind: str, plural: str) -> None:
    async def case(server: Any) -> None:
        at = server.at(plural, "w", group="apps")
        made = await server.make(at, {**workload(kind), "status": {"replicas": 9}})
        assert made["metadata"]["generation"] == 1
        assert made["status"].get("replicas", 0) == 0
        made["metadata"]["labels"] = {"x": "1"}
        made = await server.put(at, made)
        assert made["metadata"]["generation"] == 1
        made["spec"]["template"]["spec"]["containers"][0]["image"] = "i:2"
        made["status"] = {"replicas": 9}
        made = await server.put(at, made)
        assert made["metadata"]["generation"] == 2
        assert made["status"].get("replicas", 0) == 0
        made["status"] = {"replicas": 3, "observedGeneration": 2}
        made["spec"]["minReadySeconds"] = 5
        made = await server.put(server.at(plural, "w", group="apps", sub="status"), made)
        assert made["status"]["replicas"] == 3
        assert "minReadySeconds" not in made["spec"]
        assert made["metadata"]["generation"] == 2

    serve(case)


@pytest.mark.parametrize(("kind", "plural"), APPS)
def test_a_selector_is_required_must_match_and_is_immutable(serve: Any, kind: str, plural: str) -> None:
    async def case(server: Any) -> None:
        at = server.at(plural, group="apps")
        for selector, why in (
            (None, r"spec.selector: Required value"),
            ({}, "empty selector is invalid for"),
            ({"matchLabels": {"app": "b"}}, "`selector` does not match template `labels`"),
        ):
            with pytest.raises(ApiError, match=why) as caught:
                await server.make(at, workload(kind, selector=selector))
            assert caught.value.code == 422
        made = await server.make(at, workload(kind))
        made["spec"]["selector"] = {"matchLabels": {"app": "b"}}
        made["spec"]["template"]["metadata"]["labels"] = {"app": "b"}
        why = (
            "updates to statefulset spec"
            if kind == "StatefulSet"
            else "spec.selector: Invalid value: .* field is immutable"
        )
        with pytest.raises(ApiError, match=why):
            await server.put(server.at(plural, "w", group="apps"), made)

    serve(case)


@pytest.mark.parametrize(("kind", "plural"), APPS[:3])
def test_scale(serve: Any, kind: str, plural: str) -> None:
    async def case(server: Any) -> None:
        await server.make(server.at(plural, group="apps"), workload(kind, replicas=2))
        at = server.at(plural, "w", group="apps", sub="scale")
        scale = await server.get(at)
        assert (scale["apiVersion"], scale["kind"]) == ("autoscaling/v1", "Scale")
        assert scale["spec"] == {"replicas": 2}
        assert scale["status"]["selector"] == "app=a"
        scale["spec"]["replicas"] = 5
        assert (await server.put(at, scale))["spec"] == {"replicas": 5}
        found = await server.get(server.at(plural, "w", group="apps"))
        assert (found["spec"]["replicas"], found["metadata"]["generation"]) == (5, 2)
        with pytest.raises(ApiError, match="the object has been modified"):
            await server.put(at, scale)
        del scale["metadata"]["resourceVersion"]
        scale["spec"]["replicas"] = -1
        with pytest.raises(ApiError, match="Invalid value: -1: must be greater than or equal to 0"):
            await server.put(at, scale)

    serve(case)


def test_a_job_selects_its_own_pods(serve: Any) -> None:
    async def case(server: Any) -> None:
        made = await server.make(server.at("jobs", group="batch"), a_job())
        uid = made["metadata"]["uid"]
        assert made["spec"]["selector"] == {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}
        labels = made["spec"]["template"]["metadata"]["labels"]
        assert labels["batch.kubernetes.io/job-name"] == labels["job-name"] == "j"
        assert made["metadata"]["labels"] == labels

    serve(case)


def test_immutable_fields_of_a_job(serve: Any) -> None:
    async def case(server: Any) -> None:
        at = server.at("jobs", "j", group="batch")
        await server.make(at, a_job(completions=2))
        for change, why in (
            ({"completions": 3}, "spec.completions: Invalid value: 3: field is immutable"),
            ({"selector": {"matchLabels": {"a": "b"}}}, "spec.selector: .* field is immutable"),
        ):
            made = await server.get(at)
            made["spec"].update(change)
            with pytest.raises(ApiError, match=why):
                await server.put(at, made)
        made = await server.get(at)
        made["spec"]["template"]["spec"]["containers"][0]["image"] = "i:2"
        with pytest.raises(ApiError, match=r"spec\.template: .* field is immutable"):
            await server.put(at, made)
        made = await server.get(at)
        made["spec"]["parallelism"] = 4
        assert (await server.put(at, made))["spec"]["parallelism"] == 4
        with pytest.raises(ApiError, match='Required value: valid values: "OnFailure", "Never"'):
            await server.make(server.at("jobs", group="batch"), a_job("k", template={"spec": {"containers": []}}))

    serve(case)


def test_a_suspended_job_may_change_its_scheduling_directives(serve: Any) -> None:
    async def case(server: Any) -> None:
        at = server.at("jobs", "j", group="batch")
        made = await server.make(at, a_job(suspend=True))
        made["spec"]["template"]["spec"]["nodeSelector"] = {"disk": "ssd"}
        made = await server.put(at, made)
        made["spec"]["template"]["spec"]["containers"][0]["image"] = "i:2"
        with pytest.raises(ApiError, match="field is immutable"):
            await server.put(at, made)

    serve(case)


@pytest.mark.parametrize(
    ("plural", "group", "propagation", "finalizers"),
    [
        ("jobs", "batch", "", ["orphan"]),
        ("jobs", "batch", "Background", None),
        ("deployments", "apps", "", None),
        ("deployments", "apps", "Foreground", ["foregroundDeletion"]),
        ("deployments", "apps", "Orphan", ["orphan"]),
    ],
)
def test_default_propagation_policy_per_kind(
    serve: Any, plural: str, group: str, propagation: str, finalizers: list[str] | None
) -> None:
    async def case(server: Any) -> None:
        at = server.at(plural, "j" if group == "batch" else "w", group=group)
        await server.make(at, a_job() if group == "batch" else workload("Deployment"))
        await server.api.delete(at, DeletionOptions(propagation=propagation))
        if finalizers is None:
            with pytest.raises(ApiError, match="not found"):
                await server.get(at)
            return
        marked = (await server.get(at))["metadata"]
        assert marked["finalizers"] == finalizers
        assert marked["deletionGracePeriodSeconds"] == 0
        assert marked["generation"] == 2
        with pytest.raises(ApiError, match="Unsupported value"):
            await server.api.delete(at, DeletionOptions(propagation="Sideways"))

    serve(case)

"""Custom kinds on a running server: served after their definition is created, removed with it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.fakes.waiting import soon

from cotenant.drivers.kube.manifests.errors import ApiError, Manifest
from cotenant_local.apiserver import patching
from cotenant_local.apiserver.assembly import built_in
from cotenant_local.apiserver.contract import APPLY, MERGE, RequestTarget, WriteOptions
from cotenant_local.apiserver.custom.serving import FINALIZER, CustomKinds
from cotenant_local.apiserver.registry import ResourceRegistry
from cotenant_local.apiserver.storage.store import Store
from cotenant_local.apiserver.verbs.api import Api

FOLDER = Path(__file__).parent / "crds"
GROUP = "scheduling.x-k8s.io"


def definition() -> Manifest:
    return patching.read_document((FOLDER / "podgroups.yaml").read_bytes(), yaml=True)


def run(case: Callable[[Api, CustomKinds], Awaitable[None]]) -> None:
    async def main() -> None:
        api = Api(Store(), ResourceRegistry(built_in()), patching=patching)
        await api.bootstrap()
        kinds = CustomKinds(api)
        api.admission.append(kinds)
        await kinds.start()
        try:
            await case(api, kinds)
        finally:
            await kinds.stop()
            await api.close()

    asyncio.run(main())


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    await soon("it holds", holds)


def crd(api: Api, name: str = "podgroups.scheduling.x-k8s.io", sub: str = "") -> RequestTarget:
    return api.target("apiextensions.k8s.io", "customresourcedefinitions", "", name, sub)


async def read(api: Api, target: RequestTarget) -> Any:
    return msgspec.json.decode(await api.get(target))


def group(name: str, version: str = "v1alpha1", **spec: Any) -> dict[str, Any]:
    """An object of the kind, with the required apiVersion and kind."""
    return {"apiVersion": f"{GROUP}/{version}", "kind": "PodGroup", "metadata": {"name": name}, "spec": spec}


async def define(api: Api, obj: Manifest | None = None) -> None:
    await api.create(crd(api, ""), obj or definition())

    async def established() -> bool:
        found = await read(api, crd(api))
        return {"Established"} <= {
            c["type"] for c in found.get("status", {}).get("conditions", []) if c["status"] == "True"
        }

    await until(established)


def test_a_definition_is_established_and_its_objects_can_be_written() -> None:
    async def case(api: Api, kinds: CustomKinds) -> None:
        await define(api)
        found = await read(api, crd(api))
        assert found["status"]["storedVersions"] == ["v1alpha1"]
        assert found["status"]["acceptedNames"]["plural"] == "podgroups"
        assert found["metadata"]["finalizers"] == [FINALIZER]
        groups = api.target(GROUP, "podgroups", "default")
        made = await api.create(groups, group("g", minMember=2, typo=1))
        assert made.warnings == ['unknown field "spec.typo"']
        with pytest.raises(ApiError, match=r"spec\.minMember in body should be greater than or equal to 1"):
            await api.create(groups, group("h", minMember=0))

    run(case)


def test_server_side_apply_and_merge_patches_work_on_custom_objects() -> None:
    async def case(api: Api, kinds: CustomKinds) -> None:
        await define(api)
        one = api.target(GROUP, "podgroups", "default", "g")
        body = msgspec.json.encode(
            {
                "apiVersion": f"{GROUP}/v1alpha1",
                "kind": "PodGroup",
                "metadata": {"name": "g"},
                "spec": {"minMember": 2, "minResources": {"cpu": 3}},
            }
        )
        await api.patch(one, body, APPLY, WriteOptions(manager="a"))
        await api.patch(one, b'{"spec":{"scheduleTimeoutSeconds":10}}', MERGE, WriteOptions(manager="b"))
        found = await read(api, one)
        fields = {entry["manager"]: entry["fieldsV1"] for entry in found["metadata"]["managedFields"]}
        assert fields == {
            "a": {"f:spec": {"f:minMember": {}, "f:minResources": {"f:cpu": {}}}},
            "b": {"f:spec": {"f:scheduleTimeoutSeconds": {}}},
        }

    run(case)


def test_deleting_a_definition_deletes_its_objects_first() -> None:
    async def case(api: Api, kinds: CustomKinds) -> None:
        await define(api)
        await api.create(api.target(GROUP, "podgroups", "default"), group("g", minMember=2))
        await api.delete(crd(api))

        async def is_gone() -> bool:
            return api.registry.find(GROUP, "v1alpha1", "podgroups") is None

        await until(is_gone)
        with pytest.raises(ApiError, match="could not find"):
            api.target(GROUP, "podgroups")

        async def is_undefined() -> bool:
            return (
                api.context.find(
                    "apiextensions.k8s.io", "customresourcedefinitions", "", "podgroups.scheduling.x-k8s.io"
                )
                is None
            )

        await until(is_undefined)
        assert api.context.find(GROUP, "podgroups", "default", "g") is None

    run(case)


def test_a_restarted_server_serves_existing_definitions() -> None:
    async def case(api: Api, kinds: CustomKinds) -> None:
        await define(api)
        await kinds.stop()
        again = Api(api.store, ResourceRegistry(built_in()), patching=patching)
        other = CustomKinds(again)
        await other.start()
        assert again.registry.find(GROUP, "v1alpha1", "podgroups") is not None
        await other.stop()

    run(case)


def test_names_in_use_are_not_accepted() -> None:
    async def case(api: Api, kinds: CustomKinds) -> None:
        await define(api)
        second = definition()
        second["metadata"]["name"] = "gangs.scheduling.x-k8s.io"
        second["spec"]["names"] = {"plural": "gangs", "kind": "Gang", "shortNames": ["pg"]}
        await api.create(crd(api, ""), second)

        async def is_refused() -> bool:
            found = await read(api, crd(api, "gangs.scheduling.x-k8s.io"))
            states = {entry["type"]: entry for entry in found.get("status", {}).get("conditions", [])}
            return "Established" in states and states["NamesAccepted"]["message"] == '"pg" is already in use'

        await until(is_refused)
        assert api.registry.find(GROUP, "v1alpha1", "gangs") is None

    run(case)


def test_all_versions_are_served_from_one_stored_version() -> None:
    async def case(api: Api, kinds: CustomKinds) -> None:
        obj = definition()
        first = obj["spec"]["versions"][0]
        obj["spec"]["versions"] = [{**first, "name": "v1beta1", "storage": False}, first]
        await define(api, obj)
        old = api.registry.find(GROUP, "v1beta1", "podgroups")
        assert old is not None
        await api.create(RequestTarget(old, "default"), group("g", "v1beta1", minMember=2))
        assert (await read(api, RequestTarget(old, "default", "g")))["apiVersion"] == f"{GROUP}/v1beta1"
        assert (await read(api, api.target(GROUP, "podgroups", "default", "g")))["apiVersion"] == f"{GROUP}/v1alpha1"

    run(case)


def test_a_definition_with_cel_rules_is_accepted_with_a_warning() -> None:
    async def case(api: Api, kinds: CustomKinds) -> None:
        obj = definition()
        spec = obj["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
        spec["x-kubernetes-validations"] = [{"rule": "self.minMember > 1"}]
        answer = await api.create(crd(api, ""), obj)
        assert len(answer.warnings) == 1
        assert "not enforced" in answer.warnings[0]

    run(case)


def test_a_stored_definition_that_cannot_be_compiled_leaves_the_others_served() -> None:
    async def case(api: Api, kinds: CustomKinds) -> None:
        table = api.context.table(crd(api).resource)
        broken = definition()
        broken["metadata"] = {"name": "broken.example.com", "uid": "u"}
        broken["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["pattern"] = "("
        api.store.put(table, ("", "broken.example.com"), broken, None)
        await define(api)
        assert list(kinds.failures) == ["broken.example.com"]
        assert api.registry.find(GROUP, "v1alpha1", "podgroups") is not None

    run(case)

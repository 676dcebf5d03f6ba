"""Create, get, list, update and delete through the in-process API."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from cotenant.drivers.kube.manifests.errors import ApiError
from cotenant_local.apiserver.contract import DeletionOptions, ListOptions, WriteOptions
from cotenant_local.apiserver.storage.store import Store
from cotenant_local.apiserver.verbs.api import Api


def run(case: Callable[[Api], Awaitable[None]]) -> None:
    async def main() -> None:
        api = Api(Store(), rng=random.Random(1), clock=lambda: 1_800_000_000.0)
        await api.bootstrap()
        await case(api)
        await api.close()

    asyncio.run(main())


def config(name: str = "", **metadata: Any) -> dict[str, Any]:
    told = {"name": name, **metadata} if name else metadata
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": told, "data": {"a": "1"}}


def read(raw: bytes) -> dict[str, Any]:
    return msgspec.json.decode(raw)


def test_a_created_object_can_be_read() -> None:
    async def case(api: Api) -> None:
        target = api.target("", "configmaps", "default", "c")
        answer = await api.create(target, config("c"))
        metadata = read(answer.raw)["metadata"]
        assert answer.created
        assert metadata["creationTimestamp"] == "2027-01-15T08:00:00Z"
        assert metadata["uid"]
        assert await api.get(target) == answer.raw

    run(case)


def test_a_duplicate_name_is_refused() -> None:
    async def case(api: Api) -> None:
        target = api.target("", "configmaps", "default")
        await api.create(target, config("c"))
        with pytest.raises(ApiError, match='configmaps "c" already exists') as caught:
            await api.create(target, config("c"))
        assert (caught.value.code, caught.value.reason) == (409, "AlreadyExists")

    run(case)


def test_a_stale_version_is_a_conflict_but_an_absent_one_is_not() -> None:
    async def case(api: Api) -> None:
        target = api.target("", "configmaps", "default", "c")
        first = read((await api.create(target, config("c"))).raw)
        second = {**first, "data": {"a": "2"}, "metadata": dict(first["metadata"])}
        await api.update(target, second)
        with pytest.raises(
            ApiError, match="the object has been modified; please apply your changes to the latest version"
        ) as caught:
            await api.update(target, {**first, "data": {"a": "3"}})
        assert caught.value.code == 409
        await api.update(target, {**config("c"), "data": {"a": "4"}})
        assert read(await api.get(target))["data"] == {"a": "4"}

    run(case)


def test_an_update_that_changes_nothing_keeps_the_version() -> None:
    async def case(api: Api) -> None:
        target = api.target("", "configmaps", "default", "c")
        first = await api.create(target, config("c"))
        again = await api.update(target, read(first.raw))
        assert again.raw == first.raw
        assert api.store.revision == int(read(first.raw)["metadata"]["resourceVersion"])

    run(case)


def test_a_name_is_generated_without_vowels() -> None:
    async def case(api: Api) -> None:
        target = api.target("", "configmaps", "default")
        name = read((await api.create(target, config(generateName="c-"))).raw)["metadata"]["name"]
        assert name.startswith("c-")
        assert len(name) == 7
        assert not set(name[2:]) & set("aeiou013")

    run(case)


def test_a_namespace_must_exist() -> None:
    async def case(api: Api) -> None:
        with pytest.raises(ApiError, match='namespaces "nowhere" not found') as caught:
            await api.create(api.target("", "configmaps", "nowhere"), config("c"))
        assert caught.value.code == 404

    run(case)


def test_a_dry_run_stores_nothing() -> None:
    async def case(api: Api) -> None:
        target = api.target("", "configmaps", "default", "c")
        before = api.store.revision
        await api.create(target, config("c"), WriteOptions(dry_run=True))
        assert api.store.revision == before
        with pytest.raises(ApiError, match='configmaps "c" not found'):
            await api.get(target)
        await api.create(target, config("c"))
        await api.delete(target, DeletionOptions(dry_run=True))
        await api.get(target)

    run(case)


def test_finalizers_delay_removal() -> None:
    async def case(api: Api) -> None:
        target = api.target("", "configmaps", "default", "c")
        await api.create(target, config("c", finalizers=["example.com/hold"]))
        marked = read((await api.delete(target)).raw)
        assert marked["metadata"]["deletionTimestamp"] == "2027-01-15T08:00:00Z"
        with pytest.raises(ApiError, match="no new finalizers can be added"):
            await api.update(
                target, {**marked, "metadata": {**marked["metadata"], "finalizers": ["example.com/hold", "a.b/c"]}}
            )
        del marked["metadata"]["finalizers"]
        await api.update(target, marked)
        with pytest.raises(ApiError, match="not found"):
            await api.get(target)

    run(case)


def test_pages_are_one_snapshot() -> None:
    async def case(api: Api) -> None:
        target = api.target("", "configmaps", "default")
        for at in range(5):
            await api.create(target, config(f"c{at}"))
        first = await api.list(target, ListOptions(limit=2))
        assert [item.name for item in first.items] == ["c0", "c1"]
        assert first.remaining == 3
        await api.delete(api.target("", "configmaps", "default", "c3"))
        await api.create(target, config("c2b"))
        second = await api.list(target, ListOptions(limit=10, continue_token=first.continue_token))
        assert [item.name for item in second.items] == ["c2", "c3", "c4"]
        assert second.resource_version == first.resource_version

    run(case)


@pytest.mark.parametrize(
    ("metadata", "why"),
    [
        ({"deletionTimestamp": "2020-01-01T00:00:00Z"}, "metadata.deletionTimestamp: .* field is immutable"),
        ({"creationTimestamp": "2020-01-01T00:00:00Z"}, "metadata.creationTimestamp: .* field is immutable"),
        ({"uid": "other"}, "Precondition failed: UID in precondition: other"),
        ({"name": "d"}, "does not match the name on the URL"),
        ({"namespace": "kube-system"}, "does not match the namespace sent on the request"),
        ({"labels": {"a b": "c"}}, "metadata.labels: .* name part must consist of"),
        ({"labels": {"a": "c d"}}, "metadata.labels: .* a valid label must be"),
        ({"labels": {"a": 1}}, "metadata.labels"),
        ({"annotations": {"a": "x" * 300_000}}, "metadata.annotations: Too long"),
        ({"finalizers": ["bare"]}, "neither a standard finalizer name nor is it fully qualified"),
        ({"finalizers": ["orphan", "foregroundDeletion"]}, "cannot be both set"),
        ({"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p"}]}, "metadata.ownerReferences.uid"),
        (
            {
                "ownerReferences": [
                    {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": name, "controller": True} for name in "pq"
                ]
            },
            "Only one reference can have Controller set to true",
        ),
    ],
)
def test_invalid_metadata_is_refused(metadata: dict[str, Any], why: str) -> None:
    async def case(api: Api) -> None:
        target = api.target("", "configmaps", "default", "c")
        first = read((await api.create(target, config("c"))).raw)
        with pytest.raises(ApiError, match=why):
            await api.update(target, {**first, "metadata": {**first["metadata"], **metadata}})
        assert read(await api.get(target)) == first

    run(case)


def test_clients_cannot_set_system_fields() -> None:
    async def case(api: Api) -> None:
        target = api.target("", "configmaps", "default", "c")
        told = config(
            "c", uid="mine", creationTimestamp="2020-01-01T00:00:00Z", deletionTimestamp="2020-01-01T00:00:00Z"
        )
        made = read((await api.create(target, told)).raw)["metadata"]
        assert made["uid"] != "mine"
        assert made["creationTimestamp"] == "2027-01-15T08:00:00Z"
        assert "deletionTimestamp" not in made
        with pytest.raises(ApiError, match="resourceVersion should not be set on objects to be created"):
            await api.create(api.target("", "configmaps", "default"), config("d", resourceVersion="7"))
        with pytest.raises(ApiError, match="name or generateName is required") as caught:
            await api.create(api.target("", "configmaps", "default"), {"metadata": None})
        assert caught.value.code == 422

    run(case)


@pytest.mark.parametrize(
    ("options", "code", "why"),
    [
        ({"resource_version": "x"}, 400, "invalid resource version"),
        ({"resource_version": "99999"}, 504, "Too large resource version: 99999, current: "),
        ({"match": "Exact"}, 422, "resourceVersionMatch is forbidden unless resourceVersion is provided"),
        ({"match": "Exact", "resource_version": "0"}, 422, 'is forbidden for resourceVersion "0"'),
        ({"match": "Nearly", "resource_version": "1"}, 422, 'Unsupported value: "Nearly"'),
        ({"continue_token": "x"}, 400, "continue key is not valid"),
        ({"continue_token": "x", "resource_version": "3"}, 400, "not allowed when using continue"),
        ({"fields": "spec.x=1"}, 400, "field label not supported: spec.x"),
        ({"labels": "a in"}, 400, "unable to parse requirement"),
    ],
)
def test_invalid_list_options_are_refused(options: dict[str, Any], code: int, why: str) -> None:
    async def case(api: Api) -> None:
        with pytest.raises(ApiError, match=why) as caught:
            await api.list(api.target("", "configmaps", "default"), ListOptions(**options))
        assert caught.value.code == code

    run(case)

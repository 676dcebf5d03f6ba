"""Whatever a patch says, the answer is an object or a refusal with a sentence: never an error of the server's own."""

from __future__ import annotations

import asyncio
import copy
import random
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec
import pytest

from cotenant.drivers.kube.manifests.errors import ApiError
from cotenant_local.apiserver.assembly import assemble
from cotenant_local.apiserver.contract import JSON, MERGE, STRATEGIC, DeletionOptions
from cotenant_local.apiserver.storage.store import Store
from cotenant_local.apiserver.verbs.api import Api

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "x", "labels": {"a": "b"}, "finalizers": ["a/b"]},
    "spec": {
        "containers": [
            {"name": "c", "image": "i", "env": [{"name": "e", "value": "v"}], "ports": [{"containerPort": 1}]}
        ],
        "tolerations": [{"key": "k", "operator": "Exists"}],
    },
}
DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "x"},
    "spec": {
        "replicas": 1,
        "selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
    },
}
CONFIG = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}, "data": {"a": "b"}}
CRD = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "as.b.c"},
    "spec": {
        "group": "b.c",
        "scope": "Cluster",
        "names": {"plural": "as", "singular": "a", "kind": "A", "listKind": "AList"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
            }
        ],
    },
}
KINDS = [
    ("", "pods", POD),
    ("apps", "deployments", DEPLOYMENT),
    ("", "configmaps", CONFIG),
    ("apiextensions.k8s.io", "customresourcedefinitions", CRD),
]
OPERATIONS: list[Any] = [
    [{"op": "add", "path": "/metadata/labels", "value": {"q": "r"}}],
    [{"op": "replace", "path": "/spec/containers/0/image", "value": "j"}],
    [{"op": "remove", "path": "/spec/containers/0"}, {"op": "test", "path": "/kind", "value": "Pod"}],
    [
        {"op": "copy", "from": "/spec", "path": "/data"},
        {"op": "move", "from": "/metadata/labels", "path": "/metadata/annotations"},
    ],
    [{"op": "add", "path": "/spec/containers/-", "value": {"name": "d", "image": "i"}}, {"op": "add", "path": ""}],
]
MERGES: list[Any] = [
    {"metadata": {"labels": {"a": None, "q": "r"}, "finalizers": []}},
    {"spec": {"containers": [{"name": "c", "$patch": "delete"}, {"name": "d", "image": "i"}],
        "$setElementOrder/containers": [{"name": "d"}]}},
    {"spec": {"replicas": 3,
        "template": {"spec": {"$retainKeys": ["containers"],
        "containers": [{"name": "c", "env": [{"name": "e", "value": "w"}]}]}}}},
    {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a/b"], "$setElementOrder/finalizers": ["c"]},
        "data": {"a": "c", "$patch": "replace"}},
]  # fmt: skip
JUNK: list[Any] = [
    None,
    True,
    0,
    -1,
    1.5,
    1e300,
    2**70,
    "",
    "x",
    "/",
    "/~2",
    "\ud7ff",
    [],
    ["add"],
    [[]],
    {},
    {"op": []},
    {"$patch": []},
    {"a": {"b": [None]}},
]


def places(value: Any, found: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """(container, key) of every value within."""
    for key, entry in list(value.items() if isinstance(value, dict) else enumerate(value)):
        found.append((value, key))
        if isinstance(entry, dict | list):
            places(entry, found)
    return found


def damaged(examples: list[Any], rng: random.Random) -> bytes:
    """An example in which up to three values, or names of fields, are others."""
    made = [copy.deepcopy(rng.choice(examples))]
    for _ in range(rng.randrange(4)):
        where = places(made, [])
        if not where:
            break
        container, key = rng.choice(where)
        if isinstance(container, dict) and rng.random() < 0.3:
            container[rng.choice(["op", "path", "$patch", "$retainKeys", "x", "$deleteFromPrimitiveList/a"])] = (
                container.pop(key)
            )
        else:
            container[key] = copy.deepcopy(rng.choice(JUNK))
    body = msgspec.json.encode(made[0] if made else None)
    return body if rng.random() < 0.95 else body[: rng.randrange(len(body))]


async def answered(api: Api, group: str, plural: str, body: bytes, media: str) -> int:
    """The status of the answer; whatever else is raised fails the test."""
    namespace = "" if group.startswith("apiext") else "default"
    name = "as.b.c" if group.startswith("apiext") else "x"
    target = api.target(group, plural, namespace, name)
    refused: ApiError | None = None
    try:
        await api.patch(target, body, media)
    except ApiError as error:
        refused = error
    if refused is None:
        return 200
    assert 400 <= refused.code < 500, (refused.code, body)
    assert str(refused), body
    return refused.code


async def with_objects(ask: Callable[[Api], Any]) -> None:
    api = assemble(Store())
    await api.bootstrap()
    for group, plural, manifest in KINDS:
        namespace = "" if group.startswith("apiext") else "default"
        await api.create(api.target(group, plural, namespace), copy.deepcopy(manifest))
    await ask(api)


@pytest.mark.slow
@pytest.mark.parametrize(("media", "examples"), [(JSON, OPERATIONS), (MERGE, MERGES), (STRATEGIC, MERGES)])
def test_a_patch_of_any_shape_is_applied_or_refused(media: str, examples: list[Any]) -> None:
    rng = random.Random(5)
    codes: set[int] = set()

    async def ask(api: Api) -> None:
        for _ in range(4000):
            group, plural, manifest = rng.choice(KINDS)
            codes.add(await answered(api, group, plural, damaged(examples, rng), media))
            if rng.random() < 0.02:  # what was applied must not be all that is tried from here on
                namespace = "" if group.startswith("apiext") else "default"
                name = "as.b.c" if group.startswith("apiext") else "x"
                target = api.target(group, plural, namespace, name)
                with suppress(ApiError):  # gone at once without finalizers
                    await api.delete(target, DeletionOptions(grace_s=0))
                    await api.patch(target, b'{"metadata":{"finalizers":null}}', MERGE)
                with suppress(ApiError):  # a pod that is being deleted
                    await api.create(api.target(group, plural, namespace), copy.deepcopy(manifest))

    asyncio.run(with_objects(ask))
    assert {200, 400, 422} <= codes


@pytest.mark.parametrize(
    "body",
    [
        b'[{"op":["add"]}]',
        b'[{"op":{"a":1},"path":"/metadata"}]',
        b'[{"op":"add","path":["x"]}]',
        b'[{"op":"copy","from":{},"path":"/a"}]',
        b'[{"op":null}]',
        b"[null]",
        b"{}",
        b'"x"',
        b"[",
    ],
)
def test_a_malformed_json_patch_is_refused_with_a_sentence(body: bytes) -> None:
    async def ask(api: Api) -> None:
        assert await answered(api, "", "configmaps", body, JSON) in (400, 422)

    asyncio.run(with_objects(ask))

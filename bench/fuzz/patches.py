"""Patches and applies of the local API server with as many operations, elements or managers as a request can hold."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any

import msgspec

from cotenant.drivers.kube.manifests.errors import ApiError
from cotenant_local.apiserver.patching import apply, json_patch, merge_patch, strategic_merge, track
from cotenant_local.apiserver.schema.builtin import builtin_schema

Work = Callable[[], object]
Case = tuple[str, int, Callable[[int], Work]]

_POD = builtin_schema("", "v1", "Pod")
_NOW_S = 1_700_000_000


def cases() -> Iterator[Case]:
    """Name, n, and the work of a size."""
    yield from _operations()
    yield from _merges()


def _operations() -> Iterator[Case]:
    labels: dict[str, Any] = {"metadata": {"labels": {}}}
    lists: dict[str, Any] = {"items": []}
    patches: dict[str, tuple[dict[str, Any], Callable[[int], dict[str, Any]]]] = {
        "add a label": (labels, lambda i: {"op": "add", "path": f"/metadata/labels/k{i}", "value": "v"}),
        "insert in front": (lists, lambda i: {"op": "add", "path": "/items/0", "value": i}),
        "append": (lists, lambda i: {"op": "add", "path": "/items/-", "value": i}),
        "copy all": ({"a": [1]}, lambda i: {"op": "copy", "from": "/a", "path": "/a/-"}),
        "copy small": ({"a": [1], "b": 1}, lambda i: {"op": "copy", "from": "/b", "path": "/a/-"}),
        "move": ({"a": 1}, lambda i: {"op": "move", "from": "/" + "ab"[i % 2], "path": "/" + "ba"[i % 2]}),
        "test the whole": ({"a": list(range(20_000))}, lambda i: {"op": "test", "path": "/a/5", "value": 5}),
        "nest": ({}, lambda i: {"op": "add", "path": "/a" * (1 + i % 100), "value": {}}),
    }
    for name, (document, operation) in patches.items():
        yield f"patch: {name}, operations", 5_000, partial(_patch, document, operation)


def _patch(document: dict[str, Any], operation: Callable[[int], dict[str, Any]], count: int) -> Work:
    body, text = msgspec.json.encode([operation(i) for i in range(count)]), msgspec.json.encode(document)

    def work() -> None:
        with suppress(ApiError):  # refused; the work to find out counts
            json_patch(msgspec.json.decode(text), body)

    return work


def _pod(fields: dict[str, Any], metadata: dict[str, Any] | None = None) -> dict[str, Any]:
    kind = {"apiVersion": "v1", "kind": "Pod"}
    return kind | {"metadata": {"name": "p"} | (metadata or {}), "spec": {"containers": [{"name": "a"} | fields]}}


def _merged(merge: Callable[[Any, bytes], object], before: Any, patch: Any) -> Work:
    text, body = msgspec.json.encode(before), msgspec.json.encode(patch)

    def work() -> None:
        with suppress(ApiError):
            merge(msgspec.json.decode(text), body)

    return work


def _environment(count: int, value: str = "v", **more: str) -> list[dict[str, str]]:
    return [{"name": f"e{i}", "value": value, **more} for i in range(count)]


def _strategic(before: dict[str, Any], patch: dict[str, Any]) -> Work:
    return _merged(lambda held, body: strategic_merge(held, body, _POD), _pod(before), _pod(patch))


def _owned(count: int, managers: int) -> dict[str, Any]:
    """A pod whose labels are stated by that many appliers, each its own share."""
    held: dict[str, Any] | None = None
    for number in range(managers):
        labels = {f"k{i}": "v" for i in range(count) if i % managers == number}
        held = apply(held, _pod({}, {"labels": labels}), _POD, f"m{number}", False, "v1", _NOW_S)
    return held or {}


def _applied(before: dict[str, Any], wanted: dict[str, Any], manager: str) -> Work:
    return _merged(lambda held, body: apply(held, body, _POD, manager, True, "v1", _NOW_S), before, wanted)


def _tracked(count: int) -> Work:
    before = apply(None, _pod({"env": _environment(count)}), _POD, "first", True, "v1", _NOW_S)
    after = msgspec.json.decode(msgspec.json.encode(before | {"spec": _pod({"env": _environment(count, "w")})["spec"]}))
    return lambda: track(before, after, _POD, "second", "Update", _NOW_S)


def _merges() -> Iterator[Case]:
    """Merge patches, strategic ones, and server-side apply, whose elements and fields number n."""
    environment = _environment
    yield (
        "merge patch: labels",
        25_000,
        lambda n: _merged(merge_patch, {"a": {}}, {"a": {f"k{i}": "v" for i in range(n)}}),
    )
    yield (
        "merge patch: removals",
        25_000,
        lambda n: _merged(
            merge_patch, {"a": {f"k{i}": "v" for i in range(n)}}, {"a": {f"k{i}": None for i in range(n)}}
        ),
    )
    yield (
        "strategic: all changed",
        10_000,
        lambda n: _strategic({"env": environment(n)}, {"env": environment(n, "w")[::-1]}),
    )
    yield (
        "strategic: all deleted",
        10_000,
        lambda n: _strategic({"env": environment(n)}, {"env": environment(n, **{"$patch": "delete"})}),
    )
    yield (
        "strategic: reordered",
        10_000,
        lambda n: _strategic(
            {"env": environment(n)}, {"$setElementOrder/env": [{"name": f"e{i}"} for i in reversed(range(n))]}
        ),
    )
    yield (
        "strategic: half is new, reordered",
        10_000,
        lambda n: _strategic(
            {"env": environment(n // 2)},
            {"env": environment(n), "$setElementOrder/env": [{"name": f"e{i}"} for i in range(0, n, 2)]},
        ),
    )
    yield (
        "strategic: one name again and again",
        10_000,
        lambda n: _strategic({"env": environment(1) * n}, {"env": environment(1, "w") * n}),
    )
    yield (
        "strategic: retained keys",
        10_000,
        lambda n: _strategic({f"k{i}": 1 for i in range(n)}, {"$retainKeys": [f"k{i}" for i in range(0, n, 2)]}),
    )
    yield "apply: a new object", 10_000, lambda n: _applied(_pod({}), _pod({"env": environment(n)}), "m")
    yield (
        "apply: taken from another",
        10_000,
        lambda n: _applied(
            apply(None, _pod({"env": environment(n)}), _POD, "first", True, "v1", _NOW_S),
            _pod({"env": environment(n, "w")}),
            "second",
        ),
    )
    yield (
        "apply: all is left out",
        10_000,
        lambda n: _applied(apply(None, _pod({"env": environment(n)}), _POD, "m", True, "v1", _NOW_S), _pod({}), "m"),
    )
    yield (
        "apply: beside 50 managers",
        5_000,
        lambda n: _applied(_owned(n, 50), _pod({}, {"labels": {f"k{i}": "w" for i in range(n)}}), "last"),
    )
    yield (
        "apply: managers of one label",
        200,
        lambda n: _applied(_owned(n, n), _pod({}, {"labels": {f"k{i}": "w" for i in range(n)}}), "last"),
    )
    yield "update: all changed, tracked", 10_000, _tracked

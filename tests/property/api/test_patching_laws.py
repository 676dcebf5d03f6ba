"""Laws of patches: twice is once, disjoint writers commute, a diff restores, field sets are sets."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from tests.property.few import examples, first_cases

from cotenant.drivers.kube.manifests.document import copied
from cotenant.drivers.kube.manifests.errors import ApiError, Manifest
from cotenant_local.apiserver.patching import apply, json_patch, merge_patch, strategic_merge, track
from cotenant_local.apiserver.patching.fieldsets import changes, difference, intersection, paths, union, written_object
from cotenant_local.apiserver.schema.builtin import builtin_schema

SCHEMA = builtin_schema("apps", "v1", "Deployment")
FAST = settings(max_examples=examples(150), deadline=None, phases=(Phase.explicit, Phase.reuse, Phase.generate))
TREE = SCHEMA.tree

NAMES = st.sampled_from(["a", "b", "c"])
ENV = st.lists(
    st.fixed_dictionaries({"name": NAMES}, optional={"value": NAMES}), max_size=3, unique_by=lambda e: e["name"]
)
CONTAINER = st.fixed_dictionaries(
    {"name": NAMES},
    optional={
        "image": NAMES,
        "env": ENV,
        "args": st.lists(NAMES, max_size=2),
        "resources": st.fixed_dictionaries(
            {}, optional={"limits": st.dictionaries(st.just("cpu"), st.just("1"), max_size=1)}
        ),
    },
)
CONTAINERS = st.lists(CONTAINER, max_size=3, unique_by=lambda c: c["name"])
SPEC = st.fixed_dictionaries(
    {},
    optional={
        "replicas": st.integers(0, 3),
        "paused": st.booleans(),
        "selector": st.just({"matchLabels": {"a": "b"}}),
        "template": st.fixed_dictionaries(
            {},
            optional={
                "metadata": st.fixed_dictionaries({}, optional={"labels": st.dictionaries(NAMES, NAMES, max_size=3)}),
                "spec": st.fixed_dictionaries(
                    {"containers": CONTAINERS}, optional={"nodeSelector": st.dictionaries(NAMES, NAMES)}
                ),
            },
        ),
    },
)
META = st.fixed_dictionaries(
    {"name": st.just("x")},
    optional={
        "labels": st.dictionaries(NAMES, NAMES, max_size=3),
        "finalizers": st.lists(NAMES, max_size=3, unique=True),
    },
)
OBJECTS = st.builds(
    lambda metadata, spec: {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec},
    META,
    SPEC,
)
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3),
    max_leaves=10,
)


def clean(obj: Manifest) -> Manifest:
    """Without its record of writers and without what decoding drops."""
    result = copied(obj)
    result["metadata"].pop("managedFields", None)
    SCHEMA.decode(result)
    return result


def ssa(
    live: Manifest | None, config: Manifest, manager: str, *, force: bool = True, now: int = 1_700_000_000
) -> Manifest:
    return apply(copied(live) if live else None, config, SCHEMA, manager, force, "apps/v1", now)


@pytest.mark.slow
@FAST
@given(OBJECTS, OBJECTS, OBJECTS)
def test_applying_twice_is_applying_once(first: Manifest, other: Manifest, again: Manifest) -> None:
    live = ssa(ssa(None, first, "a"), other, "b")
    once = ssa(live, again, "a", now=1_800_000_000)
    assert ssa(once, again, "a", now=1_900_000_000) == once


@pytest.mark.slow
@FAST
@given(OBJECTS, OBJECTS)
def test_applied_fields_are_set_and_no_longer_applied_fields_are_removed(first: Manifest, second: Manifest) -> None:
    alone = ssa(ssa(None, first, "a"), second, "a")
    assert by_key(clean(alone)) == by_key(clean(ssa(None, second, "a")))


def by_key(obj: Manifest) -> Any:
    """An object with its keyed lists and sets in random order."""

    def ordered(value: Any, key: str = "") -> Any:
        if isinstance(value, dict):
            return {name: ordered(entry, name) for name, entry in value.items() if entry != {} and entry != []}
        if isinstance(value, list) and key in ("containers", "env"):
            return sorted((ordered(entry) for entry in value), key=lambda entry: entry["name"])
        return sorted(value) if key == "finalizers" else value

    return ordered(obj)


@pytest.mark.slow
@FAST
@given(OBJECTS, OBJECTS)
def test_writers_with_disjoint_fields_commute(left: Manifest, right: Manifest) -> None:
    one, two = copied(left), copied(right)
    one["metadata"].pop("labels", None)
    two["metadata"].pop("finalizers", None)
    one["spec"].pop("template", None)
    for key in ("replicas", "paused", "selector"):
        two["spec"].pop(key, None)
    ab = ssa(ssa(None, one, "a", force=False), two, "b", force=False)
    ba = ssa(ssa(None, two, "b", force=False), one, "a", force=False)
    assert clean(ab) == clean(ba)
    assert {e["manager"]: e["fieldsV1"] for e in ab["metadata"].get("managedFields", ())} == {
        e["manager"]: e["fieldsV1"] for e in ba["metadata"].get("managedFields", ())
    }


@pytest.mark.slow
@FAST
@given(OBJECTS, OBJECTS, OBJECTS)
def test_every_field_of_a_tracked_object_was_written_by_the_last_to_set_it(
    a: Manifest, b: Manifest, c: Manifest
) -> None:
    for element in (a, b, c):
        SCHEMA.decode(element)
    track(None, a, SCHEMA, "one", "Update", 1)
    b["metadata"]["managedFields"] = a["metadata"].get("managedFields", [])
    track(a, b, SCHEMA, "two", "Update", 2)
    c["metadata"]["managedFields"] = b["metadata"].get("managedFields", [])
    track(b, c, SCHEMA, "three", "Update", 3)
    if not b["metadata"].get("managedFields"):
        return  # nothing was left to be somebody's, so nobody is recorded until the first apply
    entries = [entry["fieldsV1"] for entry in c["metadata"].get("managedFields", ())]
    everything = set(paths(written_object(c, TREE, frozenset())))
    owned = [path for entry in entries for path in paths(entry)]
    assert len(owned) == len(set(owned))
    assert everything <= set(owned)


@pytest.mark.slow
@FAST
@given(OBJECTS, OBJECTS)
def test_field_sets_are_sets(a: Manifest, b: Manifest) -> None:
    left, right = (written_object(entry, TREE, frozenset()) for entry in (a, b))
    mine, other = set(paths(left)), set(paths(right))
    assert set(paths(union(left, right))) == mine | other
    assert set(paths(difference(left, right))) == mine - other
    assert set(paths(intersection(left, right))) == mine & other
    assert difference(left, left) == {}


@pytest.mark.slow
@FAST
@given(OBJECTS, OBJECTS)
def test_changes_list_the_differences(a: Manifest, b: Manifest) -> None:
    for entry in (a, b):
        SCHEMA.decode(entry)
    set_, gone = changes(a, b, TREE, frozenset())
    before, after = (set(paths(written_object(entry, TREE, frozenset()))) for entry in (a, b))
    assert after - before <= set(paths(set_))
    frame = (".spec", ".metadata", ".template", ".containers")  # members only while they are empty
    assert {path for path in before - after if not path.endswith(frame)} <= set(paths(gone))
    assert changes(a, a, TREE, frozenset()) == ({}, {})


def merge_diff(old: Any, new: Any) -> Any:
    """The merge patch from one object to another (RFC 7386)."""
    patch: Manifest = {key: None for key in old if key not in new}
    for key, value in new.items():
        if key not in old or type(old[key]) is not type(value) or old[key] != value:
            both = isinstance(value, dict) and isinstance(old.get(key), dict)
            patch[key] = merge_diff(old[key], value) if both else value
    return patch


def no_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: no_nulls(entry) for key, entry in value.items() if entry is not None}
    return value


@FAST
@given(
    st.dictionaries(st.text(max_size=2), JSON_VALUES, max_size=4),
    st.dictionaries(st.text(max_size=2), JSON_VALUES, max_size=4),
)
def test_a_merge_patch_of_the_difference_restores(old: Manifest, new: Manifest) -> None:
    old, new = no_nulls(old), no_nulls(new)
    patch = merge_diff(old, new)
    result = merge_patch(copied(old), patch)
    assert result == new
    assert merge_patch(result, patch) == new


@pytest.mark.slow
@FAST
@given(OBJECTS, OBJECTS)
def test_a_strategic_merge_twice_is_once_and_leaves_the_patch_alone(live: Manifest, patch: Manifest) -> None:
    before = copied(patch)
    once = strategic_merge(copied(live), patch, SCHEMA)
    assert strategic_merge(copied(once), patch, SCHEMA) == once
    assert strategic_merge(copied(live), {}, SCHEMA) == live
    assert patch == before


@FAST
@given(OBJECTS, JSON_VALUES)
def test_no_body_makes_a_patch_fail_otherwise_than_by_refusing(live: Manifest, body: Any) -> None:
    for patch in (
        lambda: merge_patch(copied(live), body),
        lambda: strategic_merge(copied(live), body, SCHEMA),
        lambda: json_patch(copied(live), body),
        lambda: json_patch(copied(live), [{"op": "add", "path": "/spec/x", "value": body}]),
        lambda: strategic_merge(copied(live), {"spec": body, "metadata": body}, SCHEMA),
        lambda: ssa(copied(live), {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": body, "spec": body}, "a"),
    ):
        with suppress(ApiError):
            patch()


def nested(depth: int, opening: bytes, closing: bytes) -> bytes:
    return opening * depth + b"1" + closing * depth


@pytest.mark.parametrize("depth", [200, 900, 100_000])
def test_deep_bodies_are_refused_or_survived(depth: int) -> None:
    live: Manifest = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "x"}}
    deep_map, deep_list = nested(depth, b'{"a":', b"}"), nested(depth, b"[", b"]")
    head = b'{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"x"},"spec":'
    for patch in (
        lambda: merge_patch(live, deep_map),
        lambda: strategic_merge(live, b'{"spec":' + deep_list + b"}", SCHEMA),
        lambda: json_patch(live, b'[{"op":"add","path":"/spec","value":' + deep_map + b"}]"),
        lambda: apply(live, head + deep_map + b"}", SCHEMA, "a", False, "apps/v1", 1),
        lambda: apply(live, head + deep_map + b"}", None, "a", False, "apps/v1", 1),
        lambda: apply(live, head + deep_list + b"}", SCHEMA, "a", False, "apps/v1", 1),
    ):
        with suppress(ApiError):
            patch()


test_first_cases = first_cases(
    test_applying_twice_is_applying_once,
    test_applied_fields_are_set_and_no_longer_applied_fields_are_removed,
    test_writers_with_disjoint_fields_commute,
    test_every_field_of_a_tracked_object_was_written_by_the_last_to_set_it,
    test_field_sets_are_sets,
    test_changes_list_the_differences,
    test_a_strategic_merge_twice_is_once_and_leaves_the_patch_alone,
    most=3,
)

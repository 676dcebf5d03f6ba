"""Schemas never fail on input from clients, and are idempotent."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import msgspec
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from tests.property.few import examples, first_cases

from cotenant.drivers.kube.manifests import tree
from cotenant.drivers.kube.manifests.document import copied
from cotenant.drivers.kube.manifests.errors import ApiError
from cotenant.drivers.kube.manifests.tree import SchemaNode
from cotenant_local.apiserver.kinds.built_in import BUILT_IN, DEVICE_API, EVICTION_API, WORKLOAD_API
from cotenant_local.apiserver.schema.builtin import BuiltinSchema, builtin_schema
from cotenant_local.apiserver.schema.kinds.registry import _RULES

SCHEMAS = [
    builtin_schema(served.group, served.version, served.kind)
    for served in (*BUILT_IN, *WORKLOAD_API, *EVICTION_API, *DEVICE_API)
    if (served.group, served.kind) in _RULES
]
WORDS = [
    "",
    "a",
    "web",
    "Always",
    "RollingUpdate",
    "Recreate",
    "In",
    "Exists",
    "A b",
    "TCP",
    "None",
    "25%",
    "kubernetes.io/x",
]
NO_SHRINKING = (Phase.explicit, Phase.reuse, Phase.generate)  # the examples are small, and shrinking them takes minutes
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-5, 70_000), st.floats(allow_nan=False), st.sampled_from(WORDS)
)
ANYTHING = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(WORDS), inner, max_size=3),
    max_leaves=8,
)


def likely(node: SchemaNode, depth: int = 0) -> st.SearchStrategy[Any]:
    """Values that mostly fit a node, so that rules deep inside are reached."""
    if depth > 7:
        return SCALARS
    if node.kind == tree.STRUCT:
        if not node.fields:
            return ANYTHING
        fields = {
            name: st.deferred(lambda child=child: likely(child, depth + 1)) for name, child in node.fields.items()
        }
        needed = {name: fields[name] for name in ("containers", "spec", "template", "selector") if name in fields}
        names = st.lists(st.sampled_from(sorted(fields)), max_size=4, unique=True)
        return names.flatmap(
            lambda chosen: st.fixed_dictionaries({**{name: fields[name] for name in chosen}, **needed})
        )
    if node.kind == tree.MAP:
        return st.dictionaries(st.sampled_from(WORDS), likely(node.item, depth + 1), max_size=2)
    if node.kind == tree.LIST:
        return st.lists(likely(node.item, depth + 1), max_size=2)
    by_kind = {
        tree.STRING: st.sampled_from(WORDS),
        tree.INTEGER: st.integers(-2, 70_000),
        tree.BOOLEAN: st.booleans(),
        tree.QUANTITY: st.sampled_from(["1", "500m", "1Gi", "-1", 3, "0.5"]),
        tree.INT_OR_STRING: st.sampled_from([0, 1, "25%", "x", "101%"]),
        tree.TIME: st.just("2026-01-01T00:00:00Z"),
        tree.MICRO_TIME: st.just("2026-01-01T00:00:00.000000Z"),
        tree.BYTES: st.just("YQ=="),
    }
    return by_kind.get(node.kind, ANYTHING) | (SCALARS if depth > 2 and node.kind == tree.ANY else st.nothing())


@pytest.mark.slow
@settings(max_examples=examples(60), deadline=None, phases=NO_SHRINKING)
@given(data=st.data())
def test_decoded_objects_can_be_defaulted_and_validated_twice(data: st.DataObject) -> None:
    schema = data.draw(st.sampled_from(SCHEMAS))
    obj = data.draw(likely(schema.tree))
    obj["metadata"] = {"name": "x", "namespace": "d"}
    old = None if data.draw(st.booleans()) else _whole(schema, data.draw(likely(schema.tree)))
    try:
        schema.decode(obj)
    except ApiError:
        return
    schema.default(obj)
    causes = schema.validate(obj, old)
    assert all(cause.reason and cause.message for cause in causes)
    again = copied(obj)
    assert schema.decode(again) == []
    schema.default(again)
    assert again == obj
    assert schema.validate(again, old) == causes


def _whole(schema: BuiltinSchema, obj: Any) -> Any:
    try:
        schema.decode(obj)
    except ApiError:
        return None
    schema.default(obj)
    return obj


@pytest.mark.slow
@settings(max_examples=examples(100), deadline=None, phases=NO_SHRINKING)
@given(
    st.sampled_from(SCHEMAS),
    st.dictionaries(st.sampled_from(["metadata", "spec", "status", "x"]), ANYTHING, max_size=4),
)
def test_arbitrary_json_is_refused_or_pruned(schema: BuiltinSchema, obj: Any) -> None:
    with suppress(ApiError):
        schema.decode(obj)
        schema.default(obj)
        schema.validate(obj, None)
    msgspec.json.encode(obj)


test_first_cases = first_cases(
    test_decoded_objects_can_be_defaulted_and_validated_twice,
    test_arbitrary_json_is_refused_or_pruned,
    most=3,
)

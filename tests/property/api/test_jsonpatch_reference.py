"""Our JSON patches against the jsonpatch library's, for small documents and any operations."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st
from jsonpatch import JsonPatch, JsonPatchException
from jsonpointer import JsonPointerException
from tests.property.few import examples

from cotenant.drivers.kube.manifests.errors import ApiError
from cotenant_local.apiserver.patching import json_patch

_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(0, 1) | st.sampled_from(["", "a"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b", "0", "a/b"]), inner),
    max_leaves=6,
)
_PATHS = st.lists(st.sampled_from(["a", "b", "0", "1", "2", "-", "a~1b"]), max_size=3).map(
    lambda parts: "".join(f"/{part}" for part in parts)
)
_OPERATIONS = st.one_of(
    st.fixed_dictionaries({"op": st.sampled_from(["add", "replace", "test"]), "path": _PATHS, "value": _VALUES}),
    st.fixed_dictionaries({"op": st.just("remove"), "path": _PATHS}),
    st.fixed_dictionaries({"op": st.sampled_from(["move", "copy"]), "path": _PATHS, "from": _PATHS}),
)
_DOCUMENTS = st.dictionaries(st.sampled_from(["a", "b", "a/b"]), _VALUES)


def theirs(document: Any, operations: list[dict[str, Any]]) -> Any:
    """The library's result; None where it refuses."""
    try:
        result = JsonPatch(deepcopy(operations)).apply(deepcopy(document))
    except (JsonPatchException, JsonPointerException):
        return None
    return result if isinstance(result, dict) else None


def ours(document: Any, operations: list[dict[str, Any]]) -> Any:
    """Our result; None where it is refused."""
    try:
        return json_patch(deepcopy(document), deepcopy(operations))
    except ApiError:
        return None


@settings(max_examples=examples(400), deadline=None)
@given(_DOCUMENTS, st.lists(_OPERATIONS, min_size=1, max_size=4))
@example({"a": [1]}, [{"op": "copy", "from": "/a", "path": "/a/-"}, {"op": "add", "path": "/a/0", "value": 0}])
@example({"a": True}, [{"op": "test", "path": "/a", "value": 1}])
@example({"a": {"b": 1}}, [{"op": "move", "from": "/a", "path": "/a/b"}])
@example({"a": 1}, [{"op": "move", "from": "", "path": ""}])
def test_any_patch_has_the_library_s_result(document: Any, operations: list[dict[str, Any]]) -> None:
    mine = ours(document, operations)
    assert mine == theirs(document, operations)
    assert repr(mine) == repr(theirs(document, operations))  # True is not 1


def test_what_a_copy_made_is_not_shared() -> None:
    operations = [{"op": "copy", "from": "/a", "path": "/b"}, {"op": "add", "path": "/a/0", "value": 1}]
    assert json_patch({"a": []}, operations) == {"a": [1], "b": []}

"""Request bodies: refusals, and duplicate fields."""

from __future__ import annotations

import json

import pytest

from cotenant.local.apiserver.contract import ApiError
from cotenant.local.apiserver.http.bodies import (
    decode_object,
    decode_yaml,
    duplicate_fields,
    is_surely_single,
)
from cotenant.local.apiserver.http.encoding.json_documents import MAX_DEPTH, decode_json


def refused(body: bytes, content_type: str = "application/json") -> ApiError:
    with pytest.raises(ApiError) as caught:
        decode_object(body, content_type, "ConfigMap")
    return caught.value


@pytest.mark.parametrize("body", [b"", b"{bad", b"[]", b"1", b'{"metadata":1}', b"\xff\xfe", b'{"a":"\xff"}'])
def test_a_body_that_is_not_an_object_is_a_bad_request(body: bytes) -> None:
    assert refused(body).code == 400


@pytest.mark.parametrize("body", [b"a: [", b"a: &x 1\nb: *x", b"- 1", b"\x00", b"a: !!python/object:os.system x"])
def test_yaml_that_is_not_an_object_is_a_bad_request(body: bytes) -> None:
    assert refused(body, "application/yaml").code == 400


def test_other_types_are_unsupported() -> None:
    assert refused(b"{}", "text/plain").code == 415


def test_depth_is_bounded() -> None:
    fine = b'{"a":' * MAX_DEPTH + b"1" + b"}" * MAX_DEPTH
    deep = b'{"a":' + fine + b"}"
    assert decode_json(fine)
    with pytest.raises(ApiError, match="exceeded max depth"):
        decode_json(deep)
    with pytest.raises(ApiError, match="exceeded max depth"):
        decode_json(b"[" * 100_000)
    with pytest.raises(ApiError, match="exceeded max depth"):
        decode_yaml(b"[" * (MAX_DEPTH + 1))


def test_sibling_brackets_do_not_count_as_depth() -> None:
    assert len(decode_json(b"[" + b",".join([b'{"a":"[[["}'] * 1_000) + b"]")) == 1_000


def test_yaml_is_decoded_as_in_kubernetes() -> None:
    document = decode_yaml(b"a: 2020-01-01\nb: yes\n1: x\nc: 0.5\nd:\n")
    assert document == {"a": "2020-01-01", "b": True, "1": "x", "c": 0.5, "d": None}


def test_duplicate_fields_are_reported_with_their_paths() -> None:
    body = b'{"a":1,"b":{"c":[{"d":1,"d":2}]},"a":3,"a":4}'
    assert duplicate_fields(body) == ["b.c[0].d", "a"]
    assert not is_surely_single(body, json.loads(body))


@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": ")])
def test_ordinary_bodies_skip_the_duplicate_check(separators: tuple[str, str]) -> None:
    document = {"a": [1, 2.5, {"b": "c d"}], "e": None}
    assert is_surely_single(json.dumps(document, separators=separators).encode() + b"\n", document)

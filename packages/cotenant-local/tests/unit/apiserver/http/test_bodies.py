"""Request bodies: refusals, and duplicate fields."""

from __future__ import annotations

import asyncio
import json

import pytest
from tests.fakes.work import is_linear, work

from cotenant.drivers.kube.manifests.errors import ApiError
from cotenant_local.apiserver.http.bodies import (
    BodyDecoder,
    check_patch,
    decode_object,
    decode_yaml,
    duplicate_fields,
    is_surely_single,
)
from cotenant_local.apiserver.http.encoding.json_documents import MAX_DEPTH, decode_json
from cotenant_local.apiserver.http.resources import warning_headers
from cotenant_local.apiserver.storage.store import MAX_OBJECT_BYTES


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


def test_yaml_is_bounded_in_values() -> None:
    with pytest.raises(ApiError, match="more than 100000 values"):
        decode_yaml(b"{" + b"a: b, " * 60_000 + b"}")


def test_duplicate_fields_are_counted_up_to_a_hundred() -> None:
    def body(keys: int) -> bytes:
        return b"{" + b",".join(b'"k%d":1,"k%d":2' % (at, at) for at in range(keys)) + b"}"

    assert len(duplicate_fields(body(15_000))) == 100
    assert is_linear(lambda keys: work(lambda: duplicate_fields(body(keys))), 400)


def test_an_object_larger_than_a_store_takes_is_refused_before_anything_walks_it() -> None:
    body = json.dumps({"metadata": {"name": "a"}, "data": {"a": "x" * (MAX_OBJECT_BYTES + 1)}}).encode()
    with pytest.raises(ApiError, match="too large") as caught:
        decode_object(body, "application/json", "ConfigMap")
    assert caught.value.code == 413
    with pytest.raises(ApiError, match="too large"):
        check_patch(body)


def test_yaml_is_decoded_beside_the_event_loop() -> None:
    async def case() -> None:
        ticks = 0

        async def count() -> None:
            nonlocal ticks
            while True:
                ticks += 1
                await asyncio.sleep(0)

        counting = asyncio.create_task(count())
        body = b"metadata: {name: a}\ndata:\n" + b"".join(b"  k%d: v\n" % at for at in range(3_000))
        found = await BodyDecoder().object(body, "application/yaml", "ConfigMap")
        counting.cancel()
        assert len(found["data"]) == 3_000
        assert ticks > 0  # none, if the loop had waited

    asyncio.run(case())


def test_warnings_are_bounded() -> None:
    headers = warning_headers([f"unknown field {at} {'x' * 1000}" for at in range(1000)])
    assert 1 <= len(headers) <= 16
    assert sum(len(value) for _, value in headers) < 5_000

"""Reviews as they come: what costs much more than its bytes is refused before anything is decoded."""

from __future__ import annotations

import pytest

from cotenant.model.errors import InvalidInput
from cotenant.services.reviewing import review
from cotenant.services.reviewing.review import MAX_BODY_BYTES, MAX_NESTED, read_review


def _body(spec: bytes) -> bytes:
    head = b'{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {"uid": "u", "object": '
    return head + spec + b"}}"


@pytest.mark.parametrize("nested", [b"[]", b"{}", b'{"a":[]}'])
def test_a_body_of_too_many_lists_and_maps_is_refused_unread(nested: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(review, "_decoder", None)  # would fail if it were asked
    size = MAX_NESTED // (nested.count(b"[") + nested.count(b"{"))
    body = _body(b"[" + b",".join([nested] * size) + b"]")

    with pytest.raises(InvalidInput, match=f"lists and maps.*at most {MAX_NESTED}"):
        read_review(body)


def test_as_many_lists_as_are_allowed_are_read() -> None:
    outside = 3  # the review, its request and the outer list
    spec = b"[" + b",".join([b"[]"] * (MAX_NESTED - outside)) + b"]"

    assert len(read_review(_body(spec)).object) == MAX_NESTED - outside
    with pytest.raises(InvalidInput, match=f"{MAX_NESTED + 1} lists and maps"):
        read_review(_body(spec[:-1] + b",[]]"))


def test_an_object_as_large_as_an_api_server_takes_is_read_twice() -> None:
    text = b'"' + b"a" * (3 << 20) + b'"'
    body = _body(text + b', "oldObject": ' + text)

    request = read_review(body)

    assert len(body) < MAX_BODY_BYTES
    assert len(request.object) == len(request.old_object) == 3 << 20


def test_nesting_without_end_is_refused() -> None:
    with pytest.raises(InvalidInput, match="recursion"):
        read_review(_body(b"[" * 5_000 + b"]" * 5_000))

"""What the server's refusals become, and whether trying again helps."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cotenant.drivers.kube.client import errors
from cotenant.drivers.kube.kinds.status import Status
from cotenant.model.errors import Permanent, Transient


def status(code: int, reason: str = "", **more: Any) -> bytes:
    return json.dumps({"kind": "Status", "code": code, "reason": reason, "message": "said so"} | more).encode()


@pytest.mark.parametrize(
    ("code", "reason", "form", "again"),
    [
        (400, "BadRequest", errors.Invalid, False),
        (401, "Unauthorized", errors.Unauthorized, False),
        (403, "Forbidden", errors.Forbidden, False),
        (404, "NotFound", errors.NotFound, False),
        (409, "Conflict", errors.Conflict, False),
        (409, "AlreadyExists", errors.AlreadyExists, False),
        (410, "Expired", errors.Gone, False),
        (418, "", errors.Refused, False),
        (422, "Invalid", errors.Invalid, False),
        (429, "TooManyRequests", errors.Throttled, True),
        (500, "InternalError", errors.Unavailable, True),
        (503, "ServiceUnavailable", errors.Unavailable, True),
    ],
)
def test_codes(code: int, reason: str, form: type[Any], again: bool) -> None:
    error = errors.failure(code, status(code, reason), {}, "POST /x")
    assert type(error) is form
    assert error.retry_helps is again  # type: ignore[union-attr]
    assert isinstance(error, Transient if again else Permanent)
    assert str(error) == f"POST /x: {code} said so"


def test_causes_name_the_fields() -> None:
    details = {"causes": [{"field": "spec.x", "reason": "FieldValueInvalid", "message": "no"}]}
    error = errors.failure(422, status(422, "Invalid", details=details))
    assert isinstance(error, errors.Invalid)
    assert [cause.field for cause in error.causes] == ["spec.x"]


def test_another_uid_is_a_conflict() -> None:
    details = {"causes": [{"field": "metadata.uid", "reason": "FieldValueInvalid", "message": "field is immutable"}]}
    assert isinstance(errors.failure(422, status(422, "Invalid", details=details)), errors.Conflict)


@pytest.mark.parametrize(
    ("body", "headers", "after_s"),
    [
        (status(429, details={"retryAfterSeconds": 10}), {}, 10.0),
        (status(429), {"Retry-After": "3"}, 3.0),
        (status(429), {"Retry-After": "Wed, 21 Oct 2026 07:28:00 GMT"}, 1.0),
        (status(429), {"Retry-After": "nan"}, 1.0),
        (b"", {}, 1.0),
    ],
)
def test_when_to_come_back(body: bytes, headers: dict[str, str], after_s: float) -> None:
    error = errors.failure(429, body, headers)
    assert isinstance(error, errors.Throttled)
    assert error.retry_after_s == after_s


@pytest.mark.parametrize("body", [b"", b"<html>", b'{"code":', b"[1]", b'{"message": 5}', b"\xff\xfe"])
def test_a_body_that_is_no_status_is_shown(body: bytes) -> None:
    assert isinstance(errors.failure(502, body), errors.Unavailable)


def test_an_error_event_without_a_code() -> None:
    assert isinstance(errors.failure_of_status(Status(reason="Expired")), errors.Gone)
    assert isinstance(errors.failure_of_status(Status()), errors.Unavailable)


def test_an_answer_of_5xx_may_have_taken_effect() -> None:
    error = errors.failure(500, b"")
    assert isinstance(error, errors.Unavailable)
    assert error.maybe_done

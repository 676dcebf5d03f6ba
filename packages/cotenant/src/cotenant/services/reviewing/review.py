"""AdmissionReview v1: requests as they come, and answers that an API server accepts.

An answer with a wrong uid, without its kind, or with a patch but no patch type counts as a failed call, which lets the
object through under failurePolicy Ignore. One struct for the request, its objects as plain documents, and one function
for every answer. An empty list costs its decoder many times what a text of its length does, so lists and maps are
counted before anything is decoded.
Limits: version v1 only, as an API server since 1.16 sends it.

Source: Kubernetes, "Dynamic Admission Control".
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from cotenant.model.errors import InvalidInput
from cotenant.model.json_object import JsonValue
from cotenant.policy.admission.differences import Operation

API_VERSION, KIND = "admission.k8s.io/v1", "AdmissionReview"
_MAX_WARNINGS, _MAX_WARNING = 10, 256  # an API server cuts longer ones, and drops them past 4096 characters in sum
_MAX_MESSAGE = 4096
MAX_BODY_BYTES = 7 << 20  # an API server takes 3 MiB of object; twice, and the rest of a review
MAX_NESTED = 300_000  # lists and maps; managed fields of two objects of etcd's 1.5 MiB have some 210,000


class ResourceName(msgspec.Struct, frozen=True):
    """Group, version and plural."""

    group: str = ""
    version: str = ""
    resource: str = ""


class UserInfo(msgspec.Struct, frozen=True):
    """Who writes."""

    username: str = ""
    groups: list[str] | None = None
    extra: dict[str, list[str]] | None = None


class ReviewRequest(msgspec.Struct, frozen=True, rename="camel"):
    """The request of a review. Objects are documents; anything but a map is not an object."""

    uid: str
    operation: str = ""
    resource: ResourceName = ResourceName()
    sub_resource: str | None = None
    name: str | None = None
    namespace: str | None = None
    user_info: UserInfo = UserInfo()
    object: JsonValue = None
    old_object: JsonValue = None
    dry_run: bool | None = None


class _Review(msgspec.Struct, frozen=True, rename="camel"):
    request: ReviewRequest | None = None
    api_version: str = ""
    kind: str = ""


@dataclass(frozen=True, slots=True)
class ReviewOutcome:
    """The answer to a request. `code` and `message` are of a refusal."""

    is_allowed: bool = True
    patch: Sequence[Operation] = ()
    warnings: tuple[str, ...] = ()
    code: int = 403
    message: str = ""


ALLOWED = ReviewOutcome()

_decoder = msgspec.json.Decoder(_Review)
_encode = msgspec.json.Encoder().encode


def read_review(body: bytes) -> ReviewRequest:
    """The request in a body. Raises `InvalidInput`."""
    nested = body.count(b"[") + body.count(b"{")  # those within texts too: no real object comes near
    if nested > MAX_NESTED:
        raise InvalidInput("body", f"{nested} lists and maps", f"at most {MAX_NESTED}")
    try:
        review = _decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidInput("body", f"{len(body)} bytes", f"an {KIND} as JSON", str(error)) from None
    if (review.api_version, review.kind) != (API_VERSION, KIND):
        raise InvalidInput("body", f"{review.api_version} {review.kind}", f"{API_VERSION} {KIND}")
    if review.request is None or not review.request.uid:
        raise InvalidInput("request", "nothing", "a request with a uid")
    return review.request


def write_review(uid: str, outcome: ReviewOutcome) -> bytes:
    """The body of the answer."""
    response: dict[str, object] = {"uid": uid, "allowed": outcome.is_allowed}
    if outcome.is_allowed and outcome.patch:
        response["patchType"] = "JSONPatch"
        response["patch"] = base64.b64encode(_encode(outcome.patch)).decode("ascii")
    if outcome.warnings:
        response["warnings"] = [text[:_MAX_WARNING] for text in outcome.warnings[:_MAX_WARNINGS]]
    if not outcome.is_allowed:
        reason = {400: "BadRequest", 403: "Forbidden"}.get(outcome.code, "InternalError")
        message = outcome.message[:_MAX_MESSAGE]
        response["status"] = {"status": "Failure", "code": outcome.code, "reason": reason, "message": message}
    return _encode({"apiVersion": API_VERSION, "kind": KIND, "response": response})

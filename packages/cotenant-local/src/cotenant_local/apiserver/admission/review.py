"""AdmissionReview requests and responses.

A webhook may return a malformed response, and what counts as malformed decides whether a pod is admitted under
failurePolicy Ignore. The same checks, with the same wording, as kube-apiserver: uid, apiVersion and kind, and a patch
with its type; anything else is a failed call.
Source: Kubernetes, "Dynamic Admission Control", webhook request and response; observed behaviour of v1.36.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass, field

import msgspec

from cotenant.drivers.kube.manifests.errors import ApiError, Manifest
from cotenant_local.apiserver.contract import RequestTarget, WriteOptions

_JSON_PATCH = "JSONPatch"
_MAX_WARNING = 256
_OPTIONS = {"CREATE": "CreateOptions", "UPDATE": "UpdateOptions", "DELETE": "DeleteOptions"}


class CallFailed(Exception):
    """The webhook could not be called, or returned a malformed response. The failure policy decides the outcome."""


@dataclass(frozen=True, slots=True)
class ReviewResult:
    """A well-formed response."""

    is_allowed: bool
    patch: bytes = b""
    warnings: tuple[str, ...] = ()
    status: Manifest = field(default_factory=dict)


def request(
    uid: str, operation: str, target: RequestTarget, obj: Manifest | None, old: Manifest | None, options: WriteOptions
) -> Manifest:
    """The AdmissionReview request."""
    resource = target.resource
    kind = {"group": resource.group, "version": resource.version, "kind": resource.kind}
    about = {"group": resource.group, "version": resource.version, "resource": resource.plural}
    metadata = (obj or old or {}).get("metadata") or {}
    review: Manifest = {
        "uid": uid,
        "kind": kind,
        "resource": about,
        "requestKind": kind,
        "requestResource": about,
    }
    if target.subresource:
        review["subResource"] = review["requestSubResource"] = target.subresource
    if name := target.name or metadata.get("name"):
        review["name"] = name
    if target.namespace:
        review["namespace"] = target.namespace
    review |= {
        "operation": operation,
        "userInfo": {"username": options.user, "groups": list(options.groups)},
        "object": obj,
        "oldObject": old,
        "dryRun": options.dry_run,
        "options": _options(operation, options),
    }
    return {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": review}


def _options(operation: str, options: WriteOptions) -> Manifest:
    encoded_options: Manifest = {"kind": _OPTIONS[operation], "apiVersion": "meta.k8s.io/v1"}
    if options.dry_run:
        encoded_options["dryRun"] = ["All"]
    if operation != "DELETE" and options.manager:
        encoded_options["fieldManager"] = options.manager
        encoded_options["fieldValidation"] = options.validation
    return encoded_options


def _invalid(why: str) -> CallFailed:
    return CallFailed(f"received invalid webhook response: {why}")


def read(body: bytes, uid: str, *, is_mutating: bool) -> ReviewResult:
    """Parse a webhook's response. Raises CallFailed if it is malformed."""
    try:
        review = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _invalid(f"unable to read the response: {error}") from None
    if not isinstance(review, dict):
        raise _invalid("expected an AdmissionReview object")
    version, kind = review.get("apiVersion") or "", review.get("kind") or ""
    if (version, kind) != ("admission.k8s.io/v1", "AdmissionReview"):
        raise _invalid(
            f"expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got {version or '/'}, Kind={kind}"
        )
    response = review.get("response")
    if not isinstance(response, dict):
        raise _invalid("webhook response was absent")
    if response.get("uid") != uid:
        raise _invalid(f'expected response.uid="{uid}", got "{response.get("uid") or ""}"')
    allowed = response.get("allowed", False)
    if not isinstance(allowed, bool):
        raise _invalid("response.allowed must be true or false")
    status = response.get("status")
    return ReviewResult(
        allowed,
        _patch(response, is_mutating),
        _warnings(response.get("warnings")),
        status if isinstance(status, dict) else {},
    )


def _patch(response: Manifest, is_mutating: bool) -> bytes:
    encoded, kind = response.get("patch"), response.get("patchType")
    if not is_mutating:
        return b""  # a validating webhook's patch is ignored
    if encoded and not kind:
        raise _invalid("webhook returned response.patch but not response.patchType")
    if kind and not encoded:
        raise _invalid("webhook returned response.patchType but not response.patch")
    if not encoded:
        return b""
    if kind != _JSON_PATCH:
        raise _invalid(f'webhook returned invalid response.patchType of "{kind}"')
    try:
        return base64.b64decode(encoded, validate=True)
    except (binascii.Error, TypeError, ValueError):
        raise _invalid("response.patch is not base64") from None


def _warnings(value: object) -> tuple[str, ...]:
    if not isinstance(value, list):
        return ()
    return tuple(str(one)[:_MAX_WARNING] for one in value)


def denied(name: str, status: Manifest) -> ApiError:
    """The error for a denied request. A code below 400 becomes 400."""
    code = status.get("code")
    by = f'admission webhook "{name}" denied the request'
    message, reason = status.get("message"), status.get("reason")
    if message:
        text = f"{by}: {message}"
    elif reason:
        text = f"{by}: {reason}"
    else:
        text = f"{by} without explanation"
    return ApiError(code if isinstance(code, int) and 400 <= code < 600 else 400, str(reason or ""), text)

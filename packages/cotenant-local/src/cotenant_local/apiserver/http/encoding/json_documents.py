"""JSON request documents with bounded nesting.

JSON arrives as a request body and inside protobuf messages, and a deeply nested document exhausts the decoder's stack.
One decoder for both, which stops at the interpreter's limit; the decoded nesting is counted only if the number of
brackets could exceed ours.
Limits: 256 levels (Kubernetes: 10,000).
"""

from __future__ import annotations

import msgspec

from cotenant.drivers.kube.manifests.errors import ApiError

MAX_DEPTH = 256

_decode = msgspec.json.Decoder().decode


def bad_body(message: str, kind: str) -> ApiError:
    """400 for a body that cannot be decoded. `kind` is the expected kind, empty if unknown."""
    where = f"the object provided is unrecognized (must be of type {kind}): " if kind else ""
    return ApiError(400, "BadRequest", where + message)


def decode_json(body: bytes, kind: str = "") -> object:
    """Decode a JSON document. Raises ApiError 400 if it is not JSON or nested too deeply."""
    try:
        document = _decode(body)
    except RecursionError:
        raise bad_body("json parse error: exceeded max depth", kind) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        shown = body[:40].decode("utf-8", "replace") if body else "<empty>"
        raise bad_body(f"couldn't get version/kind; json parse error: {error} ({shown})", kind) from None
    if body.count(b"{") + body.count(b"[") > MAX_DEPTH and _is_deep(document):
        raise bad_body("json parse error: exceeded max depth", kind)
    return document


def _is_deep(document: object) -> bool:
    """Whether a document is nested deeper than `MAX_DEPTH`, found level by level: recursion would overflow the
    stack.
    """
    level = [document]
    for _ in range(MAX_DEPTH):
        level = [
            entry
            for one in level
            if type(one) is dict or type(one) is list
            for entry in (one.values() if type(one) is dict else one)
            if type(entry) is dict or type(entry) is list
        ]
        if not level:
            return False
    return True

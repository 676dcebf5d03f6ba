"""JSON request documents with bounded nesting.

Problem: JSON arrives as a request body and inside protobuf messages, and a deeply nested document exhausts the decoder's stack. Choice: one
decoder for both; the nesting is counted only if the number of brackets could exceed the limit. Limits: 256 levels (Kubernetes: 10,000).
"""

from __future__ import annotations

from typing import Any

import msgspec

from cotenant.local.apiserver.contract import ApiError

MAX_DEPTH = 256

_decode = msgspec.json.Decoder().decode


def bad_body(message: str, kind: str) -> ApiError:
    """400 for a body that cannot be decoded. `kind` is the expected kind, empty if unknown."""
    where = f"the object provided is unrecognized (must be of type {kind}): " if kind else ""
    return ApiError(400, "BadRequest", where + message)


def decode_json(body: bytes, kind: str = "") -> Any:
    """Decode a JSON document. Raises ApiError 400 if it is not JSON or nested too deeply."""
    if body.count(b"{") + body.count(b"[") > MAX_DEPTH and _depth(body) > MAX_DEPTH:
        raise bad_body("json parse error: exceeded max depth", kind)
    try:
        return _decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        shown = body[:40].decode("utf-8", "replace") if body else "<empty>"
        raise bad_body(f"couldn't get version/kind; json parse error: {error} ({shown})", kind) from None


def _depth(body: bytes) -> int:
    """The deepest nesting of brackets outside strings."""
    depth = deepest = 0
    in_string = escaped = False
    for byte in body:
        if in_string:
            if escaped:
                escaped = False
            elif byte == 0x5C:
                escaped = True
            elif byte == 0x22:
                in_string = False
        elif byte == 0x22:
            in_string = True
        elif byte in (0x7B, 0x5B):
            depth += 1
            deepest = max(deepest, depth)
            if deepest > MAX_DEPTH:
                break
        elif byte in (0x7D, 0x5D):
            depth -= 1
    return deepest

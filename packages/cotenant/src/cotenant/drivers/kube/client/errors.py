"""The API server's refusals as errors, by what the caller should do.

A caller must know whether to try again, to read again, or to give up, and HTTP codes mix these. One class for each
different reaction; `retry_helps` says whether the same request may succeed later.
Limits: of a request whose answer was lost only `Unavailable.maybe_done` is known: it may have taken effect.
Source: Kubernetes API conventions, HTTP status codes and `Status` reasons.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import msgspec

from cotenant.drivers.kube.kinds.status import Status, StatusCause
from cotenant.model.errors import Permanent, Transient

# What msgspec raises for bytes of the wrong form; the last for JSON nested deeper than any real object.
UNREADABLE = (msgspec.DecodeError, UnicodeError, RecursionError)

_STATUS = msgspec.json.Decoder(Status)
_SHOWN = 300  # characters of an answer that is no Status


class Refused(Permanent):
    """The server refused, and would again. `reason` is the machine-readable reason of its Status."""

    retry_helps = False

    def __init__(self, message: str, code: int = 0, reason: str = "", causes: tuple[StatusCause, ...] = ()) -> None:
        self.code = code
        self.reason = reason
        self.causes = causes
        super().__init__(message)


class Conflict(Refused):
    """The object is not as the writer believed (409), or another one has its name (422 about its UID): read it
    again before deciding again.
    """


class AlreadyExists(Refused):
    """An object of this name exists (409)."""


class NotFound(Refused):
    """There is no such object, or no such resource on this server (404)."""


class Gone(Refused):
    """The resource version is too old (410): list again."""


class Unauthorized(Refused):
    """The server does not accept the credential (401), even after it was renewed."""


class Forbidden(Refused):
    """The user lacks the right (403)."""


class Invalid(Refused):
    """The request or the object is wrong (400, 413, 415, 422): `causes` name the fields."""


class Throttled(Transient):
    """The server, or a disruption budget, asks to retry later (429)."""

    retry_helps = True


class Unavailable(Transient):
    """No answer, or a server error (5xx, refused, cut, timed out). `maybe_done`: the request may have taken effect
    all the same.
    """

    retry_helps = True

    def __init__(self, message: str, retry_after_s: float = 1.0, maybe_done: bool = False, code: int = 0) -> None:
        self.maybe_done = maybe_done
        self.code = code
        super().__init__(message, retry_after_s)


class StreamTimeout(Unavailable):
    """A stream was silent for longer than a live server would be."""


_BY_CODE: dict[int, type[Refused]] = {
    400: Invalid,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    405: Invalid,
    406: Invalid,
    409: Conflict,
    410: Gone,
    413: Invalid,
    415: Invalid,
    422: Invalid,
}


def failure(code: int, body: bytes, headers: Mapping[str, str] | None = None, doing: str = "") -> Refused | Transient:
    """The error that an HTTP answer of 400 or more stands for. `doing` is the request, e.g. "POST /api/v1/pods"."""
    status = _status_of(body)
    shown = status.message or body[:_SHOWN].decode("utf-8", "replace").strip()
    message = f"{doing}: {code} {shown}" if doing else f"{code} {shown}"
    return _error(code, status, message, headers)


def failure_of_status(status: Status) -> Refused | Transient:
    """The error that a Status in an ERROR event stands for."""
    code = status.code or (410 if status.reason in ("Expired", "Gone") else 500)
    return _error(code, status, f"{code} {status.message or status.reason or 'error'}", None)


def _error(code: int, status: Status, message: str, headers: Mapping[str, str] | None) -> Refused | Transient:
    if code == 429 or code >= 500 or code < 400 or code == 408:
        after = _retry_after(status, headers)
        return Throttled(message, after) if code == 429 else Unavailable(message, after, code >= 500, code)
    reason = status.reason or ""
    causes = (status.details.causes or ()) if status.details is not None else ()
    form = AlreadyExists if reason == "AlreadyExists" else Gone if reason == "Expired" else _BY_CODE.get(code, Refused)
    if code == 422 and any(cause.field == "metadata.uid" for cause in causes):
        form = Conflict  # a patch that was meant for the object of another UID
    return form(message, code, reason, causes)


def _status_of(body: bytes) -> Status:
    try:
        return _STATUS.decode(body)
    except UNREADABLE:
        return Status()


def _retry_after(status: Status, headers: Mapping[str, str] | None) -> float:
    """Seconds, from the Status or the Retry-After header (its date form is not used by Kubernetes); 1 where neither
    is given.
    """
    if status.details is not None and status.details.retry_after_seconds:
        return float(status.details.retry_after_seconds)
    try:
        after = float((headers or {}).get("Retry-After", ""))
    except ValueError:
        return 1.0
    return after if math.isfinite(after) and after >= 0 else 1.0

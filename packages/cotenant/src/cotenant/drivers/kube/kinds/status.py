"""Status: how a request to the API server ended, with the causes of a refusal."""

from __future__ import annotations

from cotenant.drivers.kube.kinds.kind import ApiStruct, Int32, Text


class StatusCause(ApiStruct, frozen=True):
    """One field that the server refuses."""

    field: Text = None
    reason: Text = None
    message: Text = None


class StatusDetails(ApiStruct, frozen=True):
    """More about a failure."""

    name: Text = None
    kind: Text = None
    causes: tuple[StatusCause, ...] | None = None
    retry_after_seconds: Int32 | None = None


class Status(ApiStruct, frozen=True):
    """v1 Status: how a request ended."""

    status: Text = None
    message: Text = None
    reason: Text = None
    code: Int32 | None = None
    details: StatusDetails | None = None

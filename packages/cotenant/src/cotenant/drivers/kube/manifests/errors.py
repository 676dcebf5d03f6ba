"""An object as its writer sent it, and the error of an API server about it."""

from __future__ import annotations

from dataclasses import dataclass

from cotenant.model.json_object import JsonObject

Manifest = JsonObject  # one API object (or a list) as decoded from JSON


@dataclass(frozen=True, slots=True)
class FieldError:
    """One validation error of an object: `reason` as in Kubernetes (FieldValueRequired, FieldValueInvalid, ...)."""

    reason: str
    message: str
    field: str


class ApiError(Exception):
    """An error response, a `Status`. Raised anywhere below the HTTP layer, which writes it."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        *,
        name: str = "",
        group: str = "",
        kind: str = "",
        causes: tuple[FieldError, ...] = (),
        retry_after_s: int = 0,
        continue_token: str = "",
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.name = name
        self.group = group
        self.kind = kind
        self.causes = causes
        self.retry_after_s = retry_after_s
        self.continue_token = continue_token  # of a 410: the token for an inconsistent continuation

    def status(self) -> Manifest:
        """The `Status` object of the response."""
        details: Manifest = {}
        for key, value in (
            ("name", self.name),
            ("group", self.group),
            ("kind", self.kind),
            ("retryAfterSeconds", self.retry_after_s),
        ):
            if value:
                details[key] = value
        if self.causes:
            details["causes"] = [
                {"reason": c.reason, "message": c.message, **({"field": c.field} if c.field else {})}
                for c in self.causes
            ]
        return {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {"continue": self.continue_token} if self.continue_token else {},
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
            "details": details,
            "code": self.code,
        }

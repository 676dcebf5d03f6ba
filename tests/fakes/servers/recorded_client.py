"""A client of an API server that records what it is asked to write, and answers or refuses as it is told."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any


def plain(body: Any) -> Any:
    """A body as JSON has it."""
    return json.loads(body) if isinstance(body, bytes) else body


@dataclass
class RecordedClient:
    """`refusals`: by verb, what the next calls raise, one after another; None = it is answered. `stored`: what is
    answered to reads, one after another, the last again and again.
    """

    refusals: dict[str, list[Exception | None]] = field(default_factory=dict)
    stored: list[Any] = field(default_factory=lambda: ["stored"])
    calls: list[tuple[Any, ...]] = field(default_factory=list)

    def _called(self, verb: str, *given: Any) -> None:
        self.calls.append((verb, *given))
        refusals = self.refusals.get(verb)
        error = refusals.pop(0) if refusals else None
        if error is not None:
            raise error

    def _read(self) -> Any:
        return self.stored.pop(0) if len(self.stored) > 1 else self.stored[0]

    async def create(self, kind: Any, namespace: str, body: Any) -> Any:
        """As of a client."""
        self._called("create", kind.plural, namespace, plain(body))
        return "made"

    async def patch(
        self, kind: Any, namespace: str, name: str, body: Any, *, content_type: str, subresource: str = ""
    ) -> Any:
        """As of a client; its type without `application/` and `-patch+json`."""
        sort = content_type.removeprefix("application/").removesuffix("-patch+json")
        self._called("patch", kind.plural, subresource, namespace, name, sort, plain(body))
        return "patched"

    async def delete(self, kind: Any, namespace: str, name: str, *, uid: str = "", grace_s: int | None = None) -> None:
        """As of a client."""
        self._called("delete", kind.plural, namespace, name, uid, grace_s)

    async def evict(self, namespace: str, name: str, uid: str, grace_s: int | None = None) -> None:
        """As of a client."""
        self._called("evict", namespace, name, uid, grace_s)

    async def get(self, kind: Any, namespace: str, name: str) -> Any:
        """As of a client."""
        self._called("get", kind.plural, namespace, name)
        return self._read()

    async def request(self, method: str, path: str) -> bytes:
        """As of a client."""
        self._called(method, path)
        return json.dumps(self._read()).encode()

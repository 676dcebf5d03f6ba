"""What the fleet needs of a bus and of a store, whoever provides them: a NATS server, or this process."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from cotenant.model.errors import Permanent, Transient

NO_HEADERS: Mapping[str, str] = {}
MAX_PAYLOAD = 1 << 20  # bytes, as of nats-server's default
ERROR_HEADER, ERROR_CODE_HEADER = "Nats-Service-Error", "Nats-Service-Error-Code"  # of NATS micro services


class NoResponder(Transient):
    """Nobody listens on the subject of a request; said at once."""


class RevisionConflict(Permanent):
    """The stored value has another revision than the writer saw."""


@dataclass(frozen=True, slots=True)
class BusMessage:
    """One message. `reply`: where an answer is expected; empty: none is."""

    subject: str
    data: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    reply: str = ""


Handler = Callable[[BusMessage], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class BusService:
    """How a process is found on the bus (NATS micro services:

    `nats micro ls`). One endpoint for each verb, on `PREFIX.VERB`.
    """

    name: str
    version: str
    metadata: Mapping[str, str]
    prefix: str
    verbs: Sequence[str]
    queue: str = ""  # services of one queue share the requests
    metadata_of: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # by verb


class Subscription(Protocol):
    """Ends with `unsubscribe`."""

    async def unsubscribe(self) -> None:
        """No message arrives afterwards."""
        ...


class Bus(Protocol):
    """Publish, subscribe, ask.

    Subjects are tokens separated by dots; `*` is one token, `>` the rest. Messages to one handler come one after
    another.
    """

    @property
    def is_connected(self) -> bool:
        """Whether messages go out now; they wait, within limits, while not."""
        ...

    async def publish(self, subject: str, data: bytes, headers: Mapping[str, str] = NO_HEADERS) -> None:
        """Send without an answer."""
        ...

    async def request(
        self, subject: str, data: bytes, headers: Mapping[str, str] = NO_HEADERS, timeout_s: float = 5.0
    ) -> BusMessage:
        """Send and wait for one answer. Raises `NoResponder` at once where nobody listens, `TimeoutError`, and
        `Transient` where the connection was lost meanwhile: whether it arrived is not known.
        """
        ...

    async def subscribe(self, subject: str, handler: Handler, queue: str = "") -> Subscription:
        """Have messages handled; those of one `queue` are handled by one of its subscribers."""
        ...

    async def serve(self, service: BusService, handler: Handler) -> Subscription:
        """Be found as a service, and have requests to its verbs handled."""
        ...

    async def close(self) -> None:
        """End the connection."""
        ...


@dataclass(frozen=True, slots=True)
class StoredValue:
    """A value and its revision, which each write raises."""

    value: bytes
    revision: int


class KeyValueStore(Protocol):
    """Values by key, as the last write left them. Keys are letters, digits, `-`, `_` and `.`."""

    def get(self, key: str) -> StoredValue | None:
        """The value as it is known here, without I/O."""
        ...

    def names(self) -> list[str]:
        """All keys."""
        ...

    async def put(self, key: str, value: bytes, revision: int | None = None) -> int:
        """Write; with `revision` only over that one (0:

        Only where there is none). The new revision. Raises `RevisionConflict`, `Transient`.
        """
        ...

    async def read(self, key: str) -> StoredValue | None:
        """The value as it is stored now: `get` lags behind what others wrote. Raises `Transient`."""
        ...

    async def delete(self, key: str, revision: int | None = None) -> None:
        """Remove a key; with `revision` only that one. Raises `RevisionConflict`, `Transient`."""
        ...

"""The watches of one process, each bound to what handles its objects.

Every kind is listed, watched, read and handed on in the same way; one object that cannot be read must not stop the
others, and a custom kind may not be installed. `ObjectHandler` is the usual binding: read an object, say that it was
seen or is gone, and treat one that cannot be read as gone unless the handler says otherwise; it is counted by kind and
logged. A handler that needs whole deliveries takes a function instead. `delivered` is called after each delivery.
Limits: handlers run in the event loop and must not wait; an error that a handler raises, other than `InvalidInput` from
`read`, ends the process. Between the portions of a first list that goes to an `ObjectHandler` other tasks run: who acts
on objects waits for `synced`, and with `later_in_portions` while `is_handing_on`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from cotenant.drivers.kube.cache.cache import ApiObject, Changed, MalformedObject, Notification
from cotenant.drivers.kube.cache.reflector import ABSENT_S, Deliver, Reflector
from cotenant.drivers.kube.client.client import Client
from cotenant.drivers.kube.kinds.kind import AnyKind, Kind
from cotenant.model.errors import InvalidInput

T = TypeVar("T", bound=ApiObject)
V = TypeVar("V")

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ObjectHandler(Generic[T, V]):
    """What is done with the objects of a kind, by key (namespace/name, or name).

    `read` raises `InvalidInput` for an object that cannot be used. `unreadable` is called for such an object; None =
    `gone`.
    """

    read: Callable[[T], V]
    seen: Callable[[V], None]
    gone: Callable[[str], None]
    unreadable: Callable[[str], None] | None = None


class Watches:
    """All watches of a process; add them before `run`."""

    def __init__(
        self,
        client: Client,
        *,
        streaming: bool = False,
        later_in_portions: bool = False,
        delivered: Callable[[], None] = lambda: None,
    ) -> None:
        """`streaming`: ask for the first list as a watch (`sendInitialEvents`). `later_in_portions`: a kind whose first
        list comes in portions has its later ones so too. `delivered` is called after each delivery.
        """
        self.malformed: dict[str, int] = {}  # objects that could not be read, by kind
        self._client = client
        self._streaming = streaming
        self._later_in_portions = later_in_portions
        self._delivered = delivered
        self._reflectors: list[Reflector[Any]] = []
        self._handing_on: set[Reflector[Any]] = set()  # kept, as a scheduler asks at each turn

    def handle(
        self,
        kind: Kind[T],
        handler: ObjectHandler[T, Any],
        *,
        namespace: str = "",
        field_selector: str = "",
        optional: bool = False,
        until_open: bool = False,
        absent_s: float = ABSENT_S,
    ) -> Reflector[T]:
        """Watch a kind and hand on its objects one by one; no namespace = all.

        `optional`: the kind may not be installed, or not be readable for us: then it has no objects, and is asked for
        again every `absent_s`. `until_open`: the kind counts as listed only when its watch is open too, for what
        nothing may be begun without.
        """
        return self.deliver(
            kind,
            lambda happened: self.hand_on(handler, happened),
            namespace=namespace,
            field_selector=field_selector,
            optional=optional,
            in_portions=True,
            until_open=until_open,
            absent_s=absent_s,
        )

    def deliver(
        self,
        kind: Kind[T],
        deliver: Deliver[T],
        *,
        namespace: str = "",
        field_selector: str = "",
        optional: bool = False,
        in_portions: bool = False,
        first_by: Callable[[T], float] | None = None,
        until_open: bool = False,
        absent_s: float = ABSENT_S,
    ) -> Reflector[T]:
        """Watch a kind and hand on whole deliveries; `deliver` passes what is malformed to `note`. The other options
        as of `Reflector`.
        """

        def delivered(happened: Sequence[Notification[T]]) -> None:
            deliver(happened)
            self._delivered()

        def handing_on(on: bool) -> None:
            (self._handing_on.add if on else self._handing_on.discard)(reflector)

        reflector = Reflector(
            self._client,
            kind,
            delivered,
            namespace=namespace,
            field_selector=field_selector,
            streaming=self._streaming,
            optional=optional,
            in_portions=in_portions,
            later_in_portions=in_portions and self._later_in_portions,
            first_by=first_by,
            until_open=until_open,
            handing_on=handing_on,
            absent_s=absent_s,
        )
        self._reflectors.append(reflector)
        return reflector

    def keep(self, kind: Kind[T], *, field_selector: str = "") -> Reflector[T]:
        """Watch a kind whose objects are only read from the reflector's cache."""
        return self.deliver(kind, lambda happened: None, field_selector=field_selector)

    def hand_on(self, handler: ObjectHandler[T, Any], happened: Sequence[Notification[T]]) -> None:
        """Hand the objects of a delivery to a handler, one by one."""
        unreadable = handler.unreadable or handler.gone
        for changed in happened:
            if isinstance(changed, MalformedObject):
                self.note(changed)
                if changed.key:
                    unreadable(changed.key)
            elif isinstance(changed, Changed):
                if changed.new is None:
                    handler.gone(changed.key)
                    continue
                try:
                    value = handler.read(changed.new)
                except InvalidInput as error:
                    _log.warning("%s %s is not used: %s", changed.kind, changed.key, error)
                    self.count(changed.kind)
                    unreadable(changed.key)
                    continue
                handler.seen(value)

    def note(self, malformed: MalformedObject) -> None:
        """Log and count an object that the server sent and that cannot be decoded."""
        _log.warning("%s %s cannot be read: %s", malformed.kind, malformed.key or "without a name", malformed.why)
        self.count(malformed.kind)

    def count(self, kind: str) -> None:
        """Count an object that could not be used."""
        self.malformed[kind] = self.malformed.get(kind, 0) + 1

    @property
    def kinds(self) -> tuple[AnyKind, ...]:
        """What is watched."""
        return tuple(reflector.kind for reflector in self._reflectors)

    @property
    def synced(self) -> bool:
        """Whether every kind has been listed once."""
        return all(reflector.synced for reflector in self._reflectors)

    @property
    def is_handing_on(self) -> bool:
        """Whether a part of a list is handed on and the rest is not yet."""
        return bool(self._handing_on)

    async def wait_synced(self) -> None:
        """Until every kind has been listed once."""
        for reflector in self._reflectors:
            await reflector.wait_synced()

    def replay(self, pages: Callable[[AnyKind], Iterable[bytes]], turn: Callable[[], None] = lambda: None) -> None:
        """Hand on lists that were read elsewhere, kind by kind in the order of the watches, in place of `run`. `turn`:
        called where `run` would let others run.
        """
        for reflector in self._reflectors:
            for body in pages(reflector.kind):
                turn()
                reflector.listed(body, turn)

    async def run(self) -> None:
        """Watch, until cancelled. Errors of the server never end it."""
        async with asyncio.TaskGroup() as group:
            for reflector in self._reflectors:
                group.create_task(reflector.run())
            await asyncio.Event().wait()  # also where nothing is watched

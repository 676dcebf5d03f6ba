"""Watches without a server: a test tells them what a server would have delivered."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from cotenant.drivers.kube.cache.cache import ApiObject, Changed, MalformedObject
from cotenant.drivers.kube.cache.reflector import ABSENT_S, Deliver, Reflector
from cotenant.drivers.kube.client.access import Access
from cotenant.drivers.kube.client.client import Client
from cotenant.drivers.kube.client.credentials import Credential, FixedCredential
from cotenant.drivers.kube.kinds.kind import Kind
from cotenant.services.kube_process.watches import T, Watches


def nobody() -> Client:
    """A client of a server that is never asked."""
    return Client(Access("http://127.0.0.1:1", FixedCredential(Credential(""))), qps=1.0, burst=1, in_flight=1)


class ToldWatches(Watches):
    """`selectors`: (namespace, field selector) of what is watched, by kind."""

    def __init__(self) -> None:
        super().__init__(nobody())
        self.selectors: dict[str, tuple[str, str]] = {}
        self._takers: dict[tuple[str, str], list[Deliver[Any]]] = {}
        self._known: dict[tuple[str, str, str], ApiObject] = {}

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
        """As the real ones."""
        self.selectors[kind.name] = (namespace, field_selector)
        self._takers.setdefault((kind.api_version, kind.name), []).append(deliver)
        return super().deliver(
            kind, deliver, namespace=namespace, field_selector=field_selector, optional=optional, absent_s=absent_s
        )

    def seen(self, kind: Kind[Any], document: Mapping[str, Any]) -> None:
        """An object is there, or has changed."""
        meta = document["metadata"]
        key = f"{meta['namespace']}/{meta['name']}" if kind.namespaced else meta["name"]
        place = (kind.api_version, kind.name, key)
        made = msgspec.json.decode(msgspec.json.encode(document), type=kind.form, strict=False)
        before, self._known[place] = self._known.get(place), made
        self._hand_on(kind, Changed(kind.name, key, before, made))

    def gone(self, kind: Kind[Any], key: str) -> None:
        """An object was deleted."""
        self._hand_on(kind, Changed(kind.name, key, self._known.pop((kind.api_version, kind.name, key)), None))

    def _hand_on(self, kind: Kind[Any], happened: Changed[Any] | MalformedObject) -> None:
        one: Sequence[Changed[Any] | MalformedObject] = [happened]
        for take in self._takers[kind.api_version, kind.name]:
            take(one)

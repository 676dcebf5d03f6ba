"""What a reader is, and the readers of the Kubernetes objects that a process watches.

A process's own watches are collected instead of run; each kind becomes a reader that decodes an object and delivers it
as the watch cache does, now and then as deleted. `decide` runs after every 50th delivery, so that the engine behind the
watches works on what it was given.
Limits: the readers of one process share its state.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any, cast
from zlib import crc32

import msgspec

from bench.fuzz.inputs import documents_of
from cotenant.drivers.kube.cache.cache import ApiObject, Changed, key_of
from cotenant.drivers.kube.cache.reflector import Deliver, Reflector
from cotenant.drivers.kube.client.client import Client
from cotenant.drivers.kube.client.errors import UNREADABLE
from cotenant.drivers.kube.kinds.kind import Kind
from cotenant.services.kube_process.watches import Watches

_NAMES, _DECIDE_EVERY, _STEP_S = 12, 50, 0.5

Shape = Callable[[Any, Random], None]


@dataclass(frozen=True, slots=True)
class Reader:
    """`read` may raise `errors`; `part` is its share of the inputs of a run, 1 for one that takes microseconds."""

    name: str
    make: Callable[[Random], bytes]
    read: Callable[[bytes], object]
    errors: tuple[type[Exception], ...] = ()
    part: float = 1.0


class Clock:
    """Seconds that advance with every delivery."""

    def __init__(self) -> None:
        self.deliveries = 0

    def now(self) -> float:
        """Seconds."""
        return self.deliveries * _STEP_S


@dataclass(slots=True)
class Kept:
    """Stands for the reflector of one kind: the objects by namespace/name."""

    cache: dict[str, ApiObject] = field(default_factory=dict)


class CollectedWatches(Watches):
    """Keeps what would be done with the deliveries of each kind, instead of watching an API server."""

    def __init__(self) -> None:
        super().__init__(cast(Client, None))
        self.collected: dict[tuple[str, type], tuple[Kind[Any], list[Deliver[Any]], Kept]] = {}

    def deliver(
        self,
        kind: Kind[Any],
        deliver: Deliver[Any],
        *,
        namespace: str = "",
        field_selector: str = "",
        optional: bool = False,
        in_portions: bool = False,
        first_by: Callable[[Any], float] | None = None,
        until_open: bool = False,
        absent_s: float = 0.0,
    ) -> Reflector[Any]:
        """Keep the handler."""
        name = f"{kind.plural}.{kind.group}" if kind.group else kind.plural
        _, handlers, kept = self.collected.setdefault((name, kind.form), (kind, [], Kept()))
        handlers.append(deliver)
        return cast(Reflector[Any], kept)

    def readers(
        self,
        process: str,
        clock: Clock,
        decide: Callable[[], None],
        shapes: dict[str, Shape] | None = None,
        part: float = 0.3,
    ) -> list[Reader]:
        """One for each form of each kind. `shapes` make documents of a kind (by its plural) more likely to be read
        to their end.
        """
        return [
            Reader(
                f"{process} {name}",
                documents_of(kind.form, _named(kind, (shapes or {}).get(kind.plural))),
                _delivery(kind, handlers, kept.cache, clock, decide),
                UNREADABLE,
                part,
            )
            for (name, _), (kind, handlers, kept) in self.collected.items()
        ]


def _delivery(
    kind: Kind[Any],
    handlers: list[Deliver[Any]],
    known: dict[str, ApiObject],
    clock: Clock,
    decide: Callable[[], None],
) -> Callable[[bytes], object]:
    decoder = msgspec.json.Decoder(kind.form)

    def read(text: bytes) -> None:
        new = decoder.decode(text)
        key = key_of(new.metadata)
        gone = crc32(text) % 5 == 0
        change = Changed(kind.name, key, known.get(key), None if gone and key in known else new)
        for deliver in handlers:
            deliver([change])
        if gone:
            known.pop(key, None)
        else:
            known[key] = new
        clock.deliveries += 1
        if clock.deliveries % _DECIDE_EVERY == 0:
            decide()

    return read


def _named(kind: Kind[Any], extra: Shape | None) -> Shape:
    """Objects of few names, so that they are changed and deleted, with what every object of an API server has."""

    def shape(document: Any, rng: Random) -> None:
        meta = document.get("metadata")
        if isinstance(meta, dict) and rng.random() >= 0.02:
            name = f"{kind.plural[:3]}{rng.randrange(_NAMES)}"
            meta |= {"name": name, "uid": f"uid-{name}", "resourceVersion": str(rng.randrange(1, 10**6))}
            meta.pop("namespace", None)
            if kind.namespaced:
                meta["namespace"] = rng.choice(("default", "kube-system"))
            spec = document.get("spec")
            if kind.plural == "pods" and isinstance(spec, dict):
                spec["schedulerName"] = "cotenant"
                if rng.random() < 0.7:
                    spec.pop("nodeName", None)
        if extra is not None:
            extra(document, rng)

    return shape

"""RightSizings of a cluster: what was suggested and done, an approval, an undo.

An approval names the suggestion that was read: one that has changed since is refused here, and one that changes later
is not carried out by the manager. Both are patches of the spec with the rights of whoever asks.
Limits: no paging, one request a question.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import msgspec

from cotenant.drivers.kube.client.access import load_access
from cotenant.drivers.kube.client.client import Client
from cotenant.drivers.kube.client.errors import NotFound
from cotenant.drivers.kube.kinds.custom.right_sizing import RIGHT_SIZINGS, RightSizingObject, read_right_sizing
from cotenant.model.errors import InvalidInput, Permanent
from cotenant.model.quantities import format_bytes, format_milli
from cotenant.model.sizes.container import ContainerSize
from cotenant.model.sizes.right_sizing import RightSizing, SizingMode

T = TypeVar("T")
_log = logging.getLogger(__name__)
_NONE = "the cluster has no kind RightSizing: cotenant crds | kubectl apply --server-side -f -"


class _List(msgspec.Struct):
    items: list[RightSizingObject] = []


@dataclass(frozen=True, slots=True)
class SizingClient:
    """Of one cluster."""

    kubeconfig: Path | None = None
    context: str = ""

    def all(self, namespace: str = "") -> Sequence[RightSizing]:
        """Every object, by key; no namespace = of all. Raises `Permanent` where the kind is not installed."""

        async def ask(client: Client) -> Sequence[RightSizing]:
            try:
                body = await client.request("GET", RIGHT_SIZINGS.path(namespace))
            except NotFound as error:
                raise Permanent(_NONE) from error
            found = msgspec.json.decode(body, type=_List).items
            return sorted(read_sizings(found), key=lambda sizing: sizing.key)

        return self._ask(ask)

    def approve(self, key: str, id_: str, by: str) -> RightSizing:
        """Allow the suggestion that stands; `id_` "" = whichever it is."""
        return self._ask(lambda client: approve_size(client, key, id_, by))

    def undo(self, key: str, id_: str) -> RightSizing:
        """Ask for a change to be taken back."""
        return self._ask(lambda client: undo_size(client, key, id_))

    def _ask(self, question: Callable[[Client], Awaitable[T]]) -> T:
        access = load_access(self.kubeconfig, self.context)

        async def run() -> T:
            async with Client(access, qps=50.0, burst=10, in_flight=2, user_agent="cotenant-receipts") as client:
                return await question(client)

        return asyncio.run(run())


def read_sizings(objects: Iterable[RightSizingObject]) -> list[RightSizing]:
    """Those that can be read; the others are logged: one that somebody else wrote to must not hide all receipts."""
    found = []
    for stored in objects:
        try:
            found.append(read_right_sizing(stored))
        except InvalidInput as error:
            _log.warning("RightSizing %s/%s: %s", stored.metadata.namespace, stored.metadata.name, error)
    return found


async def approve_size(client: Client, key: str, id_: str, by: str) -> RightSizing:
    """Allow the suggestion that stands; `id_` "" = whichever it is. Raises `InvalidInput`."""
    sizing = await _get(client, key)
    stands = sizing.status.suggestion
    if stands is None or (id_ and stands.id != id_):
        now = f"it has {stands.id}" if stands is not None else f"it has none ({sizing.status.state})"
        raise InvalidInput("ID", id_ or "none", "the suggestion that stands", now)
    if sizing.mode not in (SizingMode.APPROVE, SizingMode.EARNED):
        raise InvalidInput(key, f"mode {sizing.mode}", "mode approve or earned", "spec.mode says what may be done")
    await _patch(client, key, {"approved": stands.id, "approvedBy": by})
    return sizing


async def undo_size(client: Client, key: str, id_: str) -> RightSizing:
    """Ask for a change to be taken back. Raises `InvalidInput` where it is not the last one that was kept."""
    sizing = await _get(client, key)
    applied = sizing.status.applied
    if applied is None or applied.id != id_:
        now = f"{applied.id} can be" if applied is not None else "nothing stands that was changed"
        raise InvalidInput("ID", id_, "the last change that was kept", now)
    await _patch(client, key, {"undo": id_})
    return sizing


async def _get(client: Client, key: str) -> RightSizing:
    namespace, name = _split(key)
    try:
        return read_right_sizing(await client.get(RIGHT_SIZINGS, namespace, name))
    except NotFound as error:
        raise InvalidInput("NAMESPACE/NAME", key, "a RightSizing", "`cotenant receipts` has them") from error


async def _patch(client: Client, key: str, spec: dict[str, str]) -> None:
    namespace, name = _split(key)
    await client.patch(RIGHT_SIZINGS, namespace, name, {"spec": spec})


def _split(key: str) -> tuple[str, str]:
    namespace, slash, name = key.partition("/")
    if not (namespace and slash and name) or "/" in name:
        raise InvalidInput("NAMESPACE/NAME", key, "NAMESPACE/NAME")
    return namespace, name


def changed(before: ContainerSize, after: ContainerSize) -> str:
    """What differs, such as `cpu 3->1150m, memory limit 4Gi->1Gi`."""
    parts = []
    for name, was, now, shown in (
        ("cpu", before.cpu_request_m, after.cpu_request_m, format_milli),
        ("cpu limit", before.cpu_limit_m, after.cpu_limit_m, format_milli),
        ("memory", before.memory_request_bytes, after.memory_request_bytes, format_bytes),
        ("memory limit", before.memory_limit_bytes, after.memory_limit_bytes, format_bytes),
    ):
        if was != now:
            parts.append(f"{name} {'-' if was is None else shown(was)}->{'-' if now is None else shown(now)}")
    return ", ".join(parts) or "nothing"

"""The ConfigMap by which a cluster's manager and its joiner exchange predictions: `learned` is the manager's, what this
cluster learned; `others` the joiner's, what other clusters did, with the time until which it counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import msgspec

from cotenant.drivers.kube.client.client import Client
from cotenant.drivers.kube.client.errors import AlreadyExists, NotFound
from cotenant.drivers.kube.kinds.config_map import CONFIG_MAPS
from cotenant.model.errors import InvalidInput
from cotenant.model.prediction.shared_use import MAX_PREDICTIONS, UseEvidence, check_evidence

T = TypeVar("T")
LEARNED, OTHERS = "learned", "others"
_MAX_CHARACTERS = 800_000


class OthersUse(msgspec.Struct, frozen=True):
    """What other clusters learned; nothing from `until_s` (Unix time) on."""

    until_s: float = 0.0
    predictions: tuple[UseEvidence, ...] = ()


class PredictionsMap:
    """One ConfigMap, which is made when there is something to be written."""

    def __init__(self, client: Client, namespace: str, name: str) -> None:
        self._client, self._namespace, self._name = client, namespace, name

    async def read(self) -> dict[str, str]:
        """Its data; nothing where there is none. Raises `CotenantError`."""
        try:
            return dict((await self._client.get(CONFIG_MAPS, self._namespace, self._name)).data or {})
        except NotFound:
            return {}

    async def write(self, key: str, text: str | None) -> None:
        """Set one of the keys, or take it away. Raises `CotenantError`."""
        body = {"data": {key: text}}
        try:
            await self._client.patch(CONFIG_MAPS, self._namespace, self._name, body)
        except NotFound:
            if text is None:
                return
            made = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": self._name}, **body}
            try:
                await self._client.create(CONFIG_MAPS, self._namespace, made)
            except AlreadyExists:  # the other one's first write: at the next look
                return


def evidence_text(found: Sequence[UseEvidence]) -> str:
    """As it is stored."""
    return msgspec.json.encode(list(found)).decode()


def read_learned(data: dict[str, str]) -> tuple[UseEvidence, ...]:
    """What the manager wrote. Raises `InvalidInput`."""
    return _checked(LEARNED, _decoded(LEARNED, data.get(LEARNED), tuple[UseEvidence, ...]) or ())


def read_others(data: dict[str, str]) -> OthersUse:
    """What the joiner wrote. Raises `InvalidInput`."""
    found = _decoded(OTHERS, data.get(OTHERS), OthersUse) or OthersUse()
    _checked(OTHERS, found.predictions)
    return found


def _decoded(key: str, text: str | None, form: type[T]) -> T | None:
    if text is None:
        return None
    if len(text) > _MAX_CHARACTERS:
        raise InvalidInput(key, f"{len(text)} characters", f"at most {_MAX_CHARACTERS}")
    try:
        return msgspec.json.decode(text, type=form)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise InvalidInput(key, text[:60], "what cotenant wrote there", str(error)[:200]) from error


def _checked(key: str, found: tuple[UseEvidence, ...]) -> tuple[UseEvidence, ...]:
    if len(found) > MAX_PREDICTIONS:
        raise InvalidInput(key, len(found), f"at most {MAX_PREDICTIONS}")
    for one in found:
        check_evidence(f"{key} {one.name[:100]}", one)
    return found

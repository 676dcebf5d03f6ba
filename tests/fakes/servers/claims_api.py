"""The resource.k8s.io part of an API server, for those that write claims: conditional merge patches, as a server
answers them. It may stop before or after any write, as a client sees it that is killed, or whose answer is lost.
"""

from __future__ import annotations

import copy
from typing import Any

import msgspec

from cotenant.drivers.kube.client.errors import Conflict, Invalid, NotFound, Unavailable
from cotenant.drivers.kube.kinds.claims.schema import ClaimObject
from cotenant.drivers.kube.kinds.kind import Kind


class Killed(Exception):
    """The client was killed."""


class ClaimsApi:
    """`dies_at`: the write, counted from 0, at which the client is killed; `is_late`: after it took effect. `loses_at`:
    the write whose answer is lost. `before`: called before each write, with its number.
    """

    def __init__(self, *claims: dict[str, Any]) -> None:
        self.claims: dict[str, dict[str, Any]] = {}
        self.pods: dict[str, dict[str, Any]] = {}
        self.writes = 0
        self.dies_at = self.loses_at = -1
        self.is_late = False
        self.is_immutable = False  # every write but of the status is refused
        self.before = lambda number: None
        self._version = 0
        for claim in claims:
            self._store(claim)

    def _store(self, claim: dict[str, Any]) -> dict[str, Any]:
        self._version += 1
        claim["metadata"]["resourceVersion"] = str(self._version)
        self.claims[f"{claim['metadata']['namespace']}/{claim['metadata']['name']}"] = claim
        return claim

    def object(self, key: str) -> ClaimObject:
        return msgspec.convert(self.claims[key], ClaimObject)

    async def get(self, kind: Kind[Any], namespace: str, name: str) -> ClaimObject:
        key = f"{namespace}/{name}"
        if key not in self.claims:
            raise NotFound(key, 404, "NotFound")
        return self.object(key)

    async def create(self, kind: Kind[Any], namespace: str, obj: dict[str, Any]) -> ClaimObject:
        made = copy.deepcopy(obj)
        name = f"{made['metadata']['generateName']}{self._version}"
        made["metadata"] |= {"name": name, "uid": f"uid of {name}"}
        return self._write(lambda: self._store(made), f"{namespace}/{name}")

    async def patch(
        self, kind: Kind[Any], namespace: str, name: str, patch: dict[str, Any], *, subresource: str = ""
    ) -> ClaimObject:
        key = f"{namespace}/{name}"

        def change() -> None:
            claim = self.claims.get(key)
            if claim is None:
                raise NotFound(key, 404, "NotFound")
            only = patch["metadata"]
            if (only["uid"], only["resourceVersion"]) != (
                claim["metadata"]["uid"],
                claim["metadata"]["resourceVersion"],
            ):
                raise Conflict("the object has been modified", 409, "Conflict")
            if self.is_immutable and subresource != "status":
                raise Invalid("spec: Invalid value: field is immutable", 422, "Invalid")
            changed = copy.deepcopy(claim)
            if subresource == "status":
                _merge(changed.setdefault("status", {}), patch["status"])
            else:
                changed["metadata"]["finalizers"] = patch["metadata"]["finalizers"]
            self._store(changed)

        return self._write(change, key)

    async def patch_status(self, kind: Kind[Any], namespace: str, name: str, patch: dict[str, Any]) -> None:
        self._write(lambda: self.pods.update({f"{namespace}/{name}": patch["status"]}), "")

    async def delete(self, kind: Kind[Any], namespace: str, name: str, *, uid: str = "") -> None:
        self._write(lambda: self.claims.pop(f"{namespace}/{name}", None), "")

    def _write(self, change: Any, key: str) -> Any:
        number, self.writes = self.writes, self.writes + 1
        self.before(number)
        if number == self.dies_at and not self.is_late:
            raise Killed
        change()
        if number == self.dies_at:
            raise Killed
        if number == self.loses_at:
            raise Unavailable("cut", maybe_done=True)
        return self.object(key) if key else None


def _merge(into: dict[str, Any], patch: dict[str, Any]) -> None:
    for name, value in patch.items():
        if value is None:
            into.pop(name, None)
        elif isinstance(value, dict) and isinstance(into.get(name), dict):
            _merge(into[name], value)
        else:
            into[name] = copy.deepcopy(value)

"""Revisions of releases, kept as Secrets of the release's namespace.

Who may not write Secrets there cannot write a release; what a record says is cross-checked with the objects
(engine/apps/ownership). A revision's number is in the Secret's name, so the server lets only one of two commands create
it. Of superseded revisions the newest are kept.
Limits: a revision whose compressed documents exceed a Secret (1 MiB) is refused.
"""

from __future__ import annotations

import gzip
import zlib
from base64 import b64decode, b64encode
from collections.abc import Sequence

import msgspec

from cotenant.drivers.kube.client.errors import AlreadyExists
from cotenant.drivers.kube.client.objects import Objects, ServedKind
from cotenant.model.apps.objects import checked
from cotenant.model.apps.release import ReleaseName, Revision, RevisionState
from cotenant.model.errors import InvalidInput, Permanent
from cotenant.model.json_object import JsonObject

TYPE = "cotenant.io/release.v1"
LABEL = "cotenant.io/release-name"
MAX_KEPT = 10
_MAX_BYTES = 1 << 20
_MAX_DECODED = 32 << 20
_SECRETS = ServedKind("v1", "secrets", True)


class _Written(msgspec.Struct, omit_defaults=True):
    state: str
    documents: list[JsonObject]
    at_s: float
    until_s: float = 0.0
    message: str = ""
    class_name: str = ""


class ReleaseRecords:
    """The revisions of one namespace's releases."""

    def __init__(self, objects: Objects, namespace: str) -> None:
        self._objects = objects
        self._namespace = namespace

    async def history(self, name: str) -> tuple[Revision, ...]:
        """A release's revisions, oldest first; empty where there is no such release."""
        found = await self._objects.every(_SECRETS, self._namespace, {"labelSelector": f"{LABEL}={name}"})
        return tuple(sorted((one for one in map(decoded, found) if one is not None), key=lambda one: one.number))

    async def releases(self) -> list[tuple[ReleaseName, Revision]]:
        """The latest revision of every release; no namespace = of all that may be read."""
        latest: dict[ReleaseName, Revision] = {}
        for secret in await self._objects.every(_SECRETS, self._namespace, {"labelSelector": LABEL}):
            revision = decoded(secret)
            if revision is None:
                continue
            metadata = secret["metadata"]
            release = ReleaseName(metadata["namespace"], metadata["labels"][LABEL])
            if release not in latest or latest[release].number < revision.number:
                latest[release] = revision
        return sorted(latest.items(), key=lambda one: str(one[0]))

    async def write(self, name: str, revision: Revision, is_new: bool) -> None:
        """Write a revision. Raises `Permanent` where another command has made one of its number."""
        data = {"release": encoded(revision)}
        secret = _secret_name(name, revision.number)
        if is_new:
            document = {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {"name": secret, "labels": {LABEL: name, "cotenant.io/revision": str(revision.number)}},
                "type": TYPE,
                "data": data,
            }
            try:
                await self._objects.create(_SECRETS, self._namespace, document)
            except AlreadyExists:
                raise Permanent(f"another command is changing the release {self._namespace}/{name}") from None
        else:
            await self._objects.merge(_SECRETS, self._namespace, secret, {"data": data})

    async def forget(self, name: str, revisions: Sequence[Revision]) -> None:
        """Remove these revisions."""
        for one in revisions:
            await self._objects.delete(_SECRETS, self._namespace, _secret_name(name, one.number))


def _secret_name(name: str, number: int) -> str:
    return f"cotenant.release.{name}.v{number}"


def encoded(revision: Revision) -> str:
    """The text of a revision in its Secret. Raises `InvalidInput` where it is too large."""
    written = _Written(
        revision.state.value,
        list(revision.documents),
        revision.at_s,
        revision.until_s,
        revision.message,
        revision.class_name,
    )
    text = b64encode(gzip.compress(msgspec.json.encode(written), mtime=0)).decode()
    if len(text) > _MAX_BYTES:
        raise InvalidInput("SOURCE", f"{len(text)} bytes compressed", "less than a Secret holds (1 MiB)")
    return text


def decoded(secret: JsonObject) -> Revision | None:
    """The revision; None where it is none of ours, or cannot be read."""
    if secret.get("type") != TYPE:
        return None
    try:
        number = int(secret["metadata"]["name"].rpartition(".v")[2])
        unpacked = zlib.decompressobj(31).decompress(b64decode(secret["data"]["release"]), _MAX_DECODED)
        written = msgspec.json.decode(unpacked, type=_Written)
        state = RevisionState(written.state)
        documents = tuple(checked(document, "record") for document in written.documents)
    except (KeyError, ValueError, TypeError, zlib.error, msgspec.MsgspecError, RecursionError, InvalidInput):
        return None
    return Revision(number, state, documents, written.at_s, written.until_s, written.message, written.class_name)

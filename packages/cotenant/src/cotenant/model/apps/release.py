"""A release and its revisions: what was applied, when, and how it ended."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

from cotenant.model.apps.objects import ObjectRef, ref_of
from cotenant.model.errors import InvalidInput
from cotenant.model.json_object import JsonObject

_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
MAX_NAME = 53  # characters, as Helm has it: names of objects are made of it


class RevisionState(Enum):
    """How far a revision came."""

    PENDING = "pending"  # being applied, or its command was killed
    DEPLOYED = "deployed"
    SUPERSEDED = "superseded"
    FAILED = "failed"
    UNINSTALLING = "uninstalling"


@dataclass(frozen=True, slots=True)
class Revision:
    """One revision. `until_s`: Unix time after which a pending one is taken for abandoned."""

    number: int
    state: RevisionState
    documents: tuple[JsonObject, ...]
    at_s: float
    until_s: float = 0.0
    message: str = ""
    class_name: str = ""  # asked for with --class

    def refs(self) -> frozenset[ObjectRef]:
        """Its objects."""
        return frozenset(ref_of(document) for document in self.documents)


@dataclass(frozen=True, slots=True)
class ReleaseName:
    """A release of a namespace."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


def check_release_name(name: str) -> str:
    """The name. Raises `InvalidInput`."""
    if len(name) > MAX_NAME or not _NAME.fullmatch(name):
        raise InvalidInput("NAME", name, f"lower-case letters, digits and -, at most {MAX_NAME} characters")
    return name


def deployed(history: tuple[Revision, ...]) -> Revision | None:
    """The revision that stands: the latest that was deployed. `history` is in ascending order."""
    return next((one for one in reversed(history) if one.state is RevisionState.DEPLOYED), None)


def possibly_there(history: tuple[Revision, ...]) -> tuple[JsonObject, ...]:
    """The documents, one for each object, that the deployed revision and all that were tried after it may have left:
    what is not in the next revision goes.
    """
    found: dict[ObjectRef, JsonObject] = {}
    for one in reversed(history):
        if one.state is RevisionState.SUPERSEDED:
            continue
        for document in one.documents:
            found.setdefault(ref_of(document), document)
        if one.state is RevisionState.DEPLOYED:
            break
    return tuple(found.values())

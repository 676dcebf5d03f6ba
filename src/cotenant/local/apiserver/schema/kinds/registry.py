"""Which defaults and rules a built-in kind has."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from cotenant.local.apiserver.contract import Cause, Manifest


@dataclass(frozen=True, slots=True)
class Rules:
    """`default` fills an object in; `validate` says what is wrong with it (`old`: the stored object on update)."""

    default: Callable[[Manifest], None]
    validate: Callable[[Manifest, Manifest | None], list[Cause]]


def _leave(_: Manifest) -> None:
    return


def _accept(_: Manifest, __: Manifest | None) -> list[Cause]:
    return []


NONE = Rules(_leave, _accept)


def rules_of(group: str, kind: str) -> Rules:
    """The rules of a kind; those of a kind that has none of its own accept everything and fill in nothing."""
    return NONE

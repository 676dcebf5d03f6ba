"""What an adapter reads of a case: every key, or it says why one plays no part.

An adapter that looks for the keys of the cases it was written with passes over any other, and the case then asserts
something else than its file says. The input of a case records what is read of it, and a key that nobody read fails the
case by name (`unread`). A key that cannot matter is named as such (`no_matter`). Null and absent are the same, "not
set", as the files' README has it. What an adapter does not know it refuses (`Unreadable`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any


class Unreadable(ValueError):
    """A case says something that its adapter does not know."""


class Reading(dict[str, Any]):
    """A mapping of a case's input that records which of its keys were read. A key that is absent or null reads as
    None.
    """

    def __init__(self, raw: Mapping[str, Any], path: str, last: list[str]) -> None:
        self.path, self.last = path, last
        self.seen: set[str] = set()
        super().__init__({key: _recording(value, f"{path}.{key}" if path else key, last) for key, value in raw.items()})

    def _note(self, key: str) -> None:
        self.seen.add(key)
        self.last[0] = f"{self.path}.{key}" if self.path else key

    def __missing__(self, key: str) -> None:
        self._note(key)

    def __getitem__(self, key: str) -> Any:
        self._note(key)
        return super().__getitem__(key)

    def get(self, key: str, default: Any = None) -> Any:
        value = self[key]
        if value is None:  # a map that is not set reads like one whose keys are not set
            return Reading(default, f"{self.path}.{key}".lstrip("."), self.last) if type(default) is dict else default
        return value

    def pop(self, *args: Any) -> Any:
        raise TypeError("a case's input is not changed")

    def __iter__(self) -> Iterator[str]:  # dict(self) and **self then go through __getitem__
        return super().__iter__()

    def items(self) -> Any:
        self.seen.update(super().keys())
        return super().items()

    def values(self) -> Any:
        self.seen.update(super().keys())
        return super().values()

    def __eq__(self, other: object) -> bool:
        return plain(self) == other

    __hash__ = None  # type: ignore[assignment]


def _recording(value: Any, path: str, last: list[str]) -> Any:
    if isinstance(value, Mapping):
        return Reading(value, path, last)
    if isinstance(value, list):
        return [_recording(entry, f"{path}[{i}]", last) for i, entry in enumerate(value)]
    return value


def recorded(given: Mapping[str, Any]) -> Reading:
    """A case's input, nothing of it read yet."""
    return Reading(given, "", [""])


def unread(value: Any) -> list[str]:
    """Paths that nobody read. What lies below an unread key is not listed."""
    if isinstance(value, list):
        return [path for entry in value for path in unread(entry)]
    if not isinstance(value, Reading):
        return []
    found = []
    for key in dict.keys(value):
        if key not in value.seen:
            found.append(f"{value.path}.{key}" if value.path else key)
        else:
            found += unread(dict.__getitem__(value, key))
    return found


def plain(value: Any) -> Any:
    """A value as it stands in the file, all of it read: for what is passed on as a document."""
    if isinstance(value, Mapping):
        return {key: plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    return value


def set_amounts(value: Mapping[str, Any] | None) -> dict[str, Any]:
    """A map of amounts without those that are not set."""
    return {key: amount for key, amount in (plain(value) or {}).items() if amount is not None}


def no_matter(given: Mapping[str, Any] | None, *keys: str) -> None:
    """These keys cannot change the answer. Call it where the reason can be seen, or say it beside the call."""
    for key in keys:
        plain((given or {}).get(key))


def only(given: Mapping[str, Any] | None, *known: str) -> dict[str, Any]:
    """A mapping as it stands in the file, {} where it is not set; refuses a key that is not one of `known`."""
    unknown = (given or {}).keys() - set(known)
    if unknown:
        raise Unreadable(f"{', '.join(sorted(unknown))}: not one of {', '.join(known)}")
    found: dict[str, Any] = plain(given or {})
    return found


def whole_number(given: Mapping[str, Any], key: str) -> int:
    """An integer that must be set."""
    value = given[key]
    if isinstance(value, bool) or not isinstance(value, int):
        raise Unreadable(f"{key} is {value!r}, not a whole number")
    return value


def one_of(given: Mapping[str, Any], key: str, known: Iterable[str], default: str | None = None) -> str:
    """One of the known words."""
    value, known = given.get(key, default), tuple(known)
    if value not in known:
        raise Unreadable(f"{key} is {value!r}, not one of {', '.join(known)}")
    return str(value)


def switches(given: Mapping[str, Any] | None, *known: str) -> dict[str, bool]:
    """Feature gates by name, those that are not given off; refuses one that is not known."""
    found = dict.fromkeys(known, False)
    for name, value in (given or {}).items():
        if name not in found:
            raise Unreadable(f"the gate {name!r} is not one of {', '.join(known)}")
        if not isinstance(value, bool | None):
            raise Unreadable(f"the gate {name!r} is {value!r}, not true or false")
        found[name] = bool(value)
    return found

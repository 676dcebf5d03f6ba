"""Variables in the texts of compose files: $NAME, ${NAME}, ${NAME:-default} and the other forms, and $$ for a dollar.

Source: "Interpolation" of the Compose Specification. A default may have variables in turn.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from cotenant.model.errors import InvalidInput
from cotenant.model.json_object import JsonValue

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_FORM = re.compile(r":?[-?+]|(?=\})")
_EXPECTED = "$NAME, ${NAME}, ${NAME:-default}, ${NAME:?message} or ${NAME:+other}; $$ for a dollar"


def interpolated(given: object, ours: Mapping[str, str], where: str = "") -> JsonValue:
    """The document with the variables of its texts replaced.

    Raises `InvalidInput` for a variable without a value, and for what is none of the forms.
    """
    if isinstance(given, Mapping):
        return {key: interpolated(value, ours, f"{where}.{key}".lstrip(".")) for key, value in given.items()}
    if isinstance(given, list):
        return [interpolated(value, ours, f"{where}[{i}]") for i, value in enumerate(given)]
    if not isinstance(given, str) or "$" not in given:
        return given
    try:
        return _Text(given, ours, where).replaced()
    except RecursionError:
        raise InvalidInput(where, given, _EXPECTED) from None


class _Text:
    """One text and how far it is read."""

    def __init__(self, text: str, ours: Mapping[str, str], where: str) -> None:
        self._text, self._ours, self._where = text, ours, where
        self._at = 0

    def replaced(self) -> str:
        """All of it."""
        return self._until("", is_used=True)

    def _until(self, end: str, *, is_used: bool) -> str:
        """Up to `end`, which is read too. What is not `is_used` needs no values."""
        parts: list[str] = []
        while self._at < len(self._text):
            letter = self._text[self._at]
            if letter == end:
                self._at += 1
                return "".join(parts)
            parts.append(self._variable(is_used=is_used) if letter == "$" else letter)
            self._at += letter != "$"
        if end:
            raise self._refusal()
        return "".join(parts)

    def _variable(self, *, is_used: bool) -> str:
        """What stands for the variable at this place, which is read."""
        if self._text.startswith("$$", self._at):
            self._at += 2
            return "$"
        is_braced = self._text.startswith("${", self._at)
        named = _NAME.match(self._text, self._at + 1 + is_braced)
        if named is None:
            raise self._refusal()
        name, self._at = named[0], named.end()
        value, form, said = self._ours.get(name), "", ""
        is_there = value is not None
        if is_braced:
            found = _FORM.match(self._text, self._at)
            if found is None:
                raise self._refusal()
            form, self._at = found[0], found.end()
            is_there = is_there and not (form.startswith(":") and not value)
            said = self._until("}", is_used=is_used and is_there == form.endswith("+"))
        if form.endswith("+"):
            return said if is_there else ""
        if is_there or not is_used:
            return value or ""
        if form.endswith("-"):
            return said
        raise InvalidInput(self._where, f"${name}", "a value", said or f"set {name} in the environment of this command")

    def _refusal(self) -> InvalidInput:
        return InvalidInput(self._where, self._text, _EXPECTED)

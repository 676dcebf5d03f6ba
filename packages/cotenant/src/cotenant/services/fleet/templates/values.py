"""Values that both forms of a template have:

Words, environments, amounts, and the refusal of keys that are not supported.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping
from decimal import Decimal

from cotenant.model.errors import InvalidInput
from cotenant.model.json_object import JsonMapping
from cotenant.model.quantities import milli

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([bkmgt]?)i?b?", re.IGNORECASE)
_FLAGS = {"true": True, "yes": True, "on": True, "y": True, "false": False, "no": False, "off": False, "n": False}
_POWERS = {"": 0, "b": 0, "k": 10, "m": 20, "g": 30, "t": 40}
_MAX_BYTES = (1 << 63) - 1


def refuse_unknown(where: str, given: JsonMapping, known: Iterable[str]) -> None:
    """Raises `InvalidInput` that names every key which is not among the known ones.

    Keys that begin with x- are the author's own.
    """
    known = list(known)
    wrong = [str(key) for key in given if str(key) not in known and not str(key).startswith("x-")]
    if wrong:
        raise InvalidInput(where, ", ".join(wrong), "supported keys", "supported are " + ", ".join(known))


def mapping(where: str, given: object) -> JsonMapping:
    """A mapping. Raises `InvalidInput`."""
    if not isinstance(given, Mapping):
        raise InvalidInput(where, given, "a mapping of keys to values")
    return given


def text(where: str, given: object) -> str:
    """A text, or a number or truth value as one."""
    if isinstance(given, bool):
        return str(given).lower()
    if not isinstance(given, str | int | float):
        raise InvalidInput(where, given, "text")
    return str(given)


def flag(where: str, given: object) -> bool:
    """A truth value, also as text: variables become texts."""
    if given in (True, False):
        return bool(given)
    said = _FLAGS.get(str(given).lower())
    if said is None:
        raise InvalidInput(where, given, "true or false")
    return said


def words(where: str, given: object) -> tuple[str, ...]:
    """A command: a list of words, or one text that is split as a shell would."""
    if given is None:
        return ()
    if isinstance(given, list):
        return tuple(text(where, word) for word in given)
    try:
        return tuple(shlex.split(text(where, given)))
    except ValueError as error:
        raise InvalidInput(where, given, "words as for a shell", str(error)) from None


def names(where: str, given: object) -> tuple[str, ...]:
    """One name, or a list of them."""
    if given is None or given == "":
        return ()
    return tuple(text(where, value) for value in (given if isinstance(given, list) else [given]))


def environment(where: str, given: object, ours: Mapping[str, str]) -> dict[str, str]:
    """A mapping, or a list of KEY=VALUE; a KEY without a value takes it from `ours`, the environment of who asks."""
    if given is None:
        return {}
    if isinstance(given, Mapping):
        pairs = [(str(key), value) for key, value in given.items()]
    elif isinstance(given, list):
        split = [text(where, entry).partition("=") for entry in given]
        pairs = [(key, value if equals else None) for key, equals, value in split]
    else:
        pairs = [(name, None) for name in text(where, given).replace(",", " ").split()]
    found: dict[str, str] = {}
    for key, value in pairs:
        if value is not None:
            found[key] = text(f"{where}.{key}", value)
        elif key in ours:
            found[key] = ours[key]
        else:
            raise InvalidInput(
                where, key, "a value", f"set {key} in the environment of this command, or write {key}=VALUE"
            )
    return found


def cpu_milli(where: str, given: object) -> int:
    """CPUs as milli-CPU."""
    if not isinstance(given, str | int | float):
        raise InvalidInput(where, given, "CPUs, as 0.5")
    return milli(given, where)


def size_bytes(where: str, given: object) -> int:
    """Compose's sizes: 512M, 1g, 64kb, all of 1024; also 512Mi."""
    match = _SIZE.fullmatch(str(given).strip())
    if match is None:
        raise InvalidInput(where, given, "a size, as 512M")
    found = int(Decimal(match[1]) * 2 ** _POWERS[match[2].lower()])
    if found > _MAX_BYTES:
        raise InvalidInput(where, given, "a size below 8 EiB, as 512M")
    return found


def number(where: str, given: object, expected: str, hint: str = "") -> int:
    """A number of at most five digits, also as text: variables become texts."""
    digits = "" if isinstance(given, bool) else str(given)
    if not (digits.isascii() and digits.isdecimal() and len(digits) <= 5):
        raise InvalidInput(where, given, expected, hint)
    return int(digits)

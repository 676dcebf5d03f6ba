"""A whole number of an API object, by an expression in one line.

    expression = product {"+" product};  product = factor {"*" factor}
    factor     = value ["==" word | "!=" word]                        1 or 0
    value      = number | "(" expression ")" | "min(" expression "," expression ")"
               | path ["|" number] | path "?" | path "[" expression "]"

A path is names with dots between them; a name with dots or slashes, such as an annotation's, stands in double quotes.
`spec.a|1` is 1 where the field is absent, `spec.a?` is 1 where it is there and not empty, and `spec.list[expression]`
is the sum over the elements of a list, or the values of a map, of the expression inside each. A true is 1, a false 0.
What is absent without a default, or no whole number, makes the whole unknown; a comparison with an absent field is that
with an empty word.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache

from cotenant.model.errors import InvalidInput

MAX_LENGTH = 300
MAX_ELEMENTS = 10_000
_MAX_DEPTH = 8
_TOKEN = re.compile(r'\s*(?:(\d{1,9})|([A-Za-z_][\w-]*(?:\.(?:[A-Za-z_][\w-]*|"[^"\s]+"))*)|(==|!=|[+*|?(),\[\]]))')
_NAME = re.compile(r'"([^"]+)"|([^."]+)')
Value = Callable[[object], object]  # of an object, a list's element or a map's value; None = unknown


class ObjectNumber:
    """A parsed expression."""

    __slots__ = ("_read", "text")

    def __init__(self, text: str, field: str = "expression") -> None:
        """Raises `InvalidInput` for text that is none."""
        self.text = text
        self._read = _parsed(text, field)

    def of(self, obj: object) -> int | None:
        """The number, at least 0; None where it is unknown."""
        found = self._read(obj)
        return max(0, found) if isinstance(found, int) else None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ObjectNumber) and other.text == self.text

    def __hash__(self) -> int:
        return hash(self.text)


@cache
def _parsed(text: str, field: str) -> Value:
    parser = _Parser(text, field)
    return parser.whole()


class _Parser:
    def __init__(self, text: str, field: str) -> None:
        self._text, self._field = text, field
        self._tokens: list[str] = []
        self._depth = 0
        if len(text) > MAX_LENGTH:
            raise self._error(f"at most {MAX_LENGTH} characters")
        place, end = 0, len(text.rstrip())
        while place < end:
            match = _TOKEN.match(text, place)
            if match is None:
                raise self._error(f"what is at {text[place:].strip()[:20]!r} is none of it")
            self._tokens.append(match[0].strip())
            place = match.end()

    def _error(self, hint: str) -> InvalidInput:
        return InvalidInput(self._field, self._text, "an expression such as 1 + spec.groups[replicas|1 * size|1]", hint)

    def _next(self) -> str:
        return self._tokens[0] if self._tokens else ""

    def _take(self, expected: str = "") -> str:
        found = self._next()
        if not found or (expected and found != expected):
            raise self._error(f"{expected or 'a value'} is missing {f'before {found}' if found else 'at the end'}")
        return self._tokens.pop(0)

    def whole(self) -> Value:
        found = self._sum()
        if self._tokens:
            raise self._error(f"{self._next()} cannot stand there")
        return found

    def _sum(self) -> Value:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise self._error(f"more than {_MAX_DEPTH} levels")
        found = self._product()
        while self._next() == "+":
            self._take()
            found = _both(found, self._product(), lambda a, b: a + b)
        self._depth -= 1
        return found

    def _product(self) -> Value:
        found = self._factor()
        while self._next() == "*":
            self._take()
            found = _both(found, self._factor(), lambda a, b: a * b)
        return found

    def _factor(self) -> Value:
        found = self._value()
        if self._next() in ("==", "!="):
            same, word = self._take() == "==", self._take()
            if not (word[0].isalnum() or word[0] == "_"):
                raise self._error("after == or != stands a word or a number")
            return lambda obj: int((_word(found(obj)) == word) is same)
        return found

    def _value(self) -> Value:
        token = self._take()
        if token.isdigit():
            number = int(token)
            return lambda obj: number
        if token == "(":
            whole = self._sum()
            self._take(")")
            return whole
        if token == "min" and self._next() == "(":
            self._take()
            one = self._sum()
            self._take(",")
            other = self._sum()
            self._take(")")
            return _both(one, other, min)
        if not (token[0].isalpha() or token[0] == "_"):
            raise self._error(f"{token} cannot stand there")
        names = tuple(quoted or plain for quoted, plain in _NAME.findall(token))
        match self._next():
            case "|":
                self._take()
                text = self._take()
                if not text.isdigit():
                    raise self._error("a default is a whole number")
                return _with_default(names, int(text))
            case "?":
                self._take()
                return lambda obj: int(bool(_at(obj, names)))
            case "[":
                self._take()
                inner = self._sum()
                self._take("]")
                return lambda obj: _summed(_at(obj, names), inner)
        return lambda obj: _at(obj, names)


def _at(obj: object, names: tuple[str, ...]) -> object:
    for name in names:
        if not isinstance(obj, Mapping):
            return None
        obj = obj.get(name)
    return int(obj) if isinstance(obj, bool) else obj


def _with_default(names: tuple[str, ...], default: int) -> Value:
    def read(obj: object) -> object:
        found = _at(obj, names)
        return default if found is None else found

    return read


def _word(value: object) -> str:
    return "" if value is None else str(value)


def _summed(found: object, inner: Value) -> int | None:
    elements = list(found.values()) if isinstance(found, Mapping) else found
    if elements is None:
        return 0
    if not isinstance(elements, list) or len(elements) > MAX_ELEMENTS:
        return None
    total = 0
    for element in elements:
        value = inner(element)
        if not isinstance(value, int):
            return None
        total += value
    return total


def _both(one: Value, other: Value, join: Callable[[int, int], int]) -> Value:
    def read(obj: object) -> object:
        left, right = one(obj), other(obj)
        return join(left, right) if isinstance(left, int) and isinstance(right, int) else None

    return read

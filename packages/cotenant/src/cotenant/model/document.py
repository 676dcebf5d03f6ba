"""Settings that people write, in YAML, TOML or JSON: read strictly, refused with the path to the field.

A person's file names dozens of settings, and a misspelt one must not be ignored. The types themselves are the schema.
`build` makes frozen dataclasses: the document is walked beside them, so a new field of a policy's settings can be set
at once, and every error has the path to the field, its value and what was expected. A part that may be absent is left
out by `null` or `false`, and taken with its defaults by `true`. `read_struct` makes msgspec structs, which also have
mappings with free keys and other names than Python's.
Limits: `build` does not read mappings with free keys or unions of dataclasses; values are what YAML, TOML and JSON have
in common, so a time or a quantity is text or a number; reading files is the caller's part.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from difflib import get_close_matches
from pathlib import Path
from types import NoneType, UnionType
from typing import TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec

from cotenant.model.errors import InvalidInput

T = TypeVar("T")


def parse(text: bytes, name: str, is_toml: bool = False, *, with_core_scalars: bool = False) -> object:
    """What a text holds; YAML, of which JSON is a part, unless `is_toml`. `name` is the field in errors.

    `with_core_scalars`: as in `load_yaml`. Raises `InvalidInput`.
    """
    try:
        if is_toml:
            return msgspec.toml.decode(text)
        from cotenant.model.yaml_text import load_yaml  # commands that read no YAML start without it

        return load_yaml(text, with_core_scalars=with_core_scalars)
    except Exception as error:  # of YAML's dates, numbers and tags Python itself complains, in many ways
        raise InvalidInput(name, _one_line(error), "TOML" if is_toml else "YAML") from error


def read_struct(
    form: type[T], text: bytes, name: str, expected: str, *, is_toml: bool = False, may_be_empty: bool = False
) -> T:
    """A msgspec struct from a text; an empty one gives the defaults where it `may_be_empty`.

    Raises `InvalidInput` about `name`, with a suggestion for a misspelt field; `expected` says what the text should be
    ("a workload file").
    """
    try:
        given = parse(text, name, is_toml)
    except InvalidInput as error:
        raise InvalidInput(name, error.value, f"{error.expected} with {expected}") from None
    if given is None and may_be_empty:
        return form()
    try:
        return msgspec.convert(given, form)
    except msgspec.ValidationError as error:
        raise InvalidInput(name, _one_line(error), expected, _suggestion(form, str(error))) from error


def split_refusal(error: msgspec.ValidationError) -> tuple[str, str]:
    """What msgspec refuses, and the path to the field without `$.`; the path is empty where the error has none."""
    said, _, path = str(error).partition(" - at `$.")
    return said, path.rstrip("`")


def build(form: type[T], given: object, where: str = "", over: T | None = None) -> T:
    """The dataclass from a mapping. `where` stands before each field's name in errors; what is not said is as in
    `over`.

    Raises `InvalidInput`.
    """
    if not isinstance(given, Mapping):
        raise InvalidInput(where.removesuffix(":") or "document", _shown(given), "a mapping of fields to values")
    known = {field.name: field for field in fields(form)}  # type: ignore[arg-type]
    types = _types(form)
    values: dict[str, object] = {}
    for name, value in given.items():
        if name not in known:
            raise InvalidInput(
                _path(where, str(name)), "unknown", "a field of this part", _did_you_mean(str(name), known)
            )
        values[name] = _value(types[name], value, _path(where, name), getattr(over, name, None))
    for name, field in known.items():
        if name not in values and over is not None:
            values[name] = getattr(over, name)
        elif name not in values and field.default is MISSING and field.default_factory is MISSING:
            raise InvalidInput(_path(where, name), "missing", "a value")
    try:
        return form(**values)
    except InvalidInput as error:  # raised by the value itself, which does not know where it stands
        inside = error.field.removeprefix(where.rpartition(".")[2].rpartition(" ")[2] + ".")
        raise InvalidInput(_path(where, inside), error.value, error.expected, error.hint) from None


def _value(form: object, given: object, where: str, over: object = None) -> object:
    if isinstance(form, type) and is_dataclass(form):
        return build(form, given, where, over if isinstance(over, form) else None)
    origin = get_origin(form)
    if origin in (Union, UnionType):
        options = get_args(form)
        inner = [option for option in options if option is not NoneType]
        is_part = len(inner) == 1 and isinstance(inner[0], type) and is_dataclass(inner[0])
        if NoneType in options and (given is None or (given is False and is_part)):
            return None
        if given is True and is_part:
            given = {}
        if len(inner) == 1:
            return _value(inner[0], given, where, over)
    if origin is tuple and len(get_args(form)) == 2 and get_args(form)[1] is Ellipsis:
        if not isinstance(given, list | tuple):
            raise InvalidInput(where, _shown(given), "a list")
        return tuple(_value(get_args(form)[0], entry, f"{where}[{i}]") for i, entry in enumerate(given))
    if form is Path:
        if not isinstance(given, str) or not given or "\0" in given:
            raise InvalidInput(where, _shown(given), "a path")
        try:
            return Path(given).expanduser()
        except RuntimeError:
            raise InvalidInput(where, _shown(given), "a path", "~ and a user that this machine knows") from None
    try:
        return msgspec.convert(given, form, strict=True)
    except msgspec.ValidationError as error:
        raise InvalidInput(where, _shown(given), _expected(form, str(error))) from None


def _expected(form: object, said: str) -> str:
    members = getattr(form, "__members__", None)
    if members:
        return "one of " + ", ".join(str(member.value) for member in members.values() if member.value != "")
    if said.startswith("Expected `") and said.count("`") >= 2:
        word = said.split("`")[1]
        return {"int": "a whole number", "float": "a number", "str": "text", "bool": "true or false"}.get(word, word)
    return _one_line(said)


def _suggestion(form: type, said: str) -> str:
    """For a misspelt field of the struct itself."""
    if "unknown field" not in said or " - at " in said:
        return ""
    return _did_you_mean(said.split("`")[1], [field.encode_name for field in msgspec.structs.fields(form)])


def _did_you_mean(wrong: str, known: Iterable[str]) -> str:
    names = list(known)
    close = get_close_matches(wrong, names, n=1)
    return f"did you mean {close[0]}?" if close else f"fields are {', '.join(names)}"


def _types(form: type) -> dict[str, object]:
    return get_type_hints(form)


def _path(where: str, name: str) -> str:
    if not where:
        return name
    return f"{where} {name}" if where.endswith(":") else f"{where}.{name}"


def _shown(value: object) -> str:
    text = value if isinstance(value, str) else repr(value)
    return _one_line(text)


def _one_line(text: object) -> str:
    words = " ".join(str(text).split())
    return words if len(words) <= 80 else words[:77] + "..."

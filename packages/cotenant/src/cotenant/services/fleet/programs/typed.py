"""A function as a method: its signature is the type of the arguments, its annotation that of the result.

Annotations are resolved when the method is made, so that a wrong one ends the program at once. Numbers and truth values
may arrive as text (`"21.5"`), since people type them on a command line; anything else must have its own type.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any, get_type_hints

import msgspec

from cotenant.model.document import split_refusal
from cotenant.model.errors import InvalidInput, Permanent
from cotenant.model.fleet.methods import Method, Parameter, check_deadline, check_method

_KINDS = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


class TypedMethod:
    """One method. Raises `InvalidInput` for a function that cannot be one."""

    def __init__(self, function: Callable[..., object], name: str, deadline_s: float) -> None:
        self.name = check_method(name)
        self.deadline_s = check_deadline(f"deadline of {name}", deadline_s)
        self._function = function
        self._is_async = inspect.iscoroutinefunction(function)
        try:
            hints = get_type_hints(function, include_extras=True)
        except NameError as error:
            raise InvalidInput(f"types of {name}", str(error), "names that the function's module has") from error
        if "return" not in hints:
            raise InvalidInput(f"result of {name}", "no annotation", "its type, as -> int or -> None")
        self._result: Any = hints["return"]
        found = inspect.signature(function).parameters.values()
        for parameter in found:
            if parameter.kind not in _KINDS:
                raise InvalidInput(f"parameter of {name}", str(parameter), "parameters that have names")
            if parameter.name not in hints:
                raise InvalidInput(f"parameter of {name}", parameter.name, "a type, as level: int")
        fields: list[Any] = [
            (parameter.name, hints[parameter.name])
            if parameter.default is inspect.Parameter.empty
            else (parameter.name, hints[parameter.name], parameter.default)
            for parameter in found
        ]
        try:
            self._form = msgspec.defstruct(
                f"arguments of {name}", fields, kw_only=True, forbid_unknown_fields=True, frozen=True
            )
            self._arguments: msgspec.json.Decoder[Any] = msgspec.json.Decoder(self._form, strict=False)
            self._results: msgspec.json.Decoder[Any] = msgspec.json.Decoder(self._result)
            schema = msgspec.json.schema(self._form)
        except TypeError as error:
            raise InvalidInput(f"types of {name}", str(error), "types that JSON has (msgspec's)") from error
        self.method = Method(
            name,
            tuple(
                Parameter(
                    parameter.name,
                    _written(hints[parameter.name]),
                    None
                    if parameter.default is inspect.Parameter.empty
                    else msgspec.json.encode(parameter.default).decode(),
                )
                for parameter in found
            ),
            _written(self._result),
            deadline_s,
            (inspect.getdoc(function) or "").partition("\n\n")[0].replace("\n", " "),
            schema,
        )

    async def call(self, data: bytes) -> msgspec.Raw:
        """The result, checked. Raises `InvalidInput` that names the argument, `Permanent` for a result of another type,
        `TimeoutError`, and what the function raises. A function that is not `async` runs in a thread, and goes on there
        where its deadline passes.
        """
        try:
            given = self._arguments.decode(data or b"{}")
        except msgspec.ValidationError as error:
            raise _refusal(error) from error
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:  # the second from within a text
            raise InvalidInput("arguments", str(error), "a JSON object") from error
        values = {name: getattr(given, name) for name in self._form.__struct_fields__}
        async with asyncio.timeout(self.deadline_s):
            if self._is_async:
                found: object = await self._function(**values)  # type: ignore[misc]
            else:
                found = await asyncio.to_thread(self._function, **values)
        try:
            result = msgspec.json.encode(found)
            self._results.decode(result)
        except msgspec.ValidationError as error:
            said, path = split_refusal(error)
            raise Permanent(f"result{f'.{path}' if path else ''} of {self.name}: {said}") from error
        except TypeError as error:
            raise Permanent(f"result of {self.name}: {error}") from error
        return msgspec.Raw(result)


def _refusal(error: msgspec.ValidationError) -> InvalidInput:
    said, path = split_refusal(error)
    for before in ("Object missing required field ", "Object contains unknown field "):
        if said.startswith(before):
            name = said.removeprefix(before).strip("`")
            path, said = f"{path}.{name}".lstrip("."), "missing" if "missing" in before else "unknown"
            return InvalidInput(path, said, "a value" if said == "missing" else "an argument of this method")
    expected, got, value = said.partition(", got ")
    found = value.strip("`") if got else "refused"
    return InvalidInput(path or "arguments", found, expected.removeprefix("Expected "))


def _written(form: object) -> str:
    if form is type(None) or form is None:
        return "null"
    if isinstance(form, type) and not getattr(form, "__args__", ()):
        return form.__name__
    return str(form).replace("typing.", "")

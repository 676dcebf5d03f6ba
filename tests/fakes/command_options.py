"""The values of a parsed command's options by their names, whether they are parameters of the command or fields of
its arguments.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from inspect import BoundArguments
from typing import Any, get_type_hints

from cyclopts import Parameter


def options(bound: BoundArguments) -> dict[str, Any]:
    """Names as in the command line, with underscores."""
    found: dict[str, Any] = {}
    for name, value in bound.arguments.items():
        if not is_dataclass(value):
            found[name] = value
            continue
        hints = get_type_hints(type(value), include_extras=True)
        for field in fields(value):
            declared = [part for part in getattr(hints[field.name], "__metadata__", ()) if isinstance(part, Parameter)]
            (written,) = {part.name[0] for part in declared if part.name} or {field.name}
            found[written.lstrip("-").replace("-", "_")] = getattr(value, field.name)
    return found

"""How help pages show defaults.

`[default: ()]`, `[default: ""]` and, on every flag, `[default: False]` say nothing to a reader. Such values are left
out; a help text that explains its default in words has none in brackets beside it.
Limits: a parameter whose empty default means something says so in its help text.
"""

from __future__ import annotations

from typing import Any, cast

from cyclopts import Parameter


def shown_default(value: object) -> str | None:
    """The text in brackets; None = no brackets."""
    if value is None or value is False or value in ("", ()):
        return None
    if value is True:
        return "yes"
    if isinstance(value, float):
        return f"{value:g}"
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)


COMMON = Parameter(
    show_default=cast(Any, shown_default),  # its type lacks None, which leaves the default out
    negative_iterable=(),  # no --empty-OPTION
)

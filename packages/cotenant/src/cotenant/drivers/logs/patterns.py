"""Expressions that users search logs with, by RE2: its time grows with the text only, whatever the expression."""

from __future__ import annotations

from collections.abc import Callable

from cotenant.model.errors import InvalidInput, Unsupported
from cotenant.model.fleet.logs import MAX_PATTERN

_MAX_MEMORY = 8 << 20


def searcher(pattern: str) -> Callable[[str], object] | None:
    """What finds it in a line; None for an empty one, which is in all. Raises `InvalidInput`, `Unsupported`."""
    if not pattern:
        return None
    if len(pattern) > MAX_PATTERN:
        raise InvalidInput("grep", f"{len(pattern)} characters", f"at most {MAX_PATTERN}")
    try:
        import re2
    except ImportError as error:
        raise Unsupported("searching logs", "google-re2: pip install 'cotenant[fleet]'") from error
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MAX_MEMORY
    try:
        search: Callable[[str], object] = re2.compile(pattern, options).search
    except re2.error as error:
        said = error.args[0].decode() if isinstance(error.args[0], bytes) else str(error.args[0])
        raise InvalidInput("grep", pattern, "an expression of RE2's syntax", said) from None
    return search

"""A file that a command names, looked at before anything that would read it is loaded."""

from __future__ import annotations

from pathlib import Path

from cotenant.model.errors import InvalidInput


def check_readable(option: str, path: Path | None) -> None:
    """Raises `InvalidInput` for a file that cannot be opened; None: none is named."""
    if path is None:
        return
    try:
        path.open("rb").close()
    except OSError as error:
        raise InvalidInput(option, str(path), "a file that can be read", error.strerror or "unreadable") from None

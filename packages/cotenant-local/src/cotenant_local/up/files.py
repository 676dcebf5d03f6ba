"""The files of a local cluster that are read again at its next start: token, port, and what others keep there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cotenant.drivers.http.private_files import write_private
from cotenant.drivers.http.tokens import new_token, read_token
from cotenant.model.errors import InvalidInput


@contextmanager
def named_files(directory: Path) -> Iterator[None]:
    """Raise `InvalidInput` with the file's name where one of a cluster's own files cannot be read or written."""
    try:
        yield
    except OSError as error:
        path = error.filename2 or error.filename or directory
        hint = f"{error.strerror}; move it away to have a new one made" if error.strerror else ""
        raise InvalidInput(
            "--dir", str(path), "a file or folder of the cluster that can be read and written", hint
        ) from None


def kept_token(path: Path) -> str:
    """The token in the file, made the first time. Raises `InvalidInput`."""
    if not path.exists():
        write_private(path, new_token() + "\n")
    try:
        return read_token(path).decode()
    except InvalidInput as error:
        hint = "delete the file to have a new token made; clients then need the new one"
        raise InvalidInput(error.field, error.value, error.expected, hint) from None


def last_port(path: Path) -> int:
    """The port in the file, 0 where there is none."""
    try:
        return int(path.read_text())
    except (FileNotFoundError, ValueError):
        return 0

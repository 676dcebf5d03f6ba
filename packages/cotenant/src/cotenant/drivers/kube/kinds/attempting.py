"""Reading part by part: an error in one part becomes a sentence, and the others still count.

An object with one unreadable field must neither count as one without the field nor be lost. Each part is read by
itself, with a default.
Limits: sentences name the field only where the reader's error does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from cotenant.model.errors import InvalidInput

T = TypeVar("T")


class ReadAttempt:
    """Reads parts; `wrong` collects the sentences."""

    def __init__(self, wrong: list[str]) -> None:
        self.wrong = wrong

    def __call__(self, default: T, read: Callable[[], T]) -> T:
        """The part, or the default and a sentence about the error."""
        try:
            return read()
        except InvalidInput as error:
            self.wrong.append(str(error))
            return default


class AttemptText:
    """Reads texts that may be absent; an absent one is None."""

    def __init__(self, wrong: list[str]) -> None:
        self._attempt = ReadAttempt(wrong)

    def __call__(self, read: Callable[[str], T], text: str | None) -> T | None:
        """The value; None where the text is absent or wrong."""
        return None if text is None else self._attempt(None, lambda: read(text))

"""Reading part by part: what is wrong with one part becomes a sentence, and the others still count.

Problem: an object of which one field cannot be read must neither be taken for one without the field nor be lost. Choice: each part is read by itself
with what stands for it otherwise. Limits: sentences say the field only where the reader's error does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from cotenant.model.errors import InvalidInput

T = TypeVar("T")


class Attempt:
    """Reads parts; `wrong` gathers the sentences."""

    def __init__(self, wrong: list[str]) -> None:
        self.wrong = wrong

    def __call__(self, default: T, read: Callable[[], T]) -> T:
        """What is read, or the default and a sentence about what is wrong."""
        try:
            return read()
        except InvalidInput as error:
            self.wrong.append(str(error))
            return default


class AttemptText:
    """Reads texts that may be absent; an absent one is None."""

    def __init__(self, wrong: list[str]) -> None:
        self._attempt = Attempt(wrong)

    def __call__(self, read: Callable[[str], T], text: str | None) -> T | None:
        """What is read; None where the text is absent or wrong."""
        return None if text is None else self._attempt(None, lambda: read(text))

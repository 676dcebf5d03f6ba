"""The error classes of the package.

`InvalidInput` names the field, the value, the expected form and a remedy. The other three say whether a retry can
succeed.
"""

from __future__ import annotations

from cotenant.model.printable import printable

_MAX_SHOWN = 80  # characters of a value


class CotenantError(Exception):
    """Root of everything this package raises on purpose."""


class InvalidInput(CotenantError):
    """Invalid input from a user or a file. Its text is one line: `FIELD: VALUE: expected EXPECTED; HINT`."""

    def __init__(self, field: str, value: object, expected: str, hint: str = "") -> None:
        self.field = field
        self.value = value
        self.expected = expected
        self.hint = hint
        shown = printable(value) if isinstance(value, str) and len(value) <= _MAX_SHOWN else _shortened(repr(value))
        super().__init__(f"{field}: {shown}: expected {expected}" + (f"; {hint}" if hint else ""))

    def of(self, option: str) -> InvalidInput:
        """The same error, with the command-line option whose value is wrong in front of the field."""
        field = option if self.field in (str(self.value), option) else f"{option}: {self.field}"
        return InvalidInput(field, self.value, self.expected, self.hint)

    def __reduce__(self) -> tuple[type[InvalidInput], tuple[str, object, str, str]]:
        """Make the error picklable, for worker processes."""
        return type(self), (self.field, self.value, self.expected, self.hint)


class Transient(CotenantError):
    """May succeed later; `retry_after_s` is the delay before the next try."""

    def __init__(self, message: str, retry_after_s: float = 1.0) -> None:
        self.retry_after_s = retry_after_s
        super().__init__(message)

    def __reduce__(self) -> tuple[type[Transient], tuple[str, float]]:
        """Make the error picklable, for worker processes."""
        return type(self), (str(self), self.retry_after_s)


class Permanent(CotenantError):
    """Will not succeed on a retry."""


class Unsupported(CotenantError):
    """This machine or build lacks what the feature needs."""

    def __init__(self, feature: str, needs: str) -> None:
        self.feature = feature
        self.needs = needs
        super().__init__(f"{feature} is not supported here: it needs {needs}")

    def __reduce__(self) -> tuple[type[Unsupported], tuple[str, str]]:
        """Survive the way back from a worker process."""
        return type(self), (self.feature, self.needs)


def _shortened(text: str) -> str:
    """Beginning and end: of a path, the end says which file it is."""
    if len(text) <= _MAX_SHOWN:
        return text
    part = (_MAX_SHOWN - 3) // 2
    return f"{text[:part]}...{text[-part:]}"

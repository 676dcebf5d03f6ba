"""Answers of the query API as series of times and values.

Half an answer is an error or a warning, never silently less: text that ends early cannot be decoded, stores that
answered without some of their parts say so. Infinite values are unknown, as NaN is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

from cotenant.model.arrays import Float
from cotenant.model.errors import Permanent, Transient


class Series(msgspec.Struct):
    """Labels and samples; an instant answer has one sample, as `value`."""

    metric: Mapping[str, str] = {}
    values: Sequence[tuple[float, float]] = ()
    value: tuple[float, float] | None = None

    def samples(self) -> tuple[Float, Float]:
        """Times and values, NaN where a value is not finite."""
        pairs = self.values if self.value is None else (self.value,)
        both = np.array(pairs, dtype=np.float64).reshape(-1, 2)
        return both[:, 0], np.where(np.isfinite(both[:, 1]), both[:, 1], np.nan)


class _Data(msgspec.Struct):
    result: list[Series] = []


class Answer(msgspec.Struct):
    """What a query gave; `warnings` say what is missing."""

    status: str = ""
    data: _Data = msgspec.field(default_factory=_Data)
    warnings: list[str] = []
    is_partial: bool = msgspec.field(name="isPartial", default=False)
    error: str = ""

    @property
    def series(self) -> list[Series]:
        """The series of a vector or a matrix."""
        return self.data.result

    @property
    def faults(self) -> tuple[str, ...]:
        """Why this is not all."""
        partial = ("the store answered with a part only",) if self.is_partial else ()
        return (*partial, *self.warnings)


_DECODER = msgspec.json.Decoder(Answer, strict=False)  # values are numbers in quotes


def read_answer(body: bytes) -> Answer:
    """Decode an answer. Raises `Transient` for a text that ends early, `Permanent` for another error."""
    if b'"+Inf"' in body:
        body = body.replace(b'"+Inf"', b'"inf"')
    try:
        answer = _DECODER.decode(body)
    except msgspec.ValidationError as error:
        raise Permanent(f"this is no answer of Prometheus: {error}") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Transient(f"the answer cannot be read: {error}") from None
    if answer.status != "success":
        raise Permanent(answer.error or "this is no answer of Prometheus: it has no status")
    return answer

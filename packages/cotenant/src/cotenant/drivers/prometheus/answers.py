"""Answers of the query API as series of times and values.

Half an answer is an error or a warning, never silently less: text that ends early cannot be decoded, stores that
answered without some of their parts say so. Infinite values are unknown, as NaN is.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

from cotenant.model.arrays import Float, Int
from cotenant.model.errors import Permanent, Transient


class PrometheusSeries(msgspec.Struct):
    """Labels and samples; samples as they were sent, since a part of a large answer has a million."""

    metric: Mapping[str, str] = {}
    values: msgspec.Raw = msgspec.Raw()
    value: msgspec.Raw = msgspec.Raw()  # the one sample of an instant answer

    def samples(self) -> tuple[Float, Float]:
        """Times and values, NaN where a value is infinite. Raises `Permanent` for what is no sample."""
        _, times, values = samples_of([self])
        return times, values


def samples_of(found: Sequence[PrometheusSeries]) -> tuple[Int, Float, Float]:
    """The number of samples of each series, and the times and values of all, one series after the other."""
    raws = [bytes(series.values) or bytes(series.value) for series in found]
    counts = np.array([raw.count(b'"') // 2 for raw in raws], np.int64)  # each value stands in quotes
    text = b",".join(raw for raw, count in zip(raws, counts.tolist(), strict=True) if count).translate(None, _MARKS)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", DeprecationWarning)  # which NumPy before 2.3 makes of a text of no numbers
            numbers = np.fromstring(text.decode("ascii", "replace"), np.float64, sep=",") if text else np.zeros(0)
    except (ValueError, DeprecationWarning):
        numbers = np.zeros(1)
    if len(numbers) != 2 * int(counts.sum()):
        raise Permanent("this is no answer of Prometheus: its samples are not pairs of a time and a value")
    pairs = numbers.reshape(-1, 2)
    return counts, pairs[:, 0], np.where(np.abs(pairs[:, 1]) < _MAX_VALUE, pairs[:, 1], np.nan)


class _Data(msgspec.Struct):
    result: list[PrometheusSeries] = []


class QueryAnswer(msgspec.Struct):
    """What a query gave; `warnings` say what is missing."""

    status: str = ""
    data: _Data = msgspec.field(default_factory=_Data)
    warnings: list[str] = []
    is_partial: bool = msgspec.field(name="isPartial", default=False)
    error: str = ""

    @property
    def series(self) -> list[PrometheusSeries]:
        """The series of a vector or a matrix."""
        return self.data.result

    @property
    def faults(self) -> tuple[str, ...]:
        """Why this is not all."""
        partial = ("the store answered with a part only",) if self.is_partial else ()
        return (*partial, *self.warnings)


_DECODER = msgspec.json.Decoder(QueryAnswer)
_MAX_VALUE = 1e30  # beyond, it is as good as infinite
_MARKS = b'[]" \t\r\n'


def read_answer(body: bytes) -> QueryAnswer:
    """Decode an answer. Raises `Transient` for a text that ends early, `Permanent` for another error."""
    try:
        answer = _DECODER.decode(body)
    except msgspec.ValidationError as error:
        raise Permanent(f"this is no answer of Prometheus: {error}") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Transient(f"the answer cannot be read: {error}") from None
    if answer.status != "success":
        raise Permanent(answer.error or "this is no answer of Prometheus: it has no status")
    return answer

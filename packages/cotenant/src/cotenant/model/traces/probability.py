"""With which probability a trace is kept, as OpenTelemetry's consistent probability sampling writes it.

A trace has 56 random bits: the lower ones of its id, or `rv` of its tracestate. It is kept where they are at least the
rejection threshold, so whoever knows that knows how many traces a kept one stands for, and samplers one after another
keep subsets of one another.

Source: OpenTelemetry specification, "TraceState: Probability Sampling" and "TraceState Handling".
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

BITS = 56
ALL = 1 << BITS  # a threshold below it is one; 0 keeps everything
LEAST_PROBABILITY = 2.0**-24
_DIGITS = BITS // 4
_PRECISION = 4  # hexadecimal digits of a threshold, beside those that are f at its beginning


def thresholds_of(probability: NDArray[np.float64]) -> NDArray[np.uint64]:
    """Thresholds for these probabilities, rounded to few digits towards keeping more."""
    rejected = 1.0 - np.clip(probability, LEAST_PROBABILITY, 1.0)
    digits = np.minimum(np.floor(-np.log2(1.0 - rejected) / 4).astype(np.uint64) + np.uint64(_PRECISION), _DIGITS)
    step = np.uint64(1) << np.uint64(4) * (np.uint64(_DIGITS) - digits.astype(np.uint64))
    found: NDArray[np.uint64] = (rejected * float(ALL)).astype(np.uint64) // step * step
    return found


def probability_of(threshold: int) -> float:
    """The probability with which a trace passes this threshold."""
    return (ALL - threshold) / ALL


def read_randomness(tracestate: str) -> int | None:
    """The random bits that a tracestate gives instead of those of the trace's id."""
    text = _fields(_members(tracestate).get("ot", "")).get("rv", "")
    return int(text, 16) if len(text) == _DIGITS and _is_hexadecimal(text) else None


def read_threshold(tracestate: str) -> int | None:
    """The rejection threshold with which a trace was begun; None where its tracestate gives none."""
    text = _fields(_members(tracestate).get("ot", "")).get("th", "")
    return int(text.ljust(_DIGITS, "0"), 16) if 0 < len(text) <= _DIGITS and _is_hexadecimal(text) else None


def with_threshold(tracestate: str, threshold: int) -> str:
    """The tracestate with this threshold; what changed stands first, as W3C's Trace Context wants it."""
    members = _members(tracestate)
    fields = {key: text for key, text in _fields(members.pop("ot", "")).items() if key != "th"}
    written = f"{threshold:0{_DIGITS}x}".rstrip("0") or "0"
    value = ";".join(f"{key}:{text}" for key, text in {"th": written, **fields}.items())
    return ",".join([f"ot={value}", *(f"{name}={text}" for name, text in members.items())])


def _members(tracestate: str) -> dict[str, str]:
    pairs = (member.strip().partition("=") for member in tracestate.split(","))
    return {name: value for name, equals, value in pairs if name and equals}


def _fields(value: str) -> dict[str, str]:
    pairs = (part.partition(":") for part in value.split(";"))
    return {key: text for key, colon, text in pairs if key and colon}


def _is_hexadecimal(text: str) -> bool:
    return bool(text) and all(digit in "0123456789abcdef" for digit in text)

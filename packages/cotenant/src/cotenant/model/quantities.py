"""Kubernetes quantities, exactly.

Manifests write amounts as text (`1500m`, `1.5Gi`, `1e3`), and a conversion through float loses bytes. An amount is a
whole number of nano units (the finest that Kubernetes keeps) together with the family of its suffix, which decides how
it is formatted. Source of the grammar, the rounding and the canonical form: Kubernetes apimachinery, package
api/resource (`ParseQuantity`, `CanonicalizeBytes`).

    quantity = [+-] (digits | digits "." [digits] | "." digits) suffix
    suffix   = Ki Mi Gi Ti Pi Ei | n u m "" k M G T P E | (e | E) [+-] digits

Limits, where we are stricter than Kubernetes' parser on purpose:
- It caps a binary amount above 2^63-1 silently (`9Ei`), keeps a larger decimal one, and lets the conversion to int64
  overflow. Here every amount beyond 2^63-1 whole units, and every conversion that does not fit int64, is an error.
- Its scanner reads a number without any digit as zero (`.`, `-`, `Ki`), against its own grammar. Here it is an error.
- It repeats some non-canonical spellings of its input (`+1`, `1.500`). Here output is always canonical.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from cotenant.model.errors import InvalidInput

NANO = 1_000_000_000
MAX_INT64 = 2**63 - 1

_MAX_TEXT = 1024  # characters: no amount needs more, and int() is quadratic in them
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}  # suffix -> power of two
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}  # -> power of ten
_BINARY_SUFFIX = ("", *_BINARY)
_DECIMAL_SUFFIX = {power: suffix for suffix, power in _DECIMAL.items()}
_GRAMMAR = re.compile(
    r"(?P<sign>[+-]?)(?:(?P<whole>[0-9]+)(?:\.(?P<part>[0-9]*))?|\.(?P<only>[0-9]+))"
    r"(?:(?P<suffix>[KMGTPE]i|[numkMGTPE])|[eE](?P<exponent>[+-]?[0-9]+))?"
)
_EXPECTED = "a Kubernetes quantity such as 2, 500m, 1.5Gi or 1e3"


class QuantityFormat(StrEnum):
    """The family of a quantity's suffix."""

    DECIMAL = "DecimalSI"
    BINARY = "BinarySI"
    EXPONENT = "DecimalExponent"


@dataclass(frozen=True, slots=True)
class Quantity:
    """An exact amount of nano units, at most 2^63-1 whole units either way. `str()` gives Kubernetes' canonical
    form.
    """

    nano: int
    format: QuantityFormat = QuantityFormat.DECIMAL

    def __post_init__(self) -> None:
        if abs(self.nano) > MAX_INT64 * NANO:
            raise InvalidInput("quantity", self.nano // NANO, f"at most {MAX_INT64} either way", "it must fit int64")

    def value(self) -> int:
        """Whole units, rounded away from zero as Kubernetes' `Value` does."""
        return _divide_away_from_zero(self.nano, NANO)

    def milli(self, field: str = "quantity") -> int:
        """Thousandths of a unit, rounded away from zero as Kubernetes' `MilliValue` does; `InvalidInput` beyond
        int64.
        """
        milli = _divide_away_from_zero(self.nano, NANO // 1000)
        if abs(milli) > MAX_INT64:
            raise InvalidInput(field, str(self), f"at most {MAX_INT64} thousandths", "it must fit int64")
        return milli

    def __str__(self) -> str:
        if self.nano == 0:
            return "0"
        # Kubernetes writes small or fractional binary amounts in decimal, without loss.
        if self.format is QuantityFormat.BINARY and self.nano % NANO == 0 and abs(self.nano) >= 1024 * NANO:
            mantissa, power = _strip(self.nano // NANO, 1024)
            return f"{mantissa}{_BINARY_SUFFIX[power]}"
        mantissa, tens = _strip(self.nano, 10)
        exponent = tens - 9
        mantissa *= 10 ** (exponent % 3)
        exponent -= exponent % 3
        if self.format is QuantityFormat.EXPONENT:
            return f"{mantissa}e{exponent}" if exponent else str(mantissa)
        return f"{mantissa}{_DECIMAL_SUFFIX[exponent]}"


def parse_quantity(text: str | int | float, field: str = "quantity") -> Quantity:
    """Parse a quantity. Raises `InvalidInput` on `field` where it is invalid.

    Amounts finer than a nano unit round away from zero. Numbers are what YAML and JSON give for an unquoted amount; a
    float is read as the shortest decimal text that denotes it, which is what the manifest's author wrote.
    """
    if isinstance(text, bool) or not isinstance(text, str | int | float):
        raise InvalidInput(field, text, _EXPECTED)
    if isinstance(text, int) and abs(text) > MAX_INT64:
        raise _too_large(field, "an integer beyond int64")
    written = text if isinstance(text, str) else repr(text)
    if len(written) > _MAX_TEXT:
        raise InvalidInput(field, written[:40] + "...", _EXPECTED, f"at most {_MAX_TEXT} characters")
    match = _GRAMMAR.fullmatch(written)
    if match is None:
        raise InvalidInput(field, written, _EXPECTED, _hint(written))
    fraction = match["only"] or match["part"] or ""
    digits = int((match["whole"] or "") + fraction)
    suffix, exponent = match["suffix"] or "", match["exponent"]
    if suffix in _BINARY:
        family, tens = QuantityFormat.BINARY, -len(fraction)
        digits <<= _BINARY[suffix]
    elif exponent is not None:
        family, tens = QuantityFormat.EXPONENT, int(exponent) - len(fraction)
    else:
        family, tens = QuantityFormat.DECIMAL, _DECIMAL[suffix] - len(fraction)
    nano = _scale(digits, tens + 9)
    if nano is None or nano > MAX_INT64 * NANO:
        raise _too_large(field, written)
    if family is QuantityFormat.BINARY and 0 < nano < NANO:
        family = QuantityFormat.DECIMAL  # as Kubernetes does: such an amount has no binary form
    return Quantity(-nano if match["sign"] == "-" else nano, family)


def milli(text: str | int | float, field: str = "quantity") -> int:
    """Thousandths of a unit: milli-CPU for a CPU amount."""
    return parse_quantity(text, field).milli(field)


def whole(text: str | int | float, field: str = "quantity") -> int:
    """Whole units: bytes for memory, a count for countable things."""
    return parse_quantity(text, field).value()


def format_milli(milli_units: int) -> str:
    """Canonical text of so many thousandths: `format_milli(1500)` is `1500m`."""
    return str(Quantity(milli_units * (NANO // 1000)))


def format_bytes(count: int) -> str:
    """Canonical binary text of so many bytes: `format_bytes(2**30)` is `1Gi`."""
    return str(Quantity(count * NANO, QuantityFormat.BINARY))


def _scale(digits: int, tens: int) -> int | None:
    """`digits x 10^tens`, rounded up; None where it exceeds every quantity. Never computes a huge power."""
    if digits == 0:
        return 0
    if tens >= 0:
        return None if tens > 28 else digits * 10**tens  # 2^63 whole units are below 10^28 nano units
    if -tens > 4 * _MAX_TEXT:  # below one nano unit whatever the digits
        return 1
    return -(-digits // 10**-tens)


def _divide_away_from_zero(amount: int, unit: int) -> int:
    return -(-amount // unit) if amount > 0 else amount // unit


def _strip(amount: int, base: int) -> tuple[int, int]:
    """Divide out `base` as often as possible: (remainder, number of divisions)."""
    times = 0
    while amount % base == 0:
        amount //= base
        times += 1
    return amount, times


def _too_large(field: str, shown: str) -> InvalidInput:
    return InvalidInput(
        field, shown, f"at most {MAX_INT64}", "an amount must fit int64; Kubernetes would cap or overflow"
    )


def _hint(text: str) -> str:
    if not text:
        return "it is empty"
    if text != text.strip():
        return "remove the spaces around it"
    if text.lower() in {"nan", "inf", "-inf", "+inf", "infinity", "-infinity"}:
        return "only finite numbers"
    if text[-1:] in {"K", "B"} or text[-1:] == "i":
        return "suffixes are n u m k M G T P E and Ki Mi Gi Ti Pi Ei"
    return ""

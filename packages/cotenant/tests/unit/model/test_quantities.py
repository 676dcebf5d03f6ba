from __future__ import annotations

from fractions import Fraction

import pytest

from cotenant.model.errors import InvalidInput
from cotenant.model.quantities import (
    MAX_INT64,
    NANO,
    Quantity,
    QuantityFormat,
    format_bytes,
    format_milli,
    milli,
    parse_quantity,
    whole,
)

D, B, E = QuantityFormat.DECIMAL, QuantityFormat.BINARY, QuantityFormat.EXPONENT


# Figures of Kubernetes' own TestQuantityParse and TestQuantityString: text, value, family, canonical text.
@pytest.mark.parametrize(
    ("text", "value", "family", "canonical"),
    [
        ("0", 0, D, "0"),
        ("0Ki", 0, B, "0"),
        ("-0", 0, D, "0"),
        ("5n", Fraction(5, 10**9), D, "5n"),
        ("4u", Fraction(4, 10**6), D, "4u"),
        ("3m", Fraction(3, 1000), D, "3m"),
        ("9", 9, D, "9"),
        ("+9", 9, D, "9"),
        ("8k", 8000, D, "8k"),
        ("50k", 50_000, D, "50k"),
        ("40T", 40 * 10**12, D, "40T"),
        ("1E", 10**18, D, "1E"),
        ("1Ki", 1024, B, "1Ki"),
        ("7Mi", 7 << 20, B, "7Mi"),
        ("3Ei", 3 << 60, B, "3Ei"),
        ("1E3", 1000, E, "1e3"),
        ("1e3", 1000, E, "1e3"),
        ("1E-3", Fraction(1, 1000), E, "1e-3"),
        ("1.3E+6", 1_300_000, E, "1300e3"),
        ("1e14", 10**14, E, "100e12"),
        ("1e0", 1, E, "1"),
        (".5", Fraction(1, 2), D, "500m"),
        ("5.", 5, D, "5"),
        ("1.G", 10**9, D, "1G"),
        ("0.0005k", Fraction(1, 2), D, "500m"),
        ("1.500", Fraction(3, 2), D, "1500m"),
        ("1.5Gi", 3 << 29, B, "1536Mi"),
        ("0.5Mi", 1 << 19, B, "512Ki"),
        ("1000Ki", 1_024_000, B, "1000Ki"),
        ("1023", 1023, D, "1023"),
        ("1.5Ki", 1536, B, "1536"),
        ("0.5Ki", 512, B, "512"),
        ("100.035Ki", Fraction(10243584, 100), B, "102435840m"),
        ("-1.5Gi", -(3 << 29), B, "-1536Mi"),
        ("3.001n", Fraction(4, 10**9), D, "4n"),
        ("0.9n", Fraction(1, 10**9), D, "1n"),
        ("-0.9n", Fraction(-1, 10**9), D, "-1n"),
        ("0.00000012345", Fraction(124, 10**9), D, "124n"),
        ("0.000000000001Ki", Fraction(2, 10**9), D, "2n"),
        ("1e-999999999", Fraction(1, 10**9), E, "1e-9"),
        ("0e999999999", 0, E, "0"),
        ("9223372036854775807", MAX_INT64, D, "9223372036854775807"),
        ("0000000000000000000000000000000001", 1, D, "1"),
    ],
)
def test_reads_and_writes_as_kubernetes_does(
    text: str, value: Fraction, family: QuantityFormat, canonical: str
) -> None:
    quantity = parse_quantity(text)
    assert Fraction(quantity.nano, NANO) == value
    assert quantity.format is family
    assert str(quantity) == canonical


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", " 1", "1 ", "1 Gi", "1\n", "NaN", "nan", "inf", "-inf", "Infinity"),
        *(".", "-", "+", "-.", "Ki", "m", "e3", "1e", "1e+", "1e1.5", "1e1e1"),
        *("1K", "1ki", "1KI", "1mi", "1i", "1GB", "1Gib", "1kk", "1Kim", "1E3m", "1mm", "1e3Ki"),
        *("--1", "+-1", "1-", "1.2.3", "1,5", "1_000", "0x10", "½", "١", "1" * 2000),
    ],
)
def test_refuses_what_is_no_quantity(text: str) -> None:
    with pytest.raises(InvalidInput, match=r"(?s)spec\.cpu: .*expected a Kubernetes quantity"):
        parse_quantity(text, "spec.cpu")


@pytest.mark.parametrize(
    "text", ["9223372036854775808", "8Ei", "9Ei", "10E", "1e19", "1e28", "1e999999999", "-9223372036854775808"]
)
def test_refuses_what_int64_cannot_hold(text: str) -> None:
    with pytest.raises(InvalidInput, match="at most 9223372036854775807"):
        parse_quantity(text)


def test_thousandths_that_int64_cannot_hold_are_refused_not_wrapped() -> None:
    assert parse_quantity("9223372036854775807m").milli() == MAX_INT64
    with pytest.raises(InvalidInput, match=r"limits\.cpu"):
        milli("9223372036854776", "limits.cpu")


def test_rounds_away_from_zero() -> None:
    assert milli("0.1m") == 1
    assert milli("100.5m") == 101
    assert milli("-100.5m") == -101
    assert whole("1.1") == 2
    assert whole("1n") == 1
    assert whole("-1.1") == -2


def test_numbers_as_yaml_gives_them() -> None:
    assert milli(2) == 2000
    assert milli(0.1) == 100
    assert milli(1e-05) == 1
    for absurd in (float("nan"), float("inf"), True, None, [], 2**70):
        with pytest.raises(InvalidInput):
            parse_quantity(absurd)  # type: ignore[arg-type]


def test_canonical_text_of_integers() -> None:
    assert format_milli(1500) == "1500m"
    assert format_milli(2000) == "2"
    assert format_bytes(1 << 30) == "1Gi"
    assert format_bytes(1500) == "1500"
    assert format_bytes(1000) == "1k"  # below 1024 Kubernetes writes bytes in decimal


def test_an_amount_built_by_hand_is_bounded_too() -> None:
    with pytest.raises(InvalidInput):
        Quantity((MAX_INT64 + 1) * NANO)

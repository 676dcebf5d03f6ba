from __future__ import annotations

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from cotenant.model.errors import InvalidInput
from cotenant.model.quantities import MAX_INT64, NANO, Quantity, QuantityFormat, parse_quantity

SUFFIX = {s: Fraction(2) ** (10 * i) for i, s in enumerate(["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"], 1)}
SUFFIX |= {s: Fraction(10) ** (3 * i) for i, s in enumerate(["n", "u", "m", "", "k", "M", "G", "T", "P", "E"], -3)}

amounts = st.one_of(
    st.integers(-MAX_INT64 * NANO, MAX_INT64 * NANO),
    st.integers(-(2**40), 2**40),
    st.integers(-(2**33), 2**33).map(lambda whole: whole * NANO),
    st.tuples(st.integers(-7, 7), st.integers(0, 6)).map(lambda pair: pair[0] * 1024 ** pair[1] * NANO),
    st.tuples(st.integers(-999, 999), st.integers(0, 24)).map(lambda pair: pair[0] * 10 ** pair[1]),
)
digits = st.text("0123456789", min_size=1, max_size=12)
numbers = st.one_of(
    digits,
    digits.map(lambda d: f"{d}."),
    digits.map(lambda d: f".{d}"),
    st.tuples(digits, digits).map(".".join),
)
exponents = st.tuples(st.sampled_from("eE"), st.sampled_from(["", "+", "-"]), st.integers(0, 20)).map(
    lambda e: (f"{e[0]}{e[1]}{e[2]}", Fraction(10) ** (-e[2] if e[1] == "-" else e[2]))
)
suffixes = st.one_of(st.sampled_from(sorted(SUFFIX.items())), exponents)


@given(amounts, st.sampled_from(QuantityFormat))
def test_a_formatted_quantity_parses_back_equal(nano: int, family: QuantityFormat) -> None:
    quantity = Quantity(nano, family)
    again = parse_quantity(str(quantity))
    assert again.nano == quantity.nano
    if again.format is family:  # a binary amount that 1024 does not divide is written without a suffix
        assert str(again) == str(quantity)


@given(st.sampled_from(["", "+", "-"]), numbers, suffixes)
def test_the_value_is_the_exact_fraction_rounded_away_from_zero_at_nano(
    sign: str, number: str, suffix: tuple[str, Fraction]
) -> None:
    text, factor = suffix
    whole, _, part = number.partition(".")
    exact = Fraction(int(whole + part or "0"), 10 ** len(part)) * factor
    if exact > MAX_INT64:
        return
    nano = -(-exact * NANO // 1)
    quantity = parse_quantity(f"{sign}{number}{text}")
    assert quantity.nano == (-nano if sign == "-" else nano)
    assert abs(quantity.value()) == -(-Fraction(nano, NANO) // 1)


@given(amounts)
def test_the_canonical_form_has_no_fraction_and_the_largest_suffix(nano: int) -> None:
    text = str(Quantity(nano))
    number = text.rstrip("numkMGTPE")
    assert str(int(number)) == number
    if text[len(number) :] != "E":  # a thousand of a unit is written in the next unit
        assert nano == 0 or int(number) % 1000 != 0


@given(st.text(max_size=12))
def test_any_text_is_a_quantity_or_a_clear_refusal(text: str) -> None:
    try:
        quantity = parse_quantity(text, "field")
    except InvalidInput as refusal:
        message = str(refusal)
    else:
        message = f"field: {parse_quantity(str(quantity)).nano}"
        assert message == f"field: {quantity.nano}"
    assert message.startswith("field: ")

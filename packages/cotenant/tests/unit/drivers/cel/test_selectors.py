"""Selectors over attributes that are lists, and one result for devices that are alike."""

from __future__ import annotations

import pytest

from cotenant.drivers.cel.evaluation import MAX_STEPS
from cotenant.drivers.cel.selectors import STEPS_OF_CHARACTER, CelSelectors
from cotenant.model.claims.devices import AttributeValue, AttributeValues, OfferedDevice, Version
from cotenant.model.errors import InvalidInput

DRIVER = "gpu.example.com"
ROOT = f'device.attributes["{DRIVER}"].root'


def holds(expression: str, value: AttributeValue) -> bool:
    return CelSelectors().matches(expression, DRIVER, OfferedDevice("gpu-0", (("root", value),)))


@pytest.mark.parametrize(
    ("expression", "value", "expected"),
    [
        (f'{ROOT}.includes("a")', AttributeValues("string", ("b", "a")), True),
        (f'{ROOT}.includes("a")', AttributeValues("string", ("b",)), False),
        (f'{ROOT}.includes("a")', "a", True),  # what was one value may become a list
        (f'{ROOT}.includes("a")', "ab", False),
        (f"{ROOT}.includes(1)", AttributeValues("int", (1, 2)), True),
        (f"{ROOT}.includes(1)", AttributeValues("bool", (True,)), False),
        (f'{ROOT}.includes(semver("1.2.0"))', AttributeValues("version", (Version("1.2.0"),)), True),
        (f'"a" in {ROOT}', AttributeValues("string", ("b", "a")), True),
        (f"{ROOT}.size() == 2", AttributeValues("string", ("b", "a")), True),
        (f"{ROOT}.exists(r, r > 3)", AttributeValues("int", (1, 4)), True),
        (f'{ROOT}[0] == "b"', AttributeValues("string", ("b", "a")), True),
    ],
)
def test_lists(expression: str, value: AttributeValue, expected: bool) -> None:
    assert holds(expression, value) is expected


def test_a_list_is_no_single_value() -> None:
    with pytest.raises(InvalidInput):
        holds(f"{ROOT} + 1 > 1", AttributeValues("int", (1,)))


def test_lists_of_true_and_of_one_are_told_apart() -> None:
    selectors = CelSelectors()
    for value, expected in ((AttributeValues("int", (1,)), True), (AttributeValues("bool", (True,)), False)):
        device = OfferedDevice("gpu-0", (("root", value),))
        assert selectors.matches(f"{ROOT}.includes(1)", DRIVER, device) is expected


def test_an_expression_that_would_not_end_is_given_up_once() -> None:
    numbers = "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]"
    endless = "true"
    for name in "abcdef":  # a million rounds
        endless = f"{numbers}.all({name}, {endless})"
    selectors = CelSelectors()
    device = OfferedDevice("gpu-0", ())
    for _ in range(3):
        with pytest.raises(InvalidInput, match=f"{MAX_STEPS}"):
            selectors.matches(endless, DRIVER, device)
        spent = selectors.spent - STEPS_OF_CHARACTER * len(endless)  # it is read once
        assert MAX_STEPS <= spent <= MAX_STEPS + 64  # and not again for a device that is alike


def test_a_text_that_doubles_is_given_up() -> None:
    doubled = '"0123456789"'
    for name in "abcdefghijklmnop":
        doubled = f"cel.bind({name}, {doubled}, {name} + {name})"
    with pytest.raises(InvalidInput, match=f"{MAX_STEPS}"):
        CelSelectors().matches(f"size({doubled}) > 0", DRIVER, OfferedDevice("gpu-0", ()))


@pytest.mark.parametrize(
    "expression",
    [
        "device" + ".a" * 3000,
        "(" * 2000 + "true" + ")" * 2000,
        "[" * 3000 + "]" * 3000,
        "!" * 5000 + "true",
        'join(string("a", device.a)).b(([-1])[9])',  # of cel-python: IndexError
        '{"a": 1} >= semver("1.2.3") || false',
        "null > device",
    ],
)
def test_an_odd_expression_is_an_error_of_its_claim_and_no_other(expression: str) -> None:
    with pytest.raises(InvalidInput):
        CelSelectors().matches(expression, DRIVER, OfferedDevice("gpu-0", ()))


@pytest.mark.parametrize("operator", ["||", "&&"])
@pytest.mark.parametrize("operand", [f"{ROOT}.nothing == 1", "1", '"a"'])
def test_errors_in_a_row_cost_as_many_steps_as_there_are(operator: str, operand: str) -> None:
    """Each once doubled the last, without a step: forty alternatives about an attribute that is absent took days."""
    selectors = CelSelectors()
    with pytest.raises(InvalidInput) as raised:
        selectors.matches(f" {operator} ".join([operand] * 200), DRIVER, OfferedDevice("gpu-0", ()))
    assert len(raised.value.hint) <= 200
    assert selectors.spent < 2 * MAX_STEPS + STEPS_OF_CHARACTER * 200 * 80


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (f"{ROOT} == 1 || true", True),
        (f"true || {ROOT} == 1", True),
        (f"{ROOT} == 1 || false || {ROOT} == 2 || true", True),
        (f"{ROOT} == 1 && false", False),
        (f"false && {ROOT} == 1", False),
        ("false || true && true", True),
        ("!(false || false)", True),
        ("true && false", False),
        ("1 || true", True),
    ],
)
def test_what_is_decided_beside_an_error_counts(expression: str, expected: bool) -> None:
    assert CelSelectors().matches(expression, DRIVER, OfferedDevice("gpu-0", ())) is expected


@pytest.mark.parametrize("expression", [f"{ROOT} == 1 || false", f"true && {ROOT} == 1", "1 && true", "false || 1"])
def test_what_is_not_is_an_error(expression: str) -> None:
    with pytest.raises(InvalidInput):
        CelSelectors().matches(expression, DRIVER, OfferedDevice("gpu-0", ()))


@pytest.mark.parametrize(
    "call",
    ['d.replace("", d)', 'd.replace("0", d)', 'd.split("").join(d)', 'd.replace("1", d, 900).replace("2", d, 900)'],
)
def test_no_call_makes_a_text_that_fills_the_memory(call: str) -> None:
    kilobyte = "cel.bind(a, b + b + b + b + b + b + b + b + b + b, cel.bind(d, a + a + a + a + a + a + a + a + a + a, "
    text = f'cel.bind(b, "0123456789", {kilobyte}size({call}) > 0)))'
    with pytest.raises(InvalidInput, match="characters"):
        CelSelectors().matches(text, DRIVER, OfferedDevice("gpu-0", ()))
    assert CelSelectors().matches('"a-b".replace("-", "+") == "a+b"', DRIVER, OfferedDevice("gpu-0", ()))
    assert CelSelectors().matches('["a", "b"].join("-") == "a-b"', DRIVER, OfferedDevice("gpu-0", ()))


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        (
            'device.attributes["a"].?b.orValue(1) == 1',
            'optional values are not read here: utes["a"].?b.orValue(1) == 1',
        ),
        ('device.attributes[?"a"] == 1', 'optional values are not read here: ttributes[?"a"] == 1'),
        ('device.driver == "?" b', 'it cannot be read: er == "?" b'),
        ("1 +", "it cannot be read: 1 +"),
    ],
)
def test_what_cannot_be_read_says_where(expression: str, words: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        CelSelectors().matches(expression, DRIVER, OfferedDevice("gpu-0", ()))
    assert raised.value.hint == words

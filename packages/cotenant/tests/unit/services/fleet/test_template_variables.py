"""Variables of compose files in every form of the specification."""

from __future__ import annotations

import pytest

from cotenant.model.errors import InvalidInput
from cotenant.services.fleet.templates.variables import interpolated

OURS = {"A": "1", "EMPTY": "", "HOME": "/root"}


def test_variables_are_replaced_wherever_texts_are() -> None:
    given = {"k": ["$A", {"d": "${A}-$$A"}], "n": 5, "none": None, "plain": "a"}
    assert interpolated(given, OURS) == {"k": ["1", {"d": "1-$A"}], "n": 5, "none": None, "plain": "a"}


@pytest.mark.parametrize(
    ("written", "found"),
    [
        ("${B:-x}", "x"), ("${B-x}", "x"), ("${EMPTY:-x}", "x"), ("${EMPTY-x}", ""), ("${A:-x}", "1"),
        ("${A:?no}", "1"), ("${EMPTY?no}", ""), ("${B:-}", ""), ("${A:+y}", "y"), ("${EMPTY:+y}", ""),
        ("${EMPTY+y}", "y"), ("${B+y}", ""), ("${B:-${A}}", "1"), ("${B:-${C:-$A}/x}y", "1/xy"), ("${A:-${B}}", "1"),
        ("${B:+${C}}", ""), ("${A:+<$HOME>}", "</root>"), ("${B:-a$$b}", "a$b"), ("$A$A-$A}", "11-1}"), ("$A.b", "1.b"),
        ("${A:+${B:-$$}}", "$"), ("$$$A", "$1"), ("${B:-a:-b}", "a:-b"),
    ],
)  # fmt: skip
def test_each_form(written: str, found: str) -> None:
    assert interpolated(written, OURS) == found


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("${B}", r"k\[1\]\.d: \$B: expected a value; set B in the environment"),
        ("${B:?say B}", r"k\[1\]\.d: \$B: expected a value; say B"),
        ("${EMPTY:?say it}", "say it"),
        ("${B?}", "set B"),
        ("${A:-x", r"k\[1\]\.d: \$\{A:-x: expected \$NAME"),
        ("${}", "expected"),
        ("${A!x}", "expected"),
        ("${A:x}", "expected"),
        ("costs 5$", r"costs 5\$: expected .*\$\$ for a dollar"),
        ("$1", "for a dollar"),
        pytest.param("${B:-" * 5000, "expected", id="nested without end"),
        ("${B:-${C}}", r"\$C: expected a value"),
    ],
)
def test_what_has_no_value_or_no_form_is_named_with_its_place(written: str, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        interpolated({"k": ["a", {"d": written}]}, {"A": "1", "EMPTY": ""})

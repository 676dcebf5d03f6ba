"""Canonical schemata texts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotenant.drivers.resctrl.schemata import Schemata, SchemataLine, parse_schemata
from cotenant.model.errors import InvalidInput

KERNELS = "    MB:1= 90;0=100\n    L3:0=00fff;1=00ff\n"


def test_the_kernels_text_has_one_canonical_form() -> None:
    assert str(parse_schemata(KERNELS)) == "L3:0=fff;1=ff\nMB:0=100;1=90"


def test_a_partial_value_is_merged_into_the_current_one() -> None:
    stands = parse_schemata(KERNELS)
    assert str(stands.with_changes(parse_schemata("L3:1=3"))) == "L3:0=fff;1=3\nMB:0=100;1=90"
    for missing in ("L2:0=f", "L3:2=f", "SMBA:0=1"):
        with pytest.raises(InvalidInput, match="L3, MB"):
            stands.with_changes(parse_schemata(missing))


@pytest.mark.parametrize(
    "text",
    ["L3", "L3:", "L3:0", "L3:0=", "L3:0=g", "L3:=f", "L3:0=f;0=f", "L3:0=f\nL3:1=f", "MB:0=f", "l3:0=f", "L3:-1=f",
        "L3:0=f;", ":0=f", "L3:0=" + "f" * 17],
)  # fmt: skip
def test_malformed_text_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="schemata"):
        parse_schemata(text)


@pytest.mark.slow
@given(
    st.dictionaries(
        st.sampled_from(["L3", "L2", "MB", "SMBA", "L3CODE"]),
        st.dictionaries(st.integers(0, 300), st.integers(0, 2**32 - 1), min_size=1, max_size=4),
    )
)
def test_written_text_reads_back(values: dict[str, dict[int, int]]) -> None:
    lines = (SchemataLine(name, tuple(sorted(domains.items()))) for name, domains in sorted(values.items()))
    schemata = Schemata(tuple(lines))
    assert parse_schemata(str(schemata)) == schemata

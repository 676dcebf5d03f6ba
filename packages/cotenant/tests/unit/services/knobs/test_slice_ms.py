"""How long a slice of best-effort tasks may be."""

from __future__ import annotations

import pytest

from cotenant.model.errors import InvalidInput
from cotenant.services.knobs.slice_ms import checked_slice_ms


@pytest.mark.parametrize("slice_ms", [0, 1, 100])
def test_a_slice_of_up_to_a_tenth_of_a_second_counts(slice_ms: int) -> None:
    assert checked_slice_ms("--idle-slice-ms", slice_ms) == slice_ms


@pytest.mark.parametrize("slice_ms", [-1, 101, 100_000])
def test_another_is_refused_with_what_is_possible(slice_ms: int) -> None:
    with pytest.raises(InvalidInput, match=r"--idle-slice-ms: .*: expected 0 to 100 milliseconds"):
        checked_slice_ms("--idle-slice-ms", slice_ms)

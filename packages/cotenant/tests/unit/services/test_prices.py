from __future__ import annotations

from pathlib import Path

import pytest

from cotenant.model.errors import InvalidInput
from cotenant.services.prices import price_table


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    assert price_table(None) is None
    with pytest.raises(InvalidInput, match="--prices"):
        price_table(tmp_path / "none")
    (tmp_path / "bad").write_text("nodes: 1")
    with pytest.raises(InvalidInput, match="bad"):
        price_table(tmp_path / "bad")

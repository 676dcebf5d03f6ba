"""Capabilities by the effective mask."""

from __future__ import annotations

from pathlib import Path

import pytest

from cotenant.drivers.proc.capabilities import lacking


@pytest.mark.parametrize(
    ("text", "lacks"),
    [
        ("Name:\tx\nCapPrm:\t000001ffffffffff\nCapEff:\t0000000000000000\n", ("CAP_SYS_RESOURCE",)),
        ("CapEff:\t0000000001000000\n", ()),
        ("", ("CAP_SYS_RESOURCE",)),
    ],
)
def test_what_is_not_effective_is_lacking(tmp_path: Path, text: str, lacks: tuple[str, ...]) -> None:
    (tmp_path / "status").write_text(text)
    assert lacking(tmp_path / "status") == lacks


def test_without_the_file_all_are(tmp_path: Path) -> None:
    assert lacking(tmp_path / "nothing") == ("CAP_SYS_RESOURCE",)

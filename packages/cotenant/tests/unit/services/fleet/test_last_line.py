"""What a container said last, from each form of a runtime's file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cotenant.services.fleet.functions.logs.last_line import last_line

AT = "2026-11-29T15:00:00.000000000Z"


def of_docker(*lines: str) -> str:
    return "".join(json.dumps({"log": line + "\n", "stream": "stderr", "time": AT}) + "\n" for line in lines)


@pytest.mark.parametrize(
    ("written", "said"),
    [
        (of_docker("first", "cannot  open /etc/app.conf", " "), "cannot open /etc/app.conf"),
        (f"{AT} stdout F first\n{AT} stderr P cannot \n{AT} stderr F open\n", "cannot open"),
        (of_docker("x" * 500), "x" * 200),
        (of_docker(*["early"] * 1000, "last"), "last"),
        ("", ""),
        ("nothing that a runtime writes", ""),
    ],
)
def test_the_last_line_that_is_not_blank(tmp_path: Path, written: str, said: str) -> None:
    (tmp_path / "log").write_text(written)
    assert last_line(tmp_path / "log") == said


def test_a_file_that_is_not_there_says_nothing(tmp_path: Path) -> None:
    assert last_line(tmp_path / "log") == ""

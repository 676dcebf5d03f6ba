"""Finding logs of pods, and users' expressions."""

from __future__ import annotations

from pathlib import Path

import pytest

from cotenant.drivers.logs.patterns import searcher
from cotenant.drivers.logs.pods import PodLog, pod_logs
from cotenant.drivers.logs.tail import Tail
from cotenant.model.errors import InvalidInput


def test_logs_of_pods_are_found(tmp_path: Path) -> None:
    folder = tmp_path / "shop_web-1_uid" / "app"
    folder.mkdir(parents=True)
    for name in ("0.log", "1.log", "1.log.20260101-000000", "1.log.20260101-000000.gz", "x.log"):
        (folder / name).touch()
    (tmp_path / "other").mkdir()
    assert pod_logs(tmp_path) == tuple(
        PodLog("shop", "web-1", "uid", "app", folder / name) for name in ("0.log", "1.log")
    )
    assert pod_logs(tmp_path / "none") == ()


def test_an_expression_that_would_hang_a_backtracking_search_does_not() -> None:
    pytest.importorskip("re2", reason="google-re2 is not installed")
    search = searcher("(a+)+$")
    assert search is not None
    assert not search("a" * 100_000 + "b")
    assert searcher("") is None
    for wrong in ("(", "a(?=b)", "x" * 1001):
        with pytest.raises(InvalidInput):
            searcher(wrong)


def test_a_fresh_tail_begins_a_backlog_before_the_end_with_a_whole_record(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    (tmp_path / "x.log.1").write_text("first record\n")
    path.write_text("second record\nthird record\n")
    for backlog, expected in (
        (0, b""),
        (5, b""),
        (13, b"third record\n"),
        (20, b"third record\n"),
        (27, b"second record\nthird record\n"),
    ):
        tail = Tail(path, None, backlog)
        pieces = []
        while (piece := tail.poll()) is not None:
            pieces.append(piece.data)
        assert b"".join(pieces) == expected
        tail.close()

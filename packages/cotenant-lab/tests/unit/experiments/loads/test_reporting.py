"""The lines that a load process prints while it runs."""

from __future__ import annotations

import msgspec
import pytest

from cotenant_lab.experiments.loads.reporting import ReplyReporter, ReportedSlots


def test_a_line_a_second_has_the_replies_of_that_second(capsys: pytest.CaptureFixture[str]) -> None:
    reporter = ReplyReporter(objective_us=1_000, began_us=0)
    slots = ReportedSlots(500_000, 0, reporter)
    slots.answered(100, 400)
    slots.answered(200, 5_200)
    reporter.each_loop(999_999)
    assert capsys.readouterr().out == ""
    reporter.each_loop(1_000_000)
    slots.answered(1_100_000, 1_100_300)
    reporter.each_loop(2_000_000)
    first, second = (msgspec.json.decode(line)["live"] for line in capsys.readouterr().out.splitlines())
    assert (first["requests"], first["over"]) == (2, 1)
    assert (second["requests"], second["over"]) == (1, 0)
    assert {index: seen.total for index, seen in slots.latency.items()} == {0: 2, 2: 1}

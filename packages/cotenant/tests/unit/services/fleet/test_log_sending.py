"""What is sent of the logs of a host: every new line once and in order, in requests of a bounded size."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from cotenant.engine.logs.ring import KeptLine
from cotenant.model.fleet.logs import FileIdentity
from cotenant.services.fleet.functions.logs.kept import KeptLog
from cotenant.services.fleet.functions.logs.sending import LogBatch, next_batch

FILE = FileIdentity(1, 0, "")


def log(name: str, *texts: str, old: int = 0, source: str = "f", ring_bytes: int = 1 << 30) -> KeptLog:
    made = KeptLog((name,), {"name": name}, ring_bytes, 1e9)
    made.sources[source] = SimpleNamespace(sent=None)  # type: ignore[assignment]
    for number, text in enumerate(texts):
        made.ring.append(KeptLine(number, "stdout", text, 0, FILE, number, 0, source, number < old))
    return made


def texts(batch: LogBatch | None) -> dict[str, list[str]]:
    assert batch is not None
    found: dict[str, list[str]] = {}
    for resource in json.loads(batch.body)["resourceLogs"]:
        (name,) = (pair["value"]["stringValue"] for pair in resource["resource"]["attributes"])
        (scope,) = resource["scopeLogs"]
        found[name] = [record["body"]["stringValue"] for record in scope["logRecords"]]
    return found


def test_new_lines_are_sent_once_and_old_ones_never() -> None:
    one, other = log("a", "x", "y", "z", old=1), log("b", "p")
    batch = next_batch([one, other])
    assert texts(batch) == {"a": ["y", "z"], "b": ["p"]}
    assert texts(next_batch([one, other])) == {"a": ["y", "z"], "b": ["p"]}  # nobody has it yet
    assert batch is not None
    batch.was_sent()
    assert (one.sent, other.sent) == (3, 1)
    assert one.sources["f"].sent is not None
    assert one.sources["f"].sent.offset == 2
    assert next_batch([one, other]) is None
    one.ring.append(KeptLine(9, "stderr", "w", 0, FILE, 3, 0, "f", False))
    assert texts(next_batch([one, other])) == {"a": ["w"]}


def test_where_reading_can_go_on_is_kept_of_each_file_that_is_still_there() -> None:
    one = log("a", "x", "y")
    one.sources["g"] = SimpleNamespace(sent=None)  # type: ignore[assignment]
    one.ring.append(KeptLine(5, "stdout", "z", 0, FILE, 77, 0, "g", False))
    one.ring.append(KeptLine(6, "stdout", "last", 0, FILE, 99, 0, "gone", False))
    batch = next_batch([one])
    assert batch is not None
    batch.was_sent()
    assert [(key, source.sent and source.sent.offset) for key, source in one.sources.items()] == [("f", 1), ("g", 77)]
    one.sent = 2
    batch.was_sent()  # a late answer moves nothing back, nor a later one forward
    assert one.sent == 4
    one.sent = 9
    batch.was_sent()
    assert one.sent == 9


def test_only_old_lines_are_passed_over() -> None:
    one = log("a", "x", "y", old=2)
    assert next_batch([one]) is None
    assert one.sent == 2


def test_lines_that_were_dropped_before_they_could_be_sent_are_counted() -> None:
    one = log("a", *(f"line {number}" for number in range(10)), ring_bytes=3 * 260)
    kept = len(one.ring)
    assert 0 < kept < 10
    assert texts(next_batch([one])) == {"a": [f"line {number}" for number in range(10 - kept, 10)]}
    assert (one.unsent, one.sent) == (10 - kept, 10 - kept)
    next_batch([one])
    assert one.unsent == 10 - kept


@pytest.mark.parametrize(
    ("lines", "length", "first"),
    [(4500, 1, 2000), (1400, 3000, 700), (10, 1 << 21, 1), (3, (1 << 20) + 1, 2)],
)
def test_a_request_has_at_most_two_thousand_lines_and_ends_with_the_one_that_fills_two_mebibytes(
    lines: int, length: int, first: int
) -> None:
    one, other = log("a", *("x" * length for _ in range(lines))), log("b", "p")
    sizes: list[Any] = []
    while (batch := next_batch([one, other])) is not None:
        sizes.append({name: len(found) for name, found in texts(batch).items()})
        batch.was_sent()
    assert sizes[0]["a"] == first
    assert all(size["a"] == first for size in sizes[: lines // first])
    assert sum(size.get("a", 0) for size in sizes) == lines
    assert sum(size.get("b", 0) for size in sizes) == 1

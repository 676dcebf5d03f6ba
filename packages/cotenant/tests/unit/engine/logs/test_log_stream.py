"""Lines of a log that is read in pieces, with pauses, gaps and a new start at any place."""

from __future__ import annotations

import json

import numpy as np
import pytest

from cotenant.engine.logs.log_stream import LogStream
from cotenant.engine.logs.ring import LogRing
from cotenant.model.fleet.logs import MAX_LINE, FileIdentity, LogPiece, LogPlace

FILE, NEXT = FileIdentity(1, 1, "x"), FileIdentity(2, 1, "y")


def ring() -> LogRing:
    return LogRing(1 << 24, 1e9)


def at(second: int) -> str:
    return f"2026-01-01T00:{second // 60:02d}:{second % 60:02d}Z"


def record(second: int, text: str, stream: str = "stdout", tag: str = "F") -> bytes:
    return f"{at(second)} {stream} {tag} {text}\n".encode()


def docker(second: int, text: str, stream: str = "stdout") -> bytes:
    return json.dumps({"log": text, "stream": stream, "time": at(second)}).encode() + b"\n"


def texts(stream: LogStream) -> list[str]:
    return [line.text for _, line in stream.ring.after(0)]


def feed(stream: LogStream, data: bytes, start: int = 0, file: FileIdentity = FILE, **fields: object) -> int:
    return stream.feed(LogPiece(file, start, data, **fields))  # type: ignore[arg-type]


def written(rng: np.random.Generator, records: int) -> tuple[bytes, list[str]]:
    """A log of two streams with lines in parts, and its lines in the order in which they end."""
    data, ended = b"", []
    parts: dict[str, list[str]] = {"stdout": [], "stderr": []}
    for second in range(records):
        name = str(rng.choice(["stdout", "stderr"]))
        text = f"{name[3]}{second}"
        parts[name].append(text)
        is_partial = bool(rng.random() < 0.4)
        data += record(second, text, name, "P" if is_partial else "F")
        if not is_partial:
            ended.append("".join(parts[name]))
            parts[name].clear()
    return data, ended


@pytest.mark.parametrize("seed", range(12))
def test_every_line_is_taken_once_however_it_is_cut_and_wherever_reading_begins_anew(seed: int) -> None:
    rng = np.random.default_rng(seed)
    data, expected = written(rng, 60)
    stream, found, place = LogStream(ring()), [], 0
    while place < len(data):
        size = int(rng.choice([1, 7, 40, 200]))
        before = stream.ring.last
        taken = feed(stream, data[place : place + size], place)
        assert taken == stream.ring.last - before
        place += size
        if rng.random() < 0.15 and stream.place is not None:
            found += texts(stream)
            stream = LogStream(ring(), stream.place)
            place = stream.place.offset  # type: ignore[union-attr]
    assert [*found, *texts(stream)] == expected
    assert (stream.lost, stream.unreadable, stream.cut) == (0, 0, 0)


def test_a_line_of_several_records_ends_where_its_last_one_does() -> None:
    stream = LogStream(ring())
    first, second = docker(1, "hello "), docker(2, "world\n")
    assert feed(stream, first) == 0
    assert stream.place is None
    assert feed(stream, second, len(first)) == 1
    ((_, line),) = stream.ring.after(0)
    assert (line.text, line.stream, line.cut, line.is_old) == ("hello world", "stdout", 0, False)
    assert stream.place == LogPlace(FILE, len(first) + len(second), 0, line.at_ns)


def test_a_line_that_ends_within_another_is_passed_over_after_a_new_start() -> None:
    parts = [record(1, "a", tag="P"), record(2, "x", "stderr"), record(3, "y", "stderr"), record(4, "b")]
    stream = LogStream(ring())
    data = b"".join(parts)
    feed(stream, b"".join(parts[:2]))
    place = stream.place
    assert place is not None
    assert (place.offset, place.skip) == (0, 1)  # from before the incomplete line, one is taken already
    again = LogStream(ring(), place)
    feed(again, data)
    assert texts(again) == ["y", "ab"]
    assert again.place == LogPlace(FILE, len(data), 0, again.ring.after(0).__next__()[1].at_ns + 1_000_000_000)


def test_records_of_no_known_form_are_counted_and_empty_ones_are_not() -> None:
    stream = LogStream(ring())
    feed(stream, b"what is this\n\n{}\n" + record(1, "fine"))
    assert (texts(stream), stream.unreadable) == (["fine"], 2)


def test_a_gap_forgets_what_was_incomplete() -> None:
    stream = LogStream(ring())
    feed(stream, record(1, "a", tag="P") + b"2026-01-01T00:00:0")
    assert feed(stream, record(5, "b"), 500, lost="the file was cut") == 1
    assert (texts(stream), stream.lost, stream.unreadable) == (["b"], 1, 0)


def test_a_new_file_ends_a_record_that_was_never_finished() -> None:
    stream = LogStream(ring())
    feed(stream, record(1, "a") + b"2026-01-01T00:00:02Z stdout F ne")
    assert feed(stream, record(3, "c"), 0, NEXT) == 1
    assert (texts(stream), stream.unreadable) == (["a", "c"], 1)
    assert stream.place is not None
    assert stream.place.file == NEXT


def test_what_is_older_than_the_place_is_taken_beside_it_and_moves_no_place() -> None:
    place = LogPlace(FILE, 900, 0, 0)
    stream = LogStream(ring(), place)
    feed(stream, record(1, "old") + b"half", 100, is_old=True)
    assert (texts(stream), stream.place) == (["old"], place)
    feed(stream, record(9, "new"), 900)
    ((_, old), (_, new)) = stream.ring.after(0)
    assert (old.is_old, new.is_old, new.text) == (True, False, "new")
    assert stream.place is not None
    assert stream.place.offset == 900 + len(record(9, "new"))


def test_where_the_place_is_gone_times_say_what_was_taken() -> None:
    known = LogStream(ring())
    feed(known, record(1, "a") + record(5, "b"))
    stream = LogStream(ring(), known.place)
    feed(stream, record(1, "a") + record(5, "b") + record(6, "c") + record(2, "late"), 0, NEXT, lost="the file is gone")
    assert (texts(stream), stream.lost) == (["c", "late"], 1)


def test_lines_to_be_passed_over_that_are_gone_are_a_gap() -> None:
    known = LogStream(ring())
    feed(known, record(1, "a", tag="P") + record(2, "x", "stderr"))
    stream = LogStream(ring(), known.place)
    feed(stream, record(8, "other", "stderr") + record(9, "more"), 0)
    assert (texts(stream), stream.lost) == (["other", "more"], 1)


def test_a_long_line_is_cut_and_said() -> None:
    stream = LogStream(ring())
    half = "x" * (MAX_LINE // 2 + 10)
    data = record(1, half, tag="P") + record(2, half)
    feed(stream, data)
    ((_, line),) = stream.ring.after(0)
    assert (len(line.text), line.cut, stream.cut) == (MAX_LINE, 20, 1)
    feed(stream, record(3, "x" * (MAX_LINE + 5)), len(data))
    *_, (_, last) = stream.ring.after(0)
    assert (len(last.text), last.cut, stream.cut) == (MAX_LINE, 5, 2)
    feed(stream, record(4, "x" * MAX_LINE), 2 * len(data))
    assert stream.cut == 2


def test_a_record_without_an_end_is_given_up_and_the_next_one_is_read() -> None:
    stream = LogStream(ring())
    piece = b"x" * (1 << 20)
    place = 0
    while not stream.unreadable:
        feed(stream, piece, place)
        place += len(piece)
        assert place < 20 << 20
    assert place > 6 * MAX_LINE
    feed(stream, b"rest of it\n" + record(1, "fine"), place)
    assert (texts(stream), stream.unreadable) == (["fine"], 1)

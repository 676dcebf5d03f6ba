"""Logs against a writer that rotates at random: no line is taken twice, and none is missing without a gap counted."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.property.few import examples

from cotenant.drivers.logs.tail import Tail
from cotenant.engine.logs.log_stream import LogStream
from cotenant.engine.logs.ring import LogRing
from cotenant.model.fleet.logs import LogPlace

START = "2026-01-01T00:00:00"
STREAMS = ("stdout", "stderr")


class Writer:
    """A runtime's log: CRI records, whole lines and pieces of lines, in a file that is rotated."""

    def __init__(self, folder: Path, kept: int) -> None:
        self.path = folder / "x.log"
        self.kept = kept
        self.lines: list[str] = []  # as they were completed
        self._open: dict[str, str] = {}
        self._file = self.path.open("ab", buffering=0)
        self._half = b""
        self.harmful = False  # something was thrown away, read or not

    def write(self, stream: str, is_partial: bool) -> None:
        text = f"{stream}-{len(self.lines)}-{len(self._open.get(stream, ''))}-"
        self.finish()
        tag = "P" if is_partial else "F"
        self._file.write(f"{START}.{len(self.lines):09d}Z {stream} {tag} {text}\n".encode())
        self._open[stream] = self._open.get(stream, "") + text
        if not is_partial:
            self.lines.append(self._open.pop(stream))

    def half(self, stream: str) -> None:
        """The first bytes of a record; the rest comes later."""
        self.finish()
        text = f"half-{len(self.lines)}"
        record = f"{START}.{len(self.lines):09d}Z {stream} F {text}\n".encode()
        self._file.write(record[:25])
        self._half = record[25:]
        self.lines.append(self._open.pop(stream, "") + text)

    def finish(self) -> None:
        self._file.write(self._half)
        self._half = b""

    def rename(self) -> None:
        self.finish()
        for number in range(self.kept, 0, -1):
            older = self.path.with_name(f"x.log.{number}")
            if older.exists() and number == self.kept:
                self.harmful = True
                older.unlink()
            elif older.exists():
                older.rename(self.path.with_name(f"x.log.{number + 1}"))
        self._file.close()
        self.path.rename(self.path.with_name("x.log.1"))
        self._file = self.path.open("ab", buffering=0)

    def truncate(self) -> None:
        self.finish()
        self.harmful = True
        self._file.truncate(0)

    def copy_and_truncate(self) -> None:
        self.finish()
        content = self.path.read_bytes()
        for number in range(self.kept, 0, -1):
            older = self.path.with_name(f"x.log.{number}")
            if older.exists() and number == self.kept:
                older.unlink()
            elif older.exists():
                older.rename(self.path.with_name(f"x.log.{number + 1}"))
        self.path.with_name("x.log.1").write_bytes(content)
        self.harmful = True
        self._file.truncate(0)


class Reader:
    """An agent that may be killed and started again."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.taken: list[str] = []
        self.lost = 0
        self.place: LogPlace | None = None
        self._start(1 << 30)

    def _start(self, backlog_bytes: int) -> None:
        self._tail = Tail(self._path, self.place, backlog_bytes)
        self._stream = LogStream(LogRing(1 << 30, 1e12), self.place)
        self._seen = 0
        self._lost_before = self.lost

    def poll(self, most: int = 1 << 20) -> None:
        for _ in range(3):  # the last file of a chain needs one poll more before the next is begun
            while (piece := self._tail.poll(most)) is not None:
                self._stream.feed(piece)
        self.taken += [line.text for _, line in self._stream.ring.after(self._seen) if not line.is_old]
        self.place = self._stream.place
        self._seen = self._stream.ring.last
        self.lost = self._lost_before + self._stream.lost
        assert self._stream.unreadable == 0 or self.lost

    def restart(self, backlog_bytes: int) -> None:
        self._tail.close()
        self._start(backlog_bytes if self.place is not None else 1 << 30)

    def close(self) -> None:
        self._tail.close()


STEPS = st.one_of(
    st.tuples(st.just("write"), st.sampled_from(STREAMS), st.booleans()),
    st.tuples(st.just("half"), st.sampled_from(STREAMS)),
    st.just(("rename",)),
    st.just(("poll",)),
    st.tuples(st.just("poll bytes"), st.integers(1, 80)),
    st.tuples(st.just("restart"), st.integers(0, 400)),
)
UNREAD = st.integers(0, 3)
HARMFUL = st.one_of(
    STEPS,
    st.tuples(st.just("truncate"), UNREAD, st.booleans()),
    st.tuples(st.just("copy"), UNREAD, st.booleans()),
)


def play(steps: list[tuple[object, ...]], kept: int) -> tuple[Writer, Reader]:
    with tempfile.TemporaryDirectory() as folder:
        writer = Writer(Path(folder), kept)
        reader = Reader(writer.path)
        writer.write("stdout", False)
        reader.poll()  # what was thrown away before anybody looked can be known to nobody
        for step in steps:
            match step:
                case ("write", str(stream), bool(is_partial)):
                    writer.write(stream, is_partial)
                case ("half", str(stream)):
                    writer.half(stream)
                case ("rename",):
                    writer.rename()
                case ("truncate" | "copy", int(unread), bool(is_restarted)):
                    writer.write("stdout", False)
                    reader.poll()
                    for _ in range(unread):
                        writer.write("stderr", False)
                    if is_restarted:
                        reader.restart(0)
                    writer.truncate() if step[0] == "truncate" else writer.copy_and_truncate()
                case ("poll",):
                    reader.poll()
                case ("poll bytes", int(most)):
                    reader.poll(most)
                case ("restart", int(backlog_bytes)):
                    reader.restart(backlog_bytes)
        for _ in range(kept + 2):
            reader.poll()
        writer.write("stdout", False)  # some gaps show only when the next line comes
        for _ in range(kept + 2):
            reader.poll()
        reader.close()
    return writer, reader


@given(st.lists(STEPS, max_size=40))
@settings(deadline=None, max_examples=examples(150))
@example([("write", "stdout", True), ("write", "stderr", False), ("poll",), ("restart", 0), ("write", "stdout", False)])
def test_with_enough_files_kept_every_line_comes_once_and_in_order(steps: list[tuple[object, ...]]) -> None:
    writer, reader = play(steps, kept=50)
    assert not writer.harmful
    assert reader.taken == writer.lines
    assert reader.lost == 0


@given(st.lists(HARMFUL, max_size=40), st.integers(1, 2))
@settings(deadline=None, max_examples=examples(150))
@example(
    [
        ("write", "stdout", True),
        ("rename",),
        ("write", "stderr", True),
        ("truncate", 0, True),
        ("half", "stdout"),
    ],
    1,
)
def test_where_files_vanish_no_line_comes_twice_and_missing_ones_are_a_counted_gap(
    steps: list[tuple[object, ...]], kept: int
) -> None:
    writer, reader = play(steps, kept)
    whole = set(writer.lines)
    taken = [line for line in reader.taken if line in whole]  # a line whose beginning was thrown away is another line
    assert len(taken) == len(set(taken))
    if set(taken) != whole:
        assert writer.harmful
        assert reader.lost > 0

"""The snapshots of a room: which cases are kept, their files, the comparison.

Of `CANDIDATES` drawn cases of a subject those are written out that take a way through the room which none before took,
and some more; of `FURTHER` others a digest of the answer is kept, which notices a change as well; the failure shows it.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from tests.snapshot.cases import Subject, subjects
from tests.snapshot.drawing import Maker, Unknown

CANDIDATES = 160
PATIENCE = 40  # candidates without a new way, after which no more are tried
WRITTEN = 14  # cases of a subject in full, at most
MORE = 3  # of them whose way is not new
FURTHER = 24
INPUTS, RESULT = 160, 400  # characters
MAX_BYTES = 60_000
COMMAND = "python -m tests.snapshot"


@dataclass(frozen=True, slots=True)
class Room:
    """`makers`: what is drawn by hand, see `drawing.Draw`; `without`: subjects that need state no drawing has."""

    folder: Path
    modules: Sequence[types.ModuleType]
    makers: Mapping[Any, Maker] = field(default_factory=dict)
    without: frozenset[str] = frozenset()

    def file(self, module: types.ModuleType) -> Path:
        """Where the snapshot of a module lies."""
        return self.folder / "snapshots" / f"{short(module)}.txt"

    def subjects(self, module: types.ModuleType) -> dict[str, Subject]:
        """Of a module, by name."""
        return {one.name: one for one in subjects(module, self.makers) if one.name not in self.without}

    def today(self, module: types.ModuleType) -> str:
        """The text of the cases that the file names."""
        kept = _numbers(self.file(module).read_text())
        return "".join(_written(one, *kept.get(one.name, ((), ()))) for one in self.subjects(module).values())

    def write(self, module: types.ModuleType, anew: bool = False) -> int:
        """Record; how many bytes. Cases are chosen for what has none yet, with `anew` for each subject."""
        kept = _numbers(self.file(module).read_text()) if self.file(module).exists() and not anew else {}
        whole = "".join(_written(one, *kept.get(one.name) or chosen(one)) for one in self.subjects(module).values())
        size = len(whole.encode())
        if not 0 < size <= MAX_BYTES:
            raise AssertionError(f"{self.file(module)} would have {size} bytes, expected 1 to {MAX_BYTES}")
        self.file(module).parent.mkdir(exist_ok=True)
        self.file(module).write_text(whole)
        return size

    def compare(self, module: types.ModuleType) -> None:
        """Raises with the first lines that differ."""
        before, today = self.file(module).read_text().splitlines(), self.today(module).splitlines()
        if before == today:
            return
        changed = [at for at in range(max(len(before), len(today))) if before[at : at + 1] != today[at : at + 1]]
        name = short(module)
        told = [f"{name} answers otherwise than {self.file(module).name} says, in {len(changed)} lines:"]
        for at in changed[:3]:
            told += [*(f"- {one}" for one in before[at : at + 1]), *(f"+ {one}" for one in today[at : at + 1])]
        told.append(f"one case in full: {COMMAND} --show {name} CASE")
        told.append(f"where this is meant: {COMMAND} --write {name}, and read the diff")
        raise AssertionError("\n".join(told))


def short(module: types.ModuleType) -> str:
    """Its name below the floor's room."""
    return module.__name__.partition("cotenant.")[2]


def chosen(subject: Subject) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The numbers of the cases to write out and of those to keep a digest of."""
    ways: set[object] = set()
    answers: set[str] = set()
    written: list[int] = []
    rest: list[int] = []
    more = 0
    newest = 0
    for number in range(CANDIDATES):
        if number > newest + PATIENCE:
            break
        way: set[object] = set()
        try:
            with _traced(way):
                answer = subject.answer(number, with_inputs=False)
        except (Unknown, RecursionError):
            continue
        if not answer.usable:
            continue
        is_new = answer.result not in answers
        if way - ways and len(written) < WRITTEN:
            written.append(number)
        elif is_new and more < MORE and number > 5:
            written.append(number)
            more += 1
        elif is_new or len(rest) < FURTHER // 4:
            rest.append(number)
        newest = number if way - ways else newest
        ways |= way
        answers.add(answer.result)
    return tuple(written), tuple(rest[:FURTHER])


def shown(subject: Subject, number: int) -> str:
    """One case in full."""
    answer = subject.answer(number)
    return f"{subject.name} {number}: {answer.inputs}\n    = {answer.result}"


def _written(subject: Subject, written: Sequence[int], further: Sequence[int]) -> str:
    lines = [f"## {subject.name}"]
    for number in written:
        answer = subject.answer(number)
        lines += [f"{number}: {_cut(answer.inputs, INPUTS, '')}", f"    = {_cut(answer.result, RESULT, answer.result)}"]
    if further:
        digests = (f"{number}={_digest(subject.answer(number, with_inputs=False).result)}" for number in further)
        lines.append(f"further: {' '.join(digests)}")
    return "\n".join(line.rstrip() for line in lines) + "\n" if len(lines) > 1 else ""


def _cut(line: str, characters: int, whole: str) -> str:
    """The beginning, with a digest of the whole where there is more."""
    line = line.replace("\n", "\\n")
    if len(line) <= characters:
        return line
    return f"{line[:characters]}…" + (f" [{_digest(whole)}]" if whole else "")


def _digest(whole: str) -> str:
    return sha256(whole.encode()).hexdigest()[:4]


def _numbers(snapshot: str) -> dict[str, tuple[tuple[int, ...], tuple[int, ...]]]:
    """Which cases a snapshot has, by subject."""
    found = {}
    for part in snapshot.split("## ")[1:]:
        name, _, rest = part.partition("\n")
        lines = rest.splitlines()
        written = [int(line.partition(":")[0]) for line in lines if line.partition(":")[0].isdecimal()]
        further = [line for line in lines if line.startswith("further: ")]
        numbers = [int(one.partition("=")[0]) for one in further[0].split()[1:]] if further else []
        found[name] = (tuple(written), tuple(numbers))
    return found


@contextmanager
def _traced(way: set[object]) -> Iterator[None]:
    """Adds each step from line to line in policies and engines."""

    def steps(frame: types.FrameType, event: str, _: object) -> Any:
        if event == "call":
            name = frame.f_code.co_filename
            if "/cotenant/policy/" not in name and "/cotenant/engine/" not in name:
                return None
            before = 0

            def lines(inner: types.FrameType, event: str, _: object) -> Any:
                nonlocal before
                way.add((id(inner.f_code), before, inner.f_lineno))
                before = inner.f_lineno
                return lines

            return lines
        return None

    old = sys.gettrace()
    sys.settrace(steps)
    try:
        yield
    finally:
        sys.settrace(old)

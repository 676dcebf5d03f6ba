"""cProfile's files by our own reader: the same figures as pstats, and nothing else is read."""

from __future__ import annotations

import cProfile
import marshal
import pstats
import random
from contextlib import suppress
from pathlib import Path

import pytest

from cotenant.drivers.stacks.pstats import read_pstats
from cotenant.model.errors import InvalidInput
from cotenant.model.machine.stacks import Frame, Stack

KEY, CALLER = ("a.py", 3, "work"), ("a.py", 9, "main")


def inner(count: int) -> int:
    return sum(range(count))


def outer() -> int:
    return sum(inner(k * 100) for k in range(20))


def written(path: Path) -> bytes:
    profile = cProfile.Profile()
    profile.runcall(outer)
    profile.dump_stats(path)
    return path.read_bytes()


def test_the_figures_are_those_of_pstats(tmp_path: Path) -> None:
    found = read_pstats(written(tmp_path / "p"))
    stats = pstats.Stats(str(tmp_path / "p")).stats  # type: ignore[attr-defined]
    expected = {
        Frame(name, "" if file == "~" else file, line): (round(own * 1e6), round(total * 1e6))
        for (file, line, name), (_, _, own, total, _) in stats.items()
    }
    assert {hot.frame: (hot.own, hot.total) for hot in found.frames} == expected
    assert found.total_us == sum(stack.samples for stack in found.stacks) == sum(own for own, _ in expected.values())
    own = {hot.frame: hot.own for hot in found.frames}
    for frame, own_us in own.items():
        assert sum(stack.samples for stack in found.stacks if stack.frames[-1] == frame) == own_us


@pytest.mark.parametrize("version", [2, 3, 4])
def test_versions_of_marshal_and_large_figures(version: int) -> None:
    stats = {KEY: (1 << 40, -5, 2.0, 3, {CALLER: (1, 1, 1.5, 2.0)}), CALLER: (1, 1, 0.0, 3.0, {})}
    found = read_pstats(marshal.dumps(stats, version))
    work, main = Frame("work", "a.py", 3), Frame("main", "a.py", 9)
    assert found.stacks == (Stack((main, work), 1_500_000), Stack((work,), 500_000))
    assert [(hot.frame, hot.own, hot.total) for hot in found.frames] == [(work, 2000000, 3000000), (main, 0, 3000000)]


@pytest.mark.parametrize(
    "given",
    [
        [1],
        {KEY: (1, 1, 0.0, 0.0)},
        {KEY: (1, 1, float("nan"), 0.0, {})},
        {KEY: (1, 1, "0", 0.0, {})},
        {"a": (1, 1, 0.0, 0.0, {})},
        {("a.py", "3", "work"): (1, 1, 0.0, 0.0, {})},
        {KEY: (1, 1, 0.0, 0.0, {CALLER: (1, 1)})},
        {KEY: (1 << 200, 1, 0.0, 0.0, {})},
        {KEY: (lambda: 1).__code__},
    ],
)
def test_what_is_no_profile_is_refused(given: object) -> None:
    with pytest.raises(InvalidInput, match="dump_stats"):
        read_pstats(marshal.dumps(given))


def test_few_bytes_cannot_stand_for_many_calls() -> None:
    callers = {("a.py", k, "f"): (1, 1, 0.0, 0.0) for k in range(1000)}
    shared = marshal.dumps({("b.py", k, "g"): (1, 1, 0.0, 0.0, callers) for k in range(1000)})
    assert len(shared) < 100_000
    with pytest.raises(InvalidInput, match="more than 200000 calls"):
        read_pstats(shared)


def test_spoiled_bytes_are_read_or_refused_and_nothing_else(tmp_path: Path) -> None:
    whole, chance = written(tmp_path / "p"), random.Random(1)
    for _ in range(2000):
        spoiled = bytearray(whole)
        for _ in range(chance.randrange(1, 4)):
            spoiled[chance.randrange(len(spoiled))] = chance.randrange(256)
        with suppress(InvalidInput):
            read_pstats(bytes(spoiled[: chance.randrange(1, len(spoiled) + 1)]))
    with pytest.raises(InvalidInput, match="follows"):
        read_pstats(whole + b"0")
    with pytest.raises(InvalidInput, match="too deep"):
        read_pstats(b")\x01" * 1000 + b"i\0\0\0\0")

"""The harness of snapshot tests: values as text, drawn inputs, the comparison, sizes."""

from __future__ import annotations

import enum
import sys
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass, make_dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import pytest
from tests.snapshot.__main__ import MAX_ALL_BYTES, ROOT
from tests.snapshot.drawing import Draw, Unknown
from tests.snapshot.rendering import text
from tests.snapshot.room import MAX_BYTES, Room

SNAPSHOTS = sorted(ROOT.glob("packages/*/tests/unit/**/snapshots/*.txt"))


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


@dataclass(frozen=True, slots=True)
class Size:
    cpu_milli: int
    share: float = 0.5
    names: frozenset[str] = frozenset()
    colour: Colour | None = None

    def __post_init__(self) -> None:
        if self.cpu_milli < 0:
            raise ValueError("negative")


class Source(Protocol):
    @property
    def unit(self) -> str: ...

    def amount(self, name: str) -> int: ...


def test_text_is_the_same_on_each_machine() -> None:
    assert text(Size(1, 1 / 3, frozenset({"b", "a"}), Colour.RED)) == (
        "Size(cpu_milli=1, share=0.333333, names={'a', 'b'}, colour=RED)"
    )
    assert text(Size(1)) == "Size(cpu_milli=1)"
    assert text({"b": np.float64(0.1 + 0.2), "a": (1, [True, None])}) == "{'a': (1, [True, None]), 'b': 0.3}"
    assert text(np.array([1.0, np.nan])) == "array([1.0, nan])"
    assert text([0.0] * 5 + [1, 1]) == "[0.0 x 5, 1, 1]"
    assert text(lambda: 0).endswith("<lambda>")


def test_a_seed_draws_the_same_values_and_another_seed_others() -> None:
    drawn = [text(Draw(str(number), {}).of(tuple[Size, ...])) for number in range(20)]
    assert drawn == [text(Draw(str(number), {}).of(tuple[Size, ...])) for number in range(20)]
    assert len(set(drawn)) > 10


def test_one_field_more_changes_no_other() -> None:
    one = make_dataclass("One", [("a_s", float), ("b_bytes", int)])
    more = make_dataclass("More", [("a_s", float), ("new", Mapping[str, int]), ("b_bytes", int)])
    for cls in (one, more):
        cls.__module__ = "tests.unit"
    for seed in map(str, range(20)):
        before, after = Draw(seed, {}).of(one), Draw(seed, {}).of(more)
        assert (before.a_s, before.b_bytes) == (after.a_s, after.b_bytes)


def test_what_a_type_refuses_is_not_drawn_and_makers_come_first() -> None:
    draw = Draw("1", {"share": lambda draw: 7.0})
    sizes = [draw.of(Size) for _ in range(50)]
    assert min(size.cpu_milli for size in sizes) == 0
    assert {size.share for size in sizes} == {0.5, 7.0}
    with pytest.raises(Unknown):
        draw.of(Path)


def test_stubs_and_functions_answer_alike_whenever_they_are_asked_alike() -> None:
    draw = Draw("1", {})
    source, function = draw.of(Source), draw.of(Callable[[str], int])
    assert isinstance(source.unit, str)
    assert source.amount("a") == source.amount("a")
    assert function("a") == function("a")
    assert len({function(str(number)) for number in range(20)}) > 1


def test_a_changed_answer_is_told_with_its_lines_and_how_to_record_it(tmp_path: Path) -> None:
    module = types.ModuleType("cotenant.test_module")
    sys.modules[module.__name__] = module
    try:
        exec(
            "from __future__ import annotations\n"
            "def doubled(cpu_milli: int) -> int:\n    return 2 * cpu_milli + offset()\n"
            "def offset() -> int:\n    return 0\n",
            module.__dict__,
        )
        room = Room(tmp_path, (module,))
        assert room.write(module) > 0
        room.compare(module)
        module.__dict__["offset"] = lambda: 1
        with pytest.raises(AssertionError, match=r"(?s)test_module.txt says.*- .*\n\+ .*--write test_module"):
            room.compare(module)
    finally:
        del sys.modules[module.__name__]


def test_snapshots_stay_small_enough_to_read() -> None:
    sizes = {path.name: path.stat().st_size for path in SNAPSHOTS}
    assert max(sizes.values()) <= MAX_BYTES
    assert sum(sizes.values()) <= MAX_ALL_BYTES


def test_each_snapshot_has_its_test() -> None:
    for path in SNAPSHOTS:
        assert (path.parents[1] / "test_snapshots.py").exists(), path

"""A sample of changes that is tried in portions, its rate, and the changes that are judged by hand."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from tools.mutation.judged import JUDGED, Judged, named, read
from tools.mutation.kept import OtherSample, begun, digest, interval_pct, line, summary
from tools.mutation.operators import Change, changes
from tools.mutation.reach import SOURCES
from tools.mutation.trials import Mutant, Outcome
from tools.tree import ROOT

DRAW = {"floors": ("policy",), "seed": 3, "sources": "abc"}
MUTANT = Mutant("cotenant/a.py", Change(4, 20, 22, "comparison", " <= "))
DEAD = Outcome(MUTANT, True, 2, "1 failed", noticed=("t.py::x",))
ALIVE = Outcome(replace(MUTANT, file="cotenant/b.py"), False, 24, "9 passed")


def test_outcomes_are_found_again_by_a_later_call_with_the_same_draw(tmp_path: Path) -> None:
    state = tmp_path / "folder" / "state"
    assert begun(state, DRAW) == []
    for outcome in (DEAD, ALIVE):
        with state.open("a") as file:
            file.write(line(outcome) + "\n")
    assert begun(state, DRAW) == [DEAD, ALIVE]


@pytest.mark.parametrize(
    ("other", "said"),
    [({"seed": 4}, "seed 3, now 4"), ({"sources": "abd"}, "sources 'abc', now 'abd'"), ({"slow": True}, "slow None")],
)
def test_another_draw_or_changed_sources_are_refused(tmp_path: Path, other: dict[str, object], said: str) -> None:
    begun(tmp_path / "state", DRAW)
    with pytest.raises(OtherSample, match=said):
        begun(tmp_path / "state", {**DRAW, **other})
    assert begun(tmp_path / "state", DRAW) == []


def test_sources_are_the_same_where_their_names_and_texts_are(tmp_path: Path) -> None:
    one, other = tmp_path / "one.py", tmp_path / "other.py"
    one.write_text("a")
    other.write_text("b")
    first = digest([one, other], tmp_path)
    assert digest([other, one], tmp_path) == first
    assert digest([one], tmp_path) != first
    other.write_text("c")
    assert digest([one, other], tmp_path) != first


def test_a_rate_is_told_with_its_interval_and_with_and_without_the_equivalent_changes() -> None:
    low, high = interval_pct(17, 28)
    assert (round(low, 1), round(high, 1)) == (42.4, 76.4)
    assert interval_pct(0, 0) == (0.0, 100.0)
    assert interval_pct(5, 5)[1] == 100.0
    assert interval_pct(0, 5)[0] == 0.0
    slow = replace(DEAD, by_slow=True)
    assert summary([DEAD, slow, ALIVE], 1, 6, 3, "tests") == [
        "4 of 6 changes, seed 3: 2 dead, 1 alive, 1 equivalent by hand",
        "noticed by the tests: 50.0 % (15.0 to 85.0); without the equivalent ones 66.7 % (20.8 to 93.9); 1 by the fast "
        "ones",
    ]


def test_a_change_is_named_by_what_is_written_there_wherever_its_line_is(tmp_path: Path) -> None:
    source = "class Box:\n    def full(self):\n        return (\n            self.held\n            > 3\n        )\n"
    (three,) = (change for change in changes(source) if change.replacement == "4")
    entry = Judged("a.py", "Box.full", "> 3", "> 4")
    assert named("a.py", source, three) == entry
    (later,) = (change for change in changes("LIMIT = 3\n\n\n" + source) if change.line == three.line + 3)
    assert named("a.py", "LIMIT = 3\n\n\n" + source, later) == entry
    assert named("a.py", "LIMIT = 3", changes("LIMIT = 3")[0]) == Judged("a.py", "", "LIMIT = 3", "LIMIT = 4")
    text = "".join(f"{name} = {json.dumps(value)}\n" for name, value in {**entry._asdict(), "why": "unread"}.items())
    (tmp_path / "one").write_text(f"[[equivalent]]\n{text}")
    assert read(tmp_path / "one") == {entry: "unread"}
    for wrong in (f"[[equivalent]]\n{text}" * 2, f"[[equivalent]]\n{text}".replace("unread", " ")):
        (tmp_path / "two").write_text(wrong)
        with pytest.raises(ValueError, match="one entry with a reason each"):
            read(tmp_path / "two")


def test_each_change_that_is_judged_by_hand_can_still_be_made() -> None:
    for judged in read(JUDGED):
        source = (ROOT / SOURCES / judged.file).read_text()
        assert judged in {named(judged.file, source, change) for change in changes(source)}, judged


@pytest.mark.slow
def test_the_command_goes_on_where_it_ended_and_refuses_another_sample(tmp_path: Path) -> None:
    def said(*arguments: str) -> tuple[int, str]:
        command = [sys.executable, "-m", "tools.mutation", "--floors", "services/changes", "--sample", "2"]
        kept = ("--state", str(tmp_path / "state"), "--minutes", "0", "--trees", str(tmp_path / "trees"))
        done = subprocess.run([*command, *kept, *arguments], capture_output=True, text=True, cwd=ROOT, check=False)
        return done.returncode, done.stderr

    status, text = said()
    assert (status, "0 of 2 changes, seed 1: 0 dead, 0 alive" in text) == (3, True), text
    status, text = said("--seed", "2")
    assert (status, "is of another sample: seed 1, now 2" in text) == (2, True), text

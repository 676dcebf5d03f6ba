"""The audit trail is bounded, and a corrupt line affects no other."""

from __future__ import annotations

from pathlib import Path

from cotenant.drivers.leasefile.audit import NAME, OLDER, AuditTrail, changes
from cotenant.model.machine.knob import Knob, KnobChange, KnobTarget, LeaseState
from cotenant.model.machine.node_decision import DecisionTerm, Reason


def change(number: int, group: str = "be/a") -> KnobChange:
    cause = Reason("guard", "too slow", (DecisionTerm("p99", number, "us"),))
    return KnobChange(
        number, KnobTarget(group, Knob.CPU_MAX), cause, "uid 1, pid 2", "a", "b", "c", LeaseState.HELD, "d"
    )


def test_it_reads_as_it_was_written(tmp_path: Path) -> None:
    trail = AuditTrail(tmp_path)
    trail.write([change(1), change(2)])
    trail.write([])
    trail.write([change(3)])
    assert changes(tmp_path) == (change(1), change(2), change(3))
    assert changes(tmp_path, most=1) == (change(3),)


def test_the_older_of_two_files_is_dropped(tmp_path: Path) -> None:
    trail = AuditTrail(tmp_path, max_bytes=2000)
    for number in range(100):
        trail.write([change(number)])
    assert (tmp_path / NAME).stat().st_size <= 2000
    assert (tmp_path / OLDER).stat().st_size <= 2000
    kept = [entry.at_s for entry in changes(tmp_path)]
    assert kept == list(range(int(kept[0]), 100))
    assert 8 <= len(kept) < 30


def test_lines_that_cannot_be_written_are_counted(tmp_path: Path) -> None:
    trail = AuditTrail(tmp_path / "absent")
    trail.write([change(1), change(2)])
    assert trail.lost == 2


def test_an_unreadable_line_is_skipped(tmp_path: Path) -> None:
    trail = AuditTrail(tmp_path)
    trail.write([change(1)])
    with (tmp_path / NAME).open("ab") as out:
        out.write(b"half a li\n\xff\n")
    trail.write([change(2), change(3, "be/\udcff")])
    assert [entry.at_s for entry in changes(tmp_path)] == [1, 2]

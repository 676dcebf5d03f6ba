"""A profile of a real Python process by py-spy, and what is said where there is none."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cotenant.cli.ask.profile_code_showing import show_code
from cotenant.drivers.stacks.programs import Language, RunningProgram
from cotenant.drivers.stacks.py_spy import py_spy_path
from cotenant.drivers.stacks.sampling import SampledStacks
from cotenant.model.errors import InvalidInput, Permanent, Unsupported
from cotenant.model.machine.stacks import Frame, Stack
from cotenant.services.profiling.code import profile_code, python_ones
from cotenant.services.profiling.output import NO_OUTPUT, Output

BUSY = (
    "print(flush=True)\ndef inner():\n    while True:\n        sum(range(1000))\ndef outer():\n    inner()\nouter()\n"
)


@pytest.mark.slow
def test_a_running_program_is_seen_by_its_guid_to_the_line(tmp_path: Path) -> None:
    try:
        py_spy_path()
    except Unsupported as error:
        pytest.skip(str(error))
    script = tmp_path / "busy.py"
    script.write_text(BUSY)
    guid = f"busy-{os.getpid()}"
    environment = os.environ | {"COTENANT_GUID": guid}
    busy = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, env=environment)
    assert busy.stdout is not None
    busy.stdout.readline()
    try:
        found = profile_code(guid, 1, 100, Output(tmp_path / "out.pb.gz"))
    except Permanent as error:
        pytest.skip(f"py-spy may not read processes here: {error}")
    finally:
        busy.kill()
        busy.wait()
    assert found.pids == (busy.pid,)
    names = {hot.frame.function: hot for hot in found.frames}
    assert names["outer"].total == found.samples > 0
    assert names["inner"].frame.file == str(script)
    assert names["inner"].frame.line == 4
    assert (tmp_path / "out.pb.gz").read_bytes()[:2] == b"\x1f\x8b"


def test_processes_are_merged_and_the_table_fits(capsys: pytest.CaptureFixture[str]) -> None:
    long = Frame("f" * 50, "/" + "d" * 90 + "/x.py", 7)
    given = {1: [Stack((Frame("a", "a.py", 1), long), 30)], 2: [Stack((Frame("a", "a.py", 1), long), 10)]}
    programs = [RunningProgram(1, Language.PYTHON), RunningProgram(2, Language.GO)]
    taken = SampledStacks((*given[1], *given[2]), ("pid 2 lacks \x1bnames",))
    found = profile_code("web-1", 5, 10, NO_OUTPUT, False, lambda _: programs, lambda *_: taken)
    assert (found.samples, found.frames[0].own, found.pids) == (40, 40, (1, 2))
    show_code(found, 1, False)
    shown = capsys.readouterr().out
    assert "40 samples of web-1 (pid 1, 2) in 5 s" in shown
    assert "1 more frame\n" in shown
    assert "pid 2 lacks" in shown
    assert "\x1b" not in shown
    assert max(len(line) for line in shown.splitlines()) <= 100
    assert "x.py:7" in shown


def test_bad_input_and_nothing_to_sample() -> None:
    for words, said in (((0, 100), "--seconds"), ((1, 0), "--rate")):
        with pytest.raises(InvalidInput, match=said):
            profile_code("1", *words)
    with pytest.raises(Permanent, match="no process of nobody-1"):
        profile_code("nobody-1", 1, 100, NO_OUTPUT, False, lambda _: [])


def test_only_python_processes_are_joined_with_requests() -> None:
    def found(target: str) -> list[int]:
        return {"web": [7, 9]}.get(target, [])

    assert python_ones("web", 5, 10, found) == [7, 9]
    assert python_ones(str(os.getpid()), 5, 10, found) == [os.getpid()]
    other = subprocess.Popen(["sleep", "1000"])
    try:
        with pytest.raises(Permanent, match="only Python programs are joined with requests"):
            python_ones(str(other.pid), 5, 10, found)
    finally:
        other.kill()
        other.wait()
    with pytest.raises(Permanent, match="there is none"):
        python_ones(str(2**30), 5, 10, found)
    with pytest.raises(Permanent, match="no Python process of db on this host"):
        python_ones("db", 5, 10, found)
    for target, seconds, rate_hz in (("", 5, 10), ("web", 0, 10), ("web", 5, 0)):
        with pytest.raises(InvalidInput):
            python_ones(target, seconds, rate_hz, found)

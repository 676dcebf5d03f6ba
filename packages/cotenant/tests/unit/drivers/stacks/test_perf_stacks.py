"""What perf script writes, read; and which sampler a program gets."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from cotenant.drivers.stacks.perf_stacks import PerfStacks, grouped, parse_script
from cotenant.drivers.stacks.programs import Language, RunningProgram
from cotenant.drivers.stacks.sampling import record_programs, samplers
from cotenant.model.errors import Permanent, Unsupported
from cotenant.model.machine.stacks import Frame, Stack

NATIVE = """15563/15563  1912.980777:
\t            113e inner (/srv/spin)
  spin.c:3
\t           27304 __libc_start_main_impl
  libc-start.c:360 (inlined)
\t            1060 _start (/srv/spin)
  ??:0

15563/15564  1912.990777:
\tffffffff81234567 do_syscall_64 ([kernel.kallsyms])
\t    7ff75e7c62fc std::function<void (int)>::operator()(int) const (/srv/my app (deleted))
\t            1060 [unknown] (/srv/spin)

 7/7  1.5:
"""
NODE = """15194/15194  1876.281362:
\t    7ff75e7c62fc JS:*inner /srv/spin.js:1:15 (/tmp/perf-15194.map)
\t    7ff75e7c62fc JS:^ file:///srv/spin.js:3:1 (/tmp/perf-15194.map)
\t         14cfd1c Builtins_InterpreterEntryTrampoline (/usr/bin/node)

"""


def test_frames_have_functions_files_and_lines() -> None:
    first = Stack((Frame("_start", "/srv/spin"), Frame("__libc_start_main_impl", "libc-start.c", 360), INNER), 1)
    call = Frame("std::function<void (int)>::operator()(int) const", "/srv/my app (deleted)")
    second = Stack((Frame("[unknown]", "/srv/spin"), call, Frame("do_syscall_64", "kernel")), 1)
    assert parse_script(NATIVE.splitlines()) == PerfStacks((first, second), frozenset({7, 15563}))
    assert parse_script((NATIVE + "\n" + NATIVE).splitlines()).stacks[0].samples == 2
    assert parse_script(["", "junk", "  and more", ""]) == PerfStacks((), frozenset())


INNER = Frame("inner", "spin.c", 3)


def test_what_node_compiled_is_named_by_its_source() -> None:
    (stack,) = parse_script(NODE.splitlines()).stacks
    assert stack.frames == (
        Frame("Builtins_InterpreterEntryTrampoline", "/usr/bin/node"),
        Frame("(anonymous)", "file:///srv/spin.js", 3),
        Frame("inner", "/srv/spin.js", 1),
    )


def test_programs_are_sampled_together_by_how_callers_are_found() -> None:
    programs = [RunningProgram(pid, language) for pid, language in enumerate(Language)]
    assert [[found.language for found in group] for group in grouped(programs[1:])] == [
        [Language.NODE, Language.JAVA, Language.GO],
        [Language.NATIVE],
    ]
    assert samplers(programs) == 3


def test_python_is_sampled_also_where_perf_may_not(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    spy = 'while [ "$1" != --output ]; do shift; done; echo "main (a.py:1) 7" > "$2"'
    for name, text in (("perf", "echo no permission >&2; exit 1"), ("py-spy", spy)):
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))  # beside which py-spy is
    shell = RunningProgram(8, Language.NATIVE, "sh")
    found = record_programs([RunningProgram(7, Language.PYTHON), shell], 1, 10)
    assert found.stacks == (Stack((Frame("main", "a.py", 1),), 7),)
    assert found.notes == ("perf cannot sample process 8: no permission",)
    with pytest.raises(Permanent, match="no permission"):
        record_programs([shell], 1, 10)


def test_who_cannot_be_sampled_is_named_with_what_it_takes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Unsupported, match=r"stacks of server \(pid 7\), a Go program .*needs perf"):
        record_programs([RunningProgram(7, Language.GO, "server")], 1, 10)
    with pytest.raises(Unsupported, match="threads that wait"):
        record_programs([RunningProgram(7, Language.GO, "server")], 1, 10, with_idle=True)

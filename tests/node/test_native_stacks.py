"""Profiles of real programs that are not Python, by perf: C with and without symbols, Node.js, Java."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import pytest
from tests.fakes.waiting import eventually, patience

from cotenant.drivers.stacks import perf_stacks
from cotenant.model.errors import Permanent
from cotenant.model.machine.stacks import HotFrame
from cotenant.services.profiling.code import CodeProfile, profile_code

pytestmark = pytest.mark.slow
C = """
volatile double sum;
__attribute__((noinline)) static void inner(void) {
    for (int step = 0; step < 1000000; step++) sum += step * 0.5;
}
__attribute__((noinline)) static void outer(void) { inner(); sum += 1; }
int main(void) { for (;;) outer(); }
"""
NODE = """
function inner(n) { let s = 0; for (let i = 0; i < n; i++) s += Math.sqrt(i) * i % 7; return s; }
function outer() { return inner(200000); }
for (let total = 0; total >= 0;) total += outer();
"""
JAVA = """
public class Busy {
    static double inner(int n) { double s = 0; for (int i = 0; i < n; i++) s += Math.sqrt(i) * i % 7; return s; }
    static double outer() { return inner(200000); }
    public static void main(String[] words) { for (double total = 0; total >= 0;) total += outer(); }
}
"""


@contextmanager
def running(command: Sequence[str], folder: Path | None = None) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=folder)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def programs(*names: str) -> list[str]:
    found = [shutil.which(name) for name in ("perf", *names)]
    if None in found:
        pytest.skip(f"needs perf, {', '.join(names)}")
    return [str(path) for path in found[1:]]


def sampled(process: subprocess.Popen[bytes], shows: Callable[[CodeProfile], bool]) -> CodeProfile:
    """The first profile that shows something: only what runs is sampled, and others may leave it little of the CPU."""

    def found() -> CodeProfile | None:
        profile = profile_code(str(process.pid), 1, 200)
        return profile if shows(profile) else None

    try:
        return cast(CodeProfile, eventually("it is sampled", found))
    except Permanent as error:
        if "perf_event_paranoid" in str(error) or "No permission" in str(error):
            pytest.skip(str(error))
        raise


def any_at_all(found: CodeProfile) -> bool:
    return found.samples > 0


def is_hot(found: CodeProfile, function: str) -> bool:
    return any(entry.frame.function == function and entry.own > found.samples / 2 for entry in found.frames)


def hot(found: CodeProfile, function: str) -> HotFrame:
    by_name = {entry.frame.function: entry for entry in found.frames}
    assert function in by_name, sorted(by_name)
    return by_name[function]


def compiled(folder: Path, *flags: str) -> str:
    (gcc,) = programs("gcc")
    (folder / "busy.c").write_text(C)
    made = str(folder / "busy")
    subprocess.run([gcc, *flags, "-O1", "-o", made, str(folder / "busy.c")], check=True)
    return made


def test_c_is_seen_to_the_line_and_with_its_callers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(perf_stacks, "_LINES_S", patience(20))  # then lines are left out
    with running([compiled(tmp_path, "-g", "-fomit-frame-pointer")]) as process:
        found = sampled(process, lambda found: is_hot(found, "inner"))
    assert hot(found, "inner").frame.file.endswith("busy.c")
    assert hot(found, "inner").frame.line == 4
    assert hot(found, "outer").total > found.samples / 2
    assert found.notes == ()


def test_what_was_stripped_is_said(tmp_path: Path) -> None:
    with running([compiled(tmp_path, "-s")]) as process:
        found = sampled(process, lambda found: is_hot(found, "[unknown]"))
    assert hot(found, "[unknown]").frame.file == str(tmp_path / "busy")
    (note,) = found.notes
    assert note.startswith(f"busy (pid {process.pid}), a native program: ")
    assert "stripped" in note


def test_node_names_its_functions_where_it_writes_them(tmp_path: Path) -> None:
    (node,) = programs("node")
    script = tmp_path / "busy.js"
    script.write_text(NODE)
    with running([node, str(script)]) as process:
        found = sampled(process, any_at_all)
    assert "--perf-basic-prof" in found.notes[0]
    words = [node, "--perf-basic-prof", "--interpreted-frames-native-stack", str(script)]
    with running(words, tmp_path) as process:  # it writes a log where it runs
        written = Path(f"/tmp/perf-{process.pid}.map")
        try:
            eventually("it was compiled", lambda: written.exists() and "inner" in written.read_text())
            found = sampled(process, lambda found: "inner" in {entry.frame.function for entry in found.frames})
        finally:
            written.unlink(missing_ok=True)
    assert hot(found, "inner").frame.file == str(script)
    assert hot(found, "inner").frame.line == 2
    assert found.notes == ()


def test_java_names_its_methods_once_they_were_asked_for(tmp_path: Path) -> None:
    java, javac, jcmd = programs("java", "javac", "jcmd")
    (tmp_path / "Busy.java").write_text(JAVA)
    subprocess.run([javac, "-d", str(tmp_path), str(tmp_path / "Busy.java")], check=True)
    with running([java, "-XX:+PreserveFramePointer", "-cp", str(tmp_path), "Busy"]) as process:
        written = Path(f"/tmp/perf-{process.pid}.map")
        maps = Path(f"/proc/{process.pid}/maps")
        try:
            eventually("it has its virtual machine", lambda: "libjvm.so" in maps.read_text())
            found = sampled(process, any_at_all)
            assert "Compiler.perfmap" in found.notes[0]

            def is_written() -> bool:
                asked = subprocess.run([jcmd, str(process.pid), "Compiler.perfmap"], capture_output=True, check=False)
                return asked.returncode == 0 and written.exists() and "inner" in written.read_text()

            def named() -> CodeProfile | None:
                """Once its method was compiled for the last time: later code of it is at addresses without a name."""
                eventually("its methods are compiled", is_written)
                found = sampled(process, any_at_all)
                return found if any("inner" in entry.frame.function for entry in found.frames) else None

            found = eventually("its method has a name", named)
        finally:
            written.unlink(missing_ok=True)
    assert found is not None
    assert found.notes == ()


def test_a_process_that_is_gone_is_said() -> None:
    with running(["sleep", "0"]) as process:
        process.wait()
    with pytest.raises(Permanent, match=f"process {process.pid}: there is none"):
        sampled(process, any_at_all)

"""Which programs a guid has, what each is, and what it lacks for its stacks to have names."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cotenant.drivers.stacks.elf_sections import section_names
from cotenant.drivers.stacks.programs import Language, program_of, programs_of, python_processes


def test_processes_of_a_guid_are_the_uppermost_python_ones(tmp_path: Path) -> None:
    for pid, parent, variable, maps in (
        (10, 1, "COTENANT_GUID=cam-1", "/bin/sh"),
        (11, 10, "COTENANT_GUID=cam-1", "/usr/bin/python3"),
        (12, 11, "COTENANT_GUID=cam-1", "/usr/bin/python3"),
        (20, 1, "COTENANT_GUID=cam-10", "/usr/bin/python3"),
        (30, 1, "HOSTNAME=web-0", "/usr/lib/libpython3.11.so"),
    ):
        folder = tmp_path / str(pid)
        folder.mkdir()
        (folder / "environ").write_text(f"PATH=/bin\0{variable}\0")
        (folder / "maps").write_text(maps)
        (folder / "stat").write_text(f"{pid} (a ) b) S {parent} 1 1")
    (tmp_path / "self").mkdir()
    (tmp_path / "40").mkdir()  # ended meanwhile
    assert python_processes("cam-1", tmp_path) == [11]
    assert [(found.pid, found.language) for found in programs_of("cam-1", tmp_path)] == [
        (10, Language.NATIVE),
        (11, Language.PYTHON),
    ]
    assert python_processes("web-0", tmp_path) == [30]
    assert python_processes("web", tmp_path) == []


class Host:
    """Processes in a folder like /proc."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def add(self, pid: int, exe: str, maps: str = "", words: str = "", inside: int = 0) -> Path:
        made = self.folder / str(pid)
        (made / "root/tmp").mkdir(parents=True)
        os.symlink(exe, made / "exe")
        (made / "maps").write_text(maps)
        (made / "cmdline").write_text(words)
        (made / "environ").write_text("PATH=/bin")
        (made / "status").write_text(f"Name:\tx\nNSpid:\t{pid}" + (f"\t{inside}" if inside else "") + "\n")
        return made

    def lacks(self, pid: int) -> str:
        return program_of(pid, self.folder).lacks


def test_node_and_java_have_names_where_they_wrote_them(tmp_path: Path) -> None:
    host = Host(tmp_path)
    node = host.add(7, "/usr/bin/node", "7f-7f r-xp 0 0:0 0 /usr/bin/node\n", inside=1)
    java = host.add(8, "/opt/jdk/bin/java", "7f-7f r-xp 0 0:0 0 /opt/jdk/lib/server/libjvm.so\n")
    assert [program_of(pid, tmp_path).language for pid in (7, 8)] == [Language.NODE, Language.JAVA]
    assert str(program_of(7, tmp_path)) == "node (pid 7), a Node.js program"
    assert "--perf-basic-prof" in host.lacks(7)
    (node / "root/tmp/perf-7.map").touch()  # of another process, by the number that it has inside
    assert "--perf-basic-prof" in host.lacks(7)
    (node / "root/tmp/perf-1.map").touch()
    assert host.lacks(7) == ""
    assert "Compiler.perfmap" in host.lacks(8)
    assert "callers of Java methods may be missing" in host.lacks(8)
    (java / "root/tmp/perf-8.map").touch()
    (java / "environ").write_text("JDK_JAVA_OPTIONS=-XX:+PreserveFramePointer")
    assert host.lacks(8) == ""


def test_a_python_library_s_path_does_not_make_java_python(tmp_path: Path) -> None:
    maps = "7f-7f r-xp 0 0:0 0 /opt/libjvm.so\n7f-7f r-xp 0 0:0 0 /opt/python/jep.so\n"
    Host(tmp_path).add(7, "/opt/java", maps)
    assert program_of(7, tmp_path).language is Language.JAVA


SOURCE = """
#ifdef GO
__attribute__((section(".gopclntab"), used)) static const int table = 1;
#endif
int main(void) { return 0; }
"""


@pytest.mark.parametrize(
    ("flags", "language", "lacks"),
    [
        ((), Language.NATIVE, ""),
        (("-s",), Language.NATIVE, "symbols were stripped"),
        (("-DGO",), Language.GO, ""),
        (("-DGO", "-s"), Language.GO, "-ldflags=-s"),
    ],
)
def test_sections_say_who_built_it_and_whether_it_was_stripped(
    tmp_path: Path, flags: tuple[str, ...], language: Language, lacks: str
) -> None:
    compiler = shutil.which("gcc")
    if compiler is None:
        pytest.skip("no gcc")
    (tmp_path / "x.c").write_text(SOURCE)
    subprocess.run([compiler, *flags, "-o", str(tmp_path / "x"), str(tmp_path / "x.c")], check=True)
    Host(tmp_path).add(7, str(tmp_path / "x"), "7f-7f r-xp 0 0:0 0 /x\n")
    found = program_of(7, tmp_path)
    assert found.language is language
    assert (lacks in found.lacks) if lacks else not found.lacks


def test_what_is_no_elf_file_has_no_sections(tmp_path: Path) -> None:
    assert ".text" in section_names(Path(sys.executable))
    broken = tmp_path / "x"
    whole = Path(sys.executable).read_bytes()[:4096]
    for data in (b"", b"#!/bin/sh", whole[:63], whole[:64], whole, b"\x7fELF\x02\x01" + b"\xff" * 58):
        broken.write_bytes(data)
        assert section_names(broken) == frozenset()
    assert section_names(tmp_path / "none") == frozenset()

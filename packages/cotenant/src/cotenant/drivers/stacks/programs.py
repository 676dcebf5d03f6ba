"""Programs of this host by guid or pod: found by the environment that their container was given; and what each lacks
for its stacks to have names.

Works with any runtime, and needs the right to read other users' /proc/PID. A pod is known by HOSTNAME, which Kubernetes
sets to its name; pods of one name in two namespaces are not told apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from cotenant.drivers.stacks.elf_sections import GO, SYMBOLS, section_names

_PROC = Path("/proc")
_KEEPS_FRAMES = "-XX:+PreserveFramePointer"


class Language(StrEnum):
    """What a process runs, in the words of sentences about it."""

    PYTHON = "a Python program"
    NODE = "a Node.js program"
    JAVA = "a Java program"
    GO = "a Go program"
    NATIVE = "a native program"


@dataclass(frozen=True, slots=True)
class RunningProgram:
    """`name`: of its executable. `lacks`: what its stacks will not tell, and what would help; empty: nothing."""

    pid: int
    language: Language
    name: str = ""
    lacks: str = ""

    def __str__(self) -> str:
        return f"{self.name or 'it'} (pid {self.pid}), {self.language}"


def programs_of(name: str, proc: Path = _PROC) -> list[RunningProgram]:
    """Those with this guid or pod name. Of Python programs those whose parent is not one of them: their children are
    sampled with them.
    """
    wanted = (f"COTENANT_GUID={name}".encode(), f"HOSTNAME={name}".encode())
    found: dict[int, RunningProgram] = {}
    parents: dict[int, int] = {}
    for folder in proc.iterdir():
        if not folder.name.isdecimal():
            continue
        pid = int(folder.name)
        try:
            if any(variable in wanted for variable in (folder / "environ").read_bytes().split(b"\0")):
                found[pid] = program_of(pid, proc)
                parents[pid] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue  # it ended, or is another user's
    python = {pid for pid, program in found.items() if program.language is Language.PYTHON}
    return [found[pid] for pid in sorted(parents) if pid not in python or parents[pid] not in python]


def python_processes(name: str, proc: Path = _PROC) -> list[int]:
    """The Python programs among them."""
    return [program.pid for program in programs_of(name, proc) if program.language is Language.PYTHON]


def program_of(pid: int, proc: Path = _PROC) -> RunningProgram:
    """What a process runs. Raises `OSError` where it has ended or may not be read."""
    folder = proc / str(pid)
    maps = (folder / "maps").read_bytes()
    files = {line.rpartition(b"/")[2] for line in maps.splitlines() if b"/" in line}
    try:
        name = (folder / "exe").readlink().name.removesuffix(" (deleted)")
    except OSError:  # a kernel's thread, or one that just ended
        name = ""
    if b"libjvm.so" in files:
        return RunningProgram(pid, Language.JAVA, name, _lacks_of_java(folder))
    if name in ("node", "nodejs") or any(file.startswith(b"libnode.so") for file in files):
        return RunningProgram(pid, Language.NODE, name, _lacks_of_node(folder))
    if any(b"python" in file for file in files):
        return RunningProgram(pid, Language.PYTHON, name)
    sections = section_names(folder / "exe")
    if GO in sections:
        return RunningProgram(pid, Language.GO, name, "" if SYMBOLS in sections else _STRIPPED_GO)
    return RunningProgram(pid, Language.NATIVE, name, "" if SYMBOLS in sections or not sections else _STRIPPED)


_STRIPPED_GO = "its own functions have no names: it was built with -ldflags=-s, build it without"
_STRIPPED = "its own functions have no names: its symbols were stripped, as strip and -s do"


def _lacks_of_node(folder: Path) -> str:
    if _has_map(folder):
        return ""
    hint = "NODE_OPTIONS='--perf-basic-prof --interpreted-frames-native-stack'"
    return f"functions of JavaScript have no names: start it with {hint}"


def _lacks_of_java(folder: Path) -> str:
    lacks = []
    if not _has_map(folder):
        lacks.append("Java methods have no names until `jcmd PID Compiler.perfmap` (JDK 17) was called beside it")
    given = (folder / "cmdline").read_bytes() + (folder / "environ").read_bytes()
    if _KEEPS_FRAMES.encode() not in given:
        lacks.append(f"callers of Java methods may be missing: start it with {_KEEPS_FRAMES}")
    return "; ".join(lacks)


def _has_map(folder: Path) -> bool:
    """Whether it wrote the names of what it compiled, where perf looks for them."""
    status = (folder / "status").read_text().splitlines()
    inside = next((line.split()[-1] for line in status if line.startswith("NSpid:")), folder.name)
    return (folder / f"root/tmp/perf-{inside}.map").exists()

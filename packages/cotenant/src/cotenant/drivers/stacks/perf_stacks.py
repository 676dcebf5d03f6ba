"""Stacks of running programs by Linux's perf: any language, while they run on a CPU.

Callers are found by frame pointers where a program's own code has them (Go, and what V8 and the JVM compile), else by
the unwind tables that every compiler writes (.eh_frame); names come from the files' symbols, and of compiled code from
/tmp/perf-PID.map in the container, lines from debug information.
Limits: threads that wait are not seen. Lines are left out where looking them up takes too long.

Source: perf-record(1), perf-script(1): a line of a sample, then one of each frame (address, symbol, file), the
innermost first, each followed by its line of source.
"""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Timer

from cotenant.drivers.stacks.programs import Language, RunningProgram
from cotenant.model.errors import Permanent, Unsupported
from cotenant.model.machine.stacks import Frame, Stack

_MARGIN_S, _LINES_S, _NAMES_S = 30.0, 20.0, 120.0
_MAX_BYTES = "128M"  # of what is sampled
_SAMPLE = re.compile(r"\s*(?P<pid>\d+)/\d+ ")
_FRAME = re.compile(r"\s+[0-9a-f]+ (?P<symbol>.*?)(?: \((?P<file>[^()]*(?:\([^()]*\))?[^()]*)\))?")
_LINE = re.compile(r"\s+(?P<file>\S.*):(?P<line>\d+)(?: \(inlined\))?")
_SCRIPT = re.compile(
    r"(?:JS|LazyCompile|Function|Script|Eval|RegExp):[*~^+]?(?P<name>.*?) ?(?P<file>\S+):(?P<line>\d+):\d+"
)
_BY_FRAMES = (Language.GO, Language.NODE, Language.JAVA)


@dataclass(frozen=True, slots=True)
class PerfStacks:
    """`pids`: processes that ran."""

    stacks: tuple[Stack, ...]
    pids: frozenset[int]


def perf_path() -> str:
    """Raises `Unsupported` where it is not installed."""
    found = shutil.which("perf")
    if found is None:
        raise Unsupported("stacks of programs that are not Python", "perf: Debian's linux-perf")
    return found


def record_perf(programs: Sequence[RunningProgram], seconds: int, rate_hz: int) -> PerfStacks:
    """Stacks of these, which find their callers alike. Raises `Permanent` with what perf says, `Unsupported`."""
    perf, pids = perf_path(), ",".join(str(program.pid) for program in programs)
    callers = "fp" if programs[0].language in _BY_FRAMES else "dwarf"
    with tempfile.TemporaryDirectory(prefix="cotenant-stacks-") as folder:
        out = str(Path(folder) / "perf.data")
        line = [perf, "record", "--quiet", "--event", "cpu-clock", "--freq", str(rate_hz), "--call-graph", callers]
        line += ["--max-size", _MAX_BYTES, "--pid", pids, "--output", out, "--", "sleep", str(seconds)]
        try:
            done = subprocess.run(
                line, stdin=subprocess.DEVNULL, capture_output=True, timeout=seconds + _MARGIN_S, check=False
            )
        except subprocess.TimeoutExpired:
            raise Permanent(f"perf did not end within {seconds + _MARGIN_S:g} s") from None
        if done.returncode or not Path(out).exists():
            raise Permanent(f"perf cannot sample process {pids}: {_reason(done.stderr.decode(errors='replace'))}")
        fields, shown = "pid,tid,time,ip,sym,dso", [perf, "script", "--input", out, "--fields"]
        for given, within_s in ((f"{fields},srcline", _LINES_S), (fields, _NAMES_S)):
            found = _script([*shown, given], within_s)
            if found is not None:
                return found
        raise Permanent(f"perf finds no names for what it sampled within {_NAMES_S:g} s")


def _script(line: Sequence[str], within_s: float) -> PerfStacks | None:
    """None where it did not end. Raises `Permanent`."""
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(line, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=said)
        ending = Timer(within_s, process.kill)
        ending.start()
        try:
            assert process.stdout is not None
            with process.stdout:
                found = parse_script(text.decode(errors="replace").rstrip("\n") for text in process.stdout)
            code = process.wait()
        finally:
            ending.cancel()
            process.kill()
            process.wait()
        if code == -signal.SIGKILL:
            return None
        if code:
            said.seek(0)
            raise Permanent(f"perf cannot read what it sampled: {_reason(said.read().decode(errors='replace'))}")
        return found


def parse_script(lines: Iterable[str]) -> PerfStacks:
    """The stacks of what perf script writes; equal ones are one."""
    counts: Counter[tuple[Frame, ...]] = Counter()
    pids = set()
    for pid, frames in _samples(lines):
        pids.add(pid)
        if frames:
            counts[tuple(reversed(frames))] += 1
    return PerfStacks(tuple(Stack(frames, samples) for frames, samples in counts.items()), frozenset(pids))


def grouped(programs: Sequence[RunningProgram]) -> list[list[RunningProgram]]:
    """Those that find their callers alike, together."""
    by_frames = [program for program in programs if program.language in _BY_FRAMES]
    others = [program for program in programs if program.language not in _BY_FRAMES]
    return [group for group in (by_frames, others) if group]


def _samples(lines: Iterable[str]) -> Iterator[tuple[int, list[Frame]]]:
    """By process, the innermost frame first."""
    pid, frames = 0, list[Frame]()
    for line in lines:
        if not line.strip():
            if pid:
                yield pid, frames
            pid, frames = 0, []
        elif not pid:
            begun = _SAMPLE.match(line)
            pid = int(begun["pid"]) if begun else 0
        elif found := _FRAME.fullmatch(line):
            frames.append(_frame(found["symbol"], found["file"] or ""))
        elif (place := _LINE.fullmatch(line)) and frames and place["file"] != "??":
            frames[-1] = Frame(frames[-1].function, place["file"], int(place["line"]))
    if pid:
        yield pid, frames


def _frame(symbol: str, file: str) -> Frame:
    if found := _SCRIPT.fullmatch(symbol):
        return Frame(found["name"] or "(anonymous)", found["file"], int(found["line"]))
    if file.startswith("[kernel"):
        return Frame(symbol, "kernel")
    return Frame(symbol, "" if file == "inlined" else file)


def _reason(said: str) -> str:
    lines = [line.strip() for line in said.splitlines() if line.strip() and not line.startswith("Error:")]
    return " ".join(lines)[:300] or "it ended without a word"

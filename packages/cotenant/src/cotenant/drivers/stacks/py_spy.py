"""Stacks of a running Python process by py-spy, which reads its memory: no change of the program, and no pause.

Source: py-spy, `record --format raw`: one line a stack, frames separated by `;`, then the number of samples; and
`--format chrometrace`: when each frame was there first and last, in microseconds since its start.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import msgspec

from cotenant.model.errors import Permanent, Unsupported
from cotenant.model.machine.stacks import Frame, Stack, StackRun, StackTimeline

_FRAME = re.compile(r"(?P<function>.*) \((?P<file>.*?)(:(?P<line>\d+))?\)")
_MARGIN_S = 30.0


def py_spy_path() -> str:
    """Raises `Unsupported` where it is not installed."""
    beside = Path(sys.executable).with_name("py-spy")
    found = str(beside) if beside.exists() else shutil.which("py-spy")
    if found is None:
        raise Unsupported("stacks of Python programs", "py-spy: pip install 'cotenant[profile]'")
    return found


def record(pid: int, seconds: int, rate_hz: int, with_idle: bool = False) -> list[Stack]:
    """Stacks of a process and those that it started. Raises `Permanent` with what py-spy says, `Unsupported`."""
    return parse_raw(_recorded(pid, seconds, rate_hz, "raw", with_idle))


def record_timeline(pid: int, seconds: int, rate_hz: int) -> StackTimeline:
    """The same over time, with threads that wait. Raises as `record`."""
    begin_ns = time.time_ns()  # py-spy counts from its own start, some ms later
    return parse_events(_recorded(pid, seconds, rate_hz, "chrometrace", with_idle=True), begin_ns)


def _recorded(pid: int, seconds: int, rate_hz: int, form: str, with_idle: bool) -> str:
    with tempfile.TemporaryDirectory(prefix="cotenant-stacks-") as folder:
        out = Path(folder) / "stacks"
        line = [py_spy_path(), "record", "--pid", str(pid), "--duration", str(seconds), "--rate", str(rate_hz)]
        line += ["--format", form, "--nonblocking", "--subprocesses", "--full-filenames", "--output", str(out)]
        if with_idle:
            line.append("--idle")
        try:
            done = subprocess.run(line, capture_output=True, text=True, timeout=seconds + _MARGIN_S, check=False)
        except subprocess.TimeoutExpired:
            raise Permanent(f"py-spy did not end within {seconds + _MARGIN_S:g} s") from None
        if done.returncode or not out.exists():
            raise Permanent(f"process {pid}: {_reason(done.stderr)}")
        return out.read_text(errors="replace")


def parse_raw(text: str) -> list[Stack]:
    """The stacks of a raw file."""
    found = []
    for line in text.splitlines():
        written, _, count = line.rpartition(" ")
        if written and count.isdecimal():
            found.append(Stack(tuple(_frame(part) for part in written.split(";")), int(count)))
    return found


class _Place(msgspec.Struct):
    filename: str
    line: int | None = None


class _Event(msgspec.Struct):
    args: _Place
    name: str
    ph: str
    pid: int
    tid: int
    ts: int


def parse_events(text: str, begin_ns: int) -> StackTimeline:
    """The timeline of a chrometrace file whose time 0 is `begin_ns`. Raises `Permanent`."""
    try:
        events = msgspec.json.decode(text, type=list[_Event])
    except msgspec.DecodeError as error:
        raise Permanent(f"what py-spy wrote cannot be read: {error}") from error
    frames: dict[Frame, int] = {}
    stacks: dict[tuple[int, ...], int] = {}
    running: dict[tuple[int, int], tuple[int, list[int]]] = {}  # thread -> since when, and its frames
    runs = []
    for event in events:  # of a thread in the order of time: what ends comes before what begins
        thread = event.pid, event.tid
        since_us, now = running.get(thread, (event.ts, []))
        if now and event.ts > since_us:
            stack = stacks.setdefault(tuple(now), len(stacks))
            runs.append(StackRun(*thread, begin_ns + since_us * 1000, begin_ns + event.ts * 1000, stack))
        if event.ph == "B":
            frame = Frame(event.name, event.args.filename, event.args.line or 0)
            now.append(frames.setdefault(frame, len(frames)))
        elif now:
            now.pop()
        running[thread] = event.ts, now
    first_us, last_us = (events[0].ts, events[-1].ts) if events else (0, 0)
    runs.sort(key=lambda run: (run.pid, run.thread, run.begin_ns))
    bounds = begin_ns + first_us * 1000, begin_ns + last_us * 1000
    return StackTimeline(tuple(frames), tuple(stacks), tuple(runs), *bounds)


def _frame(text: str) -> Frame:
    match = _FRAME.fullmatch(text)
    return Frame(match["function"], match["file"], int(match["line"] or 0)) if match else Frame(text)


def _reason(said: str) -> str:
    lines = [line.strip() for line in said.partition("Stack backtrace")[0].splitlines() if line.strip()]
    lines = [line for line in lines if line != "Caused by:" and not line.startswith("py-spy>")]
    return " ".join(lines)[:300] or "py-spy ended without a word"

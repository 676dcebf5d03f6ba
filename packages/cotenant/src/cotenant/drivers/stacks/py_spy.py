"""Stacks of a running Python process by py-spy, which reads its memory: no change of the program, and no pause.

Source: py-spy, `record --format raw`: one line a stack, frames separated by `;`, then the number of samples.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from cotenant.model.errors import Permanent, Unsupported
from cotenant.model.machine.stacks import Frame, Stack

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
    with tempfile.TemporaryDirectory(prefix="cotenant-stacks-") as folder:
        out = Path(folder) / "stacks"
        line = [py_spy_path(), "record", "--pid", str(pid), "--duration", str(seconds), "--rate", str(rate_hz)]
        line += ["--format", "raw", "--nonblocking", "--subprocesses", "--full-filenames", "--output", str(out)]
        if with_idle:
            line.append("--idle")
        try:
            done = subprocess.run(line, capture_output=True, text=True, timeout=seconds + _MARGIN_S, check=False)
        except subprocess.TimeoutExpired:
            raise Permanent(f"py-spy did not end within {seconds + _MARGIN_S:g} s") from None
        if done.returncode or not out.exists():
            raise Permanent(f"process {pid}: {_reason(done.stderr)}")
        return parse_raw(out.read_text(errors="replace"))


def parse_raw(text: str) -> list[Stack]:
    """The stacks of a raw file."""
    found = []
    for line in text.splitlines():
        written, _, count = line.rpartition(" ")
        if written and count.isdecimal():
            found.append(Stack(tuple(_frame(part) for part in written.split(";")), int(count)))
    return found


def _frame(text: str) -> Frame:
    match = _FRAME.fullmatch(text)
    return Frame(match["function"], match["file"], int(match["line"] or 0)) if match else Frame(text)


def _reason(said: str) -> str:
    lines = [line.strip() for line in said.partition("Stack backtrace")[0].splitlines() if line.strip()]
    lines = [line for line in lines if line != "Caused by:" and not line.startswith("py-spy>")]
    return " ".join(lines)[:300] or "py-spy ended without a word"

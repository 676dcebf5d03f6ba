"""Which tests reach a line, from a run of the fast tests under coverage.py with a context a test.

Code that Numba compiles runs outside of the tracer: for a line that no test is seen to reach, the tests that reach any
line of its file stand in. Slow tests are not recorded.
"""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from coverage.numbits import numbits_to_nums

SOURCES = "packages/cotenant/src"  # whose changes are tried
FAST = "-m", "not slow and not long"
SLOW = "-p", "tools.mutation.all_cases", "-m", "(slow or hypothesis) and not long"
# These bound the size of files in their own process, which would cut the recording.
LEFT_OUT = ("tests/fault/local/test_load.py", "packages/cotenant-lab/tests/lab/report/test_page.py")


def record(root: Path, data: Path, workers: int) -> None:
    """Run the fast tests, recording which line each reaches. Raises `CalledProcessError` where a test fails: no
    mutant could then be judged.
    """
    # coverage takes every file whose name begins with that of the data for a part of it
    config = data.parent / "settings.ini"
    sources = root / SOURCES
    config.write_text(f"[run]\ndata_file = {data}\nsource = {sources}\n")
    subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-n", str(workers), "--dist", "loadscope", *FAST),
            *(f"--deselect={path}" for path in LEFT_OUT),
            *("-p", "no:cacheprovider", f"--cov-config={config}", "--cov", "--cov-context=test", "--cov-report="),
        ],
        cwd=root,
        check=True,
    )


@dataclass(frozen=True, slots=True)
class Reach:
    """lines: (file below `SOURCES`, line) -> tests; files: file below it -> tests. A test is pytest's node id."""

    lines: Mapping[tuple[str, int], frozenset[str]]
    files: Mapping[str, frozenset[str]]

    def tests(self, file: str, line: int) -> frozenset[str]:
        """The tests that reach a line, else those that reach its file."""
        return self.lines.get((file, line)) or self.files.get(file, frozenset())


def read(data: Path, root: Path) -> Reach:
    """What `record` wrote."""
    source = f"{root / SOURCES}/"
    lines: defaultdict[tuple[str, int], set[str]] = defaultdict(set)
    files: defaultdict[str, set[str]] = defaultdict(set)
    with sqlite3.connect(data) as connection:
        rows = connection.execute(
            "SELECT file.path, context.context, line_bits.numbits FROM line_bits"
            " JOIN file ON file.id = line_bits.file_id JOIN context ON context.id = line_bits.context_id"
        )
        for path, context, bits in rows:
            test = context.rpartition("|")[0]  # the rest is the phase; a test's own name may have such a character
            if not test or not path.startswith(source):
                continue  # at import: every test of the process would seem to reach it
            file = path.removeprefix(source)
            files[file].add(test)
            for line in numbits_to_nums(bits):
                lines[file, line].add(test)
    return Reach(
        {place: frozenset(tests) for place, tests in lines.items()},
        {file: frozenset(tests) for file, tests in files.items()},
    )


def nearest(file: str, tests: Sequence[str], max_tests: int) -> list[str]:
    """At most so many of these tests, those first that lie nearest: the module's own file, its folder, then by name."""
    stem, folder = Path(file).stem, Path(file).parent.parts[1:]

    def far(test: str) -> tuple[int, int, str]:
        path = Path(test.partition("::")[0])
        _, _, below = path.parent.as_posix().partition("tests/unit")
        parts = Path(below.lstrip("/")).parts
        same = sum(1 for _ in zip(folder, parts, strict=False) if _[0] == _[1])
        return (0 if path.stem == f"test_{stem}" and parts == folder else 1, -same, test)

    return sorted(tests, key=far)[:max_tests]

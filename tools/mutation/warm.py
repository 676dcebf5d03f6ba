"""A process that has imported what no change touches, and forks itself for each run of tests.

Importing pytest, Hypothesis, Numba and the project's model costs two CPU seconds; most trials end within one. It is
started in the tree whose tests it runs and is told of each run by a line of its input: an object with pytest's
`arguments`, the file for its `output` and `max_s`; it answers with a line that has the `status`, null where the run
came to no end.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import pkgutil
import signal
import sys
import time
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from select import select

import hypothesis.strategies  # noqa: F401  imported here for the children, as NumPy is by Numba
import numba
import pytest


def imported_before(floors: Sequence[str]) -> None:
    """Import the modules of the floors that no change is made in, before the first run."""
    for floor in floors:
        package = import_module(f"cotenant.{floor}")
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            import_module(found.name)


def main() -> None:
    """Forks until its input ends."""
    imported_before(sys.argv[1:])
    gc.freeze()  # a child's collections do not copy what is there before it
    for line in sys.stdin:
        told = json.loads(line)
        print(json.dumps({"status": _run(told["arguments"], Path(told["output"]), told["max_s"])}), flush=True)


def _run(arguments: list[str], output: Path, max_s: float) -> int | None:
    child = os.fork()
    if child == 0:
        _become(arguments, output)
    ended = os.pidfd_open(child)
    try:
        in_time = ends_in(ended, max_s, lambda: _waited_for_cpu_s(child))
    finally:
        os.close(ended)
    # in a session of its own: what its tests have started ends with it
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status) if in_time else None


def ends_in(ended: int, max_s: float, waited_s: Callable[[], float]) -> bool:
    """Whether the process of this descriptor ends within so many seconds, without those that it waited for a CPU: other
    work may hold the machine, and trials may give way to it.
    """
    began_s = time.monotonic()
    while not select([ended], [], [], min(1.0, max_s))[0]:
        if time.monotonic() - began_s - waited_s() > max_s:
            return False
    return True


def _waited_for_cpu_s(process: int) -> float:
    """Of its first thread, as Linux counts it."""
    with contextlib.suppress(OSError):
        return int(Path(f"/proc/{process}/schedstat").read_text().split()[1]) / 1e9
    return 0.0


def _become(arguments: list[str], output: Path) -> None:
    """Run pytest in this child, which does not return."""
    os.setsid()
    file = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(file, 1)
    os.dup2(file, 2)
    status = 3  # pytest's own: an internal error
    try:
        # the change may be in a source of machine code: the folder for it is named after the sources
        compiled = sys.modules.get("cotenant.model.compiled")
        if compiled is not None:
            compiled.cache_directory.cache_clear()
            numba.config.CACHE_DIR = str(compiled.cache_directory())  # type: ignore[attr-defined]
        status = int(pytest.main(arguments))
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(status)


if __name__ == "__main__":
    main()

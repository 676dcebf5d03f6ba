"""Worker processes for parallel tasks that may crash.

A run may raise, or its process may be killed (out of memory); the other runs must continue, and the failed run must be
identified. `concurrent.futures` gives up the whole pool when one process dies. A few spawned processes, a pipe to each,
one task at a time; a dead process is replaced and its task reported. Processes are spawned, so that no thread or lock
of the parent is copied.
Limits: a task that hangs is not ended.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import sys
import traceback
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, Generic, TypeVar

from cotenant.model.errors import CotenantError, InvalidInput

Task = TypeVar("Task")

# A run creates millions of values and hardly a cycle: collecting at the default rate costs a twentieth of it.
_GARBAGE = (50_000, 20, 50)
# Runs are parallel already; libraries that start a thread per core in each of them would only compete.
_ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "POLARS_MAX_THREADS", "NUMBA_NUM_THREADS")


@dataclass(frozen=True, slots=True)
class FinishedTask(Generic[Task]):
    """A task is done (`error` empty) or has failed. `refused`: its input is invalid, so other tasks are likely to
    fail too.
    """

    task: Task
    value: Any = None
    error: str = ""
    detail: str = ""  # the traceback
    refused: InvalidInput | None = None


@dataclass(slots=True)
class _Worker(Generic[Task]):
    process: BaseProcess
    pipe: Connection
    task: Task | None = None


def tune_process() -> None:
    """Make this process fit for runs beside others: one thread a library that has not been loaded yet, and fewer
    garbage collections.
    """
    for name in _ONE_THREAD:
        # A loaded Numba reads all its settings again when one changes in the environment, and forgets the folder of
        # compiled code.
        if not (name.startswith("NUMBA_") and "numba" in sys.modules):
            os.environ.setdefault(name, "1")
    gc.set_threshold(*_GARBAGE)


def perform(function: str, task: Task) -> FinishedTask[Task]:
    """Do one task in this process. `function` is "module:name"; it takes the task."""
    module, _, name = function.partition(":")
    try:
        return FinishedTask(task, getattr(import_module(module), name)(task))
    except InvalidInput as error:
        return FinishedTask(task, error=str(error), refused=error)
    except CotenantError as error:
        return FinishedTask(task, error=str(error), detail=traceback.format_exc())
    except Exception as error:
        last = traceback.format_exception_only(error)[-1].strip().splitlines()[0]
        return FinishedTask(task, error=last, detail=traceback.format_exc())


def perform_all(function: str, tasks: Sequence[Task], jobs: int) -> Iterator[FinishedTask[Task]]:
    """Do every task in at most `jobs` spawned processes, in the given order; yields each as it finishes.

    Closing the iterator ends the processes. Tasks, the function's name and its values are sent through a pipe, so they
    must be picklable.
    """
    waiting = deque(tasks)
    context = multiprocessing.get_context("spawn")
    workers: list[_Worker[Task]] = []

    def start() -> None:
        ours, theirs = context.Pipe()
        process = context.Process(target=_serve, args=(theirs, function), daemon=True)
        process.start()
        theirs.close()  # so that the pipe ends when the process does
        workers.append(_Worker(process, ours))

    try:
        for _ in range(min(jobs, len(waiting))):
            start()
        while waiting or any(worker.task is not None for worker in workers):
            for worker in workers:
                if worker.task is None and waiting:
                    worker.task = waiting.popleft()
                    with suppress(OSError):  # it died; the closed pipe is handled below
                        worker.pipe.send(worker.task)
            busy = [worker for worker in workers if worker.task is not None]
            ready = wait([worker.pipe for worker in busy])
            for worker in busy:
                if worker.pipe not in ready or worker.task is None:
                    continue
                task, worker.task = worker.task, None
                try:
                    yield _received(task, worker.pipe.recv())
                except (EOFError, OSError):
                    worker.process.join()
                    workers.remove(worker)
                    if waiting:
                        start()
                    yield FinishedTask(task, error=_death(worker.process.exitcode))
    finally:
        for worker in workers:
            worker.pipe.close()
            if worker.task is not None:
                worker.process.terminate()
        for worker in workers:
            worker.process.join()


def _received(task: Task, sent: tuple[object, str, str, tuple[str, object, str, str] | None]) -> FinishedTask[Task]:
    value, error, detail, refused = sent
    return FinishedTask(task, value, error, detail, InvalidInput(*refused) if refused else None)


def _death(code: int | None) -> str:
    if code is not None and code < 0:
        hint = " (out of memory?)" if -code == signal.SIGKILL else ""
        return f"its process was ended by {signal.Signals(-code).name}{hint}"
    return f"its process ended with exit code {code}"


def _serve(pipe: Connection, function: str) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what an interrupt means
    tune_process()
    while True:
        try:
            task = pipe.recv()
        except (EOFError, OSError):
            return  # the parent has exited, or needs no more tasks
        done = perform(function, task)
        refused = done.refused
        sent = (refused.field, refused.value, refused.expected, refused.hint) if refused else None
        try:
            pipe.send((done.value, done.error, done.detail, sent))
        except OSError:
            return  # the parent has exited; what the task stored remains

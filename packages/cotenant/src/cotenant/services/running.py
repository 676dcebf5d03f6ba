"""What every long-running process does: signals that ask it to stop, its event loop, and a set of tasks that end
together.

A task that ends unnoticed leaves a process that looks healthy and does nothing. `TaskSet` starts named tasks and treats
the end of any of them as the end of the process; what a process does while it stops is its own matter.
Limits: POSIX signals.
"""

from __future__ import annotations

import asyncio
import logging
import os
import resource
import signal
from collections.abc import Awaitable, Callable, Iterable

_log = logging.getLogger(__name__)


def stop_on_signals(stop: asyncio.Event) -> None:
    """Set `stop` on SIGTERM and SIGINT; a second signal ends the process at once, with status 1."""
    loop = asyncio.get_running_loop()

    def received(name: str) -> None:
        if stop.is_set():
            _log.warning("%s again: exiting at once", name)
            os._exit(1)
        _log.info("%s", name)
        stop.set()

    for signals in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(signals, received, signals.name)


def run_until_signal(main: Callable[[asyncio.Event], Awaitable[None]]) -> None:
    """Run `main` in an event loop of its own (uvloop's where it is installed); its argument is set by SIGTERM and
    SIGINT.
    """

    async def started() -> None:
        stop = asyncio.Event()
        stop_on_signals(stop)
        await main(stop)

    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(started())


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory


class TaskSet:
    """Named tasks that are expected to run until they are cancelled."""

    def __init__(self) -> None:
        self._tasks: list[asyncio.Task[None]] = []

    def start(self, name: str, work: Awaitable[None]) -> asyncio.Task[None]:
        """Start a task."""
        task = asyncio.ensure_future(work)
        task.set_name(name)
        self._tasks.append(task)
        return task

    async def wait(self, stop: asyncio.Event) -> None:
        """Until `stop` is set. Raises what a task raised, or `RuntimeError` where one ended by itself."""
        stopped = asyncio.create_task(_awaited(stop.wait()), name="stop")
        try:
            done, _ = await asyncio.wait({*self._tasks, stopped}, return_when=asyncio.FIRST_COMPLETED)
            for task in done - {stopped}:
                self._tasks.remove(task)  # its error is raised here, not logged by `cancel`
                task.result()
                raise RuntimeError(f"{task.get_name()} ended")
        finally:
            stopped.cancel()

    async def cancel(self, *tasks: asyncio.Task[None]) -> None:
        """Cancel these tasks, or all where none is named, and wait until they have ended."""
        ending = [task for task in self._tasks if not tasks or task in tasks]
        self._tasks = [task for task in self._tasks if task not in ending]
        await cancelled(ending)


def raise_descriptors() -> None:
    """Raise this process's limit of open files to what its hard limit allows."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


async def cancelled(tasks: Iterable[asyncio.Task[object]]) -> None:
    """Cancel them all and wait until they have ended; an error of one is logged and does not keep the others from
    ending.
    """
    ending = list(tasks)
    for task in ending:
        task.cancel()
    for task in ending:
        try:
            await task
        except asyncio.CancelledError:
            pass
        except Exception:
            _log.exception("%s failed", task.get_name())


async def _awaited(work: Awaitable[object]) -> None:
    await work

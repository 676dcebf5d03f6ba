"""What every long-running process of ours does alike: log lines, signals that ask for the end, and ending its tasks.

Problem: four processes did each of these in words of their own. Choice: three small functions; what a process does when it is asked to end is its
own matter. Limits: logs are lines on standard error.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Iterable

from cotenant.model.errors import InvalidInput

_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
_log = logging.getLogger(__name__)


def log_to_stderr(level: str) -> None:
    """One line an event, from this level on; uvicorn's own not below warnings. Raises `InvalidInput`."""
    if level not in _LEVELS:
        raise InvalidInput("--log-level", level, ", ".join(_LEVELS))
    logging.basicConfig(
        level=_LEVELS[level], stream=sys.stderr, format="%(asctime)s %(levelname)-7s %(name)s: %(message)s", force=True
    )
    logging.getLogger("uvicorn.error").setLevel(max(_LEVELS[level], logging.WARNING))


def stop_on_signals(stop: asyncio.Event) -> None:
    """SIGTERM and SIGINT ask the process of the running loop to end; a second one ends it at once, with status 1."""
    loop = asyncio.get_running_loop()

    def heard(name: str) -> None:
        if stop.is_set():
            _log.warning("%s again: not waiting for anything", name)
            os._exit(1)
        _log.info("%s", name)
        stop.set()

    for each in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(each, heard, each.name)


async def cancelled(tasks: Iterable[asyncio.Task[object]]) -> None:
    """Cancel them all and wait; one that ends badly is told, and keeps no other from ending."""
    ending = list(tasks)
    for task in ending:
        task.cancel()
    for task in ending:
        try:
            await task
        except asyncio.CancelledError:
            pass
        except Exception:
            _log.exception("%s ended badly", task.get_name())

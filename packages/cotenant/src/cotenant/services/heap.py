"""The heap of a process that runs for weeks: what keeps its free parts from growing, and collections short.

Blocks of changing sizes come and go, small objects that live for minutes come to lie between them, and the free parts
grow although what is in use stays the same. Two choices, each for one kind of process:

- `map_large_blocks`, for the local API server: glibc maps a large block separately until one is freed, and from then on
  takes blocks up to that size from its heap; here the size is fixed, so that buffers of connections (256 KiB each with
  TLS) and lists of some megabytes never lie there. Not where large arrays are computed on: each mapping costs a page
  fault for every 4 KiB.
- `keep_trimmed`, for the extender: `malloc_trim` gives back whole free pages once a minute. Each chunk of a watch had
  another size, between a few hundred bytes and some hundred kilobytes, which was about 40 bytes of growth for each pod
  that came and went (in use: 0 +- 10 bytes a pod). It takes about a millisecond for 25 MiB; the API server's heap
  stopped for up to 0.17 s.

`freeze_heap` is for every process, once what it keeps is there: a full collection of Python's garbage looks at each
object, which stops a scheduler of 50,000 pods in the middle of a decision. What is there then is never looked at again.
`spare_filling` comes before it: while a first list fills the heap, collections of what is older would find nothing and
take a quarter of the time. `collect_while_filling` makes one a minute all the same, since a server may be away for
hours: each failed request leaves garbage that has come to be old.
Limits: of the first two, glibc only, elsewhere nothing is done; a cycle that is there at `freeze_heap` and of no use
later stays.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Final

PERIOD_S = 60.0
MAPPED_FROM_BYTES: Final = 128 << 10  # where glibc starts
_M_MMAP_THRESHOLD: Final = -3  # malloc.h
_USUAL: Final = gc.get_threshold()
_YOUNG: Final = 100 * _USUAL[0]  # objects
_NEVER: Final = 10_000  # collections of the young: more than a list of millions has


def spare_filling() -> None:
    """Until `freeze_heap`, collect only garbage that is young, in larger portions."""
    gc.set_threshold(_YOUNG, _NEVER, _NEVER)


async def collect_while_filling(sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
    """Between `spare_filling` and `freeze_heap`, collect all garbage once a period. Until cancelled."""
    while True:
        await sleep(PERIOD_S)
        if gc.get_threshold()[0] == _YOUNG:
            gc.collect()


def freeze_heap() -> None:
    """Collect garbage once; collections look only at what is made from now on, and all are made again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_USUAL)


@contextmanager
def uncollected() -> Iterator[None]:
    """No collection in here: for making many objects that stay, which each full collection would look at again."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def map_large_blocks() -> bool:
    """Map every block from `MAPPED_FROM_BYTES` on, from now on. Whether the C library can."""
    change = _function("mallopt")
    return change is not None and bool(change(ctypes.c_int(_M_MMAP_THRESHOLD), ctypes.c_int(MAPPED_FROM_BYTES)))


def trim() -> bool:
    """Return unused pages now. Whether the C library can."""
    give_back = _function("malloc_trim")
    if give_back is None:
        return False
    give_back(ctypes.c_size_t(0))
    return True


async def keep_trimmed(
    trim: Callable[[], bool] = trim, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
) -> None:
    """Trim once a period, until cancelled."""
    while True:
        await sleep(PERIOD_S)
        trim()


def _function(name: str) -> Callable[..., int] | None:
    """A function of the C library; None where it has none of this name."""
    try:
        found: Callable[..., int] = getattr(ctypes.CDLL(None), name)
    except (OSError, AttributeError):
        return None
    return found

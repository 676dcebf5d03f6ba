"""How much work a call is, whatever the machine does meanwhile: lines and calls of Python, and comparisons of strings.

A bound on time, of a process's CPU too, says as much about the machine as about the code. Work that grows with the
square of its input shows in counts for two small inputs. Limits: loops inside C functions count as one call, except
where they compare or hash `Counted`.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


class Counted(str):
    """A string whose comparisons are counted, by `work`."""

    __slots__ = ()
    compared = 0

    def __eq__(self, other: object) -> bool:
        Counted.compared += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


def work(call: Callable[[], object]) -> int:
    """Lines that the call executes, C functions that it calls, and comparisons of `Counted`."""
    steps = 0

    def line(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal steps
        steps += event == "line"
        return line

    def function(frame: FrameType, event: str, _: Any) -> None:
        nonlocal steps
        steps += event == "c_call"

    traced, profiled, before, collects = sys.gettrace(), sys.getprofile(), Counted.compared, gc.isenabled()
    gc.disable()  # what finalizers of other cases' objects execute is not the call's
    sys.settrace(line)
    sys.setprofile(function)
    try:
        call()
    finally:
        sys.setprofile(profiled)
        sys.settrace(traced)
        if collects:
            gc.enable()
    return steps + Counted.compared - before


def is_linear(work_of: Callable[[int], int], size: int) -> bool:
    """Whether twice the size is hardly more than twice the work."""
    return work_of(2 * size) <= 2.2 * work_of(size)

"""Sampled stacks of a program, and which of their frames are hottest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Frame:
    """`line` 0: not known."""

    function: str
    file: str = ""
    line: int = 0


@dataclass(frozen=True, slots=True)
class Stack:
    """The outermost frame first, and in how many samples; in hexadecimal the trace and span whose time it was."""

    frames: tuple[Frame, ...]
    samples: int
    trace_id: str = ""
    span_id: str = ""


@dataclass(frozen=True, slots=True)
class StackRun:
    """A thread (of a process, by the program's own number for it) had one stack from `begin_ns` to `end_ns`, in Unix
    time. `stack`: index into the timeline's.
    """

    pid: int
    thread: int
    begin_ns: int
    end_ns: int
    stack: int


@dataclass(frozen=True, slots=True)
class StackTimeline:
    """Stacks over time, of all threads, also those that wait. `stacks`: indices into `frames`, the outermost first.

    Times are as exact as the period of sampling. A thread that ended keeps its last stack.
    """

    frames: tuple[Frame, ...]
    stacks: tuple[tuple[int, ...], ...]
    runs: tuple[StackRun, ...]
    begin_ns: int
    end_ns: int


@dataclass(frozen=True, slots=True)
class HotFrame:
    """Samples in which it was innermost (`own`), and in which it was anywhere in the stack (`total`)."""

    frame: Frame
    own: int
    total: int


def hottest(stacks: Sequence[Stack]) -> list[HotFrame]:
    """All frames, by own samples; a recursive one counts once a stack."""
    own: Counter[Frame] = Counter()
    total: Counter[Frame] = Counter()
    for stack in stacks:
        for frame in set(stack.frames):
            total[frame] += stack.samples
        if stack.frames:
            own[stack.frames[-1]] += stack.samples
    found = [HotFrame(frame, own[frame], samples) for frame, samples in total.items()]
    return sorted(found, key=lambda hot: (-hot.own, -hot.total, hot.frame.file, hot.frame.line, hot.frame.function))

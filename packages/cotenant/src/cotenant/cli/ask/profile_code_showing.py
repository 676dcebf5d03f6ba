"""The hottest frames of a program as a table, or all as JSON."""

from __future__ import annotations

from dataclasses import replace

import msgspec

from cotenant.model.counted import counted
from cotenant.model.machine.stacks import Frame
from cotenant.model.printable import printable
from cotenant.services.profiling.code import CodeProfile
from cotenant.services.profiling.slow import SlowProfile

_MAX_FUNCTION, _MAX_PLACE = 32, 50  # columns


def show_code(found: CodeProfile, rows: int, as_json: bool) -> int:
    """Print."""
    if as_json:
        print(msgspec.json.encode(found).decode())
        return 0
    if found.seconds:
        samples = counted(found.samples, "sample")
        print(f"{samples} of {printable(found.target)} (pid {_pids(found.pids)}) in {found.seconds} s")
    else:
        print(f"{found.samples / found.rate_hz:.3f} s of {printable(found.target)}, as it sent them by cProfile")
    for note in found.notes:
        print(printable(note))
    if not found.samples:
        hint = ": --idle counts threads that wait too, of Python programs"
        print("it did nothing" + (hint if found.seconds else ""))
    else:
        print(" own %  total %  frame")
    for hot in found.frames[:rows]:
        own, total = 100 * hot.own / found.samples, 100 * hot.total / found.samples
        print(f"{own:6.1f}  {total:7.1f}  {_shown(hot.frame)}")
    left = len(found.frames) - rows
    if left > 0:
        print(f"{counted(left, 'more frame')}")
    if found.written:
        print(f"stacks: {found.written}")
    return 0


def show_slow(profile: SlowProfile, rows: int, as_json: bool) -> int:
    """Print the frames that hold the time of slow requests."""
    if as_json:
        print(msgspec.json.encode(_without_stacks(profile)).decode())
        return 0
    found = profile.found
    print(
        f"{counted(found.requests, 'request')} of {printable(profile.of)} (pid {_pids(profile.pids)}) "
        f"in {profile.seconds} s; {counted(found.slow, 'slow one')}, from {found.min_slow_ns / 1e6:.1f} ms"
    )
    for count, why in (
        (found.unmatched, "slow ones fit no thread, so their time is not in the table"),
        (found.outside, "began before or ended after the sampling"),
        (profile.more, "more were not looked at"),
    ):
        if count:
            print(f"{count} {why}")
    if found.frames:
        print(f"{100 * found.certain:.0f} % of the slow ones' time is theirs for certain, the rest was shared out")
        print(" own %  total %  others' own %  frame")
    for hot in found.frames[:rows]:
        print(f"{100 * hot.own:6.1f}  {100 * hot.total:7.1f}  {100 * hot.own_of_others:13.1f}  {_shown(hot.frame)}")
    if len(found.frames) > rows:
        print(f"{counted(len(found.frames) - rows, 'more frame')}")
    if profile.written:
        print(f"stacks: {profile.written}")
    return 0


def _without_stacks(profile: SlowProfile) -> SlowProfile:
    return replace(profile, found=replace(profile.found, stacks=()))


def _pids(pids: tuple[int, ...]) -> str:
    return ", ".join(str(pid) for pid in pids)


def _shown(frame: Frame) -> str:
    place = printable(f"{frame.file}:{frame.line}" if frame.file else "")
    place = place if len(place) <= _MAX_PLACE else "..." + place[-_MAX_PLACE + 3 :]
    function = printable(frame.function)
    function = function if len(function) <= _MAX_FUNCTION else function[: _MAX_FUNCTION - 3] + "..."
    return f"{function} {place}"

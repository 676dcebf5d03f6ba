"""`cotenant profile code`: in which lines of a running program its time goes."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain

from cotenant.drivers.stacks.processes import python_processes
from cotenant.drivers.stacks.pstats import CallProfile
from cotenant.drivers.stacks.py_spy import record
from cotenant.model.errors import InvalidInput, Permanent
from cotenant.model.machine.stacks import Frame, HotFrame, Stack, hottest
from cotenant.services.profiling.output import NO_OUTPUT, Output

MAX_SECONDS, MAX_RATE_HZ = 3600, 1000
MICROSECONDS = 1_000_000  # samples a second, where times are known instead


@dataclass(frozen=True, slots=True)
class CodeProfile:
    """`frames`: the hottest first. `written`: the file; empty: none. Of a program that profiled itself (`seconds` 0)
    samples are microseconds.
    """

    target: str
    pids: tuple[int, ...]
    seconds: int
    rate_hz: int
    samples: int
    frames: tuple[HotFrame, ...]
    written: str = ""


def profile_code(
    target: str,
    seconds: int,
    rate_hz: int,
    output: Output = NO_OUTPUT,
    with_idle: bool = False,
    find: Callable[[str], list[int]] = python_processes,
    take: Callable[[int, int, int, bool], list[Stack]] = record,
) -> CodeProfile:
    """Sample. Raises `InvalidInput`, `Permanent` where nothing could be sampled, `Unsupported`."""
    pids = sampled_processes(target, seconds, rate_hz, find)
    output.check()
    at_s = time.time()
    with ThreadPoolExecutor(len(pids)) as threads:
        taken = list(threads.map(lambda pid: take(pid, seconds, rate_hz, with_idle), pids))
    return merged(target, pids, chain(*taken), at_s, seconds, rate_hz, output)


def merged(
    target: str,
    pids: Sequence[int],
    taken: Iterable[Stack],
    at_s: float,
    seconds: int,
    rate_hz: int,
    output: Output = NO_OUTPUT,
) -> CodeProfile:
    """Of stacks that were sampled here or elsewhere, those of all processes together. Raises `Permanent`."""
    counts: Counter[tuple[Frame, ...]] = Counter()
    for stack in taken:
        counts[stack.frames] += stack.samples
    stacks = [Stack(frames, samples) for frames, samples in counts.items()]
    written = output.write(stacks, {"service.instance.id": target}, at_s, seconds, rate_hz)
    total = sum(stack.samples for stack in stacks)
    return CodeProfile(target, tuple(pids), seconds, rate_hz, total, tuple(hottest(stacks)), written)


def sent_profile(target: str, sent: CallProfile, at_s: float, output: Output = NO_OUTPUT) -> CodeProfile:
    """Of a program that profiled itself. Raises as `Output.write`."""
    output.check()
    seconds = sent.total_us / MICROSECONDS
    written = output.write(sent.stacks, {"service.instance.id": target}, at_s, seconds, MICROSECONDS)
    return CodeProfile(target, (), 0, MICROSECONDS, sent.total_us, sent.frames, written)


def check_sampling(seconds: int, rate_hz: int) -> None:
    """Raises `InvalidInput`."""
    if not 1 <= seconds <= MAX_SECONDS:
        raise InvalidInput("--seconds", seconds, f"1 to {MAX_SECONDS}")
    if not 1 <= rate_hz <= MAX_RATE_HZ:
        raise InvalidInput("--rate", rate_hz, f"1 to {MAX_RATE_HZ}")


def sampled_processes(target: str, seconds: int, rate_hz: int, find: Callable[[str], list[int]]) -> list[int]:
    """Raises `InvalidInput`, and `Permanent` where there is none."""
    check_sampling(seconds, rate_hz)
    if not target:
        raise InvalidInput("TARGET", target, "a process id, a guid or a pod's name")
    pids = [int(target)] if target.isdecimal() else find(target)
    if not pids:
        raise Permanent(f"no Python process of {target} on this host that this user may read")
    return pids

"""`cotenant profile code`: in which lines of a running program its time goes."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from cotenant.drivers.stacks.programs import Language, RunningProgram, program_of, programs_of
from cotenant.drivers.stacks.pstats import CallProfile
from cotenant.drivers.stacks.sampling import SampledStacks, record_programs
from cotenant.model.errors import InvalidInput, Permanent
from cotenant.model.machine.stacks import Frame, HotFrame, Stack, hottest
from cotenant.services.profiling.output import NO_OUTPUT, Output

MAX_SECONDS, MAX_RATE_HZ = 3600, 1000
MICROSECONDS = 1_000_000  # samples a second, where times are known instead


@dataclass(frozen=True, slots=True)
class CodeProfile:
    """`frames`: the hottest first. `written`: the file; empty: none. `notes`: what they do not tell.

    Of a program that profiled itself (`seconds` 0) samples are microseconds.
    """

    target: str
    pids: tuple[int, ...]
    seconds: int
    rate_hz: int
    samples: int
    frames: tuple[HotFrame, ...]
    written: str = ""
    notes: tuple[str, ...] = ()


def profile_code(
    target: str,
    seconds: int,
    rate_hz: int,
    output: Output = NO_OUTPUT,
    with_idle: bool = False,
    find: Callable[[str], list[RunningProgram]] = programs_of,
    take: Callable[[Sequence[RunningProgram], int, int, bool], SampledStacks] = record_programs,
) -> CodeProfile:
    """Sample. Raises `InvalidInput`, `Permanent` where nothing could be sampled, `Unsupported`."""
    check_target(target, seconds, rate_hz)
    programs = [_program(int(target))] if target.isdecimal() else find(target)
    if not programs:
        raise Permanent(f"no process of {target} on this host that this user may read")
    output.check()
    at_s = time.time()
    taken = take(programs, seconds, rate_hz, with_idle)
    pids = [program.pid for program in programs]
    return merged(target, pids, taken.stacks, at_s, seconds, rate_hz, output, taken.notes)


def merged(
    target: str,
    pids: Sequence[int],
    taken: Iterable[Stack],
    at_s: float,
    seconds: int,
    rate_hz: int,
    output: Output = NO_OUTPUT,
    notes: tuple[str, ...] = (),
) -> CodeProfile:
    """Of stacks that were sampled here or elsewhere, those of all processes together. Raises `Permanent`."""
    counts: Counter[tuple[Frame, ...]] = Counter()
    for stack in taken:
        counts[stack.frames] += stack.samples
    stacks = [Stack(frames, samples) for frames, samples in counts.items()]
    written = output.write(stacks, {"service.instance.id": target}, at_s, seconds, rate_hz)
    total = sum(stack.samples for stack in stacks)
    return CodeProfile(target, tuple(pids), seconds, rate_hz, total, tuple(hottest(stacks)), written, notes)


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


def check_target(target: str, seconds: int, rate_hz: int) -> None:
    """Raises `InvalidInput`."""
    check_sampling(seconds, rate_hz)
    if not target:
        raise InvalidInput("TARGET", target, "a process id, a guid or a pod's name")


def _program(pid: int) -> RunningProgram:
    try:
        return program_of(pid)
    except OSError as error:
        why = "there is none" if isinstance(error, FileNotFoundError) else error.strerror
        raise Permanent(f"process {pid}: {why}") from error


def python_ones(target: str, seconds: int, rate_hz: int, find: Callable[[str], list[int]]) -> list[int]:
    """Processes that can be sampled over time. Raises `InvalidInput`, and `Permanent` where there is none."""
    check_target(target, seconds, rate_hz)
    if target.isdecimal() and (program := _program(int(target))).language is not Language.PYTHON:
        raise Permanent(f"{program}: only Python programs are joined with requests, since perf does not see waiting")
    pids = [int(target)] if target.isdecimal() else find(target)
    if not pids:
        raise Permanent(f"no Python process of {target} on this host that this user may read")
    return pids

"""Stacks of programs of any language: Python's by py-spy, which knows its lines, all others by perf."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from cotenant.drivers.stacks.perf_stacks import grouped, perf_path, record_perf
from cotenant.drivers.stacks.programs import Language, RunningProgram
from cotenant.drivers.stacks.py_spy import py_spy_path, record
from cotenant.model.errors import Permanent, Unsupported
from cotenant.model.machine.stacks import Stack


@dataclass(frozen=True, slots=True)
class SampledStacks:
    """`notes`: what they do not tell, a sentence for each program that lacks something."""

    stacks: tuple[Stack, ...]
    notes: tuple[str, ...] = ()


def samplers(programs: Sequence[RunningProgram]) -> int:
    """How many processes sample at once."""
    python = sum(program.language is Language.PYTHON for program in programs)
    return python + len(grouped([program for program in programs if program.language is not Language.PYTHON]))


def record_programs(
    programs: Sequence[RunningProgram], seconds: int, rate_hz: int, with_idle: bool = False
) -> SampledStacks:
    """Sample all at once. Raises `Permanent` with what the sampler says, and `Unsupported` where none can be sampled.

    `with_idle`: threads that wait too, which perf does not see.
    """
    python = [program for program in programs if program.language is Language.PYTHON]
    others = [program for program in programs if program.language is not Language.PYTHON]
    notes = []
    if python:
        py_spy_path()
    missing = _missing(others, with_idle)
    if missing and not python:
        raise Unsupported("stacks of " + "; ".join(str(program) for program in others), missing)
    if missing:
        notes, others = [f"{program}, is not sampled: it takes {missing}" for program in others], []
    with ThreadPoolExecutor(max(1, samplers([*python, *others]))) as threads:
        by_perf = [threads.submit(record_perf, group, seconds, rate_hz) for group in grouped(others)]
        by_py_spy = [threads.submit(record, program.pid, seconds, rate_hz, with_idle) for program in python]
        stacks = [stack for future in by_py_spy for stack in future.result()]
        for future in by_perf:
            try:
                found = future.result()
            except Permanent as error:
                if not python:
                    raise
                notes.append(str(error))
                continue
            stacks += found.stacks
            notes += [
                f"{program}: {program.lacks}" for program in others if program.lacks and program.pid in found.pids
            ]
    return SampledStacks(tuple(stacks), tuple(notes))


def _missing(others: Sequence[RunningProgram], with_idle: bool) -> str:
    if not others:
        return ""
    if with_idle:
        return "a sampler that sees threads that wait: py-spy does, of Python programs only; leave out --idle"
    try:
        perf_path()
    except Unsupported as error:
        return error.needs
    return ""

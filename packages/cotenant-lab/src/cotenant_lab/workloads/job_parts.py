"""A division of a trace's jobs into two halves: one to tune on, one to report on.

A policy tuned on the jobs that it is then judged by may have learned those jobs. The half of a job follows from a
SHA-256 hash of its name, so it is the same on every machine, for every seed and for any order of the file; a one-task
job cut out of another belongs to the half of that job.
Limits: jobs of one recurring application may be in both halves.
"""

from __future__ import annotations

import hashlib
from enum import StrEnum

from cotenant.model.errors import InvalidInput


class JobPart(StrEnum):
    """The jobs that a run may draw."""

    ALL = "all"
    TUNING = "tuning"
    HELD_OUT = "held-out"


def part_of(name: str) -> JobPart:
    """The half of the job with this name: held-out where the first byte of the hash is odd."""
    return JobPart.HELD_OUT if hashlib.sha256(name.encode()).digest()[0] & 1 else JobPart.TUNING


def holds(part: JobPart, name: str) -> bool:
    """Whether `part` has the job with this name."""
    return part == JobPart.ALL or part_of(name) == part


def part_named(workload: str) -> JobPart:
    """The part that `NAME` (all) or `NAME:PART` names.

    Raises:
        InvalidInput: there is no such part.
    """
    name, colon, part = workload.partition(":")
    if not colon:
        return JobPart.ALL
    if part not in tuple(JobPart):
        raise InvalidInput("workload", workload, f"{name} or {name}:JOBS, JOBS one of " + ", ".join(JobPart))
    return JobPart(part)

"""What a command used from its start to its end, with all that it started."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from cotenant.model.machine.counters import Gap

RANKS = ("OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID")  # of MPI's launchers; the first that is set


@dataclass(frozen=True, slots=True)
class CommandFigures:
    """`counters`: by name, scaled; those that cannot be counted here are in `gaps`, with what they need.

    `stalled_us`: time in which some task waited, by resource, of `pressure_of`: the command's cgroup, or the machine.
    """

    command: tuple[str, ...]
    status: int  # as a shell's: 128 + signal
    wall_us: int
    user_us: int
    system_us: int
    voluntary_switches: int
    involuntary_switches: int
    minor_faults: int
    major_faults: int
    max_resident_bytes: int | None = None  # of the largest process
    read_bytes: int | None = None  # of storage
    written_bytes: int | None = None
    read_calls_bytes: int | None = None  # by read and write calls, pipes and the page cache included
    written_calls_bytes: int | None = None
    stalled_us: Mapping[str, int] = field(default_factory=dict)
    pressure_of: str = ""
    counters: Mapping[str, int] = field(default_factory=dict)
    gaps: tuple[Gap, ...] = ()
    rank: int | None = None
    guid: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)


def rank_of(environment: Mapping[str, str]) -> int | None:
    """The rank that an MPI launcher gave this process; None where there is none."""
    for name in RANKS:
        if environment.get(name, "").isdecimal():
            return int(environment[name])
    return None

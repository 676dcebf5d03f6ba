"""What-ifs: the changes that can be asked of a copy of a cluster, and what came of them.

A figure of a what-if is the median over seeds, its interval from the smallest to the largest; differences are taken
seed by seed, so that what two cases share does not widen them.
"""

from __future__ import annotations

from dataclasses import dataclass

from cotenant.model.assess.figure import AssessedFigure


@dataclass(frozen=True, slots=True)
class AddNodes:
    """So many more nodes of a shape: an instance type, a node's name, or CPUxMEMORY."""

    count: int
    shape: str


@dataclass(frozen=True, slots=True)
class RemoveNodes:
    """So many nodes of a shape fewer: those added last, then any, by the seed."""

    count: int
    shape: str


@dataclass(frozen=True, slots=True)
class LoseZone:
    """All nodes of a zone are gone at once."""

    zone: str


@dataclass(frozen=True, slots=True)
class NoOvercommit:
    """Nothing is lent: no node offers batch or mid resources."""


@dataclass(frozen=True, slots=True)
class ScaledLoad:
    """Every workload has so many times its pods, each used as one of today's."""

    factor: float


@dataclass(frozen=True, slots=True)
class ResizeCase:
    """Each pod of a workload requests so much; None = as before."""

    workload: str  # NAMESPACE/NAME or NAMESPACE/KIND/NAME
    cpu_m: int | None
    memory_bytes: int | None


@dataclass(frozen=True, slots=True)
class PlaceAnew:
    """Every pod that may move is placed anew, under this profile."""

    profile: str


Change = AddNodes | RemoveNodes | LoseZone | NoOvercommit | ScaledLoad | ResizeCase | PlaceAnew


@dataclass(frozen=True, slots=True)
class WhatIfChanges:
    """Changes, made in this order."""

    text: str  # as it was written
    changes: tuple[Change, ...]


@dataclass(frozen=True, slots=True)
class AskedCases:
    """Cases and the seeds of each; no cases = nothing is asked."""

    cases: tuple[WhatIfChanges, ...]
    seeds: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class UnplacedPods:
    """Pods that no longer have a place, for the same reason; `pods` is the median over seeds."""

    why: str
    pods: float
    example: str


@dataclass(frozen=True, slots=True)
class Compared:
    """One figure: as it is, in each case, each case less what is, and the second case less the first if there are
    two.
    """

    title: str
    unit: str
    base: AssessedFigure
    cases: tuple[AssessedFigure, ...]
    differences: tuple[AssessedFigure, ...]
    between: AssessedFigure | None


@dataclass(frozen=True, slots=True)
class WhatIfCase:
    """One what-if in words."""

    text: str
    unplaced: tuple[UnplacedPods, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class WhatIfs:
    """All that were asked, beside what is."""

    seeds: tuple[int, ...]
    cases: tuple[WhatIfCase, ...]
    rows: tuple[Compared, ...]

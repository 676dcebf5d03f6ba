"""What `cotenant profile` prints: tables of 100 columns, or JSON in the form of the object's status.

Sixteen figures with intervals, samples and reasons are more than a table of a terminal holds. Value and interval in the
table, each reason once below it.
Limits: of two profiles only values are shown.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from cotenant.cli import tables
from cotenant.drivers.kube.kinds.custom.workload_profile import axes_fields, bound_fields, overall_fields
from cotenant.model.cluster.workload_profile import (
    LARGEST,
    NOT_SEEN,
    ProfileAxis,
    ProfileFigure,
    Reading,
    Unknown,
    WorkloadBound,
    WorkloadProfile,
)
from cotenant.model.counted import counted
from cotenant.policy.interference.bound import bound_by
from cotenant.services.profiling import radar
from cotenant.services.profiling.radar import WORDS

BOUND_WORDS = {
    WorkloadBound.CPU: "CPU",
    WorkloadBound.MEMORY: "memory",
    WorkloadBound.MEMORY_BANDWIDTH: "memory bandwidth",
    WorkloadBound.DISK: "disk",
    WorkloadBound.NETWORK: "network",
}


def profiles(found: Sequence[WorkloadProfile], as_json: bool) -> int:
    """All of them."""
    if as_json:
        return print_json([fields(profile) for profile in found])
    if not found:
        print("no WorkloadProfile: see docs/guide/profiles.md for one of five lines")
        return 0
    rows = []
    for profile in found:
        overall = profile.overall
        both = [profile.axis(axis) for axis in ProfileAxis]
        known = sum(
            isinstance(reading, ProfileFigure) for pair in both for reading in (pair.tendency, pair.sensitivity)
        )
        rows.append(
            (
                profile.key,
                f"{profile.workload.kind}/{profile.workload.name}",
                *(_value(reading) for reading in (overall.sensitivity, overall.pressure, overall.tolerates)),
                bound_by(profile.bound) or "–",
                f"{known} of {2 * len(ProfileAxis)}",
                profile.updated_at or "never",
            )
        )
    headings = ("profile", "workload", "sensitivity", "pressure", "tolerates", "bound by", "known", "updated")
    tables.print_words(headings, rows, right=(*headings[2:5], headings[6]))
    return 0


def show(found: Sequence[WorkloadProfile], chart: Path | None, as_json: bool) -> int:
    """One, or two side by side."""
    if chart is not None:
        radar.write(chart, found)
    if as_json:
        return print_json([fields(profile) for profile in found] if len(found) > 1 else fields(found[0]))
    if len(found) > 1:
        _compare(found[0], found[1])
    else:
        _one(found[0])
    if chart is not None:
        tables.print_line(f"chart: {chart}")
    return 0


def fields(profile: WorkloadProfile) -> dict[str, object]:
    """A profile as JSON: the figures that count, in the form of the object."""
    return {
        "profile": profile.key,
        "workload": {"kind": profile.workload.kind, "name": profile.workload.name},
        "overall": overall_fields(profile.overall),
        "axes": axes_fields({axis: profile.axis(axis) for axis in ProfileAxis}),
        "boundBy": bound_fields({resource: profile.bound.get(resource, NOT_SEEN) for resource in WorkloadBound}),
        "class": bound_by(profile.bound) or None,
        "measured": {"node": profile.measured_on, "at": profile.measured_at} if profile.measured else None,
        "updatedAt": profile.updated_at or None,
        "problems": list(profile.wrong),
    }


def _one(profile: WorkloadProfile) -> None:
    tables.print_line(f"{profile.key}: {profile.workload.kind} {profile.workload.name}", strong=True)
    reasons: list[str] = []
    rows = []
    for axis in ProfileAxis:
        both = profile.axis(axis)
        rows.append((WORDS[axis], _cell(both.tendency, reasons), _cell(both.sensitivity, reasons)))
    overall = profile.overall
    tables.print_words(("axis", "tendency", "sensitivity"), rows)
    if profile.bound:
        parts = ", ".join(
            f"{BOUND_WORDS[resource]} {_cell(profile.bound.get(resource, NOT_SEEN), reasons)}"
            for resource in WorkloadBound
        )
        tables.print_folded(f"bound by {bound_by(profile.bound) or 'what is not known'}: {parts}")
    for name, reading in (
        ("sensitivity to all neighbours together", overall.sensitivity),
        ("pressure on others per core in use", overall.pressure),
        ("more time that it tolerates", overall.tolerates),
    ):
        tables.print_folded(f"{name}: {_cell(reading, reasons)}")
    if profile.measured:
        tables.print_folded(f"measured on {profile.measured_on or 'an unnamed node'} at {profile.measured_at or '?'}")
    for number, reason in enumerate(reasons, 1):
        tables.print_folded(f"  [{number}] cannot tell, because {reason}")
    for problem in profile.wrong:
        tables.print_folded(f"not used: {problem}")


def _compare(one: WorkloadProfile, other: WorkloadProfile) -> None:
    rows = []
    for axis in ProfileAxis:
        mine, theirs = one.axis(axis), other.axis(axis)
        rows.append(
            (
                WORDS[axis],
                _value(mine.tendency),
                _value(theirs.tendency),
                _value(mine.sensitivity),
                _value(theirs.sensitivity),
                _suffers(mine.sensitivity, theirs.tendency),
                _suffers(theirs.sensitivity, mine.tendency),
            )
        )
    tables.print_folded(f"A = {one.key}, B = {other.key}; thousandths, – = not known")
    headings = ("axis", "uses: A", "B", "suffers: A", "B ", "A beside B", "B beside A")
    tables.print_words(headings, rows, right=headings[1:])
    tables.print_folded(
        "A beside B: the more time that A needs for what one pod of B uses, sensitivity times tendency, by axis. Axes "
        "are not added: they are not independent."
    )


def _suffers(sensitivity: Reading, tendency: Reading) -> str:
    if isinstance(sensitivity, Unknown) or isinstance(tendency, Unknown):
        return "–"
    return f"+{100.0 * sensitivity.value * tendency.value / LARGEST / LARGEST:.1f} %"


def _value(reading: Reading) -> str:
    return str(reading.value) if isinstance(reading, ProfileFigure) else "–"


def _cell(reading: Reading, reasons: list[str]) -> str:
    if isinstance(reading, ProfileFigure):
        samples = f", {counted(reading.samples, 'sample')}" if reading.samples else ""
        return f"{reading.value} ({reading.low} to {reading.high}{samples}, {reading.source})"
    if reading.because not in reasons:
        reasons.append(reading.because)
    return f"– [{reasons.index(reading.because) + 1}]"


def print_json(found: object) -> int:
    """Print one document."""
    sys.stdout.write(msgspec.json.format(msgspec.json.encode(found), indent=2).decode() + "\n")
    return 0

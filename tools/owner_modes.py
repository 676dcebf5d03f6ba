"""The table of modes in the guide on the agent, in both languages: what the agent holds beside a kubelet, by what
means, and what is left to its owner.

    python -m tools.owner_modes docs/guide/agent.md docs/guide/agent.zh-CN.md      (`make docs` does it)

A table of drivers, versions and policies that is written by hand is wrong after the next change of the owner's table.
It is derived from that table (model/kubelet) and from the knobs that policies write
(engine/node/doctor/policy_knobs.py), and stands between two marks of a page, where a test compares it. One table for
the usual kubelet; then, for each other one, the lines that differ.
Limits: Kubernetes classes of pods of one line are joined; kinds of groups that differ are lines of their own.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from cotenant.drivers.cgroup.translation import FILES
from cotenant.engine.node.doctor.policy_knobs import POLICY_KNOBS, PolicyKnobs
from cotenant.model.kubelet.facts import STATIC, KubeletFacts
from cotenant.model.kubelet.groups import Driver, Level
from cotenant.model.kubelet.ruling import HoldingMeans, Ruling, kinds, ruling_of
from cotenant.model.machine.knob import Knob

BEGIN, END = "<!-- modes: made by tools/owner_modes.py -->\n", "<!-- /modes -->\n"
SYSTEMD = 252
USUAL = KubeletFacts(version=(1, 33), cpu_manager="none", memory_qos=False, systemd=SYSTEMD)
MODES = ((Driver.CGROUPFS, 1), (Driver.CGROUPFS, 2), (Driver.SYSTEMD, 1), (Driver.SYSTEMD, 2))
OTHERS = (
    ("With the kubelet's static CPU manager:", replace(USUAL, cpu_manager=STATIC)),
    ("With its feature gate `MemoryQoS`:", replace(USUAL, memory_qos=True)),
    ("Before Kubernetes 1.33, which resizes pods in place:", replace(USUAL, version=(1, 32))),
)
_GROUPS = {Level.QOS: "class", Level.POD: "pods", Level.CONTAINER: "containers"}
_HEAD = "| policy | of | knobs | " + " | ".join(f"{driver}, v{version}" for driver, version in MODES) + " |"


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a table. `cells`: by mode."""

    policy: str
    groups: str
    knobs: tuple[Knob, ...]
    cells: tuple[str, ...]


def lines(facts: KubeletFacts) -> list[Line]:
    """All lines for a kubelet; levels and knobs with equal cells are joined."""
    joined: dict[tuple[str, str, tuple[str, ...]], tuple[Knob, ...]] = {}
    for line in _single(facts):
        key = (line.policy, line.groups, line.cells)
        joined[key] = (*joined.get(key, ()), *line.knobs)
    return [Line(policy, groups, knobs, cells) for (policy, groups, cells), knobs in joined.items()]


def _single(facts: KubeletFacts) -> list[Line]:
    """A line for each knob."""
    found: list[Line] = []
    for part in POLICY_KNOBS:
        for knob in part.knobs:
            by_cells: dict[tuple[str, ...], list[str]] = {}
            for level in _GROUPS:
                if level in part.levels:
                    cells = tuple(
                        _cell(part, knob, level, driver, replace(facts, cgroup_version=version))
                        for driver, version in MODES
                    )
                    by_cells.setdefault(cells, []).append(_GROUPS[level])
            found += [
                Line(part.policy, f"{part.what}: {', '.join(names)}", (knob,), cells)
                for cells, names in by_cells.items()
            ]
    return found


def _cell(part: PolicyKnobs, knob: Knob, level: Level, driver: Driver, facts: KubeletFacts) -> str:
    if facts.cgroup_version == 1 and not FILES[knob].v1:
        return "no such knob"
    rulings = [
        ruling_of(knob, kind, facts)
        for kind in kinds()
        if kind.level is level and kind.driver is driver and part.concerns(kind)
    ]
    return " or ".join(dict.fromkeys(map(_word, rulings)))


def _word(ruling: Ruling) -> str:
    match ruling.means:
        case HoldingMeans.REFUSED:
            return f"left to {ruling.reason.partition(' writes')[0]}"
        case HoldingMeans.SYSTEMD:
            return "through systemd"
        case _:
            return "written, not below what stood" if ruling.raises_only else "written"


def text() -> str:
    """What stands between the marks."""
    usual = lines(USUAL)
    parts = [
        f"For a kubelet of Kubernetes 1.33 or later with the CPU manager `none`, and systemd {SYSTEMD}:\n",
        _table(usual),
    ]
    for title, facts in OTHERS:
        parts += [f"{title}\n", _table(line for line in lines(facts) if line not in usual)]
    return "\n".join(parts)


def _table(rows: Iterable[Line]) -> str:
    rule = "|" + " --- |" * (3 + len(MODES))
    return "\n".join([_HEAD, rule, *map(_row, rows), ""])


def _row(line: Line) -> str:
    knobs = ", ".join(f"`{knob}`" for knob in line.knobs)
    return f"| `{line.policy}` | {line.groups} | {knobs} | {' | '.join(line.cells)} |"


def with_table(page: str) -> str:
    """The page with the table as it is now. Raises `ValueError` without marks."""
    before, rest = page[: page.index(BEGIN) + len(BEGIN)], page[page.index(END) :]
    return f"{before}\n{text()}\n{rest}"


if __name__ == "__main__":
    for file in map(Path, sys.argv[1:]):
        file.write_text(with_table(file.read_text(encoding="utf-8")), encoding="utf-8")

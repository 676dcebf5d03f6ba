"""The table of modes: what it says of a kubelet, and what the page says beside it."""

from __future__ import annotations

from dataclasses import replace

from tools.owner_modes import BEGIN, END, USUAL, Line, lines, with_table

from cotenant.model.machine.knob import Knob


def of(found: list[Line], policy: str, knob: Knob) -> dict[str, tuple[str, ...]]:
    return {line.groups: line.cells for line in found if line.policy == policy and knob in line.knobs}


def test_best_effort_work_is_limited_but_not_idle() -> None:
    found = lines(USUAL)
    written = ("written", "written", "written", "through systemd")
    assert of(found, "best_effort_cpu", Knob.CPU_MAX) == {"best-effort work as a whole: class": written}
    assert set(*of(found, "best_effort_cpu", Knob.CPU_IDLE).values()) == {"left to the kubelet"}


def test_a_static_kubelet_has_the_lists_of_containers() -> None:
    found = of(lines(replace(USUAL, cpu_manager="static")), "own_cpus", Knob.CPUSET_CPUS)
    assert set(found["pods with CPUs of their own: containers"]) == {"left to the kubelet's static CPU manager"}


def test_without_systemd_its_properties_are_files_and_nothing_else_changes() -> None:
    """As the guide says."""
    usual = {(line.policy, line.groups, knob): line.cells for line in lines(USUAL) for knob in line.knobs}
    without = {
        (line.policy, line.groups, knob): line.cells
        for line in lines(replace(USUAL, systemd=None))
        for knob in line.knobs
    }
    for key, cells in usual.items():
        assert without[key] == tuple(cell.replace("through systemd", "written") for cell in cells), key


def test_only_what_is_between_the_marks_changes() -> None:
    page = with_table(f"before\n{BEGIN}old\n{END}after\n")
    assert page.startswith(f"before\n{BEGIN}")
    assert page.endswith(f"{END}after\n")
    assert "old" not in page
    assert with_table(page) == page

from __future__ import annotations

from dataclasses import replace

import pytest

from cotenant.model.machine.node_metric import Use
from cotenant.model.sizes.container import ContainerSize
from cotenant.model.sizes.right_sizing import Touched
from cotenant.policy.sizing.proof import Sign, harm, harm_at_once

MIB = 1 << 20
SIZE = ContainerSize(1000, 2000, 512 * MIB, 1024 * MIB)
WELL = Sign("u", "a", True, 1, False, SIZE, Use(900, 500 * MIB), 0.1, 10.0)
BEFORE = Touched("u", "a", 1, 0.1, 10.0)
FELLOW = Sign("v", "b", True, 0, False, SIZE, Use(900, 500 * MIB), 0.1, 10.0)


def test_a_replica_that_is_well_shows_no_harm() -> None:
    assert (harm_at_once(BEFORE, WELL), harm(BEFORE, WELL, [FELLOW])) == ("", "")


def test_a_restart_counts_at_once() -> None:
    assert harm_at_once(BEFORE, replace(WELL, restarts=2)) == "a was restarted with the new size"
    killed = replace(WELL, restarts=2, was_oom_killed=True)
    assert harm_at_once(BEFORE, killed) == "a ran out of memory with the new size"


@pytest.mark.parametrize(
    ("now", "said"),
    [
        (replace(WELL, is_ready=False), "a is not ready"),
        (replace(WELL, use=Use(1900, 0)), "it is throttled"),
        (replace(WELL, use=Use(0, 980 * MIB)), "96 % of its memory limit"),
        (replace(WELL, wait_per_cpu=0.5), "waits 0.50 s for each second of CPU"),
        (replace(WELL, p99_ms=16.0), "a p99 of 16.0 ms, before 10.0"),
    ],
)
def test_what_comes_and_goes_is_named(now: Sign, said: str) -> None:
    assert said in harm(BEFORE, now, [FELLOW])


def test_what_fellows_show_too_is_not_the_sizes_fault() -> None:
    burdened = replace(FELLOW, wait_per_cpu=0.5, p99_ms=16.0)
    assert harm(BEFORE, replace(WELL, wait_per_cpu=0.5, p99_ms=16.0), [burdened]) == ""


def test_without_fellows_its_own_past_is_left() -> None:
    assert "waits" in harm(BEFORE, replace(WELL, wait_per_cpu=0.5), [])
    nothing_known = Touched("u", "a")
    assert harm(nothing_known, replace(WELL, wait_per_cpu=5.0), []) == ""

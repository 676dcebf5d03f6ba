from __future__ import annotations

import os
from pathlib import Path

from cotenant.drivers.ebpf.urgency import rcu_threads, urgent


def process(proc: Path, pid: int, name: str, parent: int) -> None:
    (proc / str(pid)).mkdir()
    (proc / str(pid) / "stat").write_text(f"{pid} ({name}) S {parent} 0 0 0 -1 69238880\n")


def test_threads_of_rcu_are_the_kernels_own(tmp_path: Path) -> None:
    process(tmp_path, 17, "rcu_preempt", 2)
    process(tmp_path, 19, "rcu_exp_par_gp_kthread_worker/0", 2)
    process(tmp_path, 40, "rcu_preempt", 1)  # of a user
    process(tmp_path, 41, "kworker/R-rcu_gp", 2)
    process(tmp_path, 42, "rcu) S 2 (", 1)
    (tmp_path / "43").mkdir()  # one that has just ended
    assert rcu_threads(tmp_path) == (17, 19)


def test_scheduling_is_as_before_afterwards_and_absent_threads_are_left_out() -> None:
    before = os.sched_getscheduler(0)
    with urgent((2**22 + 1,)):
        assert os.sched_getscheduler(0) in (before, os.SCHED_FIFO)
        with urgent(()):
            pass
    assert os.sched_getscheduler(0) == before

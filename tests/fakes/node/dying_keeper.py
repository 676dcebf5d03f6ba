"""A keeper in its own process that is killed with SIGKILL at a chosen step: before or after a file's write, before a
read, around the state file.

Steps are single file operations, so a knob of two files is also interrupted between them. A second process restores the
rest and may be killed in turn; a last one is not killed.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

from tests.fakes.node.kept_knobs import Fuse, FusedMemory

from cotenant.drivers.cgroup.files import CgroupTree
from cotenant.drivers.cgroup.knobs import CgroupKnobs
from cotenant.drivers.cgroup.layout import CgroupLayout
from cotenant.drivers.leasefile.audit import AuditTrail
from cotenant.drivers.leasefile.file import LeaseFile
from cotenant.model.machine.knob import GiveBack, Knob, KnobScope, KnobTarget, LeaseAnswer, SetKnob
from cotenant.model.machine.node_decision import Reason
from cotenant.services.knobs.executor import Clock, LeaseExecutor
from cotenant.services.knobs.rules import KnobRules

REASON = Reason("test", "because")
BOOT = "this boot"
NEVER = 1_000_000  # more steps than any run has


def fused(tree: type[CgroupTree], fuse: Fuse) -> type[CgroupTree]:
    """The same tree with a fuse on each operation."""

    class FusedTree(tree):  # type: ignore[misc, valid-type]
        def write(self, group: str, name: str, text: str) -> None:
            fuse.burn(done=False)
            super().write(group, name, text)
            fuse.burn(done=True)

        def read(self, group: str, name: str) -> str:
            fuse.burn(done=False)
            return super().read(group, name)

    return FusedTree


class KeeperAtWork:
    """Lease executors over one layout and one state folder."""

    def __init__(self, layout: CgroupLayout, tree: type[CgroupTree], folder: Path, root: str) -> None:
        self._layout = layout
        self._tree = tree
        self._folder = folder
        self._root = root

    def dies(self, work: Callable[[LeaseExecutor, list[int]], None], step: int, *, after: bool) -> bool:
        """Fork a keeper that does `work` and dies at this step. Returns whether it got there."""
        child = os.fork()
        if child == 0:
            try:
                fuse = Fuse(lambda: os.kill(os.getpid(), signal.SIGKILL))
                fuse.steps, fuse.after = step, after
                self._run(work, fuse)
            except BaseException:
                os._exit(70)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        assert not os.WIFEXITED(status) or os.WEXITSTATUS(status) == 0, "the keeper ended in an error of its own"
        return os.WIFSIGNALED(status)

    def restore_all(self) -> tuple[LeaseAnswer, ...]:
        """A keeper that is not killed, in this process."""
        answers: list[LeaseAnswer] = []
        self._run(lambda executor, now_us: answers.extend(executor.give_all_back(REASON)), Fuse(), answers)
        return tuple(answers)

    def _run(
        self, work: Callable[[LeaseExecutor, list[int]], None], fuse: Fuse, answers: list[LeaseAnswer] | None = None
    ) -> None:
        now_us = [0]
        file = LeaseFile(self._folder, BOOT)
        try:
            with CgroupKnobs(self._layout, fused(self._tree, fuse)) as knobs:
                executor = LeaseExecutor(
                    {KnobScope.CGROUP: knobs},
                    FusedMemory(file, fuse),
                    AuditTrail(self._folder),
                    Clock(lambda: now_us[0], lambda: 1.0),
                    KnobRules((self._root,)),
                )
                left = executor.restart(file.found.leases)
                if answers is not None:
                    answers.extend(left)
                work(executor, now_us)
        finally:
            file.close()


def one_batch_held(root: str) -> Callable[[LeaseExecutor, list[int]], None]:
    """One batch."""
    return lambda executor, now_us: _take_all(executor, root)


def all_lease_states(root: str) -> Callable[[LeaseExecutor, list[int]], None]:
    """Every state of a lease: held in a batch, renewed, changed, given back, expired, and still held at the end.
    Over `root`/a, `root`/a/x, `root`/b.
    """

    def work(executor: LeaseExecutor, now_us: list[int]) -> None:
        first = _take_all(executor, root)
        executor.hold(
            (
                first[1],
                _set_knob(root, "a/x", Knob.CPU_MAX, "10000 100000"),
                _set_knob(root, "b", Knob.MEMORY_MAX, "max"),
            )
        )
        executor.give_back([GiveBack(wanted.target, REASON) for wanted in first[3:5]])
        now_us[0] = 500
        executor.tick()

    return work


def _take_all(executor: LeaseExecutor, root: str) -> tuple[SetKnob, ...]:
    wanted = (
        _set_knob(root, "a/x", Knob.CPU_MAX, "20000 50000"),
        _set_knob(root, "a", Knob.CPU_MAX, "50000 100000"),
        _set_knob(root, "a", Knob.CPU_BURST, "10000"),
        _set_knob(root, "a/x", Knob.CPUSET_CPUS, "0"),
        _set_knob(root, "a", Knob.CPUSET_CPUS, "0"),
        _set_knob(root, "b", Knob.CPU_WEIGHT, "2", ttl_us=100),
        _set_knob(root, "b", Knob.CPU_IDLE, "1", ttl_us=100),
        _set_knob(root, "b", Knob.MEMORY_MAX, "268435000"),
    )
    executor.hold(wanted)
    return wanted


def _set_knob(root: str, group: str, knob: Knob, value: str, ttl_us: int = 1000) -> SetKnob:
    return SetKnob(KnobTarget(f"{root}/{group}", knob), value, REASON, ttl_us)

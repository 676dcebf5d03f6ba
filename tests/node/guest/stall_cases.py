"""What containers wait for, on a guest's kernel: who ran while a task waited for the one CPU, where another slept, and
that a busy container does not take the room of others. Run on each kernel that the guests have.

A task sleeps uninterruptibly for as long as is wanted where it spawns a child that opens a pipe which nobody writes:
until the child has begun its program, its parent waits.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.waiting import becomes, eventually

from cotenant.cli.node.stalls import stalls
from cotenant.drivers.ebpf.libbpf import objects_folder
from cotenant.drivers.ebpf.stalls import OBJECT, StallTracer
from cotenant.model.machine.run_queue import BUCKETS
from cotenant.model.machine.stalls import GroupStalls, LongWait, StallKind

pytestmark = pytest.mark.skipif(not (objects_folder() / OBJECT).is_file(), reason="the probe is not built: make bpf")
ROOT = Path("/sys/fs/cgroup")
LIMIT_US = 50_000
BURST_S = 0.2  # of the culprit; four times the limit
LONG_BUCKET = 11  # the first whose waits are all beyond the limit of the storm, 1,024 us


class Container:
    """A group of the test."""

    def __init__(self, name: str) -> None:
        self.name = f"stalls-{name}"
        self.path = ROOT / self.name
        self.path.mkdir(exist_ok=True)

    @contextmanager
    def running(self, body: Callable[[], None]) -> Iterator[int]:
        """A process in the group, until the block ends."""
        pid = os.fork()
        if pid == 0:
            try:
                (self.path / "cgroup.procs").write_text("0")
                body()
            finally:
                os._exit(0)
        try:
            yield pid
        finally:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)

    def remove(self) -> None:
        """It must be empty soon: a kernel may count a task that is not listed any more."""

        def removed() -> bool:
            self.path.rmdir()
            return True

        eventually("the group is empty", removed, tolerated=(OSError,))


@pytest.fixture(scope="module", autouse=True)
def controllers() -> None:
    (ROOT / "cgroup.subtree_control").write_text("+cpu +memory")


@pytest.fixture
def container() -> Iterator[Callable[[str], Container]]:
    made: dict[str, Container] = {}
    yield lambda name: made.setdefault(name, Container(name))
    for one in made.values():
        one.remove()


@pytest.fixture(params=[2, 1], ids=["v2", "ids of the cpu controller"])
def probe(request: pytest.FixtureRequest) -> Iterator[StallTracer]:
    """The controller of the CPU is on the one tree, so a reading by its ids, as on cgroup v1, must tell the same."""
    with StallTracer(str(ROOT), request.param, long_us=LIMIT_US) as found:
        yield found


def burn() -> None:
    while True:
        pass


def burst() -> None:
    """Take the CPU from all others for a while, again and again."""
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(10))
    while True:
        until = time.perf_counter() + BURST_S
        while time.perf_counter() < until:
            pass
        time.sleep(BURST_S / 2)


def sleeper(pipe: Path) -> Callable[[], None]:
    """Sleep uninterruptibly until someone writes to the pipe."""

    def body() -> None:
        actions = [(os.POSIX_SPAWN_OPEN, 0, str(pipe), os.O_RDONLY, 0)]
        os.waitpid(os.posix_spawn("/bin/true", ["true"], {}, file_actions=actions), 0)

    return body


def await_sleep(probe: StallTracer, container: Container, pid: int) -> None:
    """Until this sleeper of the container waits for its child: either may wait for a page of the disk before."""

    def found() -> bool:
        states = {path.read_text().rpartition(")")[2][:3] for path in (Path(f"/proc/{pid}/stat"), *children(pid))}
        return of_group(probe, container).uninterruptible == 1 and states == {" D ", " S "}

    eventually("it sleeps", found, tolerated=(OSError,))


def children(pid: int) -> list[Path]:
    """What /proc says of the children of a process."""
    stats = Path("/proc").glob("[0-9]*/stat")
    return [stat for stat in stats if stat.read_text().rpartition(")")[2].split()[1] == str(pid)]


def release(pipe: Path) -> None:
    """Let the sleepers of the pipe go."""
    os.close(os.open(pipe, os.O_WRONLY))


def of_group(probe: StallTracer, container: Container) -> GroupStalls:
    return next((group for group in probe.read().groups if group.group == container.name), GroupStalls(container.name))


def some_waits(
    probe: StallTracer, container: Container, kind: StallKind, number: int, functions: Sequence[str] = ()
) -> list[LongWait]:
    """The first so many of this kind from now on, where any function will do or its name has one of `functions` in it;
    a wait is told once, so they are kept.
    """
    kept: list[LongWait] = []

    def is_in(wait: LongWait) -> bool:
        return not functions or any(part in name for name in wait.stack for part in functions)

    def enough() -> bool:
        waits = [wait for wait in probe.long_waits() if wait.group == container.name and wait.kind is kind]
        kept.extend(filter(is_in, waits))
        return len(kept) >= number

    eventually(f"{number} waits of {container.name}", enough)
    return kept[:number]


def test_a_wait_for_the_cpu_says_who_ran(probe, container):
    victim, culprit, bystander = container("victim"), container("culprit"), container("bystander")
    with (
        victim.running(burn) as waits,
        bystander.running(lambda: [time.sleep(0.01) for _ in iter(int, 1)]),
        culprit.running(burst) as runs,
    ):
        found = some_waits(probe, victim, StallKind.RUNNABLE, 3)
    for wait in found:
        assert (wait.pid, wait.withheld) == (waits, False), wait
        assert wait.wait_us > LIMIT_US, wait
        assert (wait.ran[0].group, wait.ran[0].pid) == (culprit.name, runs), wait
        assert 2 * wait.ran[0].ran_us > wait.wait_us, wait
        assert sum(one.ran_us for one in wait.ran) + wait.others_us == pytest.approx(wait.wait_us, abs=10), wait
        assert wait.ran[0].command == wait.command, wait  # forks of one program
        assert wait.stack_pid == runs, wait
        assert any("sleep" in name or "irq" in name for name in wait.stack), wait  # its turn was over, or was ended


def test_a_sleeper_is_told_with_its_stack_and_counted_in_its_bucket(probe, container, tmp_path):
    asleep, pipe = container("asleep"), tmp_path / "pipe"
    os.mkfifo(pipe)
    with asleep.running(sleeper(pipe)) as pid:
        await_sleep(probe, asleep, pid)
        time.sleep(2 * LIMIT_US / 1e6)
        release(pipe)
        # a page of its program that comes from the disk may be a long wait, too
        (wait,) = some_waits(probe, asleep, StallKind.BLOCKED, 1, ("clone", "vfork"))
    assert (wait.pid, wait.stack_pid, wait.waker_group, wait.ran) == (pid, pid, asleep.name, ()), wait
    assert wait.waker_pid != pid, wait
    told = of_group(probe, asleep).blocked
    assert told.buckets[min(wait.wait_us.bit_length() - 1, BUCKETS - 1)] >= 1, (wait, told)
    assert told.sum_us >= wait.wait_us
    assert sum(told.buckets) == told.count


def test_tasks_that_run_and_that_sleep_are_counted_by_group(probe, container, tmp_path):
    busy, asleep, pipe = container("busy"), container("asleep"), tmp_path / "pipe"
    os.mkfifo(pipe)
    with ExitStack() as tasks:
        for _ in range(3):
            tasks.enter_context(busy.running(burn))
        for _ in range(2):
            tasks.enter_context(asleep.running(sleeper(pipe)))

        def counted() -> list[tuple[int, int]]:
            groups = [of_group(probe, one) for one in (busy, asleep)]
            return [(group.runnable, group.uninterruptible) for group in groups]

        becomes("all are counted", counted, [(3, 0), (0, 2)])
        release(pipe)


def test_a_storm_of_one_container_leaves_room_for_the_others(container, tmp_path):
    storm, quiet, pipe = container("storm"), container("quiet"), tmp_path / "pipe"
    os.mkfifo(pipe)
    with StallTracer(str(ROOT), 2, long_us=1 << LONG_BUCKET - 1) as probe, ExitStack() as tasks:
        for _ in range(12):
            tasks.enter_context(storm.running(burn))
        eventually("more waits than fit", lambda: of_group(probe, storm).lost > 200)
        await_sleep(probe, quiet, tasks.enter_context(quiet.running(sleeper(pipe))))
        time.sleep(LIMIT_US / 1e6)
        release(pipe)
        eventually("its long wait is counted", lambda: sum(of_group(probe, quiet).blocked.buckets[LONG_BUCKET:]) > 0)
        waits = probe.long_waits()
        told = [wait for wait in waits if wait.group == quiet.name and wait.kind is StallKind.BLOCKED]
        assert len(told) >= 1, {wait.group for wait in waits}
        assert of_group(probe, quiet).lost == 0
        assert sum(wait.group == storm.name for wait in waits) > 20
        eventually("it may write again", lambda: any(wait.group == storm.name for wait in probe.long_waits()))


def test_a_quota_is_told(probe, container):
    held = container("held")
    (held.path / "cpu.max").write_text("10000 100000")
    with held.running(burn):
        found = some_waits(probe, held, StallKind.RUNNABLE, 3)
    assert all(wait.withheld for wait in found), found


def test_reclaim_is_told(probe, container):
    if not Path("/dev/vda").exists():
        pytest.skip("no disk here")
    held = container("reclaims")
    (held.path / "memory.max").write_text(str(8 << 20))

    def read() -> None:
        while True:
            with open("/dev/vda", "rb", buffering=0) as disk:
                while disk.read(1 << 20):
                    pass

    with held.running(read):
        eventually("its reclaim is counted", lambda: of_group(probe, held).reclaim.count > 5)
    found = of_group(probe, held).reclaim
    assert sum(found.buckets) == found.count
    assert found.sum_us > 0


def test_what_is_kept_of_gone_containers_is_dropped(probe, tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for number in range(20):
        gone = Container(f"gone-{number}")
        with gone.running(sleeper(pipe)):
            eventually("it sleeps", lambda gone=gone: of_group(probe, gone).uninterruptible == 1)
            release(pipe)
            eventually("its wait is counted", lambda gone=gone: of_group(probe, gone).blocked.count > 0)
        gone.remove()
    probe.read()
    assert probe.kept() < 20


def test_the_command_tells_all_of_it(container, capsys):
    victim, culprit = container("victim"), container("culprit")

    def said(as_json: bool) -> str:
        stalls(victim.name, every_s=1.0, count=1, long_ms=LIMIT_US / 1000, rows=16, as_json=as_json)
        return capsys.readouterr().out

    def told() -> dict[str, Any]:
        """Nothing while no wait has ended. Of one that began before the probe was there, it is not known who ran."""
        found = json.loads(said(as_json=True))
        of_cpu = [wait for wait in found["longWaits"] if wait["kind"] == "runnable"]
        return found if any(one["group"] == culprit.name for wait in of_cpu for one in wait["ran"][:1]) else {}

    def in_words() -> str:
        text = said(as_json=False)
        return text if f"meanwhile ran {culprit.name}" in " ".join(text.split()) else ""

    with victim.running(burn), culprit.running(burst):
        found = eventually("a long wait", told)
        words = eventually("one in words", in_words)
    (group,) = found["groups"]
    assert (group["group"], group["runnable"]) == (victim.name, 1)
    assert group["systemUs"] >= 0
    assert {condition["status"] for condition in found["conditions"]} <= {"True", "False"}
    assert "left the CPU in" in words

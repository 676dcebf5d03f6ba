"""The keeper and its agent as two processes on real cgroups: the keeper privileged, the agent as user nobody."""

from __future__ import annotations

import asyncio
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from tests.fakes.node.keeper_process import KeeperProcess
from tests.fakes.waiting import soon

from cotenant.drivers.cgroup.knobs import CgroupKnobs
from cotenant.drivers.cgroup.layout import CgroupLayout
from cotenant.drivers.cgroup.tree import Groups
from cotenant.drivers.leasefile.audit import changes
from cotenant.model.machine.knob import Knob, KnobTarget, LeaseState, SetKnob
from cotenant.model.machine.node_decision import Reason
from cotenant.services.knobs.client import KeeperClient

pytestmark = pytest.mark.slow
NOBODY = 65534
REASON = Reason("test", "because")
FILES = (Path("cpu.cfs_quota_us"), Path("cpu.cfs_period_us"), Path("cpu.max"), Path("cpu.shares"), Path("cpu.weight"))


@pytest.fixture
def state() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="cotenant-test-"))
    folder.chmod(0o755)
    (folder / "run").mkdir()
    (folder / "run").chmod(0o755)
    yield folder / "run"
    shutil.rmtree(folder)


@pytest.fixture
def top(group: str) -> str:
    return group.rpartition("/")[0]


@pytest.fixture
def keeper(state: Path, top: str) -> Iterator[KeeperProcess]:
    with KeeperProcess(state, [top], "--allow-user", "nobody") as process:
        yield process.ready()


def settings(layout: CgroupLayout, group: str) -> dict[str, bytes]:
    path = Path(layout.by_controller["cpu"].path, group)
    return {name.name: (path / name).read_bytes() for name in FILES if (path / name).exists()}


def wish(group: str, value: str = "20000 100000", ttl_us: int = 600_000_000) -> SetKnob:
    return SetKnob(KnobTarget(group, Knob.CPU_MAX), value, REASON, ttl_us)


AS_NOBODY = """
import asyncio, os, sys, time
from pathlib import Path
from cotenant.model.machine.knob import Knob, KnobTarget, SetKnob
from cotenant.model.machine.node_decision import Reason
from cotenant.services.knobs.client import KeeperClient
from cotenant.services.knobs.wire import OpenTrigger

socket, group, file, ttl_us = sys.argv[1:]
os.setgroups([]); os.setgid(65534); os.setuid(65534)
try:
    Path(file).write_text("1000")
except PermissionError:
    print("cannot write")
except FileNotFoundError as error:
    print(error)

async def main():
    keeper = KeeperClient(Path(socket))
    wishes = [
        SetKnob(KnobTarget(name, Knob.CPU_MAX), "20000 100000", Reason("test", "because"), int(ttl_us))
        for name in (group, "process_api", "x")
    ]
    for answer in await keeper.hold(wishes):
        print(answer.state)
    print(await keeper.read([KnobTarget(group, Knob.CPU_MAX)]))
    try:
        descriptor, window_us = await keeper.trigger(OpenTrigger(None, "cpu", 150_000, 2_000_000))
        print("trigger", window_us, os.fstat(descriptor).st_uid)
    except Exception as error:
        print("no trigger:", error)
    sys.stdout.flush()
    time.sleep(100)

asyncio.run(main())
"""


@pytest.fixture
def ttl_us() -> int:
    """How long the agent's lease lasts: longer than a case may take."""
    return 600_000_000


@pytest.fixture
def agent(layout: CgroupLayout, keeper: KeeperProcess, group: str, ttl_us: int) -> Iterator[subprocess.Popen[str]]:
    """An agent as nobody, with a lease that it never renews."""
    path = Path(layout.by_controller["cpu"].path, group)
    file = next(str(path / name) for name in ("cpu.cfs_quota_us", "cpu.max") if (path / name).exists())
    process = subprocess.Popen(
        [sys.executable, "-c", AS_NOBODY, str(keeper.path), group, file, str(ttl_us)],
        stdout=subprocess.PIPE,
        text=True,
    )
    yield process
    process.kill()
    process.wait()


def test_an_unprivileged_agent_writes_knobs_through_the_keeper_and_only_those(
    layout: CgroupLayout, group: str, state: Path, agent: subprocess.Popen[str]
) -> None:
    assert agent.stdout is not None
    before = settings(layout, group)
    said = [agent.stdout.readline().strip() for _ in range(6)]
    assert said[:5] == ["cannot write", "held", "refused", "refused", "('20000 100000',)"]
    assert said[5] == "trigger 2000000 0" or said[5].startswith("no trigger: ")
    assert settings(layout, group) != before
    told = next(change for change in changes(state) if change.target.group == group)
    assert (told.who, told.result) == (f"uid {NOBODY}, pid {agent.pid}", LeaseState.HELD)


@pytest.mark.parametrize("ttl_us", [2_000_000])
def test_a_killed_agents_knobs_are_restored_within_the_time_to_live(
    layout: CgroupLayout, group: str, state: Path, keeper: KeeperProcess, agent: subprocess.Popen[str]
) -> None:
    assert agent.stdout is not None
    before = settings(layout, group)
    for _ in range(6):
        agent.stdout.readline()
    agent.send_signal(signal.SIGKILL)
    # By its record: the lease may be over before its value has been looked at.
    assert [change.result for change in changes(state) if change.target.group == group][:1] == [LeaseState.HELD]

    async def none_left(client: KeeperClient) -> bool:
        return not await client.leases()

    async def until_none() -> None:
        client = KeeperClient(keeper.path)
        await soon("no lease is left", partial(none_left, client))
        await client.close()

    asyncio.run(until_none())
    assert settings(layout, group) == before


@pytest.mark.parametrize("member", [False, True], ids=["stranger", "member of the socket's group"])
def test_an_unauthorized_user_is_refused(state: Path, top: str, group: str, member: bool) -> None:
    daemon = pwd.getpwnam("daemon").pw_gid
    with KeeperProcess(state, [top], "--allow-user", "daemon") as keeper:
        keeper.ready()
        found = keeper.path.stat()
        assert (found.st_mode & 0o777, found.st_gid) == (0o660, daemon)
        child = os.fork()
        if child == 0:
            os.setgroups([daemon] if member else [])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            try:
                asyncio.run(KeeperClient(keeper.path).hold([wish(group)]))
            except BaseException as error:
                os._exit(0 if "does not answer" in str(error) else 2)
            os._exit(1)
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 0
        assert ("may not use" in keeper.said()) is member


def test_five_hundred_groups_are_created_and_vanish(
    layout: CgroupLayout, groups: Groups, top: str, keeper: KeeperProcess
) -> None:
    names = [f"{top}/many/{number}" for number in range(500)]
    for name in names:
        groups.make(name)
    before = [settings(layout, name) for name in names]

    async def use() -> None:
        client = KeeperClient(keeper.path)
        answers = await client.hold([wish(name) for name in names])
        assert {answer.state for answer in answers} == {LeaseState.HELD}
        for name in names[:100]:
            groups.remove(name)
        answers = await client.hold([wish(name) for name in names])
        assert [answer.state for answer in answers] == [LeaseState.GONE] * 100 + [LeaseState.HELD] * 400
        await client.close()

    asyncio.run(use())
    assert keeper.terminate() == 0
    assert [settings(layout, name) for name in names[100:]] == before[100:]


def test_killed_and_started_again_on_real_groups_with_a_foreign_writer(
    layout: CgroupLayout, groups: Groups, state: Path, top: str, keeper: KeeperProcess
) -> None:
    for name in ("ours", "theirs", "gone", "anew"):
        groups.make(f"{top}/{name}")
    before = settings(layout, f"{top}/ours")

    async def use() -> None:
        client = KeeperClient(keeper.path)
        answers = await client.hold([wish(f"{top}/{name}") for name in ("ours", "theirs", "gone", "anew")])
        assert {answer.state for answer in answers} == {LeaseState.HELD}
        await client.close()

    asyncio.run(use())
    keeper.kill()
    with CgroupKnobs(layout) as knobs:
        knobs.write(KnobTarget(f"{top}/theirs", Knob.CPU_MAX), "30000 100000")
        groups.remove(f"{top}/gone")
        groups.remove(f"{top}/anew")
        groups.make(f"{top}/anew")
        knobs.write(KnobTarget(f"{top}/anew", Knob.CPU_MAX), "20000 100000")  # as the lease of the old one had it
        with KeeperProcess(state, [top]) as again:
            again.ready()
            assert settings(layout, f"{top}/ours") == before
            assert knobs.read(KnobTarget(f"{top}/theirs", Knob.CPU_MAX)) == "30000 100000"
            assert knobs.read(KnobTarget(f"{top}/anew", Knob.CPU_MAX)) == "20000 100000"
    results = {change.target.group.rpartition("/")[2]: change.result for change in changes(state)[-4:]}
    assert results == {
        "ours": LeaseState.RESTORED,
        "theirs": LeaseState.YIELDED,
        "gone": LeaseState.GONE,
        "anew": LeaseState.GONE,
    }


def test_a_keeper_writes_again_what_another_process_puts_back(
    layout: CgroupLayout, groups: Groups, top: str, keeper: KeeperProcess
) -> None:
    """The kernel reports the write: the keeper needs no renewal to see it."""
    quota, other = KnobTarget(f"{top}/ours", Knob.CPU_MAX), KnobTarget(f"{top}/other", Knob.CPU_MAX)
    for target in (quota, other):
        groups.make(target.group)

    async def use() -> None:
        client = KeeperClient(keeper.path)
        answers = await client.hold([wish(quota.group), wish(other.group)])
        assert {answer.state for answer in answers} == {LeaseState.HELD}
        with CgroupKnobs(layout) as knobs:
            held = knobs.read(quota)
            knobs.write(other, "30000 100000")  # a value of its own
            for _ in range(20):
                knobs.write(quota, "max 100000")
                await soon("written again", lambda: knobs.read(quota) == held)
            assert knobs.read(other) == "30000 100000"
        leases = {lease.target: lease for lease in await client.leases()}
        assert leases[quota].state is LeaseState.HELD
        answers = await client.hold([wish(quota.group), wish(other.group)])
        assert [answer.state for answer in answers] == [LeaseState.HELD, LeaseState.YIELDED]
        assert "20 times" in answers[0].detail
        await client.close()

    asyncio.run(use())


def test_the_keeper_keeps_few_privileges_and_little_memory(keeper: KeeperProcess) -> None:
    status = dict(
        line.split(":\t", 1)
        for line in Path(f"/proc/{keeper.process.pid}/status").read_text().splitlines()
        if ":\t" in line
    )
    kept = int(status["CapEff"], 16)
    assert kept & ~(1 << 1 | 1 << 12 | 1 << 23 | 1 << 24) == 0
    assert int(status["CapPrm"], 16) == kept
    assert status["NoNewPrivs"] == "1"
    assert int(status["VmRSS"].split()[0]) < 60 * 1024

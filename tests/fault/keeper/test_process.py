"""The keeper as a process, over folders that look like cgroups: killed, stopped halfway, started twice, with a
corrupt state file or a full disk.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.node.cgroup_trees import CgroupTrees
from tests.fakes.node.keeper_process import KeeperProcess
from tests.fakes.waiting import soon

from cotenant.cli.main import main
from cotenant.drivers.leasefile.audit import changes
from cotenant.drivers.leasefile.file import NAME
from cotenant.model.machine.knob import Knob, KnobTarget, LeaseState, SetKnob
from cotenant.model.machine.node_decision import Reason
from cotenant.services.knobs.client import KeeperClient
from cotenant.services.knobs.host import put_back, read_left

pytestmark = pytest.mark.slow
REASON = Reason("test", "because")
GROUPS = [f"be/{number}" for number in range(40)]


@pytest.fixture
def trees(tmp_path: Path) -> CgroupTrees:
    trees = CgroupTrees(tmp_path / "tree", "v2")
    for group in GROUPS:
        trees.add(group)
    return trees


@pytest.fixture
def start(trees: CgroupTrees, tmp_path: Path) -> Iterator[Callable[..., KeeperProcess]]:
    started: list[KeeperProcess] = []

    def start(*arguments: str, state: Path = tmp_path / "state") -> KeeperProcess:
        process = KeeperProcess(state, ["be"], "--cgroup-root", str(trees.root), *arguments)
        started.append(process)
        return process

    yield start
    for process in started:
        process.__exit__()


def values_of(trees: CgroupTrees) -> dict[str, str]:
    """All files, without the trailing line feeds that kernels add."""
    return {
        str(path.relative_to(trees.root)): path.read_text().strip() for path in trees.root.rglob("*") if path.is_file()
    }


def quotas(groups: list[str] = GROUPS, ttl_us: int = 600_000_000) -> list[SetKnob]:
    return [SetKnob(KnobTarget(group, Knob.CPU_MAX), "20000 100000", REASON, ttl_us) for group in groups]


def with_agent(keeper: KeeperProcess, use: Callable[[KeeperClient], Coroutine[Any, Any, Any]]) -> Any:
    async def whole() -> Any:
        client = KeeperClient(keeper.path)
        try:
            return await use(client)
        finally:
            await client.close()

    return asyncio.run(whole())


def held(keeper: KeeperProcess, requests: list[SetKnob]) -> set[LeaseState]:
    return {answer.state for answer in with_agent(keeper, lambda agent: agent.hold(requests))}


def test_after_a_kill_the_next_start_restores_everything_before_it_serves(
    trees: CgroupTrees, start: Callable[..., KeeperProcess], tmp_path: Path
) -> None:
    before = values_of(trees)
    first = start().ready()
    assert held(first, quotas()) == {LeaseState.HELD}
    first.kill()
    assert values_of(trees) != before
    left = read_left(tmp_path / "state")
    assert (len(left.leases), left.keeper) == (40, None)
    start().ready()
    assert values_of(trees) == before
    assert read_left(tmp_path / "state").leases == ()


def test_leftover_leases_can_be_restored_by_hand_but_not_beside_a_running_keeper(
    trees: CgroupTrees, start: Callable[..., KeeperProcess], tmp_path: Path
) -> None:
    before = values_of(trees)
    keeper = start().ready()
    held(keeper, quotas())
    assert read_left(tmp_path / "state").keeper == keeper.process.pid
    with pytest.raises(Exception, match=f"process {keeper.process.pid}"):
        put_back(tmp_path / "state", trees.root)
    keeper.kill()
    done = put_back(tmp_path / "state", trees.root)
    assert {answer.state for answer in done.answers} == {LeaseState.RESTORED}
    assert done.faults == ()
    assert values_of(trees) == before


def test_the_leases_of_a_dead_agent_expire(
    trees: CgroupTrees, start: Callable[..., KeeperProcess], tmp_path: Path
) -> None:
    before = values_of(trees)
    keeper = start().ready()
    agent = os.fork()
    if agent == 0:
        os._exit(0 if held(keeper, quotas(ttl_us=700_000)) == {LeaseState.HELD} else 1)
    _, status = os.waitpid(agent, 0)
    assert status == 0

    async def until_none(client: KeeperClient) -> None:
        async def none_left() -> bool:
            return not await client.leases()

        await soon("no lease is left", none_left)

    with_agent(keeper, until_none)
    assert values_of(trees) == before
    # By its record: the values of leases this short may be gone before anybody has read all files.
    told = Counter(change.result for change in changes(tmp_path / "state"))
    assert told == {LeaseState.HELD: len(GROUPS), LeaseState.RESTORED: len(GROUPS)}


def test_stopped_during_batches_it_restores_everything(trees: CgroupTrees, start: Callable[..., KeeperProcess]) -> None:
    before = values_of(trees)
    keeper = start().ready()

    async def hold_many(client: KeeperClient) -> None:
        holding = [asyncio.create_task(KeeperClient(keeper.path).hold(quotas())) for _ in range(6)]
        await holding[0]
        keeper.process.terminate()
        await asyncio.gather(*holding, return_exceptions=True)

    with_agent(keeper, hold_many)
    assert keeper.ends() == 0
    assert values_of(trees) == before
    assert not keeper.path.exists()


def test_a_second_keeper_on_the_same_folder_is_refused_and_the_first_continues(
    start: Callable[..., KeeperProcess],
) -> None:
    first = start().ready()
    second = start()
    assert second.ends() == 1
    assert f"another keeper (process {first.process.pid})" in second.said()
    assert held(first, quotas()) == {LeaseState.HELD}


def test_a_corrupt_state_file_fails_one_start_after_the_readable_leases_are_restored(
    trees: CgroupTrees, start: Callable[..., KeeperProcess], tmp_path: Path
) -> None:
    before = values_of(trees)
    first = start().ready()
    held(first, quotas())
    first.kill()
    path = tmp_path / "state" / NAME
    lines = path.read_bytes().split(b"\n")
    lines[1] = lines[1].replace(b'"raw_before":', b'"raw_after":')  # be/0 is INTENDED here, and HELD further down
    path.write_bytes(b"\n".join(lines))
    second = start()
    assert second.ends() == 2
    assert "raw_before" in second.said()
    assert "leases.bad-1" in second.said()
    assert values_of(trees) == before
    start().ready()
    assert read_left(tmp_path / "state").aside == (tmp_path / "state" / "leases.bad-1",)


def test_a_dry_run_answers_and_records_and_writes_nothing(
    trees: CgroupTrees, start: Callable[..., KeeperProcess], tmp_path: Path
) -> None:
    before = values_of(trees)
    keeper = start("--dry-run").ready()
    assert held(keeper, quotas()) == {LeaseState.HELD}
    assert values_of(trees) == before
    assert len(changes(tmp_path / "state")) == 40
    assert keeper.terminate() == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has capabilities to drop")
@pytest.mark.parametrize(
    ("arguments", "number"),
    [
        ((), 1 << 24),
        (("--interface", "eth0"), 1 << 12 | 1 << 24),
        (("--idle-slice-ms", "100"), 1 << 23 | 1 << 24),
    ],
)
def test_a_keeper_keeps_the_capabilities_that_its_arguments_call_for(
    start: Callable[..., KeeperProcess], arguments: tuple[str, ...], number: int
) -> None:
    status = Path(f"/proc/{start(*arguments).ready().process.pid}/status").read_text()
    fields = dict(line.split(":", 1) for line in status.splitlines())
    mine = int(dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())["CapEff"], 16)
    assert int(fields["CapEff"], 16) == (number | 1 << 1) & mine
    assert fields["NoNewPrivs"].strip() == "1"


@pytest.mark.parametrize(
    ("argument", "value", "expected"),
    [
        ("--knob", "cpu.maximum", "--knob: cpu.maximum: expected one of cpu.max"),
        ("--allow-user", "nobody-at-all", "a user's name or number"),
        ("--longest-ttl-s", "0", "1 to 86400 seconds"),
        ("--log-level", "loud", "debug, info"),
        ("--root", "/", "a group below the tree's root"),
        ("--interface", "eth0/be", "--interface: eth0/be: expected the name of a network interface"),
        ("--resctrl-class", "info", "--resctrl-class: info: expected the name of a resctrl group"),
        ("--socket-group", "nobody-at-all", "a group's name or number on this machine"),
    ],
)
def test_bad_arguments_give_a_one_line_error(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], argument: str, value: str, expected: str
) -> None:
    state, tree = tmp_path / "state", CgroupTrees(tmp_path / "tree", "v2")
    where = ("--root", "be", "--cgroup-root", tree.root, "--state-dir", state, "--socket", state / "keeper.sock")
    kubelets = f"--cpu-manager-state={tmp_path}/cpu_manager_state"  # not those of this machine
    assert main(["keeper", *map(str, where), kubelets, argument, value]) == 2
    said = capfd.readouterr().err
    assert expected in said
    assert said.count("\n") == 1


@pytest.fixture
def tiny(tmp_path: Path) -> Iterator[Path]:
    """A disk of 64 KiB."""
    folder = tmp_path / "tiny"
    folder.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "cotenant-test", str(folder)], capture_output=True, check=False
    )
    if made.returncode != 0:
        pytest.skip(f"no small disk can be mounted here: {made.stderr.decode().strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def test_with_a_full_disk_no_new_knob_is_written_and_one_batch_held_is_restored(
    trees: CgroupTrees, start: Callable[..., KeeperProcess], tiny: Path
) -> None:
    before = values_of(trees)
    keeper = start(state=tiny / "state").ready()
    assert held(keeper, quotas(GROUPS[:5])) == {LeaseState.HELD}
    with (tiny / "filler").open("wb", buffering=0) as filler:
        try:
            while filler.write(b"x" * 512):
                pass
        except OSError:
            pass
    some_held = values_of(trees)
    answers = with_agent(keeper, lambda agent: agent.hold(quotas(GROUPS)))
    assert [answer.state for answer in answers[:5]] == [LeaseState.HELD] * 5
    assert {answer.state for answer in answers[5:]} == {LeaseState.REFUSED}
    assert "cannot be saved" in answers[-1].detail
    assert values_of(trees) == some_held
    keeper.kill()
    again = start(state=tiny / "state").ready()  # on the disk that is still full
    assert values_of(trees) == before
    assert held(again, quotas()) == {LeaseState.REFUSED}
    (tiny / "filler").unlink()
    assert held(again, quotas()) == {LeaseState.HELD}
    assert again.terminate() == 0
    assert values_of(trees) == before

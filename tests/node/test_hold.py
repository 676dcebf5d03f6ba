"""`cotenant node hold` at a keeper of its own process: leases by hand, given back after kill -9."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.fakes.node.keeper_process import KeeperProcess
from tests.fakes.node.mps_control import FakeMps

from cotenant.cli.main import main
from cotenant.drivers.cgroup.knobs import CgroupKnobs
from cotenant.drivers.cgroup.layout import CgroupLayout
from cotenant.model.machine.knob import Knob, KnobTarget

pytestmark = pytest.mark.slow


@pytest.fixture
def state() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="cotenant-test-"))
    (folder / "run").mkdir()
    yield folder / "run"
    shutil.rmtree(folder)


@pytest.fixture
def mps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeMps:
    made = FakeMps(tmp_path)
    monkeypatch.setenv("PATH", str(made.program.parent), prepend=":")
    return made


def held(keeper: KeeperProcess, *words: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    status = main(["node", "hold", *words, "--keeper", str(keeper.path), "--json"])
    told = json.loads(capsys.readouterr().out)
    return status, told["state"], told["detail"]


def test_a_share_of_mps_is_held_and_the_next_keeper_gives_it_back_after_kill_9(
    state: Path, group: str, mps: FakeMps, capsys: pytest.CaptureFixture[str]
) -> None:
    mps.start()
    with KeeperProcess(state, [group], "--mps", str(mps.pipe)).ready() as keeper:
        assert held(keeper, "mps.threads", "default", "30", capsys=capsys) == (0, "held", "")
        assert mps.state["threads"] == 30.0
        keeper.kill()
    with KeeperProcess(state, [group], "--mps", str(mps.pipe)).ready():
        assert mps.state["threads"] == 100.0


def test_without_a_daemon_the_keeper_says_so(
    state: Path, group: str, mps: FakeMps, capsys: pytest.CaptureFixture[str]
) -> None:
    with KeeperProcess(state, [group], "--mps", str(mps.pipe)).ready() as keeper:
        status, told, why = held(keeper, "mps.threads", "default", "30", capsys=capsys)
    assert (status, told) == (1, "gone")  # what a daemon would hold is gone with it
    assert f"a running MPS control daemon at {mps.pipe}" in why


def test_a_group_is_frozen_by_hand_where_the_keeper_grants_it(
    state: Path, layout: CgroupLayout, group: str, capsys: pytest.CaptureFixture[str]
) -> None:
    target = KnobTarget(group, Knob.CGROUP_FREEZE)
    with CgroupKnobs(layout) as knobs:
        if (gap := knobs.supported(Knob.CGROUP_FREEZE)) is not None:
            pytest.skip(f"{gap.what} needs {gap.needs}")
        with KeeperProcess(state, [group]).ready() as keeper:
            status, _, why = held(keeper, "cgroup.freeze", group, "1", capsys=capsys)
            assert (status, knobs.read(target)) == (1, "0")
            assert "(--freeze)" in why
        with KeeperProcess(state, [group], "--freeze").ready() as keeper:
            assert held(keeper, "cgroup.freeze", group, "1", "--for", "300", capsys=capsys)[:2] == (0, "held")
            assert knobs.read(target) == "1"
            assert held(keeper, "cgroup.freeze", group, "--give-back", capsys=capsys)[:2] == (0, "restored")
            assert knobs.read(target) == "0"

"""Experiments on this machine's own cgroups: what they create, and that nothing is left, however they end."""

import json
import math
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.fakes.node.one_experiment import alone
from tests.fakes.waiting import eventually, patience

from cotenant.drivers.cgroup.experiments import (
    PREFIX,
    ExperimentCgroups,
    missing_requirement,
    remove,
    remove_leftovers,
)
from cotenant.drivers.cgroup.layout import detect
from cotenant.drivers.cgroup.tree import Groups
from cotenant.model.errors import CotenantError, Permanent
from cotenant.model.machine.knob import Knob, KnobTarget
from cotenant_lab.experiments import harness
from cotenant_lab.experiments.harness import ExperimentJudgement, ExperimentRound, ExperimentSettings, Record
from cotenant_lab.experiments.measures.windows import LATE_US, WINDOW_US
from cotenant_lab.experiments.outcome import FigureCheck
from cotenant_lab.experiments.site import lateness
from cotenant_lab.experiments.site.site import GENERATOR, PLANT, Site, in_plant, now_us, open_site

__all__ = ["alone"]
LONGEST_S = 60.0
SINE = (sys.executable, "-m", "cotenant", "node", "experiment", "sine", "--once")


def _reason() -> str:
    try:
        return str(missing_requirement(detect()) or "")
    except CotenantError as error:
        return str(error)


pytestmark = pytest.mark.skipif(bool(_reason()), reason=_reason())


def folders(name: str) -> list[Path]:
    """The folders of a top group, in every tree."""
    return [path for tree in detect().hierarchies if (path := Path(tree.path, name)).exists()]


def mine() -> str:
    return f"{PREFIX}{os.getpid()}"


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    yield
    left = folders(mine())
    with Groups(detect()) as groups:
        remove(groups, mine())
    assert left == []


def until(what: str, is_true: Callable[[], object]) -> None:
    eventually(what, is_true, LONGEST_S)


def test_groups_are_created_in_every_tree_and_removed_with_their_processes() -> None:
    with open_site() as site:
        (name,) = site.make_plant("service")
        child = site.start(name, ["sleep", "1000"])
        trees = len(folders(mine()))
        assert trees >= 1
        assert len(folders(f"{mine()}/{name}")) == trees
        pid = child.process.pid
        until("the child to be in all trees", lambda: _groups_of(pid, name) == trees)
        assert site.cgroups.knobs.read(KnobTarget(site.cgroups.path(PLANT), Knob.CPUSET_CPUS)) == str(site.plant_cpu)
        until("the child to be what it shall be", lambda: Path(f"/proc/{pid}/comm").read_text() == "sleep\n")
    assert folders(mine()) == []
    assert child.process.poll() is not None


def _groups_of(pid: int, name: str) -> int:
    wanted = f"/{mine()}/{name}"
    lines = Path(f"/proc/{pid}/cgroup").read_text().splitlines()
    return sum(line.split(":", 2)[2] == wanted for line in lines)


def test_an_error_leaves_nothing() -> None:
    def fail() -> None:
        with open_site() as site:
            site.start(site.make_plant("service")[0], ["sleep", "1000"])
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert folders(mine()) == []


def test_a_child_that_exits_is_an_error_with_its_last_log_line() -> None:
    with open_site() as site:
        (name,) = site.make_plant("service")
        site.start(name, ["/bin/sh", "-c", "echo first >&2; echo no such thing >&2; exit 3"], "teller")
        with pytest.raises(Permanent, match=r"teller exited \(status 3\): no such thing"):
            site.wait_for("nothing", lambda: False)


def test_a_groups_cpu_time_and_foreign_use_of_the_core_are_separated() -> None:
    with open_site() as site:
        (name,) = site.make_plant("service")
        child = site.start(name, [sys.executable, "-Sc", "while True: pass"])
        with site.measured_conditions() as conditions:
            until("a fifth of a second of CPU", lambda: site.cgroups.cpu_us(name) > 200_000)
            seen = conditions()
        assert seen.seconds > 0
        assert 0 <= seen.foreign_share <= 1
        site.stop(child, kill=True)
        used = site.cgroups.cpu_us(name)
        assert site.cgroups.cpu_us(PLANT) >= used > 200_000


def test_the_lateness_monitor_records_a_stall_in_its_windows() -> None:
    with open_site() as site:
        lateness.prepare(site)
        watching = lateness.start(site)
        if watching is None:
            pytest.skip("real-time priority is refused here")
        pid = watching.child.process.pid
        assert os.sched_getscheduler(pid) == os.SCHED_FIFO
        assert os.sched_getaffinity(pid) == {site.plant_cpu}
        began = now_us()
        site.wait_until(began + 3 * WINDOW_US)
        stopped = now_us()
        os.kill(pid, signal.SIGSTOP)
        site.wait_until(now_us() + WINDOW_US)
        os.kill(pid, signal.SIGCONT)
        site.wait_until(now_us() + 3 * WINDOW_US)
        ended = now_us()
        seen = watching.end()
        assert not site.children
    # The machine may have held this process up between any two of these lines.
    first, then, last = (at // WINDOW_US for at in (began, stopped, ended))
    assert any(seen.at(window) is not None for window in range(first, then))
    assert max(seen.at(window) or 0 for window in range(then, last + 1)) > LATE_US


def test_a_real_time_share_does_not_depend_on_just_removed_groups() -> None:
    for _ in range(5):
        with open_site() as site:
            ration = Path(detect().by_controller["cpu"].path, site.cgroups.path(GENERATOR), "cpu.rt_runtime_us")
            if not ration.exists():
                pytest.skip("the kernel does not ration real time by group")
            assert int(ration.read_text()) > 0


def test_leftovers_of_a_dead_experiment_are_removed_and_a_running_ones_are_not() -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    layout = detect()
    with Groups(layout) as groups:
        dead, alive = f"{PREFIX}{ended.pid}", f"{PREFIX}{os.getpid()}"
        sleeper = None
        try:
            for name in (dead, alive):
                groups.make(f"{name}/{PLANT}")
            sleeper = subprocess.Popen(["sleep", "1000"])
            groups.move(sleeper.pid, f"{dead}/{PLANT}")
            assert dead in remove_leftovers(groups)
            assert folders(dead) == []
            assert sleeper.wait(patience(5)) == -signal.SIGKILL
            assert len(folders(alive)) > 0
        finally:
            for name in (dead, alive):
                remove(groups, name)
            if sleeper is not None:
                sleeper.kill()
                sleeper.wait()


def test_a_second_experiment_is_refused_while_one_runs() -> None:
    with (
        ExperimentCgroups(),
        pytest.raises(Permanent, match=rf"another experiment runs here \(process {os.getpid()}\)"),
        ExperimentCgroups(top="cotenant-experiment-0", wait_s=0.0),
    ):
        pass
    with ExperimentCgroups():  # and not afterwards, once no other process has its own
        pass


@pytest.mark.slow
@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 130), (signal.SIGINT, 130), (signal.SIGKILL, -9)])
def test_nothing_is_left_after_any_end_once_another_has_started(
    number: signal.Signals, status: int, tmp_path: Path
) -> None:
    command = [*SINE, "--out", str(tmp_path / "out")]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    top = f"{PREFIX}{process.pid}"
    try:
        procs = [Path(tree.path, top, in_plant("service"), "cgroup.procs") for tree in detect().hierarchies]
        until("its service to run", lambda: any(proc.exists() and proc.read_text() for proc in procs))
        inside = [int(pid) for proc in procs if proc.exists() for pid in proc.read_text().split()]
        process.send_signal(number)
        said = process.communicate(timeout=patience(LONGEST_S))[1]
        assert process.returncode == status
        if number is not signal.SIGKILL:
            assert said.splitlines()[-1] == "cotenant: interrupted; the experiment's groups are removed"
            assert folders(top) == []
        with ExperimentCgroups():
            assert folders(top) == []
        until("its children to be over", lambda: not any(Path(f"/proc/{pid}/cwd").exists() for pid in inside))
    finally:
        process.kill()
        process.wait()
        with Groups(detect()) as groups:
            remove(groups, top)


@dataclass
class Burning:
    """Two arms: one that burns a little CPU in a group of its own, one that does not."""

    name: str = "burning"
    title: str = "Burning"
    arms: Sequence[str] = ("idle", "busy")
    block_s: float = 1.0

    def prepare(self, site: Site) -> None:
        site.make_plant("service")

    def block(self, site: Site, arm: str, seed: int) -> Record:
        before = site.cgroups.cpu_us(in_plant("service"))
        if arm == "busy":
            child = site.start(in_plant("service"), [sys.executable, "-Sc", "while True: pass"])
            until("CPU", lambda: site.cgroups.cpu_us(in_plant("service")) - before > 100_000)
            site.stop(child, kill=True)
        return {"cpu_us": site.cgroups.cpu_us(in_plant("service")) - before}

    def disturbed(self, record: Record) -> str:
        return ""

    def discard(self, rounds: Sequence[ExperimentRound]) -> Mapping[int, str]:
        return {}

    def judge(self, rounds: Sequence[ExperimentRound]) -> ExperimentJudgement:
        used = {arm: sum(round_.record(arm)["cpu_us"] for round_ in rounds) for arm in self.arms}
        return ExperimentJudgement(used, [FigureCheck("busy", used["busy"], 200_000, at_least=True)])


def test_an_experiment_runs_its_rounds_on_real_groups(tmp_path: Path) -> None:
    # The idle arm lasts no time at all: one tick of anybody's CPU is many times its length.
    settings = ExperimentSettings(2, max_foreign=math.inf, max_stolen=math.inf)
    outcome = harness.run(Burning(), settings, tmp_path, lambda _: None)
    assert outcome.passed
    assert (outcome.rounds, outcome.figures["idle"]) == (2, 0)
    lines = [json.loads(line) for line in (tmp_path / harness.RAW).read_text().splitlines()]
    assert sorted((line["round"], line["arm"]) for line in lines) == [(n, a) for n in (0, 1) for a in ("busy", "idle")]
    assert folders(mine()) == []


@pytest.mark.slow
def test_the_sine_experiment_prints_one_json_object(tmp_path: Path) -> None:
    command = [*SINE, "--period", "5", "--rounds", "1", "--json", "--out", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=patience(300), check=False)
    told = json.loads(done.stdout)
    # How it judges depends on who else works here.
    assert done.returncode == {"passed": 0, "failed": 1, "not decided": 3}[told["verdict"]], done.stderr
    assert set(told) >= {"alone", "unregulated", "regulated", "rounds", "discarded"}
    assert told["alone"]["hog_share_of_idle"] is None
    assert told["unregulated"]["hog_share_of_idle"] > 0  # held, they may get nothing where others use what is idle
    if told["verdict"] != "not decided":
        assert told["unregulated"]["correlation"] < told["alone"]["correlation"]
    assert told == json.loads((tmp_path / "results.json").read_text())
    page = (tmp_path / "report.html").read_text()
    assert "cotenant node experiment sine --rounds 1 --seed 1 --period 5 --once" in page
    assert "<script src" not in page  # it needs no network

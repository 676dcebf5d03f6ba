"""`cotenant agent` on real cgroups: it holds knobs, restores them, survives kills at any moment, and needs no
privileges beside its keeper.
"""

from __future__ import annotations

import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
from tests.e2e.running import metric
from tests.fakes.node.keeper_process import KeeperProcess
from tests.fakes.waiting import eventually, patience
from tests.node.burning import burning

from cotenant.drivers.cgroup.layout import CgroupLayout
from cotenant.drivers.cgroup.tree import Groups
from cotenant.model.errors import CotenantError, Transient
from cotenant.services.clients.agent import AgentClient

pytestmark = pytest.mark.slow
PATIENCE_S = 30.0
CONTROLLERS = ("cpu.", "cpuset.", "memory.", "io.", "blkio.")
# Files that tell what happened, or do something, rather than keep a setting.
NO_SETTINGS = ("pressure", "usage", "failcnt", "force_empty", "reclaim", "peak", "swappiness", "kmem", "reset_stats")
Settings = dict[str, bytes]


def settings(layout: CgroupLayout, top: str) -> Settings:
    """Every setting of every group below `top`, in every tree: file -> content."""
    found: Settings = {}
    for hierarchy in layout.hierarchies:
        for folder, _, files in os.walk(Path(hierarchy.path, top)):
            for name in files:
                path = Path(folder, name)
                mode = path.stat().st_mode
                is_setting = name.startswith(CONTROLLERS) and mode & stat.S_IWUSR and mode & stat.S_IRUSR
                if is_setting and not any(word in name for word in NO_SETTINGS):
                    try:
                        found[str(path)] = path.read_bytes()
                    except OSError:
                        continue
    return found


class AgentProcess:
    """The command, with a configuration of its own."""

    def __init__(self, folder: Path, top: str, *arguments: str, **more: object) -> None:
        self.folder, self.top = folder, top
        self.client = AgentClient(f"unix:{folder}/agent.sock")
        config = {
            "node": "test",
            "mode": "act",
            "period_ms": 200,
            "writable": [top],
            "groups": [
                {"group": f"{top}/web", "name": "shop/web", "qos": "LS", "objective_p99_ms": 5},
                {"group": f"{top}/job", "name": "jobs/one", "qos": "BE"},
            ],
            "listen": f"unix:{folder}/agent.sock",
            "state_dir": f"{folder}/state",
            "cpu_manager_state": f"{folder}/cpu_manager_state",  # not that of a kubelet on this machine
            **more,
        }
        self.file = folder / "agent.yaml"
        self.file.write_bytes(msgspec.yaml.encode(config))
        self.command = [sys.executable, "-m", "cotenant", "agent", "--config", str(self.file), *arguments]
        self.process: subprocess.Popen[str] | None = None

    def start(self, command: list[str] | None = None) -> AgentProcess:
        log = (self.folder / "agent.log").open("a")
        self.process = subprocess.Popen(command or self.command, stdout=subprocess.PIPE, stderr=log, text=True)
        assert self.process.stdout is not None
        assert self.process.stdout.readline().startswith("listening on unix:"), (self.folder / "agent.log").read_text()
        return self

    def until(self, holds: Callable[[], bool]) -> None:
        try:
            eventually("the agent", holds, PATIENCE_S, tolerated=(Transient,))
        except AssertionError as error:
            raise AssertionError(f"{error}\n{(self.folder / 'agent.log').read_text()[-3000:]}") from None

    def ticks(self) -> float:
        """How many it has begun. A client does not wait for long, and an agent may get no CPU for as long."""

        def page() -> bytes:
            return self.client._request("GET", "/metrics", None)[1]

        found = eventually("the agent's metrics", page, PATIENCE_S, tolerated=(Transient,))
        return metric(found.decode(), "cotenant_agent_ticks_total")

    def holds_something(self) -> bool:
        return bool(self.told("/v1/leases", "leases"))

    def told(self, path: str, name: str) -> object:
        """A field of an answer; None where there is none now."""
        try:
            return self.client.get(path)[name]
        except CotenantError:
            return None

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            if self.process.stdout is not None:
                self.process.stdout.close()
            self.process = None

    def stop(self) -> int:
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        status = self.process.wait(patience(15))
        self.kill()
        return status

    def once(self) -> None:
        """The next start: it puts back what was left, measures, and ends."""
        done = subprocess.run(
            [*self.command, "--once"], capture_output=True, text=True, timeout=patience(60), check=False
        )
        assert done.returncode == 0, done.stderr


@pytest.fixture
def folder() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="cotenant-test-"))
    path.chmod(0o1777)  # sticky: no other user can replace the state folder
    yield path
    shutil.rmtree(path)


@pytest.fixture
def top(groups: Groups, group: str) -> str:
    """A group with a service's and a job's group below it."""
    above = group.rpartition("/")[0]
    for name in ("web", "job"):
        groups.make(f"{above}/{name}")
    return above


@pytest.fixture
def agent(folder: Path, top: str) -> Iterator[AgentProcess]:
    made = AgentProcess(folder, top, "--single")
    yield made
    made.kill()


def test_after_the_end_every_setting_is_restored(
    layout: CgroupLayout, groups: Groups, top: str, agent: AgentProcess
) -> None:
    before = settings(layout, top)
    assert len(before) > 20
    with burning(groups, f"{top}/job", 2), burning(groups, f"{top}/web"):
        agent.start().until(agent.holds_something)
        assert settings(layout, top) != before
        assert agent.stop() == 0
        assert settings(layout, top) == before


@pytest.mark.parametrize("ticks", [0, 1, 3, 15])
def test_killed_at_any_moment_the_next_start_restores_everything(
    layout: CgroupLayout, groups: Groups, top: str, folder: Path, ticks: int
) -> None:
    """Killed after so many ticks: before the first lease, while it writes the first, and while it renews."""
    before = settings(layout, top)
    agent = AgentProcess(folder, top, "--single", period_ms=100)
    try:
        with burning(groups, f"{top}/job", 2), burning(groups, f"{top}/web"):
            agent.start()
            agent.until(lambda: agent.ticks() >= ticks)
            agent.kill()
            agent.once()
            assert settings(layout, top) == before
    finally:
        agent.kill()


def test_killed_while_it_holds(layout: CgroupLayout, groups: Groups, top: str, agent: AgentProcess) -> None:
    before = settings(layout, top)
    with burning(groups, f"{top}/job", 2), burning(groups, f"{top}/web"):
        agent.start().until(agent.holds_something)
        agent.kill()
        assert settings(layout, top) != before
        agent.once()
    assert settings(layout, top) == before


def test_groups_recreated_under_a_running_agent(
    layout: CgroupLayout, groups: Groups, top: str, agent: AgentProcess
) -> None:
    before = settings(layout, top)
    agent.start().until(agent.holds_something)
    for _ in range(3):
        groups.remove(f"{top}/job")
        ticks = len(agent.client.get("/v1/decisions")["decisions"])
        groups.make(f"{top}/job")
        agent.until(lambda ticks=ticks: len(agent.client.get("/v1/decisions")["decisions"]) >= ticks)  # type: ignore[misc]
    assert agent.client.is_healthy()
    assert agent.stop() == 0
    assert settings(layout, top) == before


def test_a_reload_with_an_error_changes_nothing_and_one_without_takes_hold(
    layout: CgroupLayout, top: str, agent: AgentProcess
) -> None:
    before = settings(layout, top)
    agent.start().until(agent.holds_something)
    good = agent.file.read_bytes()
    assert agent.process is not None
    log = agent.folder / "agent.log"
    agent.file.write_text("mode: brave\n")
    agent.process.send_signal(signal.SIGHUP)
    agent.until(lambda: "brave" in log.read_text())
    assert agent.holds_something()
    agent.file.write_bytes(good.replace(b"mode: act", b"mode: observe"))
    agent.process.send_signal(signal.SIGHUP)
    agent.until(lambda: settings(layout, top) == before)
    agent.until(lambda: agent.told("/v1/state", "mode") == "observe")
    assert agent.stop() == 0


# Everything is imported before the rights are given up: the interpreter may stand in a folder that only root may read.
AS_NOBODY = """
import os, sys
import concurrent.futures.thread, encodings.ascii, encodings.idna, encodings.latin_1
import uvicorn.lifespan.off
import cotenant.cli.main, cotenant.services.agent.main, cotenant.services.knobs.client, cotenant.drivers.http.server
import cotenant.drivers.ebpf.delays, cotenant.drivers.ebpf.runqueue
os.setgroups([]); os.setgid(65534); os.setuid(65534)
sys.exit(cotenant.cli.main.main(sys.argv[1:]))
"""


def test_without_privileges_it_holds_through_the_keeper_and_its_death_restores(
    layout: CgroupLayout, groups: Groups, top: str, folder: Path
) -> None:
    before = settings(layout, top)
    state = folder / "keeper"
    state.mkdir(mode=0o755)
    with KeeperProcess(state, [top], "--allow-user", "nobody") as keeper:
        agent = AgentProcess(folder, top, keeper=str(keeper.ready().path), lease_ttl_ms=3000)
        command = [sys.executable, "-c", AS_NOBODY, *agent.command[3:]]
        try:
            with burning(groups, f"{top}/job", 2), burning(groups, f"{top}/web"):
                agent.start(command).until(lambda: settings(layout, top) != before)
                agent.kill()
                agent.until(lambda: settings(layout, top) == before)  # the leases run out at the keeper
        finally:
            agent.kill()


def test_fifty_groups_in_eighty_mebibytes(groups: Groups, top: str, folder: Path) -> None:
    names = [f"{top}/g{number}" for number in range(50)]
    for name in names:
        groups.make(name)
    plain = [
        {"group": name, "name": f"a/{index}", "qos": "BE" if index % 2 else "LS"} for index, name in enumerate(names)
    ]
    agent = AgentProcess(folder, top, "--single", groups=plain)
    try:
        agent.start().until(agent.holds_something)
        assert agent.process is not None
        fields = Path(f"/proc/{agent.process.pid}/status").read_text()
        peak_kib = next(int(line.split()[1]) for line in fields.splitlines() if line.startswith("VmHWM"))
        assert peak_kib < 80 * 1024
        assert agent.stop() == 0
    finally:
        agent.kill()

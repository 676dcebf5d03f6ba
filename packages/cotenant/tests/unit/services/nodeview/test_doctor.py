"""The doctor looks at a kubelet's tree in a folder, its files, its keeper and other processes."""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from tests.fakes.node import kubepods

from cotenant.cli.main import main
from cotenant.drivers.nri.state_file import HANGS_AFTER_S, HookState, StateFile
from cotenant.engine.node.doctor.checks import FindingSeverity, findings
from cotenant.engine.node.doctor.found import KeeperFound, NodeFound, OtherWriter
from cotenant.engine.node.mode import AgentMode
from cotenant.model.errors import Unsupported
from cotenant.model.kubelet.facts import KubeletFacts
from cotenant.model.machine.knob import Knob
from cotenant.services.agent.self_check import checked
from cotenant.services.agent_settings.config import AgentConfig
from cotenant.services.agent_settings.runtime_hook import RuntimeHook
from cotenant.services.knobs.wire import Described
from cotenant.services.nodeview import doctor as looks
from cotenant.services.nodeview.doctor import _with_keeper, examine
from cotenant.services.nodeview.other_writers import other_writers

NOBODY = 65534
NO_SOCKET = Path("/nowhere/keeper.sock")


def node(folder: Path, version: int = 1, systemd: bool = False) -> Path:
    """A kubelet's tree with a best-effort pod; where its checkpoint would be."""
    trees = folder / "cgroup"
    trees.mkdir()
    kubepods.layout(trees, version)
    if version == 2:
        (trees / "cgroup.controllers").write_text("cpu memory\n")
    for qos in ("besteffort", "burstable"):
        kubepods.make(trees, version, kubepods.pod_group(kubepods.UIDS[0], qos, systemd))
    return folder / "kubelet/cpu_manager_state"


def config(folder: Path, *writable: str, mode: AgentMode = AgentMode.ACT, despite: bool = False) -> AgentConfig:
    return AgentConfig(
        node="n",
        mode=mode,
        cgroup_root=folder / "cgroup",
        writable=writable,
        keeper=NO_SOCKET,
        act_despite_conflicts=despite,
    )


def found(folder: Path, *writable: str, single: bool = False, version: int = 1, systemd: bool = False) -> NodeFound:
    checkpoint = node(folder, version, systemd)
    return asyncio.run(examine(config(folder, *writable), single=single, checkpoint=checkpoint))


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize(("systemd", "root"), [(False, "kubepods"), (True, "kubepods.slice")])
def test_a_kubelets_tree_is_found(tmp_path: Path, version: int, systemd: bool, root: str) -> None:
    seen = found(tmp_path, root, "nowhere", version=version, systemd=systemd)
    assert (seen.roots, seen.absent, seen.kubelet.cgroup_version) == ((root,), ("nowhere",), version)
    assert seen.keeper is not None
    assert "does not answer" in seen.keeper.problem


def test_the_kubelets_files_are_read(tmp_path: Path) -> None:
    checkpoint = node(tmp_path)
    checkpoint.parent.mkdir()
    checkpoint.write_text('{"policyName":"static","entries":{"u":{"c":"2"}}}')
    (checkpoint.parent / "config.yaml").write_text("topologyManagerPolicy: restricted")
    seen = asyncio.run(examine(config(tmp_path, "kubepods"), single=True, checkpoint=checkpoint))
    assert (seen.kubelet.cpu_manager, seen.kubelet.topology_manager) == ("static", "restricted")
    assert seen.keeper is None


def test_the_runtime_hook_that_is_there_hangs_or_is_not(tmp_path: Path) -> None:
    checkpoint = node(tmp_path)
    hook = RuntimeHook(socket=tmp_path / "nri.sock", state_file=tmp_path / "nri.json")
    settings = replace(config(tmp_path, "kubepods"), runtime_hook=hook)

    def lacks() -> str:
        return asyncio.run(examine(settings, single=True, checkpoint=checkpoint)).runtime_hook

    assert "node.nri.enabled=true) beside a runtime with NRI" in lacks()
    hook.socket.touch()
    assert lacks() == "`cotenant nri` (the chart: node.nri.enabled=true)"
    now_s = time.monotonic()
    with closing(StateFile(hook.state_file, lambda: now_s)) as file:
        file.write(HookState("containerd 2.1.0", acts=True))
        assert lacks() == ""
        now_s -= HANGS_AFTER_S
        file.write(HookState("containerd 2.1.0", acts=True))
        assert "has not come round" in lacks()


def test_what_schedulers_of_zones_need_is_told_by_the_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def read_state() -> None:
        raise Unsupported("a kernel scheduler of its own", "Linux 6.12 or later")

    def check(release: str, libbpf: tuple[int, int]) -> None:
        raise Unsupported("a scheduler for one cgroup", "Linux 7.3 or later")

    checkpoint = node(tmp_path)

    def lacks() -> tuple[str, str]:
        seen = asyncio.run(examine(config(tmp_path, "kubepods"), single=True, checkpoint=checkpoint))
        return seen.schedulers, seen.sub_schedulers

    monkeypatch.setattr(looks, "version", lambda: (1, 5))
    monkeypatch.setattr(looks.sched_ext, "read_state", read_state)
    assert lacks() == ("Linux 6.12 or later", "")
    monkeypatch.setattr(looks.sched_ext, "read_state", lambda: None)
    monkeypatch.setattr(looks, "check_sub_schedulers", check)
    assert lacks() == ("", "Linux 7.3 or later")
    monkeypatch.setattr(looks, "check_sub_schedulers", lambda release, libbpf: None)
    assert lacks() == ("", "")


def process(proc: Path, pid: int, *command: str) -> None:
    (proc / str(pid)).mkdir(parents=True)
    (proc / str(pid) / "cmdline").write_bytes(b"\0".join(word.encode() for word in command) + b"\0")


def test_other_writers_are_found_by_their_command_lines(tmp_path: Path) -> None:
    node(tmp_path)
    ours, proc = config(tmp_path, "kubepods"), tmp_path / "proc"
    agent = tmp_path / "agent.yaml"
    agent.write_text(f"{{mode: act, writable: [batch.slice], cgroup_root: {tmp_path / 'cgroup'}}}")
    tree = f"--cgroup-root={tmp_path / 'cgroup'}"
    process(proc, 2, "/usr/bin/koordlet", "-v=4")
    process(proc, 3, "python3", "/usr/bin/cotenant", "keeper", "--root", "kubepods", f"--socket={NO_SOCKET}", tree)
    process(proc, 4, "cotenant", "keeper", "--root=/kubepods/besteffort", tree)
    process(proc, 5, "cotenant", "keeper", "--root=kubepods", "--cgroup-root=/another")
    process(proc, 6, "cotenant", "keeper", "--root=kubepods", "--dry-run", tree)
    process(proc, 7, "python3", "-m", "cotenant", "agent", "--single", "--config", str(agent))
    process(proc, 8, "cotenant", "agent", "--config", str(agent))  # writes through its keeper
    process(proc, 9, "cotenant", "agent", "--single", "--config", str(agent), "--mode=observe")
    process(proc, 10, "grep", "cotenant", "keeper", tree)
    (proc / "11").mkdir()  # a thread of the kernel, or gone
    process(proc, 12, "cotenant", "keeper", "--kubelet-groups=all", "--cgroup-root=/host/cgroup")
    (proc / "12/root/host").mkdir(parents=True)
    (proc / "12/root/host/cgroup").symlink_to(tmp_path / "cgroup")  # a container's name for our tree
    (proc / "meminfo").write_text("")
    koordlet = OtherWriter("koordlet", "process 2")
    second = OtherWriter("another keeper", "process 4", ("kubepods/besteffort",))
    agents = OtherWriter("another agent", "process 7", ("batch.slice",))
    inside = OtherWriter("another keeper", "process 12", ("kubepods",))
    assert other_writers(replace(ours, keeper=Path("/run/other.sock")), single=False, proc=proc)[-1] == inside
    assert other_writers(ours, single=False, proc=proc) == (koordlet, second, agents, inside)
    own = OtherWriter("another keeper", "process 3", ("kubepods",))
    assert other_writers(ours, single=True, proc=proc) == (koordlet, own, second, agents, inside)


@pytest.mark.skipif(os.geteuid() != 0, reason="gives up root's rights for a while")
def test_an_account_without_rights_says_which_writers_it_cannot_read() -> None:
    with tempfile.TemporaryDirectory(prefix="cotenant-test-") as place:
        folder = Path(place)
        folder.chmod(0o755)
        node(folder)
        ours, proc = config(folder, "kubepods"), folder / "proc"
        process(proc, 4, "cotenant", "agent", "--single", "--config=/etc/cotenant/agent.yaml")
        process(proc, 5, "cotenant", "agent", "--single", "--config=/etc/cotenant/agent.yaml", "--mode=observe")
        process(proc, 6, "cotenant", "keeper", "--root=kubepods", "--socket=/run/other.sock")
        for pid in (4, 5, 6):
            (proc / str(pid) / "root").mkdir(mode=0o700)
        os.seteuid(NOBODY)
        try:
            found = other_writers(ours, single=False, proc=proc)
        finally:
            os.seteuid(0)
    assert found == (
        OtherWriter("another agent", "process 4", is_certain=False),
        OtherWriter("another keeper", "process 6", ("kubepods",), is_certain=False),
    )
    (first, *_) = findings(NodeFound("v1", writers=found), ours.settings())
    assert (first.severity, first.subject) == (FindingSeverity.WARNING, "other writers")
    assert first.text == (
        "another agent (process 4) may write knobs of groups below /kubepods: this account may not read it"
    )


@pytest.mark.parametrize(
    ("writable", "despite", "mode", "conflicts"),
    [
        ("kubepods", False, AgentMode.ACT, 0),
        ("kubepods.slice", False, AgentMode.OBSERVE, 1),  # a root of another driver
        ("kubepods.slice", True, AgentMode.ACT, 1),
    ],
)
def test_an_agent_that_finds_a_conflict_observes_unless_told(
    tmp_path: Path, writable: str, despite: bool, mode: AgentMode, conflicts: int
) -> None:
    node(tmp_path)
    given, against = asyncio.run(checked(config(tmp_path, writable, despite=despite), single=True))
    assert (given.mode, len(against)) == (mode, conflicts)


@pytest.mark.parametrize(("option", "policy"), [((), "static"), (("--cpu-manager-state=/nowhere/state",), "")])
def test_the_kubelets_state_is_read_where_the_configuration_says(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], option: tuple[str, ...], policy: str
) -> None:
    node(tmp_path)
    checkpoint = tmp_path / "k0s" / "cpu_manager_state"
    checkpoint.parent.mkdir()
    checkpoint.write_text('{"policyName":"static","defaultCpuSet":"0-3","checksum":1}')
    file = tmp_path / "agent.yaml"
    file.write_text(
        f"{{cgroup_root: {tmp_path / 'cgroup'}, writable: [kubepods/besteffort], cpu_manager_state: {checkpoint}}}"
    )
    main(["node", "doctor", "--single", "--json", "--config", str(file), *option])
    assert json.loads(capsys.readouterr().out)["found"]["kubelet"]["cpu_manager"] == policy


def test_an_agent_that_does_not_act_looks_for_nothing(tmp_path: Path) -> None:
    asked = config(tmp_path / "nowhere", mode=AgentMode.OBSERVE)
    assert asyncio.run(checked(asked, single=True)) == (asked, ())


def test_without_cgroups_the_start_fails_where_it_did_before(tmp_path: Path) -> None:
    asked = config(tmp_path / "nowhere", "kubepods")
    assert asyncio.run(checked(asked, single=True)) == (asked, ())


def doctor(tmp_path: Path, capsys: pytest.CaptureFixture[str], writable: str, *more: str) -> tuple[int, str]:
    checkpoint = node(tmp_path)
    file = tmp_path / "agent.yaml"
    file.write_text(f"{{cgroup_root: {tmp_path / 'cgroup'}, writable: [{writable}], keeper: {NO_SOCKET}}}")
    status = main(["node", "doctor", "--config", str(file), f"--cpu-manager-state={checkpoint}", *more])
    return status, capsys.readouterr().out


def test_the_table_fits_in_a_hundred_columns(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, out = doctor(tmp_path, capsys, "kubepods/besteffort")
    lines = out.splitlines()
    assert status == 0
    assert max(map(len, lines)) <= 100
    assert lines[0].startswith("cgroups v1; groups of kubelets: /kubepods")
    assert lines[-1].endswith("an agent may act here")
    assert "0 conflicts" in lines[-1]


def test_a_conflict_is_its_exit_status_and_in_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, out = doctor(tmp_path, capsys, "kubepods.slice/kubepods-besteffort.slice", "--single", "--json")
    answer = json.loads(out)
    assert (status, answer["conflicts"]) == (1, 1)
    assert answer["findings"][0]["severity"] == "conflict"
    assert answer["found"]["roots"] == ["kubepods"]
    assert answer["found"]["keeper"] is None


def test_a_file_that_is_not_there_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["node", "doctor", "--config", "/nowhere/agent.yaml"]) == 2
    assert "--config" in capsys.readouterr().err


def test_a_keeper_says_which_capability_it_lacks(tmp_path: Path) -> None:
    """The agent beside it has none, and needs none."""

    class Answering:
        def __init__(self, path: Path, timeout_s: float) -> None:
            self.lacks = ("CAP_SYS_RESOURCE",)

        async def describe(self) -> Described:
            return Described(("kubepods",), frozenset(Knob), False, 1, KubeletFacts(1), self.lacks, "--waits")

        async def close(self) -> None:
            pass

    bare = NodeFound("v2", run_queue="root")
    seen = asyncio.run(_with_keeper(bare, config(tmp_path, "kubepods"), Answering))
    assert (seen.short_windows, seen.keeper) == ("CAP_SYS_RESOURCE", KeeperFound("", ("kubepods",), frozenset(Knob)))
    without = asyncio.run(_with_keeper(replace(bare, pressure="psi=1"), config(tmp_path, "kubepods"), Answering))
    assert without.short_windows == ""
    assert seen.run_queue == "--waits"  # not what this process would need


def test_a_certificate_that_is_not_there_is_found(tmp_path: Path) -> None:
    checkpoint, certificate = node(tmp_path), tmp_path / "tls.crt"
    asked = replace(config(tmp_path, "kubepods"), seal_certificate=certificate)
    assert str(certificate) in asyncio.run(examine(asked, single=True, checkpoint=checkpoint)).seal
    certificate.write_text("a certificate")
    assert asyncio.run(examine(asked, single=True, checkpoint=checkpoint)).seal == ""

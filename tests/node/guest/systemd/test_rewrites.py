"""What systemd does to its slices without any Kubernetes, and what our limits are after it."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.fakes.node.kubelet.node import KubeletNode
from tests.fakes.node.kubelet.pods import Qos
from tests.fakes.node.kubelet.systemd import SystemdGroups
from tests.fakes.waiting import patience
from tests.node.kubelet.beside import AgentBeside

pytestmark = pytest.mark.slow
SLICE = "kubepods-besteffort.slice"


def systemctl(*words: str) -> None:
    """Until systemd has written, too: it answers before that, and writes before it answers the next question."""
    for asked in (words, ("show", "--property=Version")):
        subprocess.run(["systemctl", *asked], check=True, stdout=subprocess.DEVNULL, timeout=patience(60))


@pytest.fixture
def by_hand() -> Iterator[Path]:
    """A slice of nobody's with quota and idle class written by hand."""
    root = Path("/sys/fs/cgroup/byhand.slice")
    systemctl("set-property", "--runtime", "byhand.slice", "CPUWeight=1")
    systemctl("start", "byhand-be.slice")
    systemctl("set-property", "--runtime", "byhand-be.slice", "CPUWeight=1")
    folder = root / "byhand-be.slice"
    (folder / "cpu.max").write_text("20000 100000")
    (folder / "cpu.idle").write_text("1")
    yield folder
    systemctl("stop", "byhand.slice")


def of(folder: Path) -> tuple[str, str]:
    return (folder / "cpu.max").read_text().split()[0], (folder / "cpu.idle").read_text().strip()


@pytest.mark.parametrize("action", ["the same value", "daemon-reload", "a child"])
def test_values_written_by_hand_do_not_last(by_hand: Path, action: str) -> None:
    """The fact that the rest of this module is about."""
    assert of(by_hand) == ("20000", "1")
    match action:
        case "the same value":
            systemctl("set-property", "--runtime", "byhand-be.slice", "CPUWeight=1")
        case "daemon-reload":
            systemctl("daemon-reload")
        case _:
            systemctl("start", "byhand-be-child.slice")
            systemctl("set-property", "--runtime", "byhand-be-child.slice", "CPUWeight=1")
    assert of(by_hand) == ("max", "0")


def test_limits_outlast_whatever_makes_systemd_write(node: KubeletNode, agent: AgentBeside) -> None:
    agent.settled()
    held = agent.in_force()
    for round_ in range(2):
        systemctl("set-property", "--runtime", SLICE, "CPUWeight=1")
        held.after("the same value", 60)
        systemctl("daemon-reload")
        held.after("daemon-reload", 60)
        systemctl("start", f"kubepods-besteffort-other{round_}.slice")
        held.after("a child", 60)
        systemctl("stop", f"kubepods-besteffort-other{round_}.slice")
    assert held.share >= 0.99, held.gaps


def test_limits_outlast_a_restart_a_reload_and_a_new_pod_each_second(node: KubeletNode, agent: AgentBeside) -> None:
    agent.settled()
    held = agent.in_force()
    held.holds = lambda: agent.limits([agent.job])
    assert isinstance(node.groups, SystemdGroups)
    for _ in range(3):
        pod = node.add()
        held.after("a new pod", 1)
        node.kubelet.remove(pod)
        held.after("a pod gone", 1)
    node.groups.reload()
    held.after("daemon-reload", 30)
    node.restart()
    held.after("restart", 30)
    assert held.share >= 0.99, held.gaps


def test_a_new_value_of_a_human_stays(node: KubeletNode, agent: AgentBeside) -> None:
    agent.settled()
    (folder,) = node.groups.folders(node.kubelet.path_of(Qos.BEST_EFFORT))

    def stays() -> bool:
        systemctl("set-property", "--runtime", SLICE, "CPUQuota=7%")
        until = agent.process.ticks() + 5
        agent.process.until(lambda: agent.process.ticks() >= until)
        return (folder / "cpu.max").read_text().split()[0] == "7000"

    assert any(stays() for _ in range(3))  # between a reading of ours and our write nobody can be seen
    systemctl("set-property", "--runtime", SLICE, "CPUQuota=")

"""What a keeper reads of the kubelet: its checkpoints win over its file, and both are read again."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cotenant.model.kubelet.facts import KubeletFacts
from cotenant.services.knobs.node_facts import NodeFactsReader


def test_checkpoints_win_over_the_file(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("{cpuManagerPolicy: none, topologyManagerPolicy: restricted}")
    (tmp_path / "cpu_manager_state").write_text('{"policyName":"static","entries":{"u":{"c":"2-3"}}}')
    (tmp_path / "memory_manager_state").write_text('{"policyName":"None"}')
    facts = NodeFactsReader(1, lambda: 252, tmp_path / "cpu_manager_state")
    assert facts() == KubeletFacts(
        1,
        cpu_manager="static",
        topology_manager="restricted",
        memory_manager="None",
        given_cpus=(("u", (2, 3)),),
        systemd=252,
    )


def test_the_kubelet_is_asked_which_devices_it_gave_when_its_files_are_read(tmp_path: Path) -> None:
    now, given = [0.0], [(("GPU-a", "ml/train"),), ()]
    facts = NodeFactsReader(None, lambda: None, tmp_path / "x", lambda: now[0], devices=lambda: given.pop(0))
    assert facts().given_devices == facts().given_devices == (("GPU-a", "ml/train"),)
    now[0] = 10.0
    assert facts().given_devices == ()


def test_files_are_read_again_after_some_seconds(tmp_path: Path) -> None:
    now = [0.0]
    facts = NodeFactsReader(None, lambda: None, tmp_path / "cpu_manager_state", clock=lambda: now[0])
    assert facts() == KubeletFacts(2)
    config = tmp_path / "config.yaml"
    config.write_text("cpuManagerPolicy: none")
    assert facts().cpu_manager == ""
    now[0] = 10.0
    assert facts().cpu_manager == "none"
    config.write_text("cpuManagerPolicy: static")
    os.utime(config, ns=(1, 1))
    now[0] = 20.0
    assert facts().cpu_manager == "static"
    config.unlink()
    now[0] = 30.0
    assert facts().cpu_manager == ""


def test_a_checkpoint_that_was_replaced_behind_its_mount_is_said_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """An open file that is no longer in its folder has no link, as a mounted one that was replaced."""
    state, now = tmp_path / "cpu_manager_state", [0.0]
    state.write_text('{"policyName": "static"}')
    with state.open() as file:
        facts = NodeFactsReader(1, lambda: None, Path(f"/proc/self/fd/{file.fileno()}"), lambda: now[0])
        assert facts().cpu_manager == "static"
        assert not caplog.records
        state.unlink()
        for _ in range(3):
            now[0] += 11.0
            assert facts().cpu_manager == "static"
    assert [record.levelname for record in caplog.records] == ["WARNING"]

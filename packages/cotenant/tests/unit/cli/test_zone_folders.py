"""Every command about zones takes their folder by the keeper's name of it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cotenant.cli.main import main
from cotenant.services.zones.state_file import write_state


@pytest.mark.parametrize("option", ["--zone-state-dir", "--state-dir"])
@pytest.mark.parametrize(
    "command", [["zone", "list"], ["zone", "inspect", "shop"], ["explain", "zone", "shop"]], ids=" ".join
)
def test_each_command_finds_the_zones_of_a_folder_that_is_named_as_to_the_keeper(
    command: list[str], option: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "zones").mkdir()
    state = {"zone": "shop", "pid": os.getpid(), "state": "active", "setting": "weights", "rows": {}, "banned": {}}
    write_state(tmp_path / "zones", {**state, "reading": None, "history": []})
    monkeypatch.chdir(tmp_path)  # a folder may be relative
    assert main([*command, option, "zones", "--json"]) == 0
    assert "shop" in capsys.readouterr().out

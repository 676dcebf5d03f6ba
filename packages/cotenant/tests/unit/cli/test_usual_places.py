"""Where processes are without being told: no two listen at one place, and what one was told another is told alike."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cotenant.cli.main import main
from cotenant.services.agent_settings.config import AgentConfig
from cotenant.services.console.console_arguments import ConsoleArguments
from cotenant.services.credit import credit_process
from cotenant.services.extender.extender_arguments import ExtenderSettings
from cotenant.services.manager import manager_process
from cotenant.services.rebalancer import options as rebalancer_options
from cotenant.services.scheduling import options as scheduler_options
from cotenant.services.traces.traces_arguments import TraceSettings
from cotenant.services.webhook.webhook_arguments import WebhookSettings
from cotenant.services.zones.state_file import write_state


def test_no_two_processes_listen_at_one_place_by_default() -> None:
    usual = (credit_process, manager_process, rebalancer_options, scheduler_options)
    places = [
        *(str(module.LISTEN.port) for module in usual),
        *(
            given.rpartition(":")[2]
            for given in (
                AgentConfig().listen,
                ConsoleArguments().listen,
                ExtenderSettings().listen,
                TraceSettings().http,
                TraceSettings().grpc,
                WebhookSettings().listen,
            )
        ),
    ]
    assert sorted(set(places)) == sorted(places)


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

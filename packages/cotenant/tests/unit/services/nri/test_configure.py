"""The runtime hook's command line over the agent's file."""

from __future__ import annotations

from pathlib import Path

import pytest

from cotenant.engine.node.settings import AgentMode
from cotenant.model.errors import InvalidInput
from cotenant.services.agent_settings.config import AgentConfig
from cotenant.services.nri.main import NriArguments, configure


def test_what_the_command_line_names_counts_and_the_rest_is_the_files(tmp_path: Path) -> None:
    file = tmp_path / "agent.yaml"
    file.write_text("mode: dry-run\nnode: n1\nruntime_hook: {socket: /run/of-the-file.sock}\n")
    written = configure(NriArguments(file))
    assert (written.mode, str(written.runtime_hook.socket)) == (AgentMode.DRY_RUN, "/run/of-the-file.sock")
    named = configure(NriArguments(file, mode="observe", socket=Path("/run/named.sock")))
    assert (named.mode, str(named.runtime_hook.socket)) == (AgentMode.OBSERVE, "/run/named.sock")
    assert named.node == written.node == "n1"
    assert configure(NriArguments(None)) == AgentConfig()


def test_a_wrong_file_or_mode_is_refused_by_the_option_that_named_it(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"^--mode: ever: expected one of "):
        configure(NriArguments(None, mode="ever"))
    (tmp_path / "agent.yaml").write_text("mode: [")
    with pytest.raises(InvalidInput, match=r"^--config"):
        configure(NriArguments(tmp_path / "agent.yaml"))

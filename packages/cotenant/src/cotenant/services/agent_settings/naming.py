"""The mode that a command line may name beside the agent's configuration."""

from __future__ import annotations

from cotenant.engine.node.mode import AgentMode
from cotenant.model.errors import InvalidInput


def check_mode(mode: str) -> None:
    """Raises `InvalidInput` for what is no mode; empty: that of the file."""
    if mode and mode not in set(AgentMode):
        raise InvalidInput("--mode", mode, "one of " + ", ".join(AgentMode))

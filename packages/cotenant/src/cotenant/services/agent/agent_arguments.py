"""What a person asks of `cotenant agent`, and the checks that need nothing else.

The fields are the options of the command. A refused value costs what the command line costs: nothing here imports an
engine or a client.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from cotenant.model.errors import InvalidInput
from cotenant.services.agent_settings.naming import check_mode
from cotenant.services.logs import check_logging
from cotenant.services.options import COMMON, LogFormat, LogLevel
from cotenant.services.readable import check_readable


@dataclass(frozen=True, slots=True)
class AgentArguments:
    """The command's arguments."""

    config: Annotated[
        Path | None,
        Parameter(help="YAML or TOML; without one the node is measured and no knob is written.", group=COMMON),
    ] = None
    single: Annotated[
        bool,
        Parameter(negative=(), help="Write knobs in this process instead of through `cotenant keeper`.", group=COMMON),
    ] = False
    mode: Annotated[
        str, Parameter(help="act, dry-run or observe; default: from the file, else observe.", group=COMMON)
    ] = ""
    once: Annotated[
        bool, Parameter(negative=(), help="Measure once, print what would be held, and exit.", group=COMMON)
    ] = False
    json: Annotated[bool, Parameter(negative=(), help="With --once: as JSON.", group=COMMON)] = False
    log_level: LogLevel = "info"
    log_format: LogFormat = "text"


def check(request: AgentArguments) -> None:
    """Raises `InvalidInput` for a value that cannot be."""
    if request.json and not request.once:
        raise InvalidInput("--json", "alone", "--once with it", "a running agent serves /v1/state")
    check_mode(request.mode)
    check_logging(request.log_level, request.log_format)
    check_readable("--config", request.config)

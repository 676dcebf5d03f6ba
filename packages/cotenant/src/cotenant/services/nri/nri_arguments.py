"""What a person asks of `cotenant nri`, and the checks that need nothing else.

The fields are the options of the command. A refused value costs what the command line costs: nothing here imports an
engine or a client.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from cotenant.services.agent_settings.naming import check_mode
from cotenant.services.logs import check_logging
from cotenant.services.options import COMMON, LogFormat, LogLevel
from cotenant.services.readable import check_readable


@dataclass(frozen=True, slots=True)
class NriArguments:
    """The command's arguments."""

    config: Annotated[
        Path | None,
        Parameter(
            help="The agent's configuration, YAML or TOML; its part runtime_hook is this process's.", group=COMMON
        ),
    ] = None
    mode: Annotated[
        str,
        Parameter(
            help="act, dry-run or observe; default: from the file, else observe. Only act changes containers.",
            group=COMMON,
        ),
    ] = ""
    socket: Annotated[
        Path | None,
        Parameter(help="The runtime's socket; default: from the file, else /var/run/nri/nri.sock.", group=COMMON),
    ] = None
    log_level: LogLevel = "info"
    log_format: LogFormat = "text"


def check(request: NriArguments) -> None:
    """Raises `InvalidInput` for a value that cannot be."""
    check_mode(request.mode)
    check_logging(request.log_level, request.log_format)
    check_readable("--config", request.config)

"""`cotenant nri`: the runtime hook of a node.

Only signatures and help texts are here; what the command does is imported when it runs, so that `--help` stays fast.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from cotenant.cli.options import LogFormat, LogLevel


def nri(
    *,
    config: Annotated[
        Path | None, Parameter(help="The agent's configuration, YAML or TOML; its part runtime_hook is this process's.")
    ] = None,
    mode: Annotated[
        str,
        Parameter(help="act, dry-run or observe; default: from the file, else observe. Only act changes containers."),
    ] = "",
    socket: Annotated[
        Path | None, Parameter(help="The runtime's socket; default: from the file, else /var/run/nri/nri.sock.")
    ] = None,
    log_level: LogLevel = "info",
    log_format: LogFormat = "text",
) -> int:
    """Give containers their first values when the container runtime creates them, through its plugin interface (NRI).

    A best-effort container starts with its weight, quota and memory limit; on request also with CPUs, devices and names. Without this process, or when it fails, containers start as the runtime was told. Exit status: 0 after SIGTERM or Ctrl-C, 2 bad input, 1 where this machine lacks something required.
    """
    from cotenant.services.nri import main

    return main.run(
        main.NriArguments(config=config, mode=mode, socket=socket, log_level=log_level, log_format=log_format)
    )

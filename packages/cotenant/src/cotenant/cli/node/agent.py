"""`cotenant agent`: the node's agent.

Only signatures and help texts are here; what the command does is imported when it runs, so that `--help` stays fast and the agent stays small.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from cotenant.cli.options import LogFormat, LogLevel


def agent(
    *,
    config: Annotated[
        Path | None, Parameter(help="YAML or TOML; without one the node is measured and no knob is written.")
    ] = None,
    single: Annotated[
        bool, Parameter(negative=(), help="Write knobs in this process instead of through `cotenant keeper`.")
    ] = False,
    mode: Annotated[str, Parameter(help="act, dry-run or observe; default: from the file, else observe.")] = "",
    once: Annotated[bool, Parameter(negative=(), help="Measure once, print what would be held, and exit.")] = False,
    json: Annotated[bool, Parameter(negative=(), help="With --once: as JSON.")] = False,
    log_level: LogLevel = "info",
    log_format: LogFormat = "text",
) -> int:
    """Measure this node, throttle best-effort work that disturbs its services, and restore everything at the end.

    It serves /metrics, /healthz, /readyz and /v1/... on the file's `listen`. SIGHUP reads the file again. Exit status: 0 after SIGTERM or Ctrl-C, 2 bad input, 1 where this machine lacks something required.
    """
    from cotenant.services.agent import main

    return main.run(
        main.AgentArguments(
            config=config, single=single, mode=mode, once=once, json=json, log_level=log_level, log_format=log_format
        )
    )

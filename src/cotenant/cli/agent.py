"""`cotenant agent`: the node's agent.

Only signatures and words stand here; what the command does is imported when it runs, so that `--help` stays quick and the agent stays small.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter


def agent(
    *,
    config: Annotated[
        Path | None, Parameter(help="YAML or TOML; without one the node is measured and nothing is turned.")
    ] = None,
    single: Annotated[
        bool, Parameter(negative=(), help="Turn knobs in this process instead of through `cotenant keeper`.")
    ] = False,
    mode: Annotated[str, Parameter(help="act, dry-run or observe; default: as the file says, else observe.")] = "",
    once: Annotated[bool, Parameter(negative=(), help="Measure once, say what would be held, and end.")] = False,
    json: Annotated[bool, Parameter(negative=(), help="With --once: as JSON.")] = False,
    log_level: Annotated[str, Parameter(help="debug, info, warning or error.")] = "info",
) -> int:
    """Measure this node, hold back what disturbs its services, and give everything back at the end.

    It serves /metrics, /healthz, /readyz and /v1/... on the file's `listen`. SIGHUP reads the file again. Exit status: 0 after SIGTERM or
    Ctrl-C, 2 bad input, 1 where this machine cannot.
    """
    from cotenant.services.agent import main

    return main.run(main.Request(config=config, single=single, mode=mode, once=once, json=json, log_level=log_level))

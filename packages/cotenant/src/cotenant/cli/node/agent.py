"""`cotenant agent`: the node's agent.

Its options are the fields of its arguments; the implementation is imported when they have been checked.
"""

from __future__ import annotations

from typing import Annotated

from cotenant.services.agent.agent_arguments import AgentArguments, check
from cotenant.services.options import GIVEN


def agent(*, request: Annotated[AgentArguments, GIVEN] = AgentArguments()) -> int:
    """Measure this node, throttle best-effort work that disturbs its services, and restore everything at the end.

    It serves /metrics, /healthz, /readyz and /v1/... on the file's `listen`. SIGHUP reads the file again. Exit status:
    0 after SIGTERM or Ctrl-C, 2 bad input, 1 where this machine lacks something required.
    """
    check(request)
    from cotenant.services.agent import main

    return main.run(request)

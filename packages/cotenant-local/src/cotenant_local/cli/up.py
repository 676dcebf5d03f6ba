"""`cotenant up`: a cluster on this machine, in one command."""

from __future__ import annotations

from typing import Annotated

from cotenant.cli.local_directory import default_directory
from cotenant.services.options import GIVEN
from cotenant_local.up.up_arguments import UpArguments, configured


def up(*, request: Annotated[UpArguments, GIVEN] = UpArguments()) -> int:
    """A Kubernetes-compatible cluster on this machine: API server, controllers, simulated nodes, scheduler and
    extender. Ends with Ctrl-C.
    """
    config = configured(request, default_directory())
    from cotenant_local.up.run import run  # seconds: after the checks

    return run(config, lambda line: print(line, flush=True))

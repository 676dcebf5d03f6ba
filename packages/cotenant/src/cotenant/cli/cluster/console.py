"""`cotenant console`: a web page about a running cluster.

Its options are the fields of its arguments; the implementation is imported when they have been checked.
"""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from cotenant.cli.access import check_access
from cotenant.services.console.arguments import ConsoleArguments, check
from cotenant.services.options import GIVEN

Flag = Annotated[bool, Parameter(negative=())]


def console(*, request: Annotated[ConsoleArguments, GIVEN] = ConsoleArguments()) -> int:
    """Serve a web page about a cluster: machines, pods and why they are where they are, quotas, services. It reads and
    changes nothing.

    Prints a link that logs in once. Exit status: 0 after SIGTERM or Ctrl-C, 2 bad input.
    """
    check(request)
    check_access(request.kubeconfig, request.context)
    from cotenant.services.console import main

    return main.run(request)

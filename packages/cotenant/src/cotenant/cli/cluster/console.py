"""`cotenant console`: a web page about a running cluster.

Its options are the fields of its arguments; the implementation is imported when they have been checked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from cotenant.cli.access import check_access
from cotenant.services.console.console_arguments import LOCAL_FLEET, ConsoleArguments, check
from cotenant.services.options import GIVEN

if TYPE_CHECKING:
    from cotenant.services.fleet.viewing import FleetViewer

Flag = Annotated[bool, Parameter(negative=())]


def console(*, request: Annotated[ConsoleArguments, GIVEN] = ConsoleArguments()) -> int:
    """Serve a web page about a cluster: machines, pods and why they are where they are, quotas, services. It reads and
    changes nothing, but for terminals into containers (--terminals), and releases and virtual machines (--changes).

    Prints a link that logs in once. Exit status: 0 after SIGTERM or Ctrl-C, 2 bad input.
    """
    check(request)
    check_access(request.kubeconfig, request.context)
    from cotenant.services.console import main

    return main.run(request, _fleet(request))


def _fleet(request: ConsoleArguments) -> FleetViewer | None:
    """The fleet that was named."""
    if not request.fleet:
        return None
    from cotenant.services.fleet.places import BusOptions
    from cotenant.services.fleet.viewing import FleetViewer

    url = "" if request.fleet == LOCAL_FLEET else request.fleet
    return FleetViewer(BusOptions(url, request.fleet_key, request.fleet_ca, request.fleet_name))

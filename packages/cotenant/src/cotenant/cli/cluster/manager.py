"""`cotenant manager`: offers batch and mid resources on nodes, and renders their NodeSLOs.

Its options are the fields of its arguments; the implementation is imported when they have been checked.
"""

from __future__ import annotations

from typing import Annotated

from cotenant.cli.access import check_access
from cotenant.services.manager.manager_arguments import ManagerArguments, check
from cotenant.services.options import (
    GIVEN,
)


def manager(*, request: Annotated[ManagerArguments, GIVEN] = ManagerArguments()) -> int:
    """Offer what services leave idle as batch and mid resources, by the ConfigMap slo-controller-config.

    Writes each node's amounts with their terms, its NodeSLO and the collect policy of its NodeMetric. Without the
    ConfigMap nothing is lent. Serves /metrics, /healthz and /readyz. Exit status: 0 after SIGTERM or Ctrl-C, 2 bad
    input.
    """
    check(request)
    check_access(request.kubeconfig, request.context)
    from cotenant.services.manager import main

    return main.run(request)

"""`cotenant scheduler`: the scheduler of a Kubernetes cluster, or one of its replicas.

Its options are the fields of its arguments; the implementation is imported when they have been checked.
"""

from __future__ import annotations

from typing import Annotated

from cotenant.cli.access import check_access
from cotenant.services.options import (
    GIVEN,
)
from cotenant.services.scheduler.scheduler_arguments import SchedulerArguments, check, configured

DEFAULT_PROFILE = "cotenant"


def scheduler(*, request: Annotated[SchedulerArguments, GIVEN] = SchedulerArguments()) -> int:
    """Schedule the pods of a Kubernetes cluster that have one of our schedulerNames.

    Serves /metrics, /healthz, /readyz, the debug API (listed by GET /apis/v1/__services__), and accepts node reports at
    POST /metrics/report. Exit status: 0 after SIGTERM or Ctrl-C, 2 bad input.
    """
    request, config = configured(request)
    check(request)
    check_access(request.kubeconfig, request.context)
    from cotenant.services.scheduler import main

    return main.run(request, config)

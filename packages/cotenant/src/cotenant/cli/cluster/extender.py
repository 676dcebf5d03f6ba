"""`cotenant extender`: our placement within the cluster's existing scheduler.

Its options are the fields of its arguments; the implementation is imported when they have been checked.
"""

from __future__ import annotations

from typing import Annotated

from cotenant.cli.access import check_access
from cotenant.services.extender.extender_arguments import ExtenderSettings, check
from cotenant.services.options import GIVEN


def extender(*, request: Annotated[ExtenderSettings, GIVEN] = ExtenderSettings()) -> int:
    """Serve a kube-scheduler as a scheduler extender.

    POST /filter, /prioritize, /preempt and /bind; nodes report at POST /metrics/report. Exit status: 0 after SIGTERM or
    Ctrl-C, 2 bad input.
    """
    check(request)
    if request.has_cluster:
        check_access(request.kubeconfig, request.context)
    from cotenant.services.extender import extender_process

    return extender_process.run(request)

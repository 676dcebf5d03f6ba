"""`cotenant webhook`: the admission webhook of a Kubernetes cluster, or one of its replicas.

Its options are the fields of its arguments; the implementation is imported when they have been checked.
"""

from __future__ import annotations

from typing import Annotated

from cotenant.cli.access import check_access
from cotenant.services.options import GIVEN
from cotenant.services.webhook.webhook_arguments import WebhookSettings, check


def webhook(*, request: Annotated[WebhookSettings, GIVEN] = WebhookSettings()) -> int:
    """Apply colocation profiles to new pods, and refuse pods and quotas that break the co-location rules.

    Makes and rotates its certificates in a Secret and keeps its CA in the webhook configurations. Exit status: 0 after
    SIGTERM or Ctrl-C, 2 bad input.
    """
    check(request)
    check_access(request.kubeconfig, request.context)
    from cotenant.services.webhook import webhook_process

    return webhook_process.run(request)

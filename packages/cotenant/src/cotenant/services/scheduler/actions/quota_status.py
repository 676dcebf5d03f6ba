"""The status of a quota's object: annotations with its runtime and requests, and `status.used`.

Upstream's tools read a quota's results partly from annotations and partly from its status, which the API server takes
in separate requests. The annotations are written first, as a merge patch with the object's UID; the reason why a quota
is not used is written there, and logged.
Limits: a reader may see one without the other.
"""

from __future__ import annotations

import logging

from cotenant.drivers.kube.client.client import Client
from cotenant.drivers.kube.kinds.custom.elastic_quota import place_of, written_annotations, written_levels
from cotenant.engine.plugins.quotas.status import QuotaStatus

_log = logging.getLogger(__name__)


async def write_quota_status(client: Client, status: QuotaStatus) -> None:
    """Write the status of one quota."""
    kind, namespace, name = place_of(status.key)
    if status.problem:
        _log.warning("ElasticQuota %s: %s", status.key, status.problem)
    annotations = written_annotations(
        status.runtime, status.request, status.child_request, status.allocated, status.guaranteed, status.problem
    )
    body: dict[str, object] = {"metadata": {"uid": status.uid, "annotations": annotations}}
    await client.patch(kind, namespace, name, body)
    await client.set_status(kind, namespace, name, status.uid, {"used": written_levels(status.used)})

"""Gives up the lease of a scheduler of ours that was killed, so that the next one need not wait until it runs out.

Problem: after kill -9 nobody placed pods for the 15 s that a lease lasts. Choice: whoever starts the schedulers here knows what no other
candidate can know: that the process named in the lease does not exist any more. Then the holder is taken out, on condition that the lease
is still the one that was looked at. Limits: a number that another process was given meanwhile counts as alive, so the lease runs out as
it would have; a holder on another machine is never touched.
"""

from __future__ import annotations

import logging
import os

import msgspec

from cotenant.local.apiserver.contract import MERGE, ApiError
from cotenant.local.apiserver.verbs.api import Api
from cotenant.services.kube_process.identity import DEFAULT_NAMESPACE, lease_name, process_here

_log = logging.getLogger(__name__)
_encode = msgspec.json.Encoder().encode


class _Meta(msgspec.Struct, frozen=True, rename="camel"):
    resource_version: str = ""


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    holder_identity: str | None = None


class _Lease(msgspec.Struct, frozen=True):
    metadata: _Meta = _Meta()
    spec: _Spec = _Spec()


async def release_stale_lease(api: Api, scheduler: str = "cotenant") -> bool:
    """Take a dead process of this machine out of the scheduler's lease. Whether there was one."""
    target = api.target("coordination.k8s.io", "leases", DEFAULT_NAMESPACE, lease_name(scheduler))
    try:
        lease = msgspec.json.decode(await api.get(target), type=_Lease)
        pid = process_here(lease.spec.holder_identity or "")
        if pid is None or _exists(pid):
            return False
        body = {"metadata": {"resourceVersion": lease.metadata.resource_version}, "spec": {"holderIdentity": ""}}
        await api.patch(target, _encode(body), MERGE)
        return True
    except ApiError as error:
        if error.code not in (404, 409):  # there is none yet, or somebody alive has just written it
            _log.warning("the lease of a dead scheduler runs out by itself: %s", error)
        return False


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True

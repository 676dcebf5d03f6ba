"""Releases the lease of a scheduler on this machine that was killed, so that the next one need not wait until it expires.

Problem: after kill -9 no pod was placed until its lease had run out. Choice: `cotenant up`, which starts the schedulers here, knows what no other
candidate can know: that the process named in the lease does not exist any more. Then the holder is removed, on condition that the lease
has not changed since it was read. Limits: a process id that was given to another process meanwhile counts as alive, so the lease expires
by itself; a holder on another machine is never removed.
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
    """Remove a dead process of this machine from the scheduler's lease. Whether there was one."""
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
        if error.code not in (404, 409):  # there is none yet, or a live replica has just written it
            _log.warning("the lease of a dead scheduler has to expire by itself: %s", error)
        return False


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True

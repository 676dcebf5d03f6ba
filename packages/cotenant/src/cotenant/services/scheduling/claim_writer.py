"""Writing allocations and reservations of device claims before the pod is bound, and taking them back.

Each write is conditional on the version of the claim that was read, and each step follows from what the claim says, so
an attempt may be cut off between any two writes and is continued by the next, by whichever process: a finalizer, then
the allocation together with the reservation, then, where devices have binding conditions, the wait for them. A claim
for extended resources is made first and named in the pod's status last. A claim that another has allocated otherwise,
or that is being deleted, ends the attempt. What an attempt reserved is taken back when the bind fails, and what it
allocated too, unless another pod relies on it by then. A claim that a PodGroup has for its pods is reserved for the
group once, and given back only as a whole (`release`).

Source: Kubernetes 1.36, kube-scheduler's DynamicResources plugin (PreBind, Unreserve, PostFilter); KEP-4381, 5004,
5007, 5729.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace

from cotenant.drivers.kube.client.client import Client
from cotenant.drivers.kube.client.errors import Conflict, Invalid, NotFound, Unavailable
from cotenant.drivers.kube.kinds.claims.claim_reading import read_claim
from cotenant.drivers.kube.kinds.claims.schema import FINALIZER, ClaimObject, ClaimStatus, Consumer, claims
from cotenant.drivers.kube.kinds.claims.writing import Body, allocation_body, extended_claim_body, extended_status
from cotenant.drivers.kube.kinds.pod.schema import PODS
from cotenant.engine.framework.instructions import Bind
from cotenant.engine.rules.claims.instructions import ReleaseClaim
from cotenant.engine.rules.claims.readiness import BINDING_WITHIN_S, failed, is_ready
from cotenant.model.claims.claim import Allocation
from cotenant.model.claims.needs import ClaimHolding
from cotenant.model.errors import CotenantError, Transient
from cotenant.model.groups.gang import K8S_GROUP
from cotenant.services.scheduling.claim_watches import StoredClaims

_TRIES = 8  # of one write that meets other versions
_log = logging.getLogger(__name__)


class DeviceClaimWriter:
    """Carries out what binds say of claims. `unix_s`: the time that is written as that of an allocation."""

    def __init__(self, client: Client, stored: StoredClaims, unix_s: Callable[[], float]) -> None:
        self._client, self._stored, self._unix_s = client, stored, unix_s
        self._waiters: set[asyncio.Event] = set()
        stored.changed = self._changed

    def _changed(self) -> None:
        for waiter in self._waiters:
            waiter.set()

    # ---- before a bind

    async def write_claims(self, bind: Bind) -> Bind:
        """Write every claim of the bind, and wait for its devices. Returns the bind with the claims that were made.
        Raises `CotenantError` where it cannot be bound there now.
        """
        namespace, _, pod = bind.key.partition("/")
        done: list[ClaimHolding] = []
        try:
            for holding in bind.holds.claims:
                if not holding.key:
                    holding = await self._make(bind, holding)
                done.append(holding)
                await self._reserve(bind, holding)
                if holding.mappings:
                    status = extended_status(holding.key.partition("/")[2], holding.mappings)
                    await self._client.patch_status(
                        PODS, namespace, pod, {"metadata": {"uid": bind.uid}, "status": status}
                    )
            await self._wait(done)
        except CotenantError:
            await self.take_back(_holding(bind, done))
            raise
        return _holding(bind, done)

    async def _make(self, bind: Bind, holding: ClaimHolding) -> ClaimHolding:
        namespace, _, pod = bind.key.partition("/")
        version = self._stored.version
        made = await self._client.create(
            claims(version), namespace, extended_claim_body(version, pod, namespace, bind.uid, holding)
        )
        self._stored.put(version, made)
        return replace(holding, key=f"{namespace}/{made.metadata.name}", uid=made.metadata.uid or "")

    async def _reserve(self, bind: Bind, holding: ClaimHolding) -> None:
        """Allocate and reserve one claim, whatever of it is done already."""
        version, obj = await self._known(holding.key)
        for _ in range(_TRIES):
            meta, status = obj.metadata, obj.status or ClaimStatus()
            if meta.uid != holding.uid:
                raise Transient(f"ResourceClaim {holding.key} was made anew")
            if meta.deletion_timestamp is not None:
                raise Transient(f"ResourceClaim {holding.key} is being deleted")
            patch, subresource = self._next(bind, holding, obj, status)
            if patch is None:
                return
            try:
                obj = await self._patch(version, holding.key, obj, patch, subresource)
            except Invalid as error:
                if subresource:
                    raise
                # Up to 1.36 a server compares opaque parameters byte by byte and takes no JSON write of a claim that
                # was posted with spaces in them. Without the finalizer it could be deleted while it is in use.
                raise Transient(
                    f"ResourceClaim {holding.key} gets no finalizer: {error}. Where its opaque parameters were posted "
                    "as JSON with spaces, post it again without them, as kubectl does"
                ) from None
            except Conflict:
                version, obj = await self._read(version, holding.key)
            except Unavailable as error:
                if not error.maybe_done:
                    raise
                version, obj = await self._read(version, holding.key)
        raise Transient(f"ResourceClaim {holding.key} changes too often")

    def _next(
        self, bind: Bind, holding: ClaimHolding, obj: ClaimObject, status: ClaimStatus
    ) -> tuple[Body | None, str]:
        """The next write for a claim as it is, and where; None = nothing is left."""
        reserved = status.reserved_for or ()
        if status.allocation is None:
            if holding.allocation is None:
                raise Transient(f"ResourceClaim {holding.key} was deallocated meanwhile")
            finalizers = obj.metadata.finalizers or ()
            if FINALIZER not in finalizers:
                return {"metadata": {"finalizers": [*finalizers, FINALIZER]}}, ""
            stamped = replace(holding.allocation, at_s=self._unix_s())
            return {
                "status": {"allocation": allocation_body(stamped), "reservedFor": _with(reserved, holding, bind)}
            }, "status"
        if holding.allocation is not None and not _same(obj, holding.allocation):
            raise Transient(f"ResourceClaim {holding.key} was allocated by another meanwhile")
        if any(consumer.uid == _consumer_uid(holding, bind) for consumer in reserved):
            return None, ""
        return {"status": {"reservedFor": _with(reserved, holding, bind)}}, "status"

    async def _wait(self, holdings: Sequence[ClaimHolding]) -> None:
        """Until the devices of all claims are ready."""
        changed = asyncio.Event()
        self._waiters.add(changed)
        try:
            async with asyncio.timeout(BINDING_WITHIN_S):
                while True:
                    changed.clear()
                    found = [
                        read_claim(self._stored.by_key[h.key][1]) for h in holdings if h.key in self._stored.by_key
                    ]
                    for claim in found:
                        why = failed(claim)
                        if why:
                            raise Transient(why)
                    if all(map(is_ready, found)):
                        return
                    await changed.wait()
        except TimeoutError:
            raise Transient(f"devices of {holdings[0].key} were not ready within {BINDING_WITHIN_S:g} s") from None
        finally:
            self._waiters.discard(changed)

    # ---- after a failure

    async def take_back(self, bind: Bind) -> None:
        """Take back what a bind has written. Where that fails, the next attempt goes on from what stands."""
        for holding in bind.holds.claims:
            if holding.key and holding.group is None:  # a group's stays: other pods of it may rely on it
                try:
                    await self._take_back(holding, bind.uid, bool(holding.requests))
                except CotenantError as error:
                    _log.warning("ResourceClaim %s is not given back for pod %s: %s", holding.key, bind.key, error)

    async def release(self, given: ReleaseClaim) -> None:
        """Carry out the instruction."""
        holding = ClaimHolding(given.key, given.uid)
        try:
            await self._take_back(holding, given.consumer_uid, given.delete, anyway=True)
        except CotenantError as error:
            _log.warning("ResourceClaim %s is not given back: %s", given.key, error)

    async def _take_back(self, holding: ClaimHolding, consumer_uid: str, delete: bool, anyway: bool = False) -> None:
        """`anyway`: also an allocation of an earlier attempt."""
        try:
            version, obj = await self._known(holding.key)
            for _ in range(_TRIES):
                meta, status = obj.metadata, obj.status or ClaimStatus()
                if meta.uid != holding.uid:
                    return
                left = [consumer for consumer in status.reserved_for or () if consumer.uid != consumer_uid]
                is_ours = anyway or (holding.allocation is not None and _same(obj, holding.allocation))
                changes: dict[str, object] = {}
                if len(left) != len(status.reserved_for or ()):
                    changes["reservedFor"] = [_consumer(consumer) for consumer in left] or None
                if not left and is_ours and status.allocation is not None:
                    changes |= {"allocation": None, "devices": None}
                patch: Body | None = {"status": changes} if changes else None
                subresource = "status"
                finalizers = meta.finalizers or ()
                if patch is None and delete and not left and FINALIZER in finalizers:
                    patch, subresource = {"metadata": {"finalizers": [f for f in finalizers if f != FINALIZER]}}, ""
                if patch is None:
                    break
                try:
                    obj = await self._patch(version, holding.key, obj, patch, subresource)
                except (Conflict, Unavailable):
                    version, obj = await self._read(version, holding.key)
            if delete and not (obj.status or ClaimStatus()).reserved_for:
                namespace, _, name = holding.key.partition("/")
                await self._client.delete(claims(version), namespace, name, uid=holding.uid)
        except NotFound:
            return

    # ---- requests

    async def _known(self, key: str) -> tuple[str, ClaimObject]:
        known = self._stored.by_key.get(key)
        return known if known is not None else await self._read(self._stored.version, key)

    async def _read(self, version: str, key: str) -> tuple[str, ClaimObject]:
        namespace, _, name = key.partition("/")
        obj = await self._client.get(claims(version), namespace, name)
        self._stored.put(version, obj)
        return version, obj

    async def _patch(self, version: str, key: str, obj: ClaimObject, patch: Body, subresource: str) -> ClaimObject:
        namespace, _, name = key.partition("/")
        only = {"uid": obj.metadata.uid, "resourceVersion": obj.metadata.resource_version}
        meta = patch.get("metadata")
        body = {**patch, "metadata": {**(meta if isinstance(meta, dict) else {}), **only}}
        written = await self._client.patch(claims(version), namespace, name, body, subresource=subresource)
        self._stored.put(version, written)
        return written


def _holding(bind: Bind, claims_: Sequence[ClaimHolding]) -> Bind:
    return replace(bind, holds=replace(bind.holds, claims=tuple(claims_)))


def _same(obj: ClaimObject, allocation: Allocation) -> bool:
    """Whether the claim has these devices."""
    stored = read_claim(obj).allocation
    if stored is None:
        return False
    return [(d.request, d.id, d.share) for d in stored.devices] == [
        (d.request, d.id, d.share) for d in allocation.devices
    ]


def _consumer_uid(holding: ClaimHolding, bind: Bind) -> str:
    return holding.group.uid if holding.group is not None else bind.uid


def _with(reserved: Sequence[Consumer], holding: ClaimHolding, bind: Bind) -> list[Body]:
    """Whom a claim is reserved for, with the pod or its group."""
    group = holding.group
    if group is not None:
        added = Consumer(K8S_GROUP, "podgroups", group.name, group.uid)
    else:
        added = Consumer(None, "pods", bind.key.partition("/")[2], bind.uid)
    return [_consumer(consumer) for consumer in (*reserved, added)]


def _consumer(consumer: Consumer) -> Body:
    body: Body = {"resource": consumer.resource, "name": consumer.name, "uid": consumer.uid}
    return {"apiGroup": consumer.api_group, **body} if consumer.api_group else body

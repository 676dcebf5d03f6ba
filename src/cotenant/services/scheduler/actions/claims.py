"""Binding the claims of a pod before the pod itself.

Problem: a claim of a WaitForFirstConsumer class is bound only once a volume is chosen for it, or a node for which one is to be provisioned, and the
pod must not start before. Choice: what kube-scheduler does: a reservation in the volume's claimRef, or the annotation with the selected node
on the claim, then waiting until the claim is bound. Limits: the persistent volume controller completes the binding; without one it never completes
and the bind is given up.
Source: Kubernetes' VolumeBinding plugin; annotation volume.kubernetes.io/selected-node.
"""

from __future__ import annotations

import asyncio

from cotenant.drivers.kube.client.client import Client
from cotenant.drivers.kube.kinds.storage.persistent_volume import PERSISTENT_VOLUMES
from cotenant.drivers.kube.kinds.storage.persistent_volume_claim import PERSISTENT_VOLUME_CLAIMS
from cotenant.drivers.kube.kinds.storage.volume_index import VolumeIndex
from cotenant.engine.framework.instructions import Bind, ClaimChoice
from cotenant.model.errors import Permanent, Transient

SELECTED_NODE = "volume.kubernetes.io/selected-node"
BOUND_BY = "pv.kubernetes.io/bound-by-controller"
BIND_COMPLETED = "pv.kubernetes.io/bind-completed"


class ClaimBinder:
    """Binds claims; `volumes` is the index that the watches keep."""

    def __init__(self, client: Client, volumes: VolumeIndex) -> None:
        self._client = client
        self._volumes = volumes
        self._waiters: set[asyncio.Event] = set()

    def changed(self) -> None:
        """Claims or volumes have changed: waiting binds check theirs."""
        for waiter in self._waiters:
            waiter.set()

    async def settle(self, bind: Bind, within_s: float) -> None:
        """Wait until every claim of the bind is bound. Raises `Permanent` or `Transient` where that fails."""
        for choice in bind.claims:
            await self._request(choice, bind.node)
        changed = asyncio.Event()
        self._waiters.add(changed)
        try:
            async with asyncio.timeout(within_s):
                while left := [choice.claim for choice in bind.claims if not self._is_bound(choice)]:
                    changed.clear()
                    await changed.wait()
        except TimeoutError:
            raise Transient(f"PersistentVolumeClaim {left[0]} was not bound within {within_s:g} s") from None
        finally:
            self._waiters.discard(changed)

    async def _request(self, choice: ClaimChoice, node: str) -> None:
        claim = self._volumes.claim(choice.claim)
        if claim is None:
            raise Permanent(f"PersistentVolumeClaim {choice.claim} is gone")
        namespace, _, name = choice.claim.partition("/")
        if not choice.volume:
            await self._client.patch(
                PERSISTENT_VOLUME_CLAIMS, namespace, name, {"metadata": {"annotations": {SELECTED_NODE: node}}}
            )
            return
        reference = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "namespace": namespace,
            "name": name,
            "uid": claim.metadata.uid,
            "resourceVersion": claim.metadata.resource_version,
        }
        await self._client.patch(
            PERSISTENT_VOLUMES,
            "",
            choice.volume,
            {"metadata": {"annotations": {BOUND_BY: "yes"}}, "spec": {"claimRef": reference}},
        )

    def _is_bound(self, choice: ClaimChoice) -> bool:
        claim = self._volumes.claim(choice.claim)
        if claim is None:
            raise Permanent(f"PersistentVolumeClaim {choice.claim} is gone")
        annotations = claim.metadata.annotations or {}
        if choice.binding.value == "provisioned" and SELECTED_NODE not in annotations and not _volume(claim):
            # The watch may not have delivered our own annotation yet; a provisioner that fails removes it again, which ends in the time-out.
            return False
        return bool(_volume(claim)) and BIND_COMPLETED in annotations


def _volume(claim: object) -> str:
    spec = getattr(claim, "spec", None)
    return (spec.volume_name or "") if spec is not None else ""

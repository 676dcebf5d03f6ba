"""Binding the claims of a pod before the pod itself.

A claim of a WaitForFirstConsumer class is bound only once a volume is chosen for it, or a node for which one is to be
provisioned, and the pod must not start before. What kube-scheduler does: a reservation in the volume's claimRef, or the
annotation with the selected node on the claim, then waiting until the claim is bound. It ends at once where that node
cannot become the volume's any more: a provisioner that has no storage there removes the annotation, another one is
written over it, or the node is deleted; then the annotation is taken away, as it would keep the pod from every other
node. So it does where the claim is being deleted, where the chosen volume is gone or another claim's, and where the
claim got a volume that the node does not reach: then the pod is placed again, by that volume.
Limits: the persistent volume controller completes the binding; without one it never completes and the bind is given up;
resource versions are compared as numbers.
Source: Kubernetes' VolumeBinding plugin; annotation volume.kubernetes.io/selected-node.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from cotenant.drivers.kube.client.client import Client
from cotenant.drivers.kube.client.errors import Conflict, NotFound
from cotenant.drivers.kube.kinds.storage.persistent_volume import PERSISTENT_VOLUMES, reach
from cotenant.drivers.kube.kinds.storage.persistent_volume_claim import (
    PERSISTENT_VOLUME_CLAIMS,
    PersistentVolumeClaim,
)
from cotenant.drivers.kube.kinds.storage.volume_index import VolumeIndex
from cotenant.engine.framework.instructions import Bind, ClaimChoice
from cotenant.model.cluster.node import Node
from cotenant.model.errors import Permanent, Transient

SELECTED_NODE = "volume.kubernetes.io/selected-node"
BOUND_BY = "pv.kubernetes.io/bound-by-controller"
BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
VOLUMES_WITHIN_S = 600.0  # kube-scheduler's bindTimeoutSeconds


class NodeGone(Transient):
    """The node of the bind was deleted."""


class ClaimBinder:
    """Binds claims; `volumes` is the index that the watches keep."""

    def __init__(
        self, client: Client, volumes: VolumeIndex, node_of: Callable[[str], Node | None] | None = None
    ) -> None:
        """`node_of`: a node by name, None where it does not exist; without it every node is there."""
        self._node_of = node_of
        self._client = client
        self._volumes = volumes
        self._waiters: set[asyncio.Event] = set()

    def changed(self) -> None:
        """Claims, volumes or nodes have changed: waiting binds check theirs."""
        for waiter in self._waiters:
            waiter.set()

    async def bind_claims(self, bind: Bind, within_s: float) -> None:
        """Wait until every claim of the bind is bound. Raises `Permanent` or `Transient` where that fails."""
        asked_at = {choice.claim: await self._request(choice, bind.node) for choice in bind.claims}
        changed = asyncio.Event()
        self._waiters.add(changed)
        try:
            async with asyncio.timeout(within_s):
                while left := [choice.claim for choice in bind.claims if not self._is_bound(choice)]:
                    for choice in bind.claims:
                        self._check(choice, bind.node, asked_at[choice.claim])
                    changed.clear()
                    await changed.wait()
            for choice in bind.claims:
                self._check_reach(choice, bind.node)
        except NodeGone:
            await self._withdraw(bind)
            raise
        except TimeoutError:
            raise Transient(f"PersistentVolumeClaim {left[0]} was not bound within {within_s:g} s") from None
        finally:
            self._waiters.discard(changed)

    async def _request(self, choice: ClaimChoice, node: str) -> int:
        """Ask for the claim's volume; returns the version of what was written, 0 = not known."""
        claim = self._volumes.claim(choice.claim)
        if claim is None:
            raise Permanent(f"PersistentVolumeClaim {choice.claim} is gone")
        namespace, _, name = choice.claim.partition("/")
        if not choice.volume:
            written = await self._client.patch(
                PERSISTENT_VOLUME_CLAIMS, namespace, name, {"metadata": {"annotations": {SELECTED_NODE: node}}}
            )
            return _version(written)
        reference = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "namespace": namespace,
            "name": name,
            "uid": claim.metadata.uid,
            "resourceVersion": claim.metadata.resource_version,
        }
        reserved = await self._client.patch(
            PERSISTENT_VOLUMES,
            "",
            choice.volume,
            {"metadata": {"annotations": {BOUND_BY: "yes"}}, "spec": {"claimRef": reference}},
        )
        return _version(reserved)

    def _check(self, choice: ClaimChoice, node: str, asked_at: int) -> None:
        """Raises `Transient` where the claim will get no volume on this node."""
        if self._node_of is not None and self._node_of(node) is None:
            raise NodeGone(f"node {node} is gone")
        claim = self._volumes.claim(choice.claim)
        if claim is None or _volume(claim):
            return
        if claim.metadata.deletion_timestamp is not None:
            raise Transient(f"PersistentVolumeClaim {choice.claim} is being deleted")
        if choice.volume:
            self._check_volume(choice, claim, asked_at)
            return
        if not 0 < asked_at < _version(claim):
            return
        selected = (claim.metadata.annotations or {}).get(SELECTED_NODE)
        if selected != node:
            instead = f"it is selected for {selected}" if selected else f"its provisioner gave node {node} up"
            raise Transient(f"PersistentVolumeClaim {choice.claim} gets no volume there: {instead}")

    def _check_volume(self, choice: ClaimChoice, claim: PersistentVolumeClaim, asked_at: int) -> None:
        """Raises `Transient` where the chosen volume will not become the claim's."""
        volume = self._volumes.volume(choice.volume)
        if volume is None:
            raise Transient(f"PersistentVolume {choice.volume} is gone")
        if not 0 < asked_at <= _version(volume):
            return  # as it was before it was asked for
        reference = volume.spec.claim_ref if volume.spec is not None else None
        if reference is None or (reference.uid and reference.uid != claim.metadata.uid):
            whose = "nobody's again" if reference is None else f"of {reference.namespace}/{reference.name}"
            raise Transient(f"PersistentVolumeClaim {choice.claim} does not get {choice.volume}: it is {whose}")

    def _check_reach(self, choice: ClaimChoice, name: str) -> None:
        """Raises `Transient` where the claim got a volume that the node does not reach."""
        node = self._node_of(name) if self._node_of is not None else None
        claim = self._volumes.claim(choice.claim)
        volume = self._volumes.volume(_volume(claim))
        nodes = reach(volume) if volume is not None else None
        if node is not None and nodes is not None and not nodes.matches(node.name, node.labels):
            raise Transient(f"PersistentVolumeClaim {choice.claim} got {_volume(claim)}, which {name} does not reach")

    async def _withdraw(self, bind: Bind) -> None:
        for choice in bind.claims:
            claim = self._volumes.claim(choice.claim)
            selected = (claim.metadata.annotations or {}).get(SELECTED_NODE) if claim is not None else None
            if claim is not None and selected == bind.node and not _volume(claim):
                namespace, _, name = choice.claim.partition("/")
                version = {"resourceVersion": claim.metadata.resource_version}
                body = {"metadata": {**version, "annotations": {SELECTED_NODE: None}}}
                with suppress(Conflict, NotFound):  # somebody was faster
                    await self._client.patch(PERSISTENT_VOLUME_CLAIMS, namespace, name, body)

    def _is_bound(self, choice: ClaimChoice) -> bool:
        claim = self._volumes.claim(choice.claim)
        if claim is None:
            raise Permanent(f"PersistentVolumeClaim {choice.claim} is gone")
        annotations = claim.metadata.annotations or {}
        return bool(_volume(claim)) and BIND_COMPLETED in annotations


def _version(claim: object) -> int:
    version = getattr(getattr(claim, "metadata", None), "resource_version", None) or ""
    return int(version) if version.isdecimal() else 0


def _volume(claim: object) -> str:
    spec = getattr(claim, "spec", None)
    return (spec.volume_name or "") if spec is not None else ""

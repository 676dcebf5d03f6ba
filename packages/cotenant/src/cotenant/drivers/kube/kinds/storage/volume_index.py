"""Which nodes a pod's volumes allow.

A claim may be bound to a volume that only some nodes reach, may wait for a volume to be provisioned where the pod is
placed, or may not be ready at all; a pod must not be placed against any of these. An index of the volumes, claims and
storage classes known so far turns each of a pod's claims into a `VolumeNeed`. `version` rises with every change, so
that a holder of needs knows when to compute them again.
Limits: zone labels also restrict volumes that a claim may still choose, which kube-scheduler checks for bound volumes
only; volumes of in-tree drivers do not count against the limits of the CSI drivers that replace them.
Source: Kubernetes documentation, "Persistent Volumes" and "Storage Classes"; kube-scheduler's VolumeBinding,
VolumeRestrictions and VolumeZone plugins.
"""

from __future__ import annotations

from collections.abc import Iterable

from cotenant.drivers.kube.kinds.kind import Quantities, T
from cotenant.drivers.kube.kinds.parts import ObjectMeta, ObjectReference
from cotenant.drivers.kube.kinds.pod.schema import PodMeta, Volume
from cotenant.drivers.kube.kinds.selectors import read_label_selector
from cotenant.drivers.kube.kinds.storage.capacities import Capacities
from cotenant.drivers.kube.kinds.storage.csi import CSIDriver, CSIStorageCapacity
from cotenant.drivers.kube.kinds.storage.inline_disks import read_disk
from cotenant.drivers.kube.kinds.storage.persistent_volume import PersistentVolume, attachment_of, reach
from cotenant.drivers.kube.kinds.storage.persistent_volume_claim import PersistentVolumeClaim, PersistentVolumeClaimSpec
from cotenant.drivers.kube.kinds.storage.storage_class import StorageClass, read_topology_terms
from cotenant.drivers.kube.kinds.storage.zones import read_zone
from cotenant.model.cluster.affinity import NAME_FIELD, NodeSelector, NodeSelectorTerm
from cotenant.model.cluster.labels import Labels, Requirement, SelectorOperator
from cotenant.model.cluster.observed import Attachment, ClaimBinding, InlineDisk, VolumeNeed, VolumeOption
from cotenant.model.errors import InvalidInput
from cotenant.model.quantities import whole

NO_PROVISIONER = "kubernetes.io/no-provisioner"
_BETA_CLASS = "volume.beta.kubernetes.io/storage-class"
_DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
_SELECTED_NODE = "volume.kubernetes.io/selected-node"


class VolumeIndex:
    """The volumes, claims and classes known so far."""

    def __init__(self) -> None:
        self.version = 0
        self._volumes: dict[str, PersistentVolume] = {}
        self._claims: dict[str, PersistentVolumeClaim] = {}
        self._classes: dict[str, StorageClass] = {}
        self._capacities = Capacities()
        self.capacity_version = 0  # rises with every change of free storage; concerns pods with unbound claims only

    def put_driver(self, name: str, driver: CSIDriver | None) -> None:
        """A CSI driver as it is now; None = it is gone."""
        self.capacity_version += self._capacities.put_driver(name, driver)

    def put_capacity(self, key: str, capacity: CSIStorageCapacity | None) -> None:
        """The free storage of a class in a part of the cluster as it is now, by namespace/name; None = it is gone."""
        self.capacity_version += self._capacities.put_capacity(key, capacity)

    def put_volume(self, name: str, volume: PersistentVolume | None) -> None:
        """A volume as it is now; None = it is gone. The arguments are those of a `Changed`, its key and `new`."""
        self._put(self._volumes, name, volume)

    def put_claim(self, key: str, claim: PersistentVolumeClaim | None) -> None:
        """A claim as it is now, by namespace/name; None = it is gone."""
        self._put(self._claims, key, claim)

    def put_class(self, name: str, storage_class: StorageClass | None) -> None:
        """A storage class as it is now; None = it is gone."""
        self._put(self._classes, name, storage_class)

    def claim(self, key: str) -> PersistentVolumeClaim | None:
        """A claim by namespace/name."""
        return self._claims.get(key)

    def volume(self, name: str) -> PersistentVolume | None:
        """A volume by name."""
        return self._volumes.get(name)

    def needs(self, meta: PodMeta, volumes: Iterable[Volume]) -> tuple[tuple[VolumeNeed, ...], tuple[str, ...]]:
        """What a pod's volumes need, and which of them are not supported."""
        needs: dict[str, VolumeNeed] = {}
        unsupported: list[str] = []
        namespace = meta.namespace or "default"
        for volume in volumes:
            if volume.persistent_volume_claim is not None:
                name, owner = volume.persistent_volume_claim.claim_name, ""
            elif volume.ephemeral is not None:
                name, owner = f"{meta.name}-{volume.name}", meta.uid or ""
            else:
                disk = read_disk(volume.gce_persistent_disk, volume.aws_elastic_block_store, volume.iscsi, volume.rbd)
                if disk is not None:
                    self._add_disk(needs, disk)
                continue
            key = f"{namespace}/{name}"
            try:
                needs[key] = self._need(key, owner)
            except InvalidInput as error:
                unsupported.append(f"PersistentVolumeClaim {key}: {error}")
        return tuple(needs.values()), tuple(unsupported)

    @staticmethod
    def _add_disk(needs: dict[str, VolumeNeed], disk: InlineDisk) -> None:
        """A disk that a pod names twice is used for writing if one use is."""
        known = needs.get(disk.identity)
        if known is None or (known.disk is not None and known.disk.read_only):
            needs[disk.identity] = VolumeNeed(disk.identity, ClaimBinding.BOUND, (VolumeOption("", None),), disk=disk)

    def _put(self, known: dict[str, T], key: str, obj: T | None) -> None:
        self.version += 1
        if obj is None:
            known.pop(key, None)
        else:
            known[key] = obj

    def _need(self, key: str, owner_uid: str) -> VolumeNeed:
        shown = f"PersistentVolumeClaim {key}"
        claim = self._claims.get(key)
        if claim is None:
            return _waiting(key, f"{shown} does not exist yet")
        spec, meta = claim.spec or PersistentVolumeClaimSpec(), claim.metadata
        if owner_uid and not any(o.uid == owner_uid and o.controller for o in meta.owner_references or ()):
            return _waiting(key, f"{shown} was not made for this pod")
        if meta.deletion_timestamp is not None:
            return _waiting(key, f"{shown} is being deleted")
        if claim.status is not None and claim.status.phase == "Lost":
            return _waiting(key, f"{shown} has lost its volume")
        exclusive = "ReadWriteOncePod" in (spec.access_modes or ())
        if spec.volume_name:
            return self._bound(key, claim, spec.volume_name, exclusive)
        name = self._class_of(spec, meta)
        storage_class = self._classes.get(name)
        if name and storage_class is None:
            return _waiting(key, f"{shown} waits for StorageClass {name}, which does not exist")
        if storage_class is None or storage_class.volume_binding_mode != "WaitForFirstConsumer":
            return _waiting(key, f"{shown} is not bound yet", exclusive)
        # An existing volume is preferred to a new one.
        options = tuple(self._fitting(key, claim, spec, name))
        if storage_class.provisioner == NO_PROVISIONER:
            waits_for = "" if options else f"no PersistentVolume of class {name} fits {shown}"
            return VolumeNeed(key, ClaimBinding.STATIC, options, exclusive, waits_for)
        allowed = storage_class.allowed_topologies
        where = read_topology_terms(allowed, f"StorageClass {name}: allowedTopologies") if allowed else None
        selected = (meta.annotations or {}).get(_SELECTED_NODE)
        if selected:  # its volume is being provisioned for that node
            where, options = _on_node(where, selected), ()
        asked = spec.resources.requests if spec.resources is not None else None
        provisioner = storage_class.provisioner
        room = None
        if "storage" in (asked or {}) and not selected:
            room = self._capacities.room(provisioner, name, _storage(asked, f"{key}: requests"))
        attachment = Attachment(provisioner, key)
        new = VolumeOption("", where, room=room)
        return VolumeNeed(key, ClaimBinding.PROVISIONED, (new, *options), exclusive, attachment=attachment)

    def _bound(self, key: str, claim: PersistentVolumeClaim, name: str, exclusive: bool) -> VolumeNeed:
        volume = self._volumes.get(name)
        if volume is None:
            return _waiting(key, f"PersistentVolume {name} of PersistentVolumeClaim {key} does not exist", exclusive)
        reference = volume.spec.claim_ref if volume.spec is not None else None
        if reference is not None and reference.uid and reference.uid != claim.metadata.uid:
            return _waiting(key, f"PersistentVolume {name} belongs to another claim than {key}", exclusive)
        if claim.status is None or claim.status.phase != "Bound":
            return _waiting(key, f"PersistentVolumeClaim {key} is not bound yet", exclusive)
        option = VolumeOption(name, reach(volume), read_zone(volume.metadata.labels or {}))
        return VolumeNeed(key, ClaimBinding.BOUND, (option,), exclusive, attachment=attachment_of(volume))

    def _class_of(self, spec: PersistentVolumeClaimSpec, meta: ObjectMeta) -> str:
        """The claim's class; where it names none, the newest default class, as the API server's admission would set."""
        annotated = (meta.annotations or {}).get(_BETA_CLASS)
        if annotated is not None:
            return annotated
        if spec.storage_class_name is not None:
            return spec.storage_class_name
        defaults = [c for c in self._classes.values() if (c.metadata.annotations or {}).get(_DEFAULT_CLASS) == "true"]
        newest = sorted(defaults, key=lambda c: (-_made_s(c.metadata), c.metadata.name or ""))
        return (newest[0].metadata.name or "") if newest else ""

    def _fitting(
        self, key: str, claim: PersistentVolumeClaim, spec: PersistentVolumeClaimSpec, name: str
    ) -> Iterable[VolumeOption]:
        """Existing volumes that the claim may have, the smallest first. One reserved for the claim beforehand
        excludes the others.
        """
        asked = _storage(spec.resources.requests if spec.resources is not None else None, f"{key}: requests")
        selector = read_label_selector(spec.selector, f"{key}: selector")
        modes = set(spec.access_modes or ())
        found: list[tuple[bool, int, str, PersistentVolume]] = []
        for volume in self._volumes.values():
            offer = volume.spec
            if (
                offer is None
                or (offer.storage_class_name or "") != name
                or volume.metadata.deletion_timestamp is not None
            ):
                continue
            reserved = offer.claim_ref is not None
            if offer.claim_ref is not None:
                reference = offer.claim_ref
                if key_of_reference(reference) != key or (reference.uid and reference.uid != claim.metadata.uid):
                    continue
            elif volume.status is not None and volume.status.phase not in (None, "Available"):
                continue
            if (offer.volume_mode or "Filesystem") != (spec.volume_mode or "Filesystem"):
                continue
            if not modes <= set(offer.access_modes or ()):
                continue
            if selector is not None and not selector.matches(Labels.of(volume.metadata.labels or {})):
                continue
            size = _storage(offer.capacity, f"PersistentVolume {volume.metadata.name}: capacity")
            if size >= asked:
                found.append((not reserved, size, volume.metadata.name or "", volume))
        found.sort(key=lambda entry: entry[:3])
        if found and not found[0][0]:
            found = found[:1]
        return [VolumeOption(entry[2], reach(entry[3]), read_zone(entry[3].metadata.labels or {})) for entry in found]


def key_of_reference(reference: ObjectReference) -> str:
    """namespace/name of the object that is referred to."""
    return f"{reference.namespace}/{reference.name}" if reference.namespace else reference.name or ""


def _on_node(where: NodeSelector | None, name: str) -> NodeSelector:
    """The terms of `where`, and the node of this name."""
    field = Requirement(NAME_FIELD, SelectorOperator.IN, (name,))
    terms = where.terms if where is not None else (NodeSelectorTerm(),)
    return NodeSelector(tuple(NodeSelectorTerm(term.expressions, (field,)) for term in terms))


def _waiting(key: str, why: str, exclusive: bool = False) -> VolumeNeed:
    return VolumeNeed(key, ClaimBinding.BOUND, (), exclusive, why)


def _storage(amounts: Quantities, field: str) -> int:
    return whole((amounts or {}).get("storage", 0), f"{field}.storage")


def _made_s(meta: ObjectMeta) -> float:
    return meta.creation_timestamp.timestamp() if meta.creation_timestamp is not None else 0.0

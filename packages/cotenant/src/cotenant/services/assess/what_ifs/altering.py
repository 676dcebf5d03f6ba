"""A copy of a cluster with a what-if's changes made to its objects.

Changes are made to objects, before any engine reads them: so a lost node is as one that was never listed, and a pod
that lost its place as one that was just created. Pods are created again by their controllers only; a new copy of a pod
gets no claims of its own, as they would be provisioned with it. Pods that lose their place are created again in an
order drawn from the seed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches

import msgspec
import numpy as np

from cotenant.drivers.kube.client.errors import UNREADABLE
from cotenant.drivers.kube.snapshot.fields import Json
from cotenant.drivers.kube.snapshot.snapshot import ClusterSnapshot
from cotenant.model.assess.what_if import (
    AddNodes,
    LoseZone,
    NoOvercommit,
    PlaceAnew,
    RemoveNodes,
    ResizeCase,
    ScaledLoad,
    WhatIfChanges,
)
from cotenant.model.errors import InvalidInput
from cotenant.services.assess.what_ifs.nodes import made_like, templates
from cotenant.services.assess.what_ifs.objects import (
    Obj,
    amounts_of,
    is_daemon,
    is_final,
    is_static,
    key_of,
    labels_of,
    name_of,
    node_of,
    owner_of,
    resized,
    shape_matches,
    uid_of,
    unlent,
    unplaced,
    zone_of,
)
from cotenant.services.assess.what_ifs.writing import OPTION
from cotenant.services.heap import uncollected

_STREAM = 41  # of the seed
NODES, PODS = "v1/nodes", "v1/pods"
_OF_NODE = (  # objects that are named like their node
    "storage.k8s.io/v1/csinodes",
    "topology.node.k8s.io/v1alpha1/noderesourcetopologies",
    "scheduling.koordinator.sh/v1alpha1/devices",
    "slo.koordinator.sh/v1alpha1/nodemetrics",
)
_ON_NODE = (  # objects whose spec names their node
    "storage.k8s.io/v1/volumeattachments",
    *(f"resource.k8s.io/{version}/resourceslices" for version in ("v1", "v1beta2", "v1beta1")),
)
NO_CONTROLLER = "nothing makes it again: it has no controller"


@dataclass(frozen=True, slots=True)
class Altered:
    """The changed copy. Pods are by namespace/name."""

    snapshot: ClusterSnapshot
    is_changed: bool
    profile: str  # "" = as it was
    source: Mapping[str, str]  # of new pods, the pod that they are copies of
    lost: Mapping[str, str]  # pods that are gone for good, with the reason
    anew: frozenset[str]  # pods that were created again, or are new
    notes: tuple[str, ...] = ()


def altered(snapshot: ClusterSnapshot, what_if: WhatIfChanges, seed: int) -> Altered:
    """Make the changes. Raises `InvalidInput` where one names what is not there."""
    with uncollected():
        draft = _Draft(snapshot, np.random.default_rng([seed, _STREAM]))
    for change in what_if.changes:
        if isinstance(change, AddNodes):
            draft.add(change)
        elif isinstance(change, RemoveNodes):
            draft.remove(change)
        elif isinstance(change, LoseZone):
            draft.lose_zone(change)
        elif isinstance(change, NoOvercommit):
            draft.lend_nothing()
        elif isinstance(change, ScaledLoad):
            draft.load(change)
        elif isinstance(change, ResizeCase):
            draft.resize(change)
        else:
            draft.place_anew(change)
    return draft.finished()


@dataclass(slots=True)
class _Draft:
    """Objects while they are changed."""

    snapshot: ClusterSnapshot
    rng: np.random.Generator
    nodes: dict[str, Obj] = field(default_factory=dict)
    pods: dict[str, Obj] = field(default_factory=dict)
    added: dict[str, str] = field(default_factory=dict)  # nodes -> the shape as it was written
    copies: dict[str, list[tuple[str, Obj]]] = field(default_factory=dict)  # of added nodes: objects by kind
    removed: set[str] = field(default_factory=set)  # nodes
    source: dict[str, str] = field(default_factory=dict)
    lost: dict[str, str] = field(default_factory=dict)
    anew: set[str] = field(default_factory=set)
    profile: str = ""
    above: dict[str, tuple[str, str]] = field(default_factory=dict)  # controller's UID -> kind and name above it
    notes: list[str] = field(default_factory=list)
    before: tuple[dict[str, Obj], dict[str, Obj]] = ({}, {})  # nodes and pods; never changed in place
    lines: dict[int, bytes] = field(default_factory=dict)  # of these objects, by identity

    def __post_init__(self) -> None:
        for kind, into, key in ((NODES, self.nodes, name_of), (PODS, self.pods, key_of)):
            for obj, line in _read(self.snapshot, kind):
                into[key(obj)] = obj
                self.lines[id(obj)] = line
        self.before = (self.nodes.copy(), self.pods.copy())
        for kind in ("apps/v1/replicasets", "batch/v1/jobs"):
            for obj, _ in _read(self.snapshot, kind):
                owner = owner_of(obj)
                if owner is not None:
                    self.above[uid_of(obj)] = owner[:2]

    # ---- nodes

    def add(self, change: AddNodes) -> None:
        """New nodes like those of the shape, over their zones in turn, with what every such node runs."""
        models = templates(self.nodes, change.shape)
        if not models:
            raise self._no_shape("add", change.shape, "an instance type or a node that is there, or CPUxMEMORY")
        for _ in range(change.count):
            number = len(self.added) + 1
            name = f"what-if-{number}"
            while name in self.nodes or name in self.removed:
                name += "x"
            model, is_alike = models[len(self.added) % len(models)]
            self.nodes[name] = made_like(self.nodes[model], name, None if is_alike else change.shape)
            self.added[name] = change.shape
            self.copies[name] = []
            for kind in (*_OF_NODE[:3], *_ON_NODE[1:]):
                if is_alike or kind == _OF_NODE[0]:
                    self._copy_objects(kind, model, name)
            for key, pod in list(self.pods.items()):
                if node_of(pod) == model and is_daemon(pod) and not is_final(pod):
                    self._copy_pod(key, pod, f"{name_of(pod)}-{name}", name)

    def remove(self, change: RemoveNodes) -> None:
        """Those added last, then any that match."""
        fitting = [name for name, node in self.nodes.items() if shape_matches(node, change.shape)]
        wanted = [name for name, shape in reversed(self.added.items()) if shape == change.shape or name in fitting][
            : change.count
        ]
        others = sorted(set(fitting) - set(self.added))
        missing = change.count - len(wanted)
        if missing > len(others):
            there = len(wanted) + len(others)
            raise self._no_shape("remove", f"{change.count}:{change.shape}", f"nodes that are there: {there} match")
        drawn = self.rng.choice(len(others), missing, replace=False) if missing else np.zeros(0, np.int64)
        self._lose([*wanted, *(others[at] for at in sorted(drawn.tolist()))])

    def lose_zone(self, change: LoseZone) -> None:
        """All nodes of the zone."""
        lost = [name for name, node in self.nodes.items() if zone_of(node) == change.zone]
        if not lost:
            zones = sorted({zone for zone in map(zone_of, self.nodes.values()) if zone})
            known = ", ".join(zones[:10]) or "no node has a zone"
            raise InvalidInput(f"{OPTION} zone-lost", change.zone, "a zone of a node", known)
        self._lose(lost)

    def lend_nothing(self) -> None:
        """No batch or mid resources; pods that request them wait."""
        for name, node in self.nodes.items():
            self.nodes[name] = unlent(node)
        for key, pod in self.pods.items():
            if any("/batch-" in resource or "/mid-" in resource for resource in amounts_of(pod)):
                self._again(key)

    # ---- pods

    def load(self, change: ScaledLoad) -> None:
        """As many times the pods of each controller; a part of a pod is one with that probability."""
        groups: dict[str, list[str]] = {}
        for key, pod in self.pods.items():
            if is_daemon(pod) or is_static(pod) or is_final(pod):
                continue
            owner = owner_of(pod)
            groups.setdefault(owner[2] if owner is not None else key, []).append(key)
        for name in sorted(groups):
            keys = groups[name]
            exact = len(keys) * change.factor
            target = int(exact + 1e-9)
            target += bool(exact - target > 1e-9 and self.rng.random() < exact - target)
            for number in range(len(keys), target):
                key = keys[int(self.rng.integers(len(keys)))]
                pod = self.pods[key]
                self._copy_pod(key, pod, f"{name_of(pod)}-what-if-{number}", "")
            gone = self.rng.choice(len(keys), max(0, len(keys) - target), replace=False)
            for at in gone.tolist():
                del self.pods[keys[at]]
                self.anew.discard(keys[at])

    def resize(self, change: ResizeCase) -> None:
        """Every pod of the workload is created again with the size."""
        names: set[str] = set()
        found = []
        for key, pod in self.pods.items():
            if is_final(pod):
                continue
            own = self._workloads(pod)
            names |= own
            if change.workload in own:
                found.append(key)
        if not found:
            near = get_close_matches(change.workload, sorted(names), 3, 0.5)
            hint = f"near it: {', '.join(near)}" if near else ""
            raise InvalidInput(f"{OPTION} size", change.workload, "NAMESPACE/NAME of a workload with pods", hint)
        for key in found:
            pod = resized(self.pods[key], change.cpu_m, change.memory_bytes)
            if pod != self.pods[key]:
                self.pods[key] = pod
                if is_daemon(pod) or is_static(pod):
                    self.notes.append(f"{key} stays on its node with its new size")
                else:
                    self._again(key)

    def place_anew(self, change: PlaceAnew) -> None:
        """All pods that may move wait."""
        self.profile = change.profile
        for key, pod in self.pods.items():
            if not (is_daemon(pod) or is_static(pod) or is_final(pod)):
                self._again(key)

    # ---- parts

    def _again(self, key: str) -> None:
        """The pod is created again, without a node."""
        if node_of(self.pods[key]):
            self.anew.add(key)
        self.pods[key] = unplaced(self.pods[key])

    def _lose(self, names: list[str]) -> None:
        gone = set(names)
        for name in names:
            del self.nodes[name]
            self.copies.pop(name, None)
        self.added = {name: shape for name, shape in self.added.items() if name not in gone}
        self.removed |= gone
        for key, pod in list(self.pods.items()):
            if node_of(pod) not in gone or is_final(pod):
                continue
            if is_daemon(pod) or is_static(pod):
                del self.pods[key]
                self.source.pop(key, None)
                self.anew.discard(key)
            elif owner_of(pod) is None:
                del self.pods[key]
                self.lost[key] = NO_CONTROLLER
            else:
                self._again(key)

    def _copy_pod(self, key: str, pod: Obj, name: str, node: str) -> None:
        namespace = key.partition("/")[0]
        while f"{namespace}/{name}" in self.pods:
            name += "x"
        new = unplaced(pod, keeps_claims=False)
        new["metadata"] = {**_part(new, "metadata"), "name": name, "uid": f"what-if-{namespace}-{name}"}
        if node:
            new["spec"] = {**_part(new, "spec"), "nodeName": node}
            new["status"] = pod.get("status")
        else:
            self.anew.add(f"{namespace}/{name}")
        self.pods[f"{namespace}/{name}"] = new
        self.source[f"{namespace}/{name}"] = self.source.get(key, key)

    def _copy_objects(self, kind: str, model: str, name: str) -> None:
        for obj, _ in _read(self.snapshot, kind):
            spec = obj.get("spec")
            is_on = isinstance(spec, dict) and spec.get("nodeName") == model
            if not (name_of(obj) == model if kind in _OF_NODE else is_on):
                continue
            own = name if kind in _OF_NODE else f"{name_of(obj)}-{name}"
            new: Obj = {**obj, "metadata": {**_part(obj, "metadata"), "name": own, "uid": f"what-if-{own}"}}
            if is_on:
                new["spec"] = {**_part(obj, "spec"), "nodeName": name}
            self.copies[name].append((kind, new))

    def _workloads(self, pod: Obj) -> set[str]:
        namespace, _, name = key_of(pod).partition("/")
        found = {f"{namespace}/{name}", f"{namespace}/Pod/{name}"} if owner_of(pod) is None else set()
        owner = owner_of(pod)
        if owner is not None:
            for kind, of in filter(None, ((owner[0], owner[1]), self.above.get(owner[2]))):
                found |= {f"{namespace}/{of}", f"{namespace}/{kind}/{of}"}
        return found

    def _no_shape(self, verb: str, value: str, expected: str) -> InvalidInput:
        kinds = sorted({labels_of(node).get("node.kubernetes.io/instance-type", "") for node in self.nodes.values()})
        known = ", ".join(kind for kind in kinds if kind)[:200]
        return InvalidInput(f"{OPTION} {verb}", value, expected, f"instance types: {known}" if known else "")

    def _line(self, obj: Obj) -> bytes:
        """As it was read, unless it is another object."""
        return self.lines.get(id(obj)) or msgspec.json.encode(obj)

    def finished(self) -> Altered:
        """The changed copy; the same one where nothing changed."""
        if not self.profile and (self.nodes, self.pods) == self.before:
            return Altered(self.snapshot, False, "", {}, {}, frozenset(), tuple(self.notes))
        objects: dict[str, tuple[bytes, ...] | list[bytes]] = {
            kind: list(lines) for kind, lines in self.snapshot.objects.items()
        }
        objects[NODES] = [self._line(node) for node in self.nodes.values()]
        order = sorted(key for key in self.anew if key in self.pods)
        self.rng.shuffle(order)
        late = set(order)
        kept = [pod for key, pod in self.pods.items() if key not in late]
        objects[PODS] = [self._line(pod) for pod in (*kept, *(self.pods[key] for key in order))]
        for kind in (*_OF_NODE, *_ON_NODE):
            if kind in objects:
                objects[kind] = [line for obj, line in _read(self.snapshot, kind) if not self._is_of_lost(kind, obj)]
        for copies in self.copies.values():
            for kind, obj in copies:
                objects[kind] = [*objects.get(kind, ()), msgspec.json.encode(obj)]
        return Altered(
            replace(self.snapshot, objects=objects),
            True,
            self.profile,
            {key: of for key, of in self.source.items() if key in self.pods},
            self.lost,
            frozenset(late),
            tuple(self.notes),
        )

    def _is_of_lost(self, kind: str, obj: Obj) -> bool:
        spec = obj.get("spec")
        node = name_of(obj) if kind in _OF_NODE else (spec.get("nodeName") if isinstance(spec, dict) else None)
        return node in self.removed


def _read(snapshot: ClusterSnapshot, kind: str) -> Iterator[tuple[Obj, bytes]]:
    """Each readable object, and as it is written."""
    for line in snapshot.objects.get(kind, ()):
        try:
            obj: Json = msgspec.json.decode(line)
        except UNREADABLE:
            continue
        if isinstance(obj, dict) and name_of(obj):
            yield obj, line


def _part(obj: Obj, name: str) -> Obj:
    part = obj.get(name)
    return part if isinstance(part, dict) else {}

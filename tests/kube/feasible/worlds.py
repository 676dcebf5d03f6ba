"""Random small clusters: nodes, namespaces, volumes and the pods that are on the nodes already. Pods to be judged on
them are of pods.py.

Equal seeds give equal worlds. All names begin with the world's, so worlds that follow each other on one server do not
meet.
"""

from __future__ import annotations

from dataclasses import dataclass

from tests.kube.feasible.rules import pod_terms
from tests.kube.feasible.vocabulary import (
    HOST,
    LATER,
    LATER_MADE,
    NOW,
    ZONE,
    Draw,
    Manifest,
    labels_of_pod,
    port,
    taint,
)


@dataclass(frozen=True, slots=True)
class World:
    """What there is before a pod is judged. `claims` are in the first namespace; `ended` and `leaving` name residents
    that have succeeded, or are being deleted.
    """

    name: str
    namespaces: tuple[Manifest, ...]
    nodes: tuple[Manifest, ...]
    volumes: tuple[Manifest, ...]
    claims: tuple[Manifest, ...]
    residents: tuple[Manifest, ...]
    ended: frozenset[str]
    leaving: frozenset[str]

    @property
    def node_names(self) -> tuple[str, ...]:
        return tuple(str(node["metadata"]["name"]) for node in self.nodes)

    @property
    def namespace_names(self) -> tuple[str, ...]:
        return tuple(str(namespace["metadata"]["name"]) for namespace in self.namespaces)

    @property
    def claim_names(self) -> tuple[str, ...]:
        return tuple(str(claim["metadata"]["name"]) for claim in self.claims)


def world(seed: int) -> World:
    """The world of a seed."""
    draw, name = Draw(f"world {seed}"), f"w{seed}"
    namespaces = tuple(_namespace(draw, f"{name}-s{i}") for i in range(3))
    nodes = tuple(_node(draw, f"{name}-n{i}") for i in range(draw.randint(3, 8)))
    volumes, claims = _storage(draw, name, [node["metadata"]["name"] for node in nodes])
    residents, ended, leaving = [], set(), set()
    for i in range(draw.randint(4, 14)):
        pod = _resident(draw, f"{name}-r{i}", name, len(nodes))
        residents.append(pod)
        if (drawn := draw.random()) < 0.1:
            ended.add(pod["metadata"]["name"])
        elif drawn < 0.2:
            leaving.add(pod["metadata"]["name"])
    if claims and draw.chance(0.5):
        user = _resident(draw, f"{name}-user", name, len(nodes))
        user["metadata"]["namespace"] = f"{name}-s0"
        user["spec"]["volumes"] = [{"name": "v", "persistentVolumeClaim": {"claimName": f"{name}-once"}}]
        residents.append(user)
    return World(
        name, namespaces, nodes, tuple(volumes), tuple(claims), tuple(residents), frozenset(ended), frozenset(leaving)
    )


def _namespace(draw: Draw, name: str) -> Manifest:
    labels = {"team": draw.choice(("red", "blue"))} if draw.chance(0.8) else {}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def _node(draw: Draw, name: str) -> Manifest:
    labels = {HOST: name}
    if draw.chance(0.85):
        labels[ZONE] = draw.choice(("z0", "z1", "z2"))
    if draw.chance(0.8):
        labels["disk"] = draw.choice(("fast", "slow"))
    if draw.chance(0.7):
        labels["gen"] = draw.choice(("1", "2", "10", "x3", ""))
    amounts = {
        "cpu": draw.choice(("1500m", "4", "8")),
        "memory": draw.choice(("3500Mi", "8Gi", "16Gi")),
        "ephemeral-storage": draw.choice(("5Gi", "20Gi")),
        "pods": draw.choice(("3", "20", "110")),
    }
    if draw.chance(0.5):
        amounts["example.com/card"] = draw.choice(("0", "1", "4"))
    if draw.chance(0.3):
        amounts["hugepages-2Mi"] = draw.choice(("0", "128Mi"))
    spec: Manifest = {}
    if draw.chance(0.35):
        spec["taints"] = [taint(draw) for _ in range(draw.randint(1, 2))]
        if len(spec["taints"]) == 2 and all(
            spec["taints"][0][part] == spec["taints"][1][part] for part in ("key", "effect")
        ):
            del spec["taints"][1]
    if draw.chance(0.12):
        spec["unschedulable"] = True
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": spec,
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": [{"type": "Ready", "status": "True" if draw.chance(0.9) else "False", "reason": "K"}],
        },
    }


def _resident(draw: Draw, name: str, world_name: str, nodes: int) -> Manifest:
    requests = {"cpu": draw.choice(("100m", "500m", "1")), "memory": draw.choice(("128Mi", "512Mi", "1Gi"))}
    container: Manifest = {"name": "c", "image": "i", "resources": {"requests": requests} if draw.chance(0.8) else {}}
    if draw.chance(0.25):
        container["ports"] = [port(draw)]
    # a node that is gone, sometimes
    at = draw.randint(0, nodes - 1) if draw.chance(0.95) else nodes + 1
    spec: Manifest = {"containers": [container], "nodeName": f"{world_name}-n{at}"}
    if draw.chance(0.3):
        spec["affinity"] = {
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": pod_terms(draw, world_name, is_placed=True)
            }
        }
    namespace = f"{world_name}-s{draw.randint(0, 2)}"
    metadata = {"name": name, "namespace": namespace, "labels": labels_of_pod(draw)}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _storage(draw: Draw, name: str, nodes: list[str]) -> tuple[list[Manifest], list[Manifest]]:
    """Volumes and claims: bound ones of a node or a zone, one that only one pod may use, one to be bound later, one
    to be made later, one that has not been bound and should have been.
    """
    if draw.chance(0.3):
        return [], []
    volumes, claims = [], []
    for suffix, mode in (("near", "ReadWriteOnce"), ("zonal", "ReadWriteMany"), ("once", "ReadWriteOncePod")):
        volume = _volume(f"{name}-{suffix}", mode, LATER)
        if suffix == "near":
            volume["spec"]["nodeAffinity"] = _on(HOST, [draw.choice(nodes)])
        elif suffix == "zonal":
            volume["spec"]["nodeAffinity"] = _on(ZONE, draw.sample(["z0", "z1", "z2"], 2))
        volume["spec"]["claimRef"] = {
            "kind": "PersistentVolumeClaim",
            "namespace": f"{name}-s0",
            "name": f"{name}-{suffix}",
        }
        claim = _claim(f"{name}-{suffix}", name, mode, LATER)
        claim["spec"]["volumeName"] = f"{name}-{suffix}"
        claim["metadata"]["annotations"] = {"pv.kubernetes.io/bind-completed": "yes"}
        volumes.append(volume)
        claims.append(claim)
    for i in range(draw.randint(0, 2)):
        free = _volume(f"{name}-free{i}", "ReadWriteOnce", LATER, draw.choice(("1Gi", "10Gi")))
        free["spec"]["nodeAffinity"] = _on(HOST, draw.sample(nodes, 2))
        volumes.append(free)
    claims += [
        _claim(f"{name}-{suffix}", name, "ReadWriteOnce", of)
        for suffix, of in (("later", LATER), ("made", LATER_MADE), ("now", NOW))
    ]
    return volumes, claims


def _volume(name: str, mode: str, of: str, size: str = "5Gi") -> Manifest:
    spec = {
        "capacity": {"storage": size},
        "accessModes": [mode],
        "storageClassName": of,
        "persistentVolumeReclaimPolicy": "Retain",
        "csi": {"driver": "made.example.com", "volumeHandle": name},
    }
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec}


def _claim(name: str, world_name: str, mode: str, of: str) -> Manifest:
    spec = {"accessModes": [mode], "storageClassName": of, "resources": {"requests": {"storage": "5Gi"}}}
    metadata = {"name": name, "namespace": f"{world_name}-s0"}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}


def _on(key: str, values: list[str]) -> Manifest:
    expression = {"key": key, "operator": "In", "values": values}
    return {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}

"""Random pods to be judged on a world, with every feature that a filter of kube-scheduler looks at."""

from __future__ import annotations

from tests.kube.feasible.rules import node_affinity, pod_terms, spread, tolerations
from tests.kube.feasible.vocabulary import FAST, HEAVY, HOST, ZONE, Draw, Manifest, labels_of_pod, port
from tests.kube.feasible.worlds import World

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def pods(seed: int, found: World, count: int) -> tuple[Manifest, ...]:
    """As many pods of a seed's world."""
    draw = Draw(f"pods {seed}")
    return tuple(_pod(draw, found, f"{found.name}-p{i}") for i in range(count))


def _pod(draw: Draw, found: World, name: str) -> Manifest:
    spec: Manifest = {"containers": [_container(draw, "c")]}
    namespace = draw.choice(found.namespace_names)
    _add_containers(draw, spec)
    if draw.chance(0.12):
        _ask_for_the_pod(draw, spec)
    if draw.chance(0.15):
        spec["runtimeClassName"] = draw.choice((HEAVY, FAST))
    if draw.chance(0.2):
        key, values = draw.choice((("disk", ("fast", "slow")), (ZONE, ("z0", "z1", "z2")), (HOST, found.node_names)))
        spec["nodeSelector"] = {key: draw.choice(values)}
    affinity: Manifest = {}
    if draw.chance(0.3):
        affinity["nodeAffinity"] = node_affinity(draw, found.node_names)
    if draw.chance(0.25):
        affinity["podAffinity"] = {_REQUIRED: pod_terms(draw, found.name, is_placed=False)}
    if draw.chance(0.25):
        affinity["podAntiAffinity"] = {_REQUIRED: pod_terms(draw, found.name, is_placed=False)}
    if affinity:
        spec["affinity"] = affinity
    if draw.chance(0.45):
        spec["tolerations"] = tolerations(draw)
    if draw.chance(0.3):
        spec["topologySpreadConstraints"] = spread(draw)
    if found.claims and draw.chance(0.15):
        namespace = found.namespace_names[0]
        names = draw.sample(found.claim_names, 1 + int(draw.chance(0.2)))
        spec["volumes"] = [
            {"name": f"v{i}", "persistentVolumeClaim": {"claimName": claim}} for i, claim in enumerate(names)
        ]
    if draw.chance(0.02):
        spec["schedulingGates"] = [{"name": "example.com/hold"}]
    metadata = {"name": name, "namespace": namespace, "labels": labels_of_pod(draw)}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _container(draw: Draw, name: str) -> Manifest:
    requests: Manifest = {}
    limits: Manifest = {}
    if draw.chance(0.7):
        requests["cpu"] = draw.choice(("100m", "500m", "1200m", "2"))
    if draw.chance(0.6):
        requests["memory"] = draw.choice(("200Mi", "1Gi", "3Gi", "1500000k"))
    if draw.chance(0.2):
        requests["ephemeral-storage"] = draw.choice(("1Gi", "6Gi"))
    if draw.chance(0.1):  # a request is what its limit says
        limits["memory"] = "3Gi"
    if draw.chance(0.12):
        limits["example.com/card"] = draw.choice(("0", "1", "2"))
    if draw.chance(0.05):
        limits["hugepages-2Mi"] = "64Mi"
        requests.setdefault("cpu", "100m")
    found: Manifest = {"name": name, "image": "i", "resources": {"requests": requests, "limits": limits}}
    if draw.chance(0.15):
        found["ports"] = [port(draw)]
    return found


def _add_containers(draw: Draw, spec: Manifest) -> None:
    if draw.chance(0.2):
        spec["containers"].append(_container(draw, "d"))
    if draw.chance(0.25):
        spec["initContainers"] = [_container(draw, f"i{i}") for i in range(draw.randint(1, 3))]
        for container in spec["initContainers"]:
            if draw.chance(0.5):
                container["restartPolicy"] = "Always"
    if draw.chance(0.05):
        spec["hostNetwork"] = True
        for container in (*spec["containers"], *spec.get("initContainers", ())):
            for written in container.get("ports", ()):
                written["containerPort"] = written["hostPort"]


def _ask_for_the_pod(draw: Draw, spec: Manifest) -> None:
    """Requests of the whole pod, which are at least those of its containers."""
    for container in (*spec["containers"], *spec.get("initContainers", ())):
        container["resources"] = {"requests": {"cpu": "100m"}} if draw.chance(0.5) else {}
    requests: Manifest = {}
    if draw.chance(0.8):
        requests["cpu"] = draw.choice(("600m", "1800m"))
    if draw.chance(0.6):
        requests["memory"] = draw.choice(("1Gi", "3Gi"))
    if requests:
        spec["resources"] = {"requests": requests}

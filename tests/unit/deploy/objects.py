"""The objects that `kubectl apply -k` sends, read without kubectl: kustomizations here only list resources."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import yaml

DEPLOY = Path(__file__).parents[3] / "deploy"
PARTS = (
    "scheduler",
    "manager",
    "webhook",
    "node",
    "rebalancer",
    "credit",
    "console",
    "extender",
    "traces",
    "monitoring",
    "uninstall",
)
Obj = dict[str, Any]
Identity = tuple[str, str, str]  # kind, namespace, name


@cache
def read(path: Path) -> list[Obj]:
    """The objects of one file. Every case asks for all of them, so a file is read once; nobody changes them."""
    return [entry for entry in yaml.load_all(path.read_text(), Loader=yaml.CSafeLoader) if entry]


def resources(folder: Path) -> Iterator[Obj]:
    """The objects of a kustomization."""
    (kustomization,) = read(folder / "kustomization.yaml")
    assert set(kustomization) == {"apiVersion", "kind", "resources"}
    for name in kustomization["resources"]:
        path = folder / name
        yield from resources(path) if path.is_dir() else read(path)


def identity(obj: Obj) -> Identity:
    """What an object is named by."""
    return obj["kind"], obj["metadata"].get("namespace", ""), obj["metadata"]["name"]


def by_identity(objects: list[Obj]) -> dict[Identity, Obj]:
    """Objects by what they are named by; a name that occurs twice is an error."""
    found = {identity(entry): entry for entry in objects}
    assert len(found) == len(objects)
    return found


def everything() -> list[Obj]:
    """All objects of all parts."""
    found = list(resources(DEPLOY))
    have = {identity(entry) for entry in found}
    for part in PARTS:
        found += [resource for resource in resources(DEPLOY / part) if identity(resource) not in have]
    return found


def pods() -> dict[str, Obj]:
    """The pods' specs of all workloads, by the workload's name."""
    return {
        entry["metadata"]["name"]: entry["spec"]["template"]["spec"]
        for entry in everything()
        if entry["kind"] in ("Deployment", "DaemonSet")
    }


def containers(pod: Obj) -> list[Obj]:
    """All containers of a pod's spec."""
    return [*pod.get("initContainers", ()), *pod["containers"]]

"""What is installed, as objects: from files, or from an API server that is only read.

Files may have any number of objects, also lists as `kubectl get -o yaml` prints them. From a server come Koordinator's
kinds, its three ConfigMaps, and of nodes and pods only the names of labels and annotations under its domains, and the
scheduler's name. What may not be read is named and does not stop the rest.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec
import yaml  # type: ignore[import-untyped]

from cotenant.drivers.kube.client.client import Client
from cotenant.drivers.kube.client.errors import Forbidden, NotFound
from cotenant.model.errors import InvalidInput, Permanent
from cotenant.model.json_object import JsonMapping, JsonValue

MAX_BYTES = 64 << 20
PAGE = 500
NAMESPACE = "koordinator-system"
_PATHS = {
    "ConfigMap": f"/api/v1/namespaces/{NAMESPACE}/configmaps",
    "Node": "/api/v1/nodes",
    "Pod": "/api/v1/pods",
    "ClusterColocationProfile": "/apis/config.koordinator.sh/v1alpha1/clustercolocationprofiles",
    "ElasticQuota": "/apis/scheduling.sigs.k8s.io/v1alpha1/elasticquotas",
    "ElasticQuotaProfile": "/apis/quota.koordinator.sh/v1alpha1/elasticquotaprofiles",
    "PodGroup": "/apis/scheduling.sigs.k8s.io/v1alpha1/podgroups",
    "Reservation": "/apis/scheduling.koordinator.sh/v1alpha1/reservations",
    "PodMigrationJob": "/apis/scheduling.koordinator.sh/v1alpha1/podmigrationjobs",
    "Device": "/apis/scheduling.koordinator.sh/v1alpha1/devices",
    "NodeSLO": "/apis/slo.koordinator.sh/v1alpha1/nodeslos",
}


@dataclass(frozen=True, slots=True)
class Installed:
    """The objects, and sentences about what could not be read."""

    objects: tuple[JsonMapping, ...]
    unread: tuple[str, ...] = ()


def from_files(files: tuple[Path, ...]) -> Installed:
    """The objects of files. Raises `InvalidInput` with the file."""
    found: list[JsonMapping] = []
    for file in files:
        try:
            text = file.read_bytes()
        except OSError as error:
            raise InvalidInput("--file", str(file), "a file that can be read", error.strerror or "") from None
        found += read_objects(text, str(file))
    return Installed(tuple(found))


def read_objects(text: bytes, name: str) -> list[JsonMapping]:
    """The objects in a text. Raises `InvalidInput`."""
    if len(text) > MAX_BYTES:
        raise InvalidInput(name, f"{len(text)} bytes", f"at most {MAX_BYTES} bytes")
    try:
        documents = list(yaml.load_all(text, Loader=yaml.CSafeLoader))
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError, ValueError, TypeError) as error:
        raise InvalidInput(name, "its text", "YAML or JSON", " ".join(str(error).split())[:300]) from None
    return [obj for i, document in enumerate(documents) for obj in _objects(document, f"{name}: document {i + 1}")]


def _objects(document: object, where: str) -> Iterator[JsonMapping]:
    if document is None:
        return
    if not isinstance(document, dict):
        raise InvalidInput(where, type(document).__name__, "an object")
    items = document.get("items")
    if str(document.get("kind") or "").endswith("List") and isinstance(items, list):
        for i, item in enumerate(items):
            yield from _objects(item, f"{where}: items[{i}]")
        return
    for field in ("apiVersion", "kind"):
        if not isinstance(document.get(field), str) or not document[field]:
            raise InvalidInput(f"{where}: {field}", repr(document.get(field)), f"the {field} of an object")
    yield document


async def from_cluster(client: Client) -> Installed:
    """The objects of a cluster. Raises where nothing can be read at all."""
    found: list[JsonMapping] = []
    unread: list[str] = []
    for kind, path in _PATHS.items():
        try:
            found += [obj async for obj in _listed(client, kind, path)]
        except NotFound:
            continue  # the kind is not installed
        except Forbidden as error:
            unread.append(f"{kind}: {error}")
    if len(unread) == len(_PATHS):
        raise Permanent(f"nothing could be read: {unread[0]}")
    return Installed(tuple(found), tuple(unread))


async def _listed(client: Client, kind: str, path: str) -> JsonValue:
    more = ""
    while True:
        query = {"limit": str(PAGE), **({"continue": more} if more else {})}
        page = msgspec.json.decode(await client.request("GET", path, query=query))
        for item in page.get("items") or ():
            yield {"apiVersion": page.get("apiVersion", ""), "kind": kind, **item}
        more = str((page.get("metadata") or {}).get("continue") or "")
        if not more:
            return

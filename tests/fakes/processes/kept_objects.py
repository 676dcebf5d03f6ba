"""Objects of a server that are kept in a mapping, with what `Objects` promises of a real one: merge patches, versions,
UIDs as preconditions, selectors of labels, and rights that a test takes away.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy

from cotenant.drivers.kube.client.errors import AlreadyExists, Conflict, Forbidden, NotFound
from cotenant.drivers.kube.client.objects import Objects, ServedKind
from cotenant.model.json_object import JsonMapping, JsonObject

_KINDS = {
    ("v1", "Pod"): "pods",
    ("v1", "Service"): "services",
    ("v1", "ConfigMap"): "configmaps",
    ("v1", "Secret"): "secrets",
    ("v1", "Event"): "events",
    ("v1", "ResourceQuota"): "resourcequotas",
    ("v1", "PersistentVolumeClaim"): "persistentvolumeclaims",
    ("v1", "Node"): "nodes",
    ("v1", "Namespace"): "namespaces",
    ("apps/v1", "Deployment"): "deployments",
    ("apps/v1", "ReplicaSet"): "replicasets",
    ("apps/v1", "StatefulSet"): "statefulsets",
    ("apps/v1", "DaemonSet"): "daemonsets",
    ("batch/v1", "Job"): "jobs",
    ("batch/v1", "CronJob"): "cronjobs",
    ("slo.cotenant.io/v1alpha1", "ServiceObjective"): "serviceobjectives",
    ("scheduling.sigs.k8s.io/v1alpha1", "ElasticQuota"): "elasticquotas",
    ("config.koordinator.sh/v1alpha1", "ClusterColocationProfile"): "clustercolocationprofiles",
}
_OF_CLUSTER = frozenset({"nodes", "namespaces", "clustercolocationprofiles"})


class KeptObjects(Objects):
    """`before_merge` is called before each merge patch, as another writer would come between."""

    def __init__(self) -> None:
        self.kept: dict[tuple[str, str, str], JsonObject] = {}  # plural, namespace, name
        self.forbidden: set[str] = set()  # plurals that may not be listed
        self.unserved: set[str] = set()  # kinds
        self.before_merge: Callable[[], None] = lambda: None
        self._version = 0

    def put(self, document: JsonMapping, **status: object) -> JsonObject:
        """As it is, whoever made it."""
        made = deepcopy(dict(document))
        place = self._place(str(made["apiVersion"]), str(made["kind"]))
        assert place is not None
        metadata = made["metadata"]
        if place.is_namespaced:
            metadata.setdefault("namespace", "shop")
        metadata.setdefault("uid", f"uid-{metadata['name']}")
        if status:
            made["status"] = status
        self._version += 1
        metadata["resourceVersion"] = str(self._version)
        self.kept[place.plural, metadata.get("namespace") or "", metadata["name"]] = made
        return made

    def named(self, plural: str, name: str, namespace: str = "shop") -> JsonObject:
        """An object that is there."""
        return self.kept[plural, "" if plural in _OF_CLUSTER else namespace, name]

    def names(self, plural: str) -> list[str]:
        """Of all that are there."""
        return sorted(name for kind, _, name in self.kept if kind == plural)

    def _place(self, api_version: str, kind: str) -> ServedKind | None:
        plural = _KINDS.get((api_version, kind))
        if plural is None or kind in self.unserved:
            return None
        return ServedKind(api_version, plural, plural not in _OF_CLUSTER)

    async def served(self, api_version: str, kind: str) -> ServedKind | None:
        return self._place(api_version, kind)

    async def served_in_group(self, group: str, kind: str) -> ServedKind | None:
        versions = (version for version, known in _KINDS if known == kind and version.rpartition("/")[0] == group)
        return next((self._place(version, kind) for version in versions), None)

    async def get(self, place: ServedKind, namespace: str, name: str) -> JsonObject | None:
        found = self.kept.get((place.plural, namespace if place.is_namespaced else "", name))
        return deepcopy(found)

    async def every(
        self, place: ServedKind, namespace: str, query: Mapping[str, str] | None = None
    ) -> list[JsonObject]:
        if place.plural in self.forbidden:
            raise Forbidden(f"{place.plural} may not be listed")
        label, equals, value = (query or {}).get("labelSelector", "").partition("=")
        field, _, of_field = (query or {}).get("fieldSelector", "").partition("=")
        return [
            deepcopy(obj)
            for (plural, at, _), obj in sorted(self.kept.items())
            if plural == place.plural
            and namespace in ("", at)
            and (not label or label in (obj["metadata"].get("labels") or {}))
            and (not equals or obj["metadata"]["labels"][label] == value)
            and (not field or obj.get(field) == of_field)
        ]

    async def apply(self, place: ServedKind, document: JsonMapping) -> JsonObject:
        metadata = document["metadata"]
        before = self.kept.get((place.plural, metadata.get("namespace") or "", metadata["name"])) or {}
        return deepcopy(self.put(_merged(before, document)))

    async def merge(self, place: ServedKind, namespace: str, name: str, patch: JsonMapping) -> JsonObject:
        self.before_merge()
        known = self.kept.get((place.plural, namespace, name))
        if known is None:
            raise NotFound(name)
        version = (patch.get("metadata") or {}).get("resourceVersion")
        if version not in (None, known["metadata"]["resourceVersion"]):
            raise Conflict("the object has been modified")
        return deepcopy(self.put(_merged(known, patch)))

    async def create(self, place: ServedKind, namespace: str, document: JsonMapping) -> JsonObject:
        made = deepcopy(dict(document))
        if place.is_namespaced:
            made["metadata"]["namespace"] = namespace
        if (place.plural, namespace if place.is_namespaced else "", made["metadata"]["name"]) in self.kept:
            raise AlreadyExists(made["metadata"]["name"])
        return deepcopy(self.put(made))

    async def delete(self, place: ServedKind, namespace: str, name: str, uid: str = "") -> None:
        known = self.kept.get((place.plural, namespace, name))
        if known is not None and uid not in ("", known["metadata"]["uid"]):
            raise Conflict("another uid")
        self.kept.pop((place.plural, namespace, name), None)


def _merged(old: JsonMapping, patch: JsonMapping) -> JsonObject:
    made = deepcopy(dict(old))
    for key, value in patch.items():
        if value is None:
            made.pop(key, None)
        elif isinstance(value, dict):
            made[key] = _merged(made.get(key) or {}, value)
        else:
            made[key] = deepcopy(value)
    return made

"""Objects of any kind by their names, and what a release writes on them.

A reference has no version: the same object may be served in several. Two documents for one object are refused, since
the second would overwrite the first without a word.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from cotenant.model.errors import InvalidInput
from cotenant.model.json_object import JsonMapping, JsonObject

RELEASE = "cotenant.io/release"  # annotation of each object: NAMESPACE/NAME of the release that it belongs to
KEEP = "cotenant.io/keep"  # annotation: "true" = never deleted with its release
HELM_POLICY = "helm.sh/resource-policy"  # the same in charts: "keep"
HOOK = "helm.sh/hook"

_FIRST = (
    "Namespace", "PriorityClass", "ClusterColocationProfile", "StorageClass", "IngressClass", "ResourceQuota",
    "LimitRange", "NetworkPolicy", "ServiceAccount", "Secret", "ConfigMap", "PersistentVolume",
    "PersistentVolumeClaim", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "Service",
    "PodDisruptionBudget", "DaemonSet", "Pod", "ReplicaSet", "Deployment", "StatefulSet", "Job", "CronJob",
    "HorizontalPodAutoscaler", "Ingress",
)  # fmt: skip
_LAST = ("APIService", "ValidatingWebhookConfiguration", "MutatingWebhookConfiguration")  # they must not meet the rest
_HOLDS_DATA = frozenset({"Namespace", "CustomResourceDefinition", "PersistentVolumeClaim", "PersistentVolume"})
DEFINITION = "CustomResourceDefinition"


@dataclass(frozen=True, slots=True, order=True)
class ObjectRef:
    """An object. `namespace` is empty for a cluster-scoped one."""

    group: str
    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"

    @property
    def holds_data(self) -> bool:
        """Whether deleting it deletes what others have put into it."""
        return self.kind in _HOLDS_DATA


def ref_of(document: JsonMapping) -> ObjectRef:
    """The reference of a document that `checked` has passed."""
    metadata = document["metadata"]
    group, slash, _ = str(document["apiVersion"]).partition("/")
    return ObjectRef(group if slash else "", document["kind"], metadata.get("namespace") or "", metadata["name"])


def annotation(document: JsonMapping, name: str) -> str:
    """An annotation's text, empty where it has none."""
    annotations = (document.get("metadata") or {}).get("annotations") or {}
    return str(annotations.get(name) or "")


def is_kept(document: JsonMapping) -> bool:
    """Whether its writer wants it kept when its release goes."""
    return annotation(document, KEEP) == "true" or annotation(document, HELM_POLICY) == "keep"


def checked(document: JsonObject, where: str) -> JsonObject:
    """The document, where it names an object. Raises `InvalidInput`."""
    for field in ("apiVersion", "kind"):
        if not isinstance(document.get(field), str) or not document[field]:
            raise InvalidInput(f"{where}: {field}", document.get(field), "a text")
    metadata = document.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    if not isinstance(name, str) or not name:
        raise InvalidInput(
            f"{where}: metadata.name", name, "a name", "an object without one is another at each upgrade"
        )
    return document


def refuse_twice(documents: Iterable[JsonMapping], where: str) -> None:
    """Raises `InvalidInput` where two documents are of one object."""
    seen: set[ObjectRef] = set()
    for document in documents:
        ref = ref_of(document)
        if ref in seen:
            raise InvalidInput(where, str(ref), "one document for each object", "it is there twice")
        seen.add(ref)


def apply_order(ref: ObjectRef) -> tuple[int, int, ObjectRef]:
    """Sorts objects so that what others need comes first: definitions, then by kind, then custom objects, webhooks
    last. The reverse is the order of deletion.
    """
    if ref.kind == DEFINITION:
        return (1, 0, ref)
    if ref.kind == "Namespace":
        return (0, 0, ref)
    if ref.kind in _FIRST:
        return (2, _FIRST.index(ref.kind), ref)
    return (4, _LAST.index(ref.kind), ref) if ref.kind in _LAST else (3, 0, ref)

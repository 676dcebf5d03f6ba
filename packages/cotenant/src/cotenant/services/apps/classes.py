"""The class of a release: a ClusterColocationProfile for each of its workloads, made with it.

A profile selects what the workload's own selector selects: Kubernetes requires that no two workloads of a namespace
share those pods, so it means the release's pods and no others, whatever labels a chart has. It works on pods as they
are created (`cotenant webhook`), translates what they ask for into what the class lends, and needs the right to write
profiles, which are the cluster's. Why no labels on the templates: docs/adr/0057.
"""

from __future__ import annotations

import re
from hashlib import sha256

from cotenant.model.apps.objects import ref_of
from cotenant.model.apps.release import ReleaseName
from cotenant.model.cluster.class_names import CLASSES
from cotenant.model.cluster.labels import QOS_CLASS
from cotenant.model.errors import InvalidInput
from cotenant.model.json_object import JsonMapping, JsonObject

_VERSION = "config.koordinator.sh/v1alpha1"
_KIND = "ClusterColocationProfile"
_NAMESPACE = "kubernetes.io/metadata.name"
_OTHER = re.compile(r"[^a-z0-9.-]+")


def profiles_of(documents: list[JsonObject], release: ReleaseName, class_name: str) -> list[JsonObject]:
    """The profiles. Raises `InvalidInput` for a workload whose pods nothing selects."""
    if not class_name:
        return []
    qos, priority = CLASSES[class_name]
    found = []
    for document in documents:
        selector = _selector(document)
        if selector is None:
            continue
        ref = ref_of(document)
        if not selector:
            raise InvalidInput("--class", str(ref), "a workload whose pods have labels", "label its pod template")
        found.append(
            {
                "apiVersion": _VERSION,
                "kind": _KIND,
                "metadata": {"name": _name(release, f"{ref.kind}-{ref.name}")},
                "spec": {
                    "namespaceSelector": {"matchLabels": {_NAMESPACE: ref.namespace or release.namespace}},
                    "selector": selector,
                    "qosClass": qos,
                    "priorityClassName": priority,
                },
            }
        )
    return found


def has_class(pod: JsonMapping, class_name: str) -> bool:
    """Whether a pod has been given the class."""
    labels = pod["metadata"].get("labels") or {}
    qos, priority = CLASSES[class_name]
    return labels.get(QOS_CLASS) == qos and (pod.get("spec") or {}).get("priorityClassName") == priority


def _selector(document: JsonMapping) -> JsonObject | None:
    """What selects a workload's pods; None for what makes none, empty where nothing does."""
    spec, kind = document.get("spec") or {}, document["kind"]
    if kind in ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet"):
        return dict(spec.get("selector") or {})
    if kind == "CronJob":
        spec = (spec.get("jobTemplate") or {}).get("spec") or {}
    if kind in ("Job", "CronJob"):
        labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels")
    elif kind == "Pod":
        labels = document["metadata"].get("labels")
    else:
        return None
    return {"matchLabels": dict(labels)} if labels else {}


def _name(release: ReleaseName, of: str) -> str:
    """Readable, and no other release's: profiles have no namespace."""
    digest = sha256(f"{release} {of}".encode()).hexdigest()[:8]
    return f"{_OTHER.sub('-', f'app-{release.namespace}-{release.name}-{of}'.lower())[:200]}-{digest}"

"""ControllerRevisions: the template history of a StatefulSet or DaemonSet, for updates and rollbacks.

A revision's `data` is the patch that restores its template, which is what `kubectl rollout undo` sends. Source:
Kubernetes documentation "StatefulSets", "Perform a Rollback on a DaemonSet"; the form of the data as kubectl applies
it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from cotenant.drivers.kube.manifests.errors import Manifest
from cotenant_local.controllers.runtime.actions import REVISIONS, Create, Delete, Draft, Patch
from cotenant_local.controllers.views.core import Meta
from cotenant_local.controllers.views.workloads import ControllerRevision
from cotenant_local.controllers.workloads.pods import owner_reference, same_template, template_hash

HASH_LABEL = "controller-revision-hash"


@dataclass(frozen=True, slots=True)
class RevisionHistory:
    """The revisions of one owner. `update` is the name of the one with the current template."""

    update: str
    number: int
    known: tuple[ControllerRevision, ...]

    def template(self, name: str, otherwise: Manifest) -> Manifest:
        """The template of a revision; `otherwise` if the revision no longer exists."""
        for revision in self.known:
            if revision.metadata.name == name:
                found = template_of(revision)
                return found if found is not None else otherwise
        return otherwise


def template_of(revision: ControllerRevision) -> Manifest | None:
    """The template stored in a revision."""
    if not isinstance(revision.data, dict):
        return None
    template = (revision.data.get("spec") or {}).get("template")
    return {k: v for k, v in template.items() if k != "$patch"} if isinstance(template, dict) else None


def sync(
    draft: Draft,
    owner: Meta,
    kind: str,
    api_version: str,
    template: Manifest,
    candidates: Iterable[ControllerRevision],
    collisions: int = 0,
) -> RevisionHistory:
    """Ensure that the current template has a revision and that it is the newest."""
    owned = [r for r in candidates if (c := r.metadata.controller) is not None and c.uid == owner.uid]
    owned.sort(key=lambda r: (r.revision, r.metadata.name))
    highest = owned[-1].revision if owned else 0
    for revision in reversed(owned):
        stored = template_of(revision)
        if stored is not None and same_template(stored, template):
            number = revision.revision
            if number < highest:
                number = highest + 1  # a rollback makes an old revision the newest
                patch = Patch(REVISIONS, owner.namespace, revision.metadata.name, {"revision": number})
                draft.add(patch, f"revision {number} is {revision.metadata.name} again")
            return RevisionHistory(revision.metadata.name, number, tuple(owned))
    digest = template_hash(template, collisions)
    name = f"{owner.name}-{digest}"
    labels = {**((template.get("metadata") or {}).get("labels") or {}), HASH_LABEL: digest}
    obj: Manifest = {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": {
            "name": name,
            "namespace": owner.namespace,
            "labels": labels,
            "ownerReferences": [owner_reference(owner, kind, api_version)],
        },
        "data": {"spec": {"template": {**template, "$patch": "replace"}}},
        "revision": highest + 1,
    }
    draft.add(Create(REVISIONS, owner.namespace, obj), f"revision {highest + 1} is {name}")
    return RevisionHistory(name, highest + 1, tuple(owned))


def truncate(draft: Draft, history: RevisionHistory, in_use: set[str], limit: int) -> None:
    """Delete the oldest revisions beyond the history limit, except those of existing pods."""
    idle: Sequence[ControllerRevision] = [r for r in history.known if r.metadata.name not in in_use | {history.update}]
    for revision in idle[: max(0, len(idle) - limit)]:
        meta = revision.metadata
        draft.add(Delete(REVISIONS, meta.namespace, meta.name, meta.uid), f"delete revision {revision.revision}")

"""ControllerRevisions: the templates that a StatefulSet or DaemonSet has had, so that an update can be followed and undone.

A revision's `data` is the patch that brings its template back, which is what `kubectl rollout undo` sends. Source: Kubernetes documentation
"StatefulSets", "Perform a Rollback on a DaemonSet"; the form of the data as kubectl applies it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from cotenant.local.apiserver.contract import Manifest
from cotenant.local.controllers.runtime.actions import REVISIONS, Create, Delete, Draft, Patch
from cotenant.local.controllers.views.core import Meta
from cotenant.local.controllers.views.workloads import ControllerRevision
from cotenant.local.controllers.workloads.pods import owner_reference, same_template, template_hash

HASH_LABEL = "controller-revision-hash"


@dataclass(frozen=True, slots=True)
class History:
    """The revisions of one owner. `update` is the name of the one with the present template."""

    update: str
    number: int
    known: tuple[ControllerRevision, ...]

    def template(self, name: str, otherwise: Manifest) -> Manifest:
        """The template of a revision; `otherwise` where it is not known any more."""
        for revision in self.known:
            if revision.metadata.name == name:
                found = template_of(revision)
                return found if found is not None else otherwise
        return otherwise


def template_of(revision: ControllerRevision) -> Manifest | None:
    """The template that a revision holds."""
    if not isinstance(revision.data, dict):
        return None
    template = (revision.data.get("spec") or {}).get("template")
    return {k: v for k, v in template.items() if k != "$patch"} if isinstance(template, dict) else None


def follow(
    draft: Draft,
    owner: Meta,
    kind: str,
    api_version: str,
    template: Manifest,
    candidates: Iterable[ControllerRevision],
    collisions: int = 0,
) -> History:
    """Make sure that the present template has a revision and that it is the newest."""
    mine = [r for r in candidates if (c := r.metadata.controller) is not None and c.uid == owner.uid]
    mine.sort(key=lambda r: (r.revision, r.metadata.name))
    highest = mine[-1].revision if mine else 0
    for revision in reversed(mine):
        held = template_of(revision)
        if held is not None and same_template(held, template):
            number = revision.revision
            if number < highest:
                number = highest + 1  # rolled back to: it is the newest again
                patch = Patch(REVISIONS, owner.namespace, revision.metadata.name, {"revision": number})
                draft.add(patch, f"revision {number} is {revision.metadata.name} again")
            return History(revision.metadata.name, number, tuple(mine))
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
    return History(name, highest + 1, tuple(mine))


def forget(draft: Draft, history: History, in_use: set[str], limit: int) -> None:
    """Delete the oldest revisions beyond the history limit; those of living pods stay."""
    idle: Sequence[ControllerRevision] = [r for r in history.known if r.metadata.name not in in_use | {history.update}]
    for revision in idle[: max(0, len(idle) - limit)]:
        meta = revision.metadata
        draft.add(Delete(REVISIONS, meta.namespace, meta.name, meta.uid), f"forget revision {revision.revision}")

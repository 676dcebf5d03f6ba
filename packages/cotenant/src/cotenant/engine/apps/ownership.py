"""What a release may touch: both its record and the object must say that the object is the release's.

Whoever may write Secrets of a namespace may write a release's record there, and could name objects of others in it, for
an administrator's next command to change or delete. So what a record says counts within its namespace; elsewhere, and
for any deletion, the object's own annotation must name the release, which needs the right to write that object.
"""

from __future__ import annotations

from cotenant.model.apps.objects import RELEASE, ObjectRef, annotation, is_kept
from cotenant.model.apps.release import ReleaseName
from cotenant.model.json_object import JsonMapping

_HELM = "meta.helm.sh/release-name"


def why_not_delete(live: JsonMapping, release: ReleaseName) -> str:
    """Why an object that a release had may not be deleted with it; empty where it may."""
    owner = annotation(live, RELEASE)
    if owner != str(release):
        return f"it belongs to the release {owner}" if owner else "it does not say that it is the release's"
    return "it says that it is kept" if is_kept(live) else ""


def why_not_adopt(live: JsonMapping | None, release: ReleaseName, adopts: bool) -> str:
    """Why a release may not write over an object that it did not have before; empty where it may. `adopts`: objects of
    no release are taken over.
    """
    if live is None:
        return ""
    owner, chart = annotation(live, RELEASE), annotation(live, _HELM)
    if owner == str(release):
        return ""
    if owner:
        return f"it belongs to the release {owner}"
    if chart:
        return f"it belongs to Helm's release {chart}"
    return "" if adopts else "it is there already and belongs to no release; --adopt takes it over"


def why_not_believe(ref: ObjectRef, live: JsonMapping | None, release: ReleaseName) -> str:
    """Why a recorded document may not be applied again; empty where it may."""
    if ref.namespace == release.namespace:
        return ""
    if live is not None and annotation(live, RELEASE) == str(release):
        return ""
    return (
        f"the record in namespace {release.namespace} alone says that it is the release's; apply its manifest with "
        "upgrade"
    )

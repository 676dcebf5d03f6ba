"""Patches and field ownership: JSON patch, merge patch, strategic merge patch, server-side apply, and managedFields.

A `body` is the request's bytes (JSON; YAML too where Kubernetes accepts it) or the decoded value. The object passed in
is consumed: the result shares its parts, so pass a copy of anything that must stay. Errors are `ApiError`s. Not here:
the verbs that call this.
"""

from cotenant.drivers.kube.manifests.document import read_document
from cotenant_local.apiserver.patching.by_schema import strategic_merge
from cotenant_local.apiserver.patching.jsonpatch import json_patch
from cotenant_local.apiserver.patching.mergepatch import merge_patch
from cotenant_local.apiserver.patching.ownership import track
from cotenant_local.apiserver.patching.serverside import apply

__all__ = ["apply", "json_patch", "merge_patch", "read_document", "strategic_merge", "track"]

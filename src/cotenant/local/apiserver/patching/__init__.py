"""The ways to change an object other than replacing it, and who owns its fields afterwards.

A `body` is the request's bytes (JSON; YAML too where Kubernetes takes it) or what they decode to. The object that is given
is used up: the result is made of its parts, so hand over a copy of what must stay. Errors are `ApiError`s.
"""

from cotenant.local.apiserver.patching.document import read_document
from cotenant.local.apiserver.patching.jsonpatch import json_patch
from cotenant.local.apiserver.patching.mergepatch import merge_patch
from cotenant.local.apiserver.patching.ownership import track
from cotenant.local.apiserver.patching.serverside import apply
from cotenant.local.apiserver.patching.strategic import strategic_merge

__all__ = ["apply", "json_patch", "merge_patch", "read_document", "strategic_merge", "track"]

"""Parsing of resource URLs.

Every request starts here, so it must cost a microsecond or two, and the namespace segment makes the grammar ambiguous
(`/api/v1/namespaces/x/status` is a subresource, `/api/v1/namespaces/x/pods` a collection). Split once and decide by the
number of segments, as the Kubernetes API conventions define the paths; no pattern table.
Limits: the path below a proxy is dropped; the old `/watch/` prefix is not served.
"""

from __future__ import annotations

from typing import NamedTuple

_NAMESPACE_SUBRESOURCES = frozenset({"status", "finalize"})


class ResourceRoute(NamedTuple):
    """The parts of a resource URL; absent parts are empty."""

    group: str
    version: str
    plural: str
    namespace: str = ""
    name: str = ""
    subresource: str = ""


def parse(path: str) -> ResourceRoute | None:
    """Parse a path, None if it is not a resource path."""
    parts = path.split("/")
    if parts[-1] == "":
        parts.pop()
    if len(parts) >= 4 and parts[1] == "api":
        group, version, rest = "", parts[2], parts[3:]
    elif len(parts) >= 5 and parts[1] == "apis":
        group, version, rest = parts[2], parts[3], parts[4:]
    else:
        return None
    if "" in rest:
        return None
    count = len(rest)
    namespace = ""
    if (
        rest[0] == "namespaces"
        and count >= 3
        and not (group == "" and count == 3 and rest[2] in _NAMESPACE_SUBRESOURCES)
    ):
        namespace = rest[1]
        rest = rest[2:]
        count -= 2
    if count > 3:
        if rest[2] != "proxy":
            return None
        rest = rest[:3]  # what follows is for the endpoint behind the proxy
        count = 3
    return ResourceRoute(group, version, rest[0], namespace, rest[1] if count > 1 else "", rest[2] if count > 2 else "")

"""What a URL of the resource API names.

Problem: every request starts here, so it must cost a microsecond or two, and the namespace segment makes the grammar ambiguous
(`/api/v1/namespaces/x/status` is a subresource, `/api/v1/namespaces/x/pods` a collection). Choice: split once and decide by counting,
as the Kubernetes API conventions lay the paths out; no pattern table. Limits: proxies below a subresource and the old `/watch/` prefix
are not served.
"""

from __future__ import annotations

from typing import NamedTuple

_NAMESPACE_SUBRESOURCES = frozenset({"status", "finalize"})


class Route(NamedTuple):
    """The parts of a resource URL; empty where the URL has none."""

    group: str
    version: str
    plural: str
    namespace: str = ""
    name: str = ""
    subresource: str = ""


def parse(path: str) -> Route | None:
    """The resource that a path names, None where it is not the path of a resource."""
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
        return None
    return Route(group, version, rest[0], namespace, rest[1] if count > 1 else "", rest[2] if count > 2 else "")

"""The served resources, by URL and by kind; custom ones are added and removed at run time.

Routing, discovery, clients' RESTMappers and the garbage collector look resources up by different names, and
CustomResourceDefinitions change the set while watches run. Plain dictionaries and a revision that every change
increments, so that discovery documents are rebuilt only then. The first resource added under a storage is its hub:
stored objects have the hub's apiVersion, other served versions (and events.k8s.io beside core events) are read through
a conversion.
Limits: versions differ in apiVersion only, except events.
"""

from __future__ import annotations

from collections.abc import Iterable

from cotenant_local.apiserver.contract import Resource


class ResourceRegistry:
    """The served resources."""

    def __init__(self, resources: Iterable[Resource] = ()) -> None:
        self._by_url: dict[tuple[str, str, str], Resource] = {}
        self._by_kind: dict[tuple[str, str], Resource] = {}
        self._hubs: dict[tuple[str, str], Resource] = {}
        self._stored: dict[tuple[str, str], Resource] = {}
        self._stored_at = -1
        self.revision = 0
        for resource in resources:
            self.add(resource)

    def find(self, group: str, version: str, plural: str) -> Resource | None:
        """The resource at a URL, None if nothing is served there."""
        return self._by_url.get((group, version, plural))

    def by_kind(self, group: str, kind: str, version: str = "") -> Resource | None:
        """The resource of a kind: of one version, or of the first added for an empty one."""
        if version:
            for resource in self._by_url.values():
                if (resource.group, resource.kind, resource.version) == (group, kind, version):
                    return resource
            return None
        return self._by_kind.get((group, kind))

    def stored(self, group: str, plural: str) -> Resource | None:
        """The resource of a group and plural in its storage version, None if it is not served."""
        if self._stored_at != self.revision:
            self._stored = {}
            for resource in self._by_url.values():
                hub = self.hub(resource)
                same = (hub.group, hub.plural) == (resource.group, resource.plural)
                self._stored.setdefault((resource.group, resource.plural), hub if same else resource)
            self._stored_at = self.revision
        return self._stored.get((group, plural))

    def hub(self, resource: Resource) -> Resource:
        """The resource whose apiVersion the stored objects have."""
        return self._hubs.get(resource.storage, resource)

    def resources(self) -> tuple[Resource, ...]:
        """All resources, in the order in which they were added."""
        return tuple(self._by_url.values())

    def add(self, resource: Resource, *, is_hub: bool = False) -> None:
        """Serve a resource, replacing an older one at the same URL. The first of a storage is its hub, unless a
        later one is added with `is_hub`.
        """
        url = (resource.group, resource.version, resource.plural)
        self._by_url[url] = resource
        kind = (resource.group, resource.kind)
        if is_hub or kind not in self._by_kind or self._by_kind[kind].version == resource.version:
            self._by_kind[kind] = resource
        hub = self._hubs.get(resource.storage)
        if is_hub or hub is None or (hub.group, hub.version, hub.plural) == url:
            self._hubs[resource.storage] = resource
        self.revision += 1

    def remove(self, group: str, version: str, plural: str) -> None:
        """Stop serving a resource (its stored objects stay until they are deleted). Unknown ones are ignored."""
        removed = self._by_url.pop((group, version, plural), None)
        if removed is None:
            return
        remaining = [resource for resource in self._by_url.values() if resource.storage == removed.storage]
        if self._by_kind.get((group, removed.kind)) is removed:
            del self._by_kind[(group, removed.kind)]
            for resource in remaining:
                if (resource.group, resource.kind) == (group, removed.kind):
                    self._by_kind[(group, removed.kind)] = resource
                    break
        if self._hubs.get(removed.storage) is removed:
            del self._hubs[removed.storage]
            if remaining:
                self._hubs[removed.storage] = remaining[0]
        self.revision += 1

"""The watches of what selects pods: Services and the controllers whose replicas are spread by default.

They are watched only where some scheduler name spreads by default. Where they may not be read, or are not served, a
pod's fellows are those that the others select.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from cotenant.drivers.kube.kinds.kind import Kind
from cotenant.drivers.kube.kinds.spread_selectors import (
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    SERVICES,
    STATEFUL_SETS,
    MatchingObject,
    SelectingObject,
    SpreadSelectors,
    services_of,
)
from cotenant.services.kube_process.watches import ObjectHandler, Watches


class SpreadWatches:
    """Keeps the selectors; `reread` gets the name of what changed, on which pods depend."""

    def __init__(self, selectors: SpreadSelectors, reread: Callable[[str], None]) -> None:
        self._selectors, self._reread = selectors, reread

    def watch(self, watches: Watches) -> None:
        """Watch every such kind."""
        self._selectors.is_on = True
        watches.handle(SERVICES, ObjectHandler(_itself, self._service, self._no_service, _keep), optional=True)
        watches.handle(REPLICATION_CONTROLLERS, self._handler(REPLICATION_CONTROLLERS), optional=True)
        for selecting in (REPLICA_SETS, STATEFUL_SETS):
            watches.handle(selecting, self._selecting_handler(selecting), optional=True)

    def _handler(self, kind: Kind[MatchingObject]) -> ObjectHandler[MatchingObject, MatchingObject]:
        name = kind.name
        return ObjectHandler(_itself, partial(self._controller, name), partial(self._no_controller, name), _keep)

    def _selecting_handler(self, kind: Kind[SelectingObject]) -> ObjectHandler[SelectingObject, SelectingObject]:
        def read(obj: SelectingObject) -> SelectingObject:
            SpreadSelectors().put_controller(kind.name, _key(obj), obj)  # refuses a selector that cannot be read
            return obj

        name = kind.name
        return ObjectHandler(read, partial(self._controller, name), partial(self._no_controller, name), _keep)

    def _service(self, obj: MatchingObject) -> None:
        if self._selectors.put_service(_key(obj), obj):
            self._reread(services_of(obj.metadata.namespace or "default"))

    def _no_service(self, key: str) -> None:
        if self._selectors.put_service(key, None):
            self._reread(services_of(key.partition("/")[0]))

    def _controller(self, kind: str, obj: MatchingObject | SelectingObject) -> None:
        if self._selectors.put_controller(kind, _key(obj), obj):
            self._reread(f"{kind} {_key(obj)}")

    def _no_controller(self, kind: str, key: str) -> None:
        if self._selectors.put_controller(kind, key, None):
            self._reread(f"{kind} {key}")


def _key(obj: MatchingObject | SelectingObject) -> str:
    return f"{obj.metadata.namespace or 'default'}/{obj.metadata.name}"


def _itself(obj: MatchingObject) -> MatchingObject:
    return obj


def _keep(key: str) -> None:
    """An object that cannot be read: what was last read of it stays."""

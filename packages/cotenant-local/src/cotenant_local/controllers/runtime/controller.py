"""The base of controllers of one resource: subscribes to it, queues changed objects and lists the keys.

Every controller of one resource subscribes to it, enqueues what changed and lists its keys for the periodic resync. One
base class; a controller gives the resource and its name, and subscribes to other resources that concern its objects in
`attach`.
Limits: a controller of many resources (garbage collection) or of stored rows (event expiry) implements the runner's
`Controller` directly.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from cotenant_local.controllers.runtime.actions import Plan, ResourceName
from cotenant_local.controllers.runtime.cache import Key, NamedObject
from cotenant_local.controllers.runtime.informer import Informers
from cotenant_local.controllers.runtime.runner import Enqueue

GONE = Plan(reason="the object no longer exists")  # it was deleted before its key was processed


class ResourceController:
    """The common part of controllers of one resource; a subclass adds `plan`."""

    resource: ResourceName
    name: str

    def __init__(self, informers: Informers, clock: Callable[[], float] = time.time) -> None:
        """`clock` gives Unix seconds."""
        self._informers = informers
        self._clock = clock
        self._own = informers.of(self.resource)
        self._enqueue: Enqueue = lambda key: None

    def all_keys(self) -> Iterable[Key]:
        """The keys of all objects of the resource."""
        return self._own.store.keys()

    def attach(self, enqueue: Enqueue) -> None:
        """Subscribe to the resource."""
        self._enqueue = enqueue
        self._own.subscribe(self._changed)

    def _changed(self, old: NamedObject | None, new: NamedObject | None) -> None:
        if new is not None:
            self._enqueue(new.metadata.key)

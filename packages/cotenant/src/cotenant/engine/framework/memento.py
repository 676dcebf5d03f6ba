"""What some objects were at one moment, to be put back.

Plugins and the queue remember more than what follows from the pods that are known (back-offs, statuses that were
requested, who yields to whom), and a simulated round changes it. The attributes of the given objects are kept by
reference, and the contents of their containers, also of containers in these, as copies. Putting them back keeps the
identity of every container, so those that are shared stay shared, and a new attribute is covered without an edit.
Limits: an object that is an attribute or an element is kept as it is unless it is given too; tuples are not looked
into.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import Any

import numpy as np

_MAPPINGS = (dict, Counter, OrderedDict)
_CONTAINERS = frozenset({*_MAPPINGS, list, set, deque, np.ndarray})


class Memento:
    """The state of these objects and containers when it was made; `restore` may be called any number of times."""

    def __init__(self, parts: Iterable[object]) -> None:
        self._attributes: list[tuple[object, tuple[str, ...], tuple[object, ...]]] = []
        self._contents: dict[int, tuple[Any, Any]] = {}  # by identity: a container and a copy of it
        readers: dict[type, tuple[tuple[str, ...], Callable[[object], tuple[object, ...]]]] = {}
        for part in parts:
            kind = type(part)
            if kind in _CONTAINERS:
                self._keep(part)
                continue
            if kind not in readers:
                readers[kind] = _reader(part)
            names, read = readers[kind]
            values = read(part)
            self._attributes.append((part, names, values))
            for value in values:
                if type(value) in _CONTAINERS:
                    self._keep(value)

    def _keep(self, value: Any) -> None:
        if id(value) in self._contents:
            return
        kind = type(value)
        self._contents[id(value)] = (value, value.copy())
        if kind in (set, np.ndarray):
            return  # their elements are no containers
        for entry in value.values() if kind in _MAPPINGS else value:
            if type(entry) in _CONTAINERS:
                self._keep(entry)

    def restore(self) -> None:
        """Put everything back."""
        for part, names, values in self._attributes:
            for name, value in zip(names, values, strict=True):
                setattr(part, name, value)
        for value, copy in self._contents.values():
            if isinstance(value, np.ndarray):
                value[...] = copy
            elif isinstance(value, list):
                value[:] = copy
            else:
                value.clear()
                (value.extend if isinstance(value, deque) else value.update)(copy)


def _reader(part: object) -> tuple[tuple[str, ...], Callable[[object], tuple[object, ...]]]:
    """The attributes of such an object, which all objects of its class have, and a function that reads them."""
    slots = (name for kind in type(part).__mro__ for name in getattr(kind, "__slots__", ()))
    names = tuple(name for name in (*slots, *getattr(part, "__dict__", ())) if name != "__weakref__")
    if len(names) < 2:
        return names, lambda value: tuple(getattr(value, name) for name in names)
    return names, attrgetter(*names)

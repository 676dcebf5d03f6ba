"""Extended resources that nodes provide by devices of classes instead of a device plugin.

A resource that a class names, or `deviceclass.resource.kubernetes.io/CLASS`, is provided so on the nodes that do not
advertise it. There a pod that requests it gets one claim for all such resources; on other nodes the sums decide.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from cotenant.engine.encoding.encoder import Encoder
from cotenant.engine.rules.claims.pods import class_for
from cotenant.model.arrays import Mask
from cotenant.model.claims.needs import ClaimNeeds
from cotenant.model.claims.requests import EXTENDED_PREFIX, DeviceClass
from cotenant.model.cluster.node import Node
from cotenant.policy.claims.extended import ExtendedClaim, extended_claim

Variant = tuple[Mask | None, ExtendedClaim | None]  # rows (None = all), and the claim that pods need there


class ExtendedResources:
    """Which rows provide which resource by devices."""

    def __init__(self) -> None:
        self.is_classic: Callable[[Node, str], bool] = lambda node, resource: False  # provided by a Device object
        self._encoder: Encoder | None = None
        self._asked: set[str] = set()  # resources of pods that may be mapped
        self._classes: dict[str, str] = {}  # resource -> class
        self._rows: dict[str, tuple[int, Mask]] = {}  # with the revision of the nodes
        self._claims: dict[tuple[object, tuple[str, ...]], ExtendedClaim] = {}

    def attach(self, encoder: Encoder) -> None:
        """Start again with these rows."""
        self._encoder = encoder
        self._rows.clear()
        encoder.set_provided(frozenset(self._classes))

    def classes_changed(self, classes: Mapping[str, DeviceClass]) -> None:
        """Classes were created, changed or deleted."""
        names = {found.extended_resource for found in classes.values() if found.extended_resource}
        names |= {name for name in self._asked if name.startswith(EXTENDED_PREFIX)}
        found = {name: class_for(name, classes.values()) for name in names}
        self._classes = {name: class_name for name, class_name in found.items() if class_name}
        self._claims.clear()
        if self._encoder is not None:
            self._encoder.set_provided(frozenset(self._classes))

    def asked(self, needs: ClaimNeeds, classes: Mapping[str, DeviceClass]) -> None:
        """A pod requests extended resources."""
        new = {name for container in needs.extended for name, _ in container.amounts} - self._asked
        if new:
            self._asked |= new
            if any(name.startswith(EXTENDED_PREFIX) for name in new):
                self.classes_changed(classes)

    def variants(self, needs: ClaimNeeds) -> list[Variant]:
        """The claims that a pod needs on different rows, for resources that classes stand for."""
        requested = {name for container in needs.extended for name, _ in container.amounts}
        names = sorted(requested & self._classes.keys())
        if not names:
            return [(None, None)]
        code = np.zeros(len(self._provided(names[0])), dtype=np.int64)
        for place, name in enumerate(names):
            code |= self._provided(name).astype(np.int64) << place
        found: list[Variant] = []
        for value in np.unique(code).tolist():
            there = tuple(name for place, name in enumerate(names) if value >> place & 1)
            found.append((code == value, self._claim(needs, there) if there else None))
        return found

    def _claim(self, needs: ClaimNeeds, names: tuple[str, ...]) -> ExtendedClaim:
        key = needs.extended, names
        if key not in self._claims:
            if len(self._claims) > 1024:
                self._claims.clear()
            self._claims[key] = extended_claim(needs.extended, {name: self._classes[name] for name in names})
        return self._claims[key]

    def _provided(self, name: str) -> Mask:
        encoder = self._encoder
        assert encoder is not None
        revision, rows = self._rows.get(name, (-1, None))
        if rows is None or revision != encoder.revision:
            rows = np.zeros(encoder.all_rows, dtype=np.bool_)
            for row in encoder.node_rows.values():
                node = encoder.node(row)
                rows[row] = not node.allocatable.get(name) and not self.is_classic(node, name)
            self._rows[name] = encoder.revision, rows
        return rows

"""What the stored objects of a namespace use of its quotas, kept as they are written.

Counting a namespace anew for each of its pods would make the ten-thousandth pod as dear as all before it. A sum is made
by one pass when a quota first asks; after that a write adds and subtracts the one object that it changes, transactions
that are taken back included. Sums of quotas that are gone are forgotten with `keep`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial

from cotenant.drivers.kube.manifests.errors import Manifest
from cotenant_local.apiserver.kinds.quota_usage import is_about, usage_of
from cotenant_local.apiserver.storage.store import Store
from cotenant_local.apiserver.storage.stored import StoredObject
from cotenant_local.apiserver.storage.table import Storage


@dataclass(slots=True)
class _Sum:
    """Of one kind and namespace, under the scopes of a quota; nano units by name."""

    scopes: Manifest
    used: dict[str, int] = field(default_factory=dict)

    def add(self, storage: Storage, stored: StoredObject | None, sign: int) -> None:
        if stored is None:
            return
        obj = stored.decode()
        if is_about(self.scopes, *storage, obj):
            for name, amount in usage_of(*storage, obj).items():
                self.used[name] = self.used.get(name, 0) + sign * amount


class QuotaSums:
    """The sums of one store. One event loop."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._sums: dict[Storage, dict[str, dict[str, _Sum]]] = {}  # by namespace and scopes

    def used_of(self, quota: Manifest, group: str, plural: str) -> Mapping[str, int]:
        """What the stored objects of a kind use of a quota, in nano units by name."""
        storage, namespace = (group, plural), quota["metadata"]["namespace"]
        table = self._store.table(storage)
        of_kind = self._sums.get(storage)
        if of_kind is None:
            of_kind = self._sums[storage] = {}
            table.observers.append(partial(self._changed, storage))
        of_namespace = of_kind.setdefault(namespace, {})
        found = of_namespace.get(_scopes(quota))
        if found is None:
            spec = quota.get("spec") or {}
            found = of_namespace[_scopes(quota)] = _Sum(
                {"spec": {"scopes": spec.get("scopes"), "scopeSelector": spec.get("scopeSelector")}}
            )
            for stored in table.walk(namespace):
                found.add(storage, stored, 1)
        return found.used

    def keep(self, quotas: Iterable[Manifest]) -> None:
        """Forget the sums that none of these has."""
        wanted: dict[str, set[str]] = {}
        for quota in quotas:
            wanted.setdefault(quota["metadata"]["namespace"], set()).add(_scopes(quota))
        for of_kind in self._sums.values():
            for namespace in list(of_kind):
                scopes = wanted.get(namespace, set())
                of_kind[namespace] = {key: found for key, found in of_kind[namespace].items() if key in scopes}
                if not of_kind[namespace]:
                    del of_kind[namespace]

    def _changed(self, storage: Storage, old: StoredObject | None, new: StoredObject | None) -> None:
        seen = new or old
        assert seen is not None
        for found in self._sums[storage].get(seen.namespace, {}).values():
            found.add(storage, old, -1)
            found.add(storage, new, 1)


def _scopes(quota: Manifest) -> str:
    spec = quota.get("spec") or {}
    return json.dumps([spec.get("scopes") or [], spec.get("scopeSelector") or {}], sort_keys=True)

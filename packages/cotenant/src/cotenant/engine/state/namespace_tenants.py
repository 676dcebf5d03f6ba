"""How many tenants one namespace may name at once.

A pod's owner names its tenant, and every tenant is rows in the arrays that all pods are judged by: one namespace that
names another tenant with each of its pods would make every decision dearer. A namespace names up to
`MAX_TENANTS`; a pod that names one more counts as its namespace's, as it would without a name, for as long as it
exists. Others' namespaces are not affected.
Limits: which names are within the limit follows the order in which pods are seen, and differs after a restart.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from cotenant.model.cluster.observed import ObservedPod

MAX_TENANTS = 64


class NamespaceTenants:
    """The tenants that the pods of each namespace name. `beyond`: pods whose name does not count, by namespace."""

    def __init__(self, most: int = MAX_TENANTS) -> None:
        self._max = most
        self._named: dict[str, Counter[str]] = {}  # namespace -> tenant -> pods
        self._of: dict[str, tuple[str, str, bool]] = {}  # uid -> namespace, tenant, whether it counts
        self.beyond: Counter[str] = Counter()

    def bounded(self, seen: ObservedPod) -> ObservedPod:
        """The pod as it counts."""
        namespace, tenant = seen.pod.namespace, seen.pod.tenant
        known = self._of.get(seen.uid)
        if known is not None and (known[:2] != (namespace, tenant) or seen.phase.is_final):
            self.gone(seen.uid)
            known = None
        if tenant in ("", namespace) or seen.phase.is_final:
            return seen
        if known is None:
            names = self._named.setdefault(namespace, Counter())
            counts = tenant in names or len(names) < self._max
            known = self._of[seen.uid] = (namespace, tenant, counts)
            if counts:
                names[tenant] += 1
            else:
                self.beyond[namespace] += 1
        return seen if known[2] else replace(seen, pod=replace(seen.pod, tenant=""))

    def gone(self, uid: str) -> None:
        """The pod was deleted."""
        known = self._of.pop(uid, None)
        if known is None:
            return
        namespace, tenant, counted = known
        if not counted:
            self.beyond[namespace] -= 1
            return
        names = self._named[namespace]
        names[tenant] -= 1
        if not names[tenant]:
            del names[tenant]
        if not names:
            del self._named[namespace]

"""The credit of quotas as the extender sees it: the level of debt of a pod's quota.

The extender must see the same standing as the scheduler, which maps pods to quotas with a plugin that the extender does
not run. ElasticQuota objects are watched, and pods mapped to them by the plugin's own rules
(engine/plugins/quotas/objects.py).
Limits: of a standing only debt matters here; the order of the queue and shares of quotas are kube-scheduler's.
"""

from __future__ import annotations

from cotenant.engine.plugins.quotas.credit import surcharge_level
from cotenant.engine.plugins.quotas.objects import Sorted
from cotenant.model.cluster.pod import Pod
from cotenant.model.groups.quota import NAME, QuotaObject
from cotenant.policy.quota.forest import Forest


class QuotaStandings:
    """The quota objects of a cluster. `revision` changes with any of them."""

    def __init__(self) -> None:
        self.revision = 0
        self._objects: dict[str, QuotaObject] = {}
        self._placing: tuple[Sorted, Forest] | None = None

    def quota_seen(self, seen: QuotaObject) -> None:
        """Record a quota object."""
        if self._objects.get(seen.key) != seen:
            self._objects[seen.key] = seen
            self._changed()

    def quota_gone(self, key: str) -> None:
        """Remove a quota object."""
        if self._objects.pop(key, None) is not None:
            self._changed()

    def debt_of(self, pod: Pod) -> int:
        """The level of debt of the pod's quota; 0 without quota or debt."""
        if not self._objects:
            return 0
        if self._placing is None:
            classified = Sorted(self._objects.values())
            self._placing = classified, Forest(classified.quotas)
        classified, forest = self._placing
        place = classified.place(forest, pod.namespace, pod.labels.get(NAME) or "")
        written = classified.used.get(place.quota)
        return 0 if written is None else surcharge_level(written.standing)

    def _changed(self) -> None:
        self._placing = None
        self.revision += 1

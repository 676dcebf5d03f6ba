"""Watches the taints of devices, in slices and in DeviceTaintRules, and queues the claims that hold such devices.

The rule is in `claims/taints.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from cotenant_local.controllers.claims import taints
from cotenant_local.controllers.claims.taints import DeviceName
from cotenant_local.controllers.runtime.actions import PODS, RESOURCE_CLAIMS, RESOURCE_SLICES, TAINT_RULES, Plan
from cotenant_local.controllers.runtime.cache import CachedObjects, Key
from cotenant_local.controllers.runtime.controller import GONE, ResourceController
from cotenant_local.controllers.runtime.runner import Enqueue
from cotenant_local.controllers.views.claims import DeviceTaintView, ResourceClaimView, SliceView, TaintRuleView
from cotenant_local.controllers.views.pods import PodObjectView

_Tainted = dict[DeviceName, tuple[DeviceTaintView, ...]]


class DeviceTaints(ResourceController):
    """Deletes pods whose devices must not be used."""

    resource, name = RESOURCE_CLAIMS, "device-taint-eviction-controller"

    def attach(self, enqueue: Enqueue) -> None:
        """Subscribe to claims, and to the taints of devices."""
        self._pods: CachedObjects[PodObjectView] = self._informers.store(PODS)
        self._rules: CachedObjects[TaintRuleView] = self._informers.store(TAINT_RULES)
        self._tainted: _Tainted = {}
        super().attach(enqueue)
        self._informers.of(RESOURCE_SLICES).subscribe(self._slice)
        self._informers.of(TAINT_RULES).subscribe(self._rule)

    async def plan(self, key: Key, now_s: float) -> Plan:
        """See `taints.reconcile`."""
        claim: ResourceClaimView | None = self._own.store.get(*key)
        if claim is None:
            return GONE
        return taints.reconcile(claim, self._taints_of, lambda name: self._pods.get(key[0], name), now_s)

    def _changed(self, old: object, new: object) -> None:
        if isinstance(new, ResourceClaimView) and (self._tainted or len(self._rules)):
            self._enqueue(new.metadata.key)

    def _taints_of(self, device: DeviceName) -> Iterable[DeviceTaintView]:
        yield from self._tainted.get(device, ())
        for rule in self._rules:
            if rule.spec.device_selector.selects(device):
                yield rule.spec.taint

    def _slice(self, old: SliceView | None, new: SliceView | None) -> None:
        before, after = _tainted(old), _tainted(new)
        for device in before:
            self._tainted.pop(device, None)
        self._tainted.update(after)
        if before != after:
            self._queue(lambda device: device in after)

    def _rule(self, old: TaintRuleView | None, new: TaintRuleView | None) -> None:
        if new is not None:
            self._queue(new.spec.device_selector.selects)

    def _queue(self, concerns: Callable[[DeviceName], bool]) -> None:
        for claim in self._own.store:
            if any(concerns(taints.device_name(result)) for result in taints.results(claim)):
                self._enqueue(claim.metadata.key)


def _tainted(found: SliceView | None) -> _Tainted:
    if found is None:
        return {}
    spec = found.spec
    return {
        (spec["driver"], spec["pool"]["name"], device["name"]): msgspec.convert(
            device["taints"], tuple[DeviceTaintView, ...]
        )
        for device in spec.get("devices", ())
        if device.get("taints")
    }

"""Whether the devices of an allocated claim are ready: their binding conditions, within a time.

Source: Kubernetes 1.36, kube-scheduler's DynamicResources plugin (bindingTimeout); KEP-5007.
"""

from __future__ import annotations

from cotenant.model.claims.claim import ResourceClaim

BINDING_WITHIN_S = 600.0


class Readiness:
    """Judges claims at a time."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def failure(self, claim: ResourceClaim) -> str:
        """Why the claim's devices will not become ready; empty if they may, or are."""
        why = failed(claim)
        if why or is_ready(claim):
            return why
        allocation = claim.allocation
        if allocation is not None and allocation.at_s + BINDING_WITHIN_S < self.now_s:
            return f"ResourceClaim {claim.key}: its devices were not ready within {BINDING_WITHIN_S:g} s"
        return ""


def is_ready(claim: ResourceClaim) -> bool:
    """Whether every binding condition of its devices holds."""
    for device in claim.allocation.devices if claim.allocation is not None else ():
        if device.binding_conditions:
            state = claim.state_of(device.id)
            true = {name for name, _ in state.true} if state is not None else set()
            if not true.issuperset(device.binding_conditions):
                return False
    return True


def failed(claim: ResourceClaim) -> str:
    """Which device has failed, and what its driver says; empty for none."""
    for device in claim.allocation.devices if claim.allocation is not None else ():
        state = claim.state_of(device.id) if device.failure_conditions else None
        for name, message in state.true if state is not None else ():
            if name in device.failure_conditions:
                return f"ResourceClaim {claim.key}: device {device.id} reports {name}: {message}"
    return ""

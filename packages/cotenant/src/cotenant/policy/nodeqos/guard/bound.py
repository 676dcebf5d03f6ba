"""What pods without an objective may cost best-effort work: a bound for each, from what it requested, ran and waited.

Nobody said how fast such a pod has to be, and a helper of a hundredth of a CPU must not hold back a whole node of
best-effort work. It is owed `step.bound_m`; bounds of several add up. An alarm of its group counts as waiting, since
the last sample does not show it.
Limits: a pod whose use is unknown has no bound; without run delay, pressure is taken for the waiting, which is less
where several tasks wait at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from cotenant.model.machine.node_decision import DecisionTerm
from cotenant.model.machine.node_state import PPM, PodUse
from cotenant.policy.nodeqos.guard import step as guard_step
from cotenant.policy.nodeqos.guard.alarms import MACHINE
from cotenant.policy.nodeqos.guard.config import GuardConfig

_NAMED = 4  # pods with a term of their own


@dataclass(frozen=True, slots=True)
class Owed:
    """What pods without an objective are owed. `cpu_m` None: unbounded."""

    cpu_m: int | None
    parts: tuple[tuple[str, int], ...] = ()  # pod and its part, the largest first

    def lowest_m(self, capacity_m: int) -> int:
        """The ceiling below which they may not push best-effort work; 0 where they are unbounded."""
        return 0 if self.cpu_m is None else max(0, capacity_m - self.cpu_m)

    def terms(self, capacity_m: int, ceiling_m: int) -> tuple[DecisionTerm, ...]:
        """The node less each part, and what the ceiling leaves beyond that; they add up to the ceiling."""
        terms = [DecisionTerm("node", capacity_m, "mCPU")]
        terms += [DecisionTerm(f"bound of {pod}", -part, "mCPU") for pod, part in self.parts[:_NAMED]]
        if rest := sum(part for _, part in self.parts[_NAMED:]):
            terms.append(DecisionTerm(f"bounds of {len(self.parts) - _NAMED} others", -rest, "mCPU"))
        if beyond := ceiling_m - sum(term.value for term in terms):
            terms.append(DecisionTerm("not taken" if beyond > 0 else "not yet given back", beyond, "mCPU"))
        return tuple(terms)


def owed(pods: Iterable[PodUse], config: GuardConfig, blame: Mapping[str, int], alarmed: Mapping[str, int]) -> Owed:
    """The bounds of these pods.

    `blame`: share of a group's waiting behind best-effort work, millionths; `alarmed`: stalled share by alarms, by pod
    (uid), millionths; the machine's has a part of its own.
    """
    parts = []
    if MACHINE in alarmed:
        parts.append(("the machine's alarm", guard_step.bound_m(0, 0, alarmed[MACHINE], config.bound_ppm)))
    for entry in pods:
        if entry.use.cpu_m is None:
            return Owed(None)
        waited = entry.use.cpu_stall_ppm or 0
        if entry.use.run_delay_ppm is not None:
            waited = entry.use.run_delay_ppm * blame.get(entry.pod.group, PPM) // PPM
        waited += alarmed.get(entry.pod.uid, 0)
        part = guard_step.bound_m(entry.pod.cpu_request_m, entry.use.cpu_m, waited, config.bound_ppm)
        parts.append((entry.pod.key, part))
    parts.sort(key=lambda part: -part[1])
    return Owed(sum(part for _, part in parts), tuple(parts))

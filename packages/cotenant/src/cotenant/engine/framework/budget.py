"""What the judgement of one pod may cost: large pods are judged apart, by a clock of CPU time.

A pod's owner may write ten thousand terms, ports or constraints, each of which costs a pass over all nodes, and one
scheduler judges all pods. A pod of more than `LARGE` elements is *large*. Large pods wait in a lane of their own, which
gets at most a `SHARE` of the time, one pod after the other, and each judgement has a limit of CPU time: the loops over
its terms call `check`, which raises `OverBudget`. A pod that exceeds the limit is set aside with a reason and tried
again later, with a longer limit each time, up to `MAX_S`. An ordinary pod is never timed: its cost is bounded by its
size. A gang is large if one of its pods is, and its limit grows with its members. Nothing is interrupted once a node
was chosen.
Limits: between two looks at the clock lie eight passes over all nodes. Without a clock (lab, simulations) no pod is
large.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import inf

from cotenant.engine.framework.backoff import Backoff
from cotenant.model.cluster.labels import LabelSelector
from cotenant.model.cluster.observed import ObservedPod
from cotenant.model.cluster.pod import Pod

LARGE = 256  # elements
USUAL_S, MAX_S = 0.05, 0.2  # of CPU for one judgement: the first, and any
MEMBER_S = 0.002  # more for each pod of a gang beyond the first
SHARE = 0.05  # of the time, for all large pods together
_CHECKS = 8  # per look at the clock, which costs as much as one of them
ASIDE = Backoff(10.0, 300.0)
FILTER = "JudgementBudget"  # stands for the filter that refused the pod
TOO_EXPENSIVE = f"its judgement costs more than {1e3 * USUAL_S:.0f} ms of CPU"

CpuClock = Callable[[], float]  # seconds of CPU of the thread that decides


class OverBudget(Exception):
    """A judgement costs more than its limit. Caught where the pod is refused; never leaves the engine."""


class JudgementBudget:
    """The limit of the judgement under way, if there is one."""

    def __init__(self, cpu_s: CpuClock | None) -> None:
        self._cpu_s = cpu_s
        self._until_s = inf
        self._checks = 0
        self.is_exceeded = False  # whether the last limit was

    def is_large(self, seen: ObservedPod) -> bool:
        """Whether a pod is judged apart, within a limit; none is without a clock."""
        return self._cpu_s is not None and elements(seen) > LARGE

    def now(self) -> float:
        """Seconds of CPU so far."""
        return self._cpu_s() if self._cpu_s is not None else 0.0

    @contextmanager
    def within(self, limit_s: float) -> Iterator[None]:
        """In this context, `check` raises `OverBudget` after this many seconds of CPU."""
        self.is_exceeded, self._checks, self._until_s = False, 0, self.now() + limit_s
        try:
            yield
        finally:
            self._until_s = inf

    def check(self) -> None:
        """Call once for each term, before a node is chosen. Raises `OverBudget`."""
        if self._until_s == inf:
            return
        self._checks += 1
        if self.is_exceeded or (self._checks % _CHECKS == 0 and self.now() > self._until_s):
            self.is_exceeded = True
            raise OverBudget


def elements(seen: ObservedPod) -> int:
    """How many elements the lists of a pod have that judgement looks through."""
    pod = seen.pod
    found = len(pod.labels.items) + len(pod.tolerations) + len(pod.images) + len(pod.host_ports) + len(seen.volumes)
    found += len(pod.node_selector.items)
    if pod.spread or pod.affinity or pod.anti_affinity:
        found += rule_elements(pod)
    if pod.node_affinity is not None:
        required = pod.node_affinity.required
        terms = [
            *(required.terms if required is not None else ()),
            *(preferred_term.term for preferred_term in pod.node_affinity.preferred),
        ]
        found += sum(1 + len(expression.values) for term in terms for expression in (*term.expressions, *term.fields))
    return found


def rule_elements(pod: Pod) -> int:
    """Of these, the ones in rules about other pods."""
    found = 0
    for constraint in pod.spread:
        found += 1 + _size(constraint.selector)
    for term in (*pod.affinity, *pod.anti_affinity):
        found += 1 + len(term.namespaces) + _size(term.selector) + _size(term.namespace_selector)
    return found


def _size(selector: LabelSelector | None) -> int:
    return sum(1 + len(requirement.values) for requirement in selector.requirements) if selector is not None else 0


def of_what(pod: Pod) -> str:
    """The longest lists of a pod, in words."""
    sizes = {
        "topology spread constraints": len(pod.spread),
        "affinity terms": len(pod.affinity),
        "anti-affinity terms": len(pod.anti_affinity),
        "host ports": len(pod.host_ports),
        "labels": len(pod.labels.items),
        "tolerations": len(pod.tolerations),
        "images": len(pod.images),
    }
    longest = sorted((size, name) for name, size in sizes.items() if size > LARGE // 4)[-2:]
    return " and ".join(f"{size:,} {name}" for size, name in reversed(longest)) or "its lists"

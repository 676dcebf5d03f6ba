"""Whether a new size hurts a replica: by what it shows now, against what it showed before and what its fellows show.

What cannot be undone by waiting counts at once: a restart, an end by lack of memory, an alert of the service's
objective that did not fire before. What comes and goes counts when two reports in a row show it (`MAX_BAD`): use at the
limit, waiting for a CPU, a p99 that left its fellows'. Fellows that were not resized are the control: an evening's load
raises theirs too, and is not taken for the size's fault. Without fellows only the replica's own past is left.
Limits: throttling is told by use at the limit, not counted; stalls (PSI) of a pod are in no report, its wait for a CPU
stands for them and only our agent reports it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from cotenant.model.machine.node_metric import Use
from cotenant.model.sizes.container import ContainerSize
from cotenant.model.sizes.right_sizing import Touched

MAX_BAD = 2  # reports in a row
AT_LIMIT = 0.95
MIN_WAIT = 0.2  # waited per time used: less is nothing
WORSE_WAIT, WORSE_P99 = 2.0, 1.5  # times its own past and its fellows'


@dataclass(frozen=True, slots=True)
class Sign:
    """What one replica shows."""

    uid: str
    name: str
    is_ready: bool
    restarts: int
    was_oom_killed: bool
    size: ContainerSize
    use: Use | None = None
    wait_per_cpu: float | None = None
    p99_ms: float | None = None


def harm_at_once(before: Touched, now: Sign) -> str:
    """What counts the first time it is seen; "" for nothing."""
    if now.restarts > before.restarts:
        how = "ran out of memory" if now.was_oom_killed else "was restarted"
        return f"{now.name} {how} with the new size"
    return ""


def harm(before: Touched, now: Sign, fellows: Sequence[Sign]) -> str:
    """What counts when it is seen again; "" for nothing."""
    if not now.is_ready:
        return f"{now.name} is not ready"
    use, size = now.use, now.size
    if use is not None and size.cpu_limit_m and use.cpu_m >= AT_LIMIT * size.cpu_limit_m:
        return f"{now.name} uses {use.cpu_m}m of its CPU limit of {size.cpu_limit_m}m: it is throttled"
    if use is not None and size.memory_limit_bytes and use.memory_bytes >= AT_LIMIT * size.memory_limit_bytes:
        return f"{now.name} uses {100 * use.memory_bytes / size.memory_limit_bytes:.0f} % of its memory limit"
    waits = [sign.wait_per_cpu for sign in fellows if sign.wait_per_cpu is not None]
    if _is_worse(now.wait_per_cpu, before.wait_per_cpu, waits, WORSE_WAIT, MIN_WAIT):
        return f"{now.name} waits {now.wait_per_cpu:.2f} s for each second of CPU"
    p99s = [sign.p99_ms for sign in fellows if sign.p99_ms is not None]
    if _is_worse(now.p99_ms, before.p99_ms, p99s, WORSE_P99, 0.0):
        return f"{now.name} has a p99 of {now.p99_ms:.1f} ms, before {before.p99_ms or 0:.1f}"
    return ""


def _is_worse(now: float | None, before: float | None, fellows: Sequence[float], times: float, least: float) -> bool:
    """Worse than its own past and than its fellows, of those that are known."""
    if now is None or now <= least:
        return False
    known = [value for value in (before, median(fellows) if fellows else None) if value is not None]
    return bool(known) and all(now > times * value for value in known)

"""The event loop, and what a scheduler may do to the world. Compiled.

Events in order of time; at equal times completions, then job arrivals, outages, ticks. Only the touched node is brought
up to date.
"""

from __future__ import annotations

from math import inf

from cotenant.lab.world.contention import settle
from cotenant.lab.world.observe import tick
from cotenant.lab.world.residents import complete, earliest, enter, expel, progress, release, set_completion
from cotenant.lab.world.state import (
    ASKED,
    JOBS_COME,
    NEXT_TICK,
    NODE_FAILURE,
    NOW,
    OUTAGES_COME,
    READY,
    RUNNING,
    Law,
    State,
)
from cotenant.model.arrays import Int
from cotenant.model.compiled import njit

# why a start is refused
OK, NO_SUCH_POD, NOT_READY, HELD, NO_SUCH_NODE, NODE_DOWN = range(6)


@njit
def _finish(s: State, w: Law, node: int, t: float) -> None:
    """Residents of a node whose work is done leave it."""
    progress(s, node, t)
    p = s.first[node]
    while p >= 0:
        after = s.next[p]
        # what is left after a sum of rounded steps: a millionth of the work
        if s.service[p] < 0 and s.remaining_s[p] <= 1e-6 * s.duration_s[p]:
            complete(s, p, t)
        p = after
    settle(s, w, node, t)


@njit
def _outage(s: State, w: Law, node: int, up: bool, t: float) -> None:
    if up:
        s.up[node] = True
        s.updated_s[node] = t
        return
    progress(s, node, t)
    s.up[node] = False
    while s.first[node] >= 0:
        expel(s, w, s.first[node], t, NODE_FAILURE)
    s.used_share[node] = 0.0
    s.memory_share[node] = 0.0
    set_completion(s, node, inf)


@njit
def run_until(s: State, w: Law, until_s: float) -> None:
    """All events up to and including `until_s`; the clock then stands there."""
    while True:
        completion = s.tree[1]
        come, down = s.counts[JOBS_COME], s.counts[OUTAGES_COME]
        arrival = s.job_arrival_s[s.job_order[come]] if come < s.job_order.shape[0] else inf
        outage = s.outage_s[down] if down < s.outage_s.shape[0] else inf
        t = min(min(completion, arrival), min(outage, s.clock[NEXT_TICK]))
        if t > until_s:
            break
        s.clock[NOW] = t
        if completion <= t:
            _finish(s, w, earliest(s), t)
        elif arrival <= t:
            s.counts[JOBS_COME] += 1
            release(s, s.job_first_stage[s.job_order[come]], t)
        elif outage <= t:
            s.counts[OUTAGES_COME] += 1
            _outage(s, w, s.outage_row[down], s.outage_up[down], t)
        else:
            tick(s, w, t)
    s.clock[NOW] = until_s


@njit
def _refusal(s: State, p: int, node: int, t: float) -> int:
    if p < 0 or p >= s.status.shape[0]:
        return NO_SUCH_POD
    if s.status[p] != READY:
        return NOT_READY
    if s.hold_until_s[p] > t:
        return HELD
    if node < 0 or node >= s.up.shape[0]:
        return NO_SUCH_NODE
    if not s.up[node]:
        return NODE_DOWN
    return OK


@njit
def start_pods(s: State, w: Law, pods: Int, rows: Int, again: Int) -> tuple[int, int]:
    """Start `pods[i]` on `rows[i]`: (-1, OK), or (index of the first bad pair, why) with nothing changed.

    `again[N]` is scratch: zeros in, zeros out.
    """
    t = s.clock[NOW]
    for i in range(pods.shape[0]):
        why = _refusal(s, pods[i], rows[i], t)
        if why != OK:
            for j in range(i):
                s.status[pods[j]] = READY
            return i, why
        s.status[pods[i]] = RUNNING  # so that the same pod twice is refused
    for i in range(pods.shape[0]):
        node = rows[i]
        progress(s, node, t)
        enter(s, pods[i], node, t)
        again[node] = 1
    for i in range(pods.shape[0]):
        node = rows[i]
        if again[node] == 1:
            again[node] = 0
            settle(s, w, node, t)
    return -1, OK


@njit
def evict_pods(s: State, w: Law, pods: Int, again: Int) -> int:
    """Evict `pods` because the scheduler asks: -1, or the index of the first that is not running or named twice, nothing changed.

    `again[N]` is scratch: zeros in, zeros out.
    """
    t = s.clock[NOW]
    for i in range(pods.shape[0]):
        p = pods[i]
        if p < 0 or p >= s.status.shape[0] or s.status[p] != RUNNING:
            for j in range(i):
                s.status[pods[j]] = RUNNING
            return i
        s.status[p] = READY  # so that the same pod twice is refused
    for i in range(pods.shape[0]):
        node = s.node[pods[i]]
        progress(s, node, t)
        expel(s, w, pods[i], t, ASKED)
        again[node] = 1
    for node in range(again.shape[0]):
        if again[node] == 1:
            again[node] = 0
            settle(s, w, node, t)
    return -1

"""The event loop, and the actions of a scheduler on the world. Compiled.

Events in order of time; at equal times completions, then job arrivals, outages, ticks. Only the affected node is
brought up to date.
"""

from __future__ import annotations

from math import inf

from cotenant.model.arrays import Int
from cotenant.model.compiled import njit
from cotenant_lab.world.contention import recompute_node
from cotenant_lab.world.observe import tick
from cotenant_lab.world.residents import complete, earliest, enter, expel, progress, release, set_completion
from cotenant_lab.world.state import NODE_FAILURE, READY, REQUESTED, RUNNING, Law, WorldState

# reasons for which a start is refused
OK, NO_SUCH_POD, NOT_READY, HELD, NO_SUCH_NODE, NODE_DOWN = range(6)


@njit
def _finish(s: WorldState, w: Law, node: int, t: float) -> None:
    """Remove the residents of a node whose work is done."""
    progress(s, node, t)
    p = s.nodes[node].first
    while p >= 0:
        after = s.pods[p].next
        # tolerance for rounding in the sum of steps: a millionth of the work
        if s.pods[p].service < 0 and s.pods[p].remaining_s <= 1e-6 * s.pods[p].duration_s:
            complete(s, p, t)
        p = after
    recompute_node(s, w, node, t)


@njit
def _outage(s: WorldState, w: Law, node: int, up: bool, t: float) -> None:
    if up:
        s.nodes[node].up = True
        s.nodes[node].updated_s = t
        return
    progress(s, node, t)
    s.nodes[node].up = False
    while s.nodes[node].first >= 0:
        expel(s, w, s.nodes[node].first, t, NODE_FAILURE)
    s.nodes[node].used_share = 0.0
    s.nodes[node].memory_share = 0.0
    set_completion(s, node, inf)


@njit
def run_until(s: WorldState, w: Law, until_s: float) -> tuple[int, int, int, int]:
    """Process all events up to and including `until_s`, and set the clock to it.

    Returns the numbers of pods that became ready, finished and were evicted since the last report to the scheduler, and
    the outages so far.
    """
    while True:
        completion = s.tree[1]
        arrived, down = s.run[0].jobs_arrived, s.run[0].outages_begun
        arrival = s.jobs[s.job_order[arrived]].arrival_s if arrived < s.job_order.shape[0] else inf
        outage = s.outages[down].at_s if down < s.outages.shape[0] else inf
        t = min(min(completion, arrival), min(outage, s.run[0].next_tick_s))
        if t > until_s:
            break
        s.run[0].now_s = t
        if completion <= t:
            _finish(s, w, earliest(s), t)
        elif arrival <= t:
            s.run[0].jobs_arrived += 1
            release(s, s.jobs[s.job_order[arrived]].first_stage, t)
        elif outage <= t:
            s.run[0].outages_begun += 1
            _outage(s, w, s.outages[down].row, s.outages[down].up, t)
        else:
            tick(s, w, t)
    run = s.run[0]
    run.now_s = until_s
    return run.ready, run.finished, run.evicted, run.outages_begun


@njit
def _refusal(s: WorldState, p: int, node: int, t: float) -> int:
    if p < 0 or p >= s.pods.shape[0]:
        return NO_SUCH_POD
    if s.pods[p].status != READY:
        return NOT_READY
    if s.pods[p].hold_until_s > t:
        return HELD
    if node < 0 or node >= s.nodes.shape[0]:
        return NO_SUCH_NODE
    if not s.nodes[node].up:
        return NODE_DOWN
    return OK


@njit
def start_pods(s: WorldState, w: Law, pods: Int, rows: Int, touched: Int) -> tuple[int, int]:
    """Start `pods[i]` on `rows[i]`: (-1, OK), or (index of the first invalid pair, reason) with nothing changed.

    `touched[N]` is scratch: zero on entry and exit.
    """
    t = s.run[0].now_s
    for i in range(pods.shape[0]):
        why = _refusal(s, pods[i], rows[i], t)
        if why != OK:
            for j in range(i):
                s.pods[pods[j]].status = READY
            return i, why
        s.pods[pods[i]].status = RUNNING  # so that the same pod twice is refused
    for i in range(pods.shape[0]):
        node = rows[i]
        progress(s, node, t)
        enter(s, pods[i], node, t)
        touched[node] = 1
    for i in range(pods.shape[0]):
        node = rows[i]
        if touched[node] == 1:
            touched[node] = 0
            recompute_node(s, w, node, t)
    return -1, OK


@njit
def evict_pods(s: WorldState, w: Law, pods: Int, touched: Int) -> int:
    """Evict `pods` at the scheduler's request: -1, or the index of the first that is not running or is named twice,
    with nothing changed.

    `touched[N]` is scratch: zero on entry and exit.
    """
    t = s.run[0].now_s
    for i in range(pods.shape[0]):
        p = pods[i]
        if p < 0 or p >= s.pods.shape[0] or s.pods[p].status != RUNNING:
            for j in range(i):
                s.pods[pods[j]].status = RUNNING
            return i
        s.pods[p].status = READY  # so that the same pod twice is refused
    for i in range(pods.shape[0]):
        node = s.pods[pods[i]].node
        progress(s, node, t)
        expel(s, w, pods[i], t, REQUESTED)
        touched[node] = 1
    for node in range(touched.shape[0]):
        if touched[node] == 1:
            touched[node] = 0
            recompute_node(s, w, node, t)
    return -1

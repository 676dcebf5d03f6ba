"""Any other profile over the mirror's rows: its own fit, its own score scaled to 0..100.

The profiles of the lab rank nodes in cores, fractions or points, by what residents are estimated to use, and the
extender must answer with them too. The scheduler's compiled kernels evaluate every row of the mirror, and the given
rows are read from the result; scores are scaled so that the best of the given nodes has 100 and the worst 0.
Limits: a profile without residents knows nothing, so it needs access to a cluster; rows whose residents are not counted
pass with a middle score. Estimates are the pods' annotations or requests: nothing is measured here.
"""

from __future__ import annotations

import numpy as np

from cotenant.model.arrays import CPU, MEMORY, Int, Mask
from cotenant.model.cluster.pod import Pod
from cotenant.policy.placement.compiled import REASONS, Reject, reject_rows, score_rows
from cotenant.policy.placement.profiles import PlacementProfile
from cotenant.services.extender.judge import NodeRoom, PodDemand, cores, demand_of, size
from cotenant.services.extender.mirror import Mirror

_MIDDLE = 50


class ProfileJudge:
    """One profile of policy/placement/profiles.py."""

    def __init__(self, mirror: Mirror, profile: PlacementProfile) -> None:
        self._mirror = mirror
        self._profile = profile
        self._knobs = profile.knobs.array()

    def passing(self, ask: PodDemand, rows: Int, now_s: float) -> Mask:
        """See the protocol `Judge`."""
        return (self._verdicts(ask)[rows] == 0) | ~self._mirror.counted[rows]

    def unresolvable(self, ask: PodDemand, rows: Int, now_s: float) -> Mask:
        """See the protocol `Judge`."""
        capacity = self._mirror.nodes.capacity[rows]
        over = (capacity[:, CPU] < ask.cpu_milli) | (capacity[:, MEMORY] < ask.memory_bytes)
        return over & self._mirror.counted[rows]

    def reasons(self, ask: PodDemand, rows: Int, now_s: float) -> list[str]:
        """See the protocol `Judge`."""
        verdicts = self._verdicts(ask)[rows]
        texts = {
            verdict: self._why(ask, rows[verdicts == verdict], Reject(verdict)) for verdict in set(verdicts.tolist())
        }
        return [texts[verdict] for verdict in verdicts.tolist()]

    def room(self, row: int, now_s: float) -> NodeRoom:
        """See the protocol `Judge`."""
        mirror = self._mirror
        mirror.apply()
        if not mirror.counted[row]:
            return NodeRoom()
        whole = mirror.nodes.capacity[row, : MEMORY + 1]
        left = whole - mirror.nodes.requested[row, : MEMORY + 1]
        return NodeRoom(float(left[CPU]), float(left[MEMORY]), float(whole[CPU]), float(whole[MEMORY]))

    def scores(self, ask: PodDemand, rows: Int, now_s: float) -> Int:
        """See the protocol `Judge`."""
        mirror = self._mirror
        mirror.apply()
        k = mirror.intern(ask.shape)
        scores = np.empty(len(mirror.nodes.ready))
        score_rows(int(self._profile.score), mirror.nodes, mirror.shapes, k, rows, now_s, self._knobs, scores)
        given, counted = scores[rows], mirror.counted[rows]
        result = np.full(len(rows), _MIDDLE, dtype=np.int64)
        usable = counted & np.isfinite(given)
        if usable.any():
            low, high = float(given[usable].min()), float(given[usable].max())
            if high > low:
                result[usable] = np.rint((given[usable] - low) * (100.0 / (high - low))).astype(np.int64)
        return result

    def _why(self, ask: PodDemand, rows: Int, verdict: Reject) -> str:
        """One text for all nodes rejected for the same reason; kube-scheduler counts equal texts together."""
        free = self._mirror.nodes.capacity[rows] - self._mirror.nodes.requested[rows]
        if verdict is Reject.CPU:
            said = (
                f"cpu: pod asks {cores(ask.cpu_milli)}, at most {cores(float(free[:, CPU].max()))} cores not requested"
            )
        elif verdict is Reject.MEMORY:
            most = size(float(free[:, MEMORY].max()))
            said = f"memory: pod asks {size(ask.memory_bytes)}, at most {most} not requested"
        else:
            said = REASONS[verdict]
        return f"{said} (profile {self._profile.name})"

    def _verdicts(self, ask: PodDemand) -> Int:
        mirror = self._mirror
        mirror.apply()
        k = mirror.intern(ask.shape)
        verdicts = np.empty(len(mirror.nodes.ready), dtype=np.int64)
        reject_rows(mirror.nodes, mirror.shapes, k, int(self._profile.fit), self._knobs, verdicts)
        return verdicts


def warm(judge: ProfileJudge) -> None:
    """Compile the kernels before the first request waits for them."""
    ask = demand_of(Pod("warm"))
    rows = np.zeros(1, dtype=np.int64)
    judge.passing(ask, rows, 0.0)
    judge.scores(ask, rows, 0.0)

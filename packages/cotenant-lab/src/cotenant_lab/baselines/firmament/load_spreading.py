"""Load-spreading costs (Octopus): the machine with the fewest tasks is the cheapest.

After the released cost model: task to unscheduled 1,000,000; to the cluster 1; to a machine 100 for each task that runs
there. Choice here: the i-th new task of a round on a machine costs 100 x (running + i), so segments are convex and
tasks of one round do not herd; waiting costs one more a second. The core's number on the last hop is left out: nodes
have no cores here. Limits: counts tasks, whatever their size.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cotenant.model.arrays import PODS, Int, ShapeArrays
from cotenant_lab.baselines.firmament.costs import NetworkRound
from cotenant_lab.baselines.firmament.network import Prices

UNSCHEDULED = 1_000_000
ENTER = 1
PER_TASK = 100


@dataclass(frozen=True, slots=True)
class LoadSpreading:
    """The load-spreading cost model."""

    name: str = "load-spreading"

    def label(self, shapes: ShapeArrays) -> Int:
        """Tasks differ by requests and constraints only."""
        return np.zeros(shapes.request.shape[0], np.int64)

    def prices(self, now: NetworkRound) -> Prices:
        """Costs of one round."""
        running = now.nodes.requested[now.rows, PODS]
        return Prices(
            unscheduled=UNSCHEDULED + now.wait_s.astype(np.int64),
            enter=np.full(now.shape.size, ENTER),
            assign=np.zeros((now.class_shape.size, now.rows.size), np.int64),
            first=PER_TASK * running,
            slope=np.full(now.rows.size, PER_TASK),
        )

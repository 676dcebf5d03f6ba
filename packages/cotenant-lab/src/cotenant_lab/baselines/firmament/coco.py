"""CoCo's costs: fit in several dimensions and interference between co-runners (Firmament's coordinated co-location
model).

After the released model, over the resources a node has (`PODS` aside):

- task to unscheduled: sum of 1000 + 1000 x request / smallest machine, + 2 + wait in tenths of a second;
- task to its request class: 1000 x sum of request / largest machine;
- class to machine: 1000 x sum of used fractions + interference x (e^occupied - 1), occupied = requested fraction of
  CPU, and interference = sum over the machine's residents of the penalty for (victim = the class, aggressor = the
  resident).

Interference classes are four animals (after Xie and Loh, CMP-MSI 2008), derived from the estimates that every scheduler
gets: devils cause pressure (pressure >= `devil_pressure`), else rabbits are sensitive (sensitivity >=
`rabbit_sensitivity`), else turtles are neither (both under half of that), else sheep. The thresholds are near the upper
quartiles of measured pairs of co-runners: parameters, not measurements of this cluster.

Choice here: the i-th new task of a round on a machine costs i x 1000 x the round's mean sum of request / capacity more,
which is the expected addition of the tasks before it to the used fractions: segments are convex and rounds do not herd.
Limits: machines have no inner topology here, so co-runners are all residents of the node; priority is left out, as
services have rounds of their own; needs `Snapshot.residents`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from cotenant.model.arrays import CPU, PODS, Float, Int, Param, ShapeArrays
from cotenant.model.errors import Unsupported
from cotenant_lab.baselines.firmament.costs import NetworkRound
from cotenant_lab.baselines.firmament.network import Prices

UNIT = 1000.0


class Animal(IntEnum):
    """Interference classes."""

    TURTLE = 0
    SHEEP = 1
    RABBIT = 2
    DEVIL = 3


# PENALTY[victim, aggressor], in cost units per co-runner
PENALTY = np.array([[50, 50, 50, 50], [10, 50, 100, 200], [10, 50, 200, 1000], [10, 200, 1000, 200]], np.int64)


@dataclass(frozen=True, slots=True)
class CoCo:
    """The CoCo cost model."""

    rabbit_sensitivity: float = 0.5
    devil_pressure: float = 0.4
    name: str = "coco"

    def label(self, shapes: ShapeArrays) -> Int:
        """[K] the `Animal` of each shape."""
        sensitivity, pressure = shapes.params[:, Param.SENSITIVITY], shapes.params[:, Param.PRESSURE]
        calm = (sensitivity < self.rabbit_sensitivity / 2) & (pressure < self.devil_pressure / 2)
        animal = np.where(calm, Animal.TURTLE, Animal.SHEEP)
        animal = np.where(sensitivity >= self.rabbit_sensitivity, Animal.RABBIT, animal)
        return np.where(pressure >= self.devil_pressure, Animal.DEVIL, animal).astype(np.int64)

    def prices(self, now: NetworkRound) -> Prices:
        """Costs of one round. Raises `Unsupported` where the snapshot has no residents."""
        counted = [r for r in range(now.nodes.capacity.shape[1]) if r != PODS]
        ready = now.nodes.capacity[now.nodes.ready][:, counted]
        animal = self.label(now.shapes)
        request = now.shapes.request[now.shape][:, counted]
        capacity = now.nodes.capacity[now.rows][:, counted]
        used = _fraction(now.nodes.requested[now.rows][:, counted], capacity)
        occupied = _fraction(now.nodes.requested[now.rows, CPU], now.nodes.capacity[now.rows, CPU])
        interference = PENALTY[animal[now.class_shape]] @ self._residents_by_animal(now, animal).T
        assign = UNIT * used.sum(axis=1) + interference * np.expm1(occupied)
        waiting = UNIT + UNIT * _fraction(request, ready.min(axis=0))
        return Prices(
            unscheduled=np.rint(waiting.sum(axis=1) + 2 + 10.0 * now.wait_s).astype(np.int64),
            enter=np.rint(UNIT * _fraction(request, ready.max(axis=0)).sum(axis=1)).astype(np.int64),
            assign=np.rint(assign).astype(np.int64),
            first=np.zeros(now.rows.size, np.int64),
            slope=np.rint(UNIT * _fraction(request.mean(axis=0), capacity).sum(axis=1)).astype(np.int64),
        )

    def _residents_by_animal(self, now: NetworkRound, animal: Int) -> Int:
        """[M, 4] residents of each machine by animal."""
        if now.residents is None:
            raise Unsupported("CoCo's interference", "a snapshot with the pods of each node (residents)")
        count = np.zeros((now.nodes.capacity.shape[0], len(Animal)), np.int64)
        row, shape = now.residents
        assigned = row >= 0
        np.add.at(count, (row[assigned], animal[shape[assigned]]), 1)
        return count[now.rows]


def _fraction(part: Int | Float, whole: Int) -> Float:
    """part / whole, 0 where there is no whole."""
    return np.divide(part, whole, out=np.zeros(np.broadcast(part, whole).shape), where=whole > 0)

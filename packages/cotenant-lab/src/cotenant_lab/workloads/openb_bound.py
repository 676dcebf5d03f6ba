"""An upper bound for every work-conserving policy on openb: the GPU that a clairvoyant policy could allocate.

96 % allocated means little without the possible maximum. A linear program over patterns (the contents of one GPU), by
column generation with an exact knapsack, in the manner of Gilmore and Gomory (Operations Research 9, 1961). It knows
all arrivals; it must place those that come before a given load, as a work-conserving policy must until its first
refusal, and may choose among the rest. CPU and memory are pooled over nodes of the same kind, pods may be split, and
devices of one pod may be on several nodes, so it is a bound and not a schedule. Every round gives a valid bound
(Farley, Operations Research 38, 1990, by the prices' Lagrangian), so an early stop only makes it looser.

Limits: an upper bound only for policies that refuse nothing before `must_place`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from ortools.linear_solver import pywraplp

from cotenant.model.arrays import Float, Int
from cotenant.model.compiled import njit
from cotenant.model.errors import InvalidInput, Permanent
from cotenant.policy.placement.gpu.state import WHOLE_GPU_MILLI
from cotenant_lab.workloads.openb import OpenbCluster, PodList

_ROUNDS = 200
_GIB = float(1 << 30)
_PENALTY = 100.0  # GPUs, for each mandatory pod that is not placed


@dataclass(frozen=True, slots=True)
class GpuShareBound:
    """An upper bound on the allocated share of the GPUs, and its largest distance from the program's optimum."""

    allocated: float
    gap: float


@njit
def _best_pattern(size: Int, value: Float, capacity: int, take: Int) -> float:
    """Unbounded knapsack: write the count of each item into `take`, return the value."""
    best = np.zeros(capacity + 1)
    item = np.full(capacity + 1, -1)
    for room in range(1, capacity + 1):
        best[room] = best[room - 1]
        for i in range(len(size)):
            if size[i] <= room and best[room - size[i]] + value[i] > best[room] + 1e-12:
                best[room] = best[room - size[i]] + value[i]
                item[room] = i
    take[:] = 0
    room = capacity
    while room > 0:
        if item[room] < 0:
            room -= 1
        else:
            take[item[room]] += 1
            room -= size[item[room]]
    return best[capacity]


class _Program:
    """The restricted program: rows for node kinds and shapes, columns for patterns."""

    def __init__(self, cluster: OpenbCluster, pods: PodList, most: Int, least: Int) -> None:
        nodes = cluster.nodes
        kinds, of_node = np.unique(
            np.stack([nodes.model, nodes.gpu_count, nodes.cpu, nodes.memory], axis=1), axis=0, return_inverse=True
        )
        self.kinds = kinds
        self.count = np.bincount(of_node.ravel())
        self.pods = pods
        self.shapes = np.flatnonzero(most)
        solver = pywraplp.Solver.CreateSolver("GLOP")
        if solver is None:
            raise Permanent("the installed OR-tools has no GLOP")
        self.solver = solver
        infinity = solver.infinity()
        self.gpu = [solver.Constraint(-infinity, float(c * k[1])) for c, k in zip(self.count, kinds, strict=True)]
        self.cpu = [solver.Constraint(-infinity, c * k[2] / 1000.0) for c, k in zip(self.count, kinds, strict=True)]
        self.memory = [solver.Constraint(-infinity, c * k[3] / _GIB) for c, k in zip(self.count, kinds, strict=True)]
        self.placed = {int(t): solver.Constraint(float(least[t]), float(most[t])) for t in self.shapes}
        self.objective = solver.Objective()
        self.objective.SetMaximization()
        for t in self.shapes:
            if least[t]:
                missing = solver.NumVar(0.0, infinity, "")
                self.placed[int(t)].SetCoefficient(missing, 1.0)
                self.objective.SetCoefficient(missing, -_PENALTY)
        self.missing = tuple(solver.variables())

    def fits(self, kind: int, t: int) -> bool:
        model, gpus, cpu, memory = self.kinds[kind]
        s = self.pods.shapes
        if s.cpu[t] > cpu or s.memory[t] > memory or s.gpu_count[t] > gpus:
            return False
        return bool(s.gpu_count[t] == 0 or (s.models[t] >> model) & 1)

    def add(self, kind: int, gpus: float, content: list[tuple[int, int]]) -> None:
        """Add a column: `content` (shape, times) on `gpus` devices of a kind."""
        s = self.pods.shapes
        column = self.solver.NumVar(0.0, self.solver.infinity(), "")
        self.gpu[kind].SetCoefficient(column, float(gpus))
        self.cpu[kind].SetCoefficient(column, sum(times * float(s.cpu[t]) for t, times in content) / 1000.0)
        self.memory[kind].SetCoefficient(column, sum(times * float(s.memory[t]) for t, times in content) / _GIB)
        for t, times in content:
            self.placed[t].SetCoefficient(column, float(times))
        worth = sum(times * float(s.gpu_count[t] * s.gpu_milli[t]) for t, times in content) / WHOLE_GPU_MILLI
        self.objective.SetCoefficient(column, worth)


def allocation_bound(
    cluster: OpenbCluster, pods: PodList, order: Int, must_place: float, tolerance: float = 2e-4
) -> GpuShareBound:
    """Return the bound for arrivals `order` (indices into the list), of which those up to `must_place` of the GPUs must
    be placed.

    Stops when the bound is within `tolerance` (a share of the GPUs) of the restricted program's value.

    Raises:
        InvalidInput: the mandatory arrivals cannot be placed.
    """
    s = pods.shapes
    shape = pods.shape[order]
    demand = s.gpu_count * s.gpu_milli
    arrived = np.cumsum(demand[shape]) / cluster.gpu_milli
    most = np.bincount(shape, minlength=len(s.cpu))
    least = np.bincount(shape[arrived <= must_place], minlength=len(s.cpu))
    program = _Program(cluster, pods, most, least)
    shared = [int(t) for t in program.shapes if s.gpu_count[t] == 1 and s.gpu_milli[t] < WHOLE_GPU_MILLI]
    for kind in range(len(program.kinds)):
        for t in program.shapes:
            if program.fits(kind, int(t)):
                program.add(kind, 1.0 if int(t) in shared else float(s.gpu_count[t]), [(int(t), 1)])
    gpus = cluster.gpu_milli / WHOLE_GPU_MILLI
    best = np.inf
    for _ in range(_ROUNDS):
        if program.solver.Solve() != pywraplp.Solver.OPTIMAL:
            raise Permanent("the linear program of the bound was not solved to optimality")
        value = program.objective.Value()
        slack = _price(program, shared)
        best = min(best, value + slack)
        if best - value <= tolerance * gpus or slack == 0.0:
            break
    if sum(column.solution_value() for column in program.missing) > 1e-6:
        raise InvalidInput("must_place", must_place, "a load up to which all arrivals can be placed")
    return GpuShareBound(best / gpus, (best - value) / gpus)


def _price(program: _Program, shared: list[int]) -> float:
    """Add the best pattern of every kind at the current prices; return the largest possible improvement of the
    optimum.
    """
    s = program.pods.shapes
    grain = int(np.gcd.reduce(s.gpu_milli[shared], initial=WHOLE_GPU_MILLI))
    size = s.gpu_milli[shared] // grain
    worth = s.gpu_milli[shared] / WHOLE_GPU_MILLI - np.array([program.placed[t].dual_value() for t in shared])
    prices = [
        (gpu.dual_value(), cpu.dual_value(), memory.dual_value())
        for gpu, cpu, memory in zip(program.gpu, program.cpu, program.memory, strict=True)
    ]  # read before adding columns, which invalidates the solution
    slack = 0.0
    for kind, (of_gpu, of_cpu, of_memory) in enumerate(prices):
        possible = np.array([program.fits(kind, t) for t in shared], bool)
        value = worth - of_cpu * s.cpu[shared] / 1000.0 - of_memory * s.memory[shared] / _GIB
        take = np.zeros(len(shared), np.int64)
        best = _best_pattern(size, np.where(possible, value, -1.0), WHOLE_GPU_MILLI // grain, take)
        if best - of_gpu > 1e-7:
            slack += float(best - of_gpu) * float(program.count[kind] * program.kinds[kind, 1])
            program.add(kind, 1.0, [(shared[i], int(take[i])) for i in np.flatnonzero(take)])
    return slack

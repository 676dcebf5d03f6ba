"""The dependency graph that Alibaba 2018 writes into its batch tasks' names.

`R4_2_3` is stage letter R, task 4 of its job, and waits for tasks 2 and 3; `M1` waits for nothing; `task_Nzg3` and
`MergeTask` are outside the grammar and independent. A `_StgN` suffix is accepted and ignored. The published column
holds 50 characters: a longer name is cut, so its last number may be a fragment and further parents are lost. Such
names, unknown parents, repeated numbers and cycles are reported as faults; nothing is guessed. A task may start once
all instances of its parents have ended.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

import polars as pl

NAME_LIMIT = 50
_ENCODED = re.compile(r"([A-Za-z]+)([0-9]+)((?:_[0-9]+)*)(?:_Stg[0-9]+)?")
_LIKE_ENCODED = re.compile(r"[A-Z][0-9]+(?:_.*)?")


class DagFault(StrEnum):
    """Faults of a job's task names."""

    MALFORMED = "name begins like a task code but is not one"
    CUT = "name is cut off, parents may be missing"
    REPEATED = "two tasks with one number"
    UNKNOWN_PARENT = "waits for a task the job does not have"
    OWN_PARENT = "waits for itself"
    CYCLE = "waits for itself through others"


class GraphShape(StrEnum):
    """The shape of a job's graph; a job without edges is a single task or a set of them."""

    SINGLE = "single"
    INDEPENDENT = "independent"
    CHAIN = "chain"
    IN_TREE = "in-tree"
    OUT_TREE = "out-tree"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class TaskCode:
    """A decoded task name. `number` is None outside the grammar; `parents` are numbers, ascending, without repeats."""

    stage: str
    number: int | None
    parents: tuple[int, ...]
    fault: DagFault | None = None


@dataclass(frozen=True, slots=True)
class JobDag:
    """A job's graph over the positions of its tasks.

    `parents[i]` are the positions task i waits for, ascending; parents that do not exist are left out and reported.
    `order` is a topological order, lowest position first; tasks on a cycle, or behind one, are missing from it.
    `faults` name the position.
    """

    parents: tuple[tuple[int, ...], ...]
    order: tuple[int, ...]
    faults: tuple[tuple[int, DagFault], ...]

    @property
    def is_acyclic(self) -> bool:
        """Whether every task can run."""
        return len(self.order) == len(self.parents)

    def levels(self) -> tuple[int, ...]:
        """Tasks on the longest path that ends in each task, itself included; 0 for tasks that can never run."""
        level = [0] * len(self.parents)
        for task in self.order:
            level[task] = 1 + max((level[parent] for parent in self.parents[task]), default=0)
        return tuple(level)

    def shape(self) -> GraphShape:
        """Chain: one path. In-tree: each task feeds at most one, all flow to one. Out-tree: each waits for at most
        one, from one.
        """
        tasks = len(self.parents)
        edges = sum(len(parents) for parents in self.parents)
        if tasks == 1:
            return GraphShape.SINGLE
        if edges == 0:
            return GraphShape.INDEPENDENT
        children = [0] * tasks
        for parents in self.parents:
            for parent in parents:
                children[parent] += 1
        one_parent = all(len(parents) <= 1 for parents in self.parents)
        one_child = all(count <= 1 for count in children)
        if edges != tasks - 1 or not self.is_acyclic or not (one_parent or one_child):
            return GraphShape.OTHER
        if one_parent and one_child:
            return GraphShape.CHAIN
        return GraphShape.OUT_TREE if one_parent else GraphShape.IN_TREE


def parse_task_name(name: str) -> TaskCode:
    """Decode one name. Never raises: a name outside the grammar is an independent task."""
    if len(name) >= NAME_LIMIT and _LIKE_ENCODED.fullmatch(name):
        # the numbers before the last underscore are complete; the rest may be a truncated number
        found = _ENCODED.fullmatch(name[: name.rindex("_")]) if "_" in name else None
        if found is not None:
            return TaskCode(found[1], int(found[2]), _numbers(found[3]), DagFault.CUT)
    found = _ENCODED.fullmatch(name)
    if found is None:
        return TaskCode("", None, (), DagFault.MALFORMED if _LIKE_ENCODED.fullmatch(name) else None)
    return TaskCode(found[1], int(found[2]), _numbers(found[3]))


def job_dag(names: Sequence[str]) -> JobDag:
    """The graph of one job from its task names."""
    codes = [parse_task_name(name) for name in names]
    faults: list[tuple[int, DagFault]] = [(at, code.fault) for at, code in enumerate(codes) if code.fault is not None]
    position: dict[int, int] = {}
    for at, code in enumerate(codes):
        if code.number is None:
            continue
        if code.number in position:
            faults.append((at, DagFault.REPEATED))
        else:
            position[code.number] = at
    parents: list[tuple[int, ...]] = []
    for at, code in enumerate(codes):
        known = []
        for number in code.parents:
            if number not in position:
                faults.append((at, DagFault.UNKNOWN_PARENT))
            elif position[number] == at:
                faults.append((at, DagFault.OWN_PARENT))
            else:
                known.append(position[number])
        parents.append(tuple(sorted(known)))
    order = _topological_order(parents)
    faults.extend((at, DagFault.CYCLE) for at in _on_cycles(parents, order))
    return JobDag(tuple(parents), order, tuple(faults))


def job_dags(tasks: pl.DataFrame) -> Iterator[tuple[str, pl.Series, JobDag]]:
    """Each job of a batch_task frame, in order of first appearance: name, its rows' positions in the frame, its
    graph.
    """
    rows = tasks.select("job_name", "task_name").with_row_index("row")
    for (job,), group in rows.group_by("job_name", maintain_order=True):
        yield str(job), group["row"], job_dag(group["task_name"].to_list())


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(sorted({int(part) for part in text.split("_")[1:]}))


def _topological_order(parents: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    waiting = [len(of) for of in parents]
    children: list[list[int]] = [[] for _ in parents]
    for task, of in enumerate(parents):
        for parent in of:
            children[parent].append(task)
    order = [task for task, count in enumerate(waiting) if count == 0]
    for task in order:  # grows during the loop
        for child in children[task]:
            waiting[child] -= 1
            if waiting[child] == 0:
                order.append(child)
    return tuple(order)


def _on_cycles(parents: Sequence[tuple[int, ...]], order: tuple[int, ...]) -> list[int]:
    """Tasks on cycles. Tasks that are only behind a cycle are removed, starting from those without children."""
    left = set(range(len(parents))) - set(order)
    if not left:
        return []
    feeds = {task: {child for child in left if task in parents[child]} for task in left}
    ends = [task for task in left if not feeds[task]]
    while ends:
        task = ends.pop()
        left.discard(task)
        for parent in parents[task]:
            if parent in left:
                feeds[parent].discard(task)
                if not feeds[parent]:
                    ends.append(parent)
    return sorted(left)

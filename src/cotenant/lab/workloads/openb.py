"""The openb GPU-sharing trace of Alibaba (Weng et al., USENIX ATC 2023): 1,213 nodes with 6,212 GPUs, and lists of pods.

Problem: compare with the published table on the same nodes, pods and recipe. Choice: the node list and one of the pod lists as
they are; the recipe: shuffle the pods, then append pods drawn uniformly with replacement until their GPU demand reaches the
load (cut the shuffled list where it already exceeds it). Limits: pods do not leave; the shuffles come from NumPy's generator, so
means compare with the published ones and single seeds do not.

A row that cannot be used is left out, counted and reported by kind with its first lines; a file without the columns is refused.
"""

from __future__ import annotations

import csv
import gzip
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cotenant.model.arrays import Int
from cotenant.model.errors import InvalidInput
from cotenant.policy.placement.gpu_state import ANY_MODEL, WHOLE_GPU_MILLI, GpuNodes, GpuShapes

FOLDER = "openb-gpu2023"
NODE_LIST = "openb_node_list_gpu_node.csv.gz"
PUBLISHED = "published_results_fgd_atc23.csv.gz"
MOST_DEVICES = 62  # a mask of devices is one signed 64-bit word
_MIB = 1 << 20
_MOST_BYTES = 1 << 52  # exact in a float64


@dataclass(frozen=True, slots=True)
class BadRows:
    """Rows of one file left out for one reason."""

    file: str
    reason: str
    lines: tuple[int, ...]  # 1 = the header

    def __str__(self) -> str:
        shown = ", ".join(str(line) for line in self.lines[:5]) + (", ..." if len(self.lines) > 5 else "")
        return f"{self.file}: {len(self.lines)} row(s) left out: {self.reason} (line {shown})"


@dataclass(frozen=True, slots=True)
class Cluster:
    """The nodes, in the order of the list, all idle."""

    nodes: GpuNodes
    names: tuple[str, ...]
    models: tuple[str, ...]  # by the position of the model's bit
    bad: tuple[BadRows, ...]

    @property
    def gpu_milli(self) -> int:
        """All GPU of the cluster."""
        return int(self.nodes.gpu_count.sum()) * WHOLE_GPU_MILLI


@dataclass(frozen=True, slots=True)
class PodList:
    """The pods, in the order of the list. `shape[i]` is the i-th pod's row of `shapes`."""

    shapes: GpuShapes
    shape: Int  # [P]
    names: tuple[str, ...]
    bad: tuple[BadRows, ...]


def _rows(path: Path, columns: tuple[str, ...]) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield line number and row of a CSV file, plain or gzip; refuse a file that lacks a column or is no text."""
    try:
        with (gzip.open if path.suffix == ".gz" else open)(path, "rt", encoding="utf-8", newline="") as file:
            reader = csv.DictReader(file, restval="", restkey="")
            found = [name for name in reader.fieldnames or () if name]
            missing = [name for name in columns if name not in found]
            if missing:
                raise InvalidInput(
                    path.name, ",".join(found), "the columns " + ",".join(columns), f"lacks {','.join(missing)}"
                )
            for row in reader:
                yield reader.line_num, row
    except FileNotFoundError:
        raise InvalidInput("file", str(path), "a file that exists") from None
    except (OSError, EOFError, UnicodeDecodeError, csv.Error) as error:
        raise InvalidInput("file", str(path), "a CSV file, plain or gzip", str(error)) from error


class _Refused(Exception):
    """A row cannot be used; the reason is the message."""


def _integer(row: dict[str, str], column: str, low: int, high: int) -> int:
    try:
        value = int(row[column])
    except ValueError:
        raise _Refused(f"{column} is not an integer") from None
    if not low <= value <= high:
        raise _Refused(f"{column} is not within {low}..{high}")
    return value


def _read(
    path: Path, columns: tuple[str, ...], name_column: str, judge: Callable[[dict[str, str]], None]
) -> tuple[list[str], tuple[BadRows, ...]]:
    """Give each row to `judge`, which keeps it or raises `_Refused`; return the kept rows' names, and what was left out."""
    names: dict[str, None] = {}
    bad: dict[str, list[int]] = {}
    for line, row in _rows(path, columns):
        try:
            name = row[name_column]
            if not name:
                raise _Refused(f"{name_column} is empty")
            if name in names:
                raise _Refused(f"{name_column} occurs twice")
            judge(row)
            names[name] = None
        except _Refused as reason:
            bad.setdefault(str(reason), []).append(line)
    if not names:
        raise InvalidInput(path.name, "no usable row", "at least one usable row", "; ".join(bad))
    return list(names), tuple(BadRows(path.name, reason, tuple(lines)) for reason, lines in bad.items())


def read_cluster(path: Path) -> Cluster:
    """Read a node list: columns sn, cpu_milli, memory_mib, gpu, model.

    Raises:
        InvalidInput: the file is absent, is no CSV, lacks a column, or has no usable row.
    """
    kept: list[tuple[int, int, int, str]] = []

    def judge(row: dict[str, str]) -> None:
        cpu = _integer(row, "cpu_milli", 1, _MOST_BYTES)
        memory = _integer(row, "memory_mib", 1, _MOST_BYTES // _MIB) * _MIB
        gpus = _integer(row, "gpu", 0, MOST_DEVICES)
        if gpus and not row["model"]:
            raise _Refused("model is empty")
        kept.append((cpu, memory, gpus, row["model"]))

    names, bad = _read(path, ("sn", "cpu_milli", "memory_mib", "gpu", "model"), "sn", judge)
    models = tuple(sorted({model for *_, model in kept if model}))
    if len(models) > MOST_DEVICES:
        raise InvalidInput(path.name, len(models), f"at most {MOST_DEVICES} GPU models")
    cpu, memory, gpus = (np.array(column, np.int64) for column in list(zip(*kept, strict=True))[:3])
    present = np.arange(max(int(gpus.max()), 1)) < gpus[:, None]
    nodes = GpuNodes(
        cpu_free=cpu.copy(),
        memory_free=memory.copy(),
        gpu_free=present.astype(np.int64) * WHOLE_GPU_MILLI,
        cpu=cpu,
        memory=memory,
        gpu_count=gpus,
        model=np.array([models.index(model) if model else 0 for *_, model in kept], np.int64),
    )
    return Cluster(nodes, tuple(names), models, bad)


def read_pods(path: Path, models: tuple[str, ...]) -> PodList:
    """Read a pod list: columns name, cpu_milli, memory_mib, num_gpu, gpu_milli and, where models are asked for, gpu_spec (`A|B`).

    A model that the cluster lacks is kept as a wish that no node meets.

    Raises:
        InvalidInput: as `read_cluster`.
    """
    kept: list[tuple[int, int, int, int, int]] = []

    def judge(row: dict[str, str]) -> None:
        cpu = _integer(row, "cpu_milli", 0, _MOST_BYTES)
        memory = _integer(row, "memory_mib", 0, _MOST_BYTES // _MIB) * _MIB
        count = _integer(row, "num_gpu", 0, MOST_DEVICES)
        milli = _integer(row, "gpu_milli", 0, WHOLE_GPU_MILLI)
        if (count == 0) != (milli == 0):
            raise _Refused("num_gpu and gpu_milli disagree on whether a GPU is asked for")
        if count > 1 and milli != WHOLE_GPU_MILLI:
            raise _Refused("a share of several GPUs")
        wanted = [model for model in (row.get("gpu_spec") or "").split("|") if model]
        mask = sum(1 << models.index(model) for model in set(wanted) & set(models)) if wanted and count else ANY_MODEL
        kept.append((cpu, memory, count, milli, mask))

    names, bad = _read(path, ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli"), "name", judge)
    distinct, shape = np.unique(np.array(kept, np.int64), axis=0, return_inverse=True)
    columns = [np.ascontiguousarray(distinct[:, i]) for i in range(5)]
    return PodList(GpuShapes(*columns), shape.ravel().astype(np.int64), tuple(names), bad)


def pod_list_path(folder: Path, name: str) -> Path:
    """Return the path of the pod list called `name` (default, cpu250, ...).

    Raises:
        InvalidInput: there is no such list; the hint names those that are.
    """
    path = folder / f"openb_pod_list_{name}.csv.gz"
    if not path.is_file():
        there = sorted(
            p.name.removeprefix("openb_pod_list_").removesuffix(".csv.gz")
            for p in folder.glob("openb_pod_list_*.csv.gz")
        )
        raise InvalidInput("workload", f"openb:{name}", "openb or openb:LIST", "lists here: " + ", ".join(there))
    return path


def arrivals(pods: PodList, gpu_milli: int, rng: np.random.Generator) -> Int:
    """Return the pods (indices into the list) in order of arrival until their demand reaches `gpu_milli`.

    Raises:
        InvalidInput: no pod of the list asks for a GPU, so the load is never reached.
    """
    demand = (pods.shapes.gpu_count * pods.shapes.gpu_milli)[pods.shape]
    if demand.sum() == 0:
        raise InvalidInput("pods", "no GPU asked for", "a list with GPU pods")
    order = rng.permutation(len(demand))
    while (missing := gpu_milli - int(demand[order].sum())) > 0:
        likely = int(missing / demand.mean()) + 16
        order = np.concatenate([order, rng.integers(0, len(demand), likely)])
    reached = int(np.searchsorted(np.cumsum(demand[order]), gpu_milli))
    return order[: reached + 1]

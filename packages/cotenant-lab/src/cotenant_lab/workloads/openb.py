"""The openb GPU-sharing trace of Alibaba (Weng et al., USENIX ATC 2023): 1,213 nodes with 6,212 GPUs, and lists of
pods.

Comparison with the published table on the same nodes, pods and recipe. The node list and one of the pod lists,
unchanged; the recipe: shuffle the pods, then append pods drawn uniformly with replacement until their GPU demand
reaches the load (cut the shuffled list if it already exceeds it).
Limits: pods do not leave; the shuffles come from NumPy's generator, so means compare with the published ones but single
seeds do not.

The files are checked row by row by `lab.traces`; dropped rows are listed in `report`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from cotenant.model.arrays import Int
from cotenant.model.errors import InvalidInput
from cotenant.policy.placement.gpu.state import ANY_MODEL, MAX_DEVICES, WHOLE_GPU_MILLI, GpuNodeArrays, GpuShapes
from cotenant_lab.traces import read_table
from cotenant_lab.traces.folder import IN_WORDS, table_file, table_names

FOLDER = "openb-gpu2023"
NODE_LIST = "openb_node_list_gpu_node"
PUBLISHED = "published_results_fgd_atc23.csv.gz"
_POD_LIST = "openb_pod_list_"
_MAX_MODELS = 62  # a set of models is a signed 64-bit word
_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class OpenbCluster:
    """The nodes, in the order of the list, all idle."""

    nodes: GpuNodeArrays
    names: tuple[str, ...]
    models: tuple[str, ...]  # by the position of the model's bit
    report: tuple[str, ...]  # messages about dropped or odd rows

    @property
    def gpu_milli(self) -> int:
        """Total GPU of the cluster."""
        return int(self.nodes.gpu_count.sum()) * WHOLE_GPU_MILLI


@dataclass(frozen=True, slots=True)
class PodList:
    """The pods, in the order of the list. `shape[i]` is the i-th pod's row of `shapes`."""

    shapes: GpuShapes
    shape: Int  # [P]
    names: tuple[str, ...]
    report: tuple[str, ...]

    @property
    def usual(self) -> Int:
        """Number of pods of each shape in the list, [K]: the known popularity of the shapes."""
        return np.bincount(self.shape, minlength=len(self.shapes.cpu))


def read_cluster(path: Path) -> OpenbCluster:
    """Read a node list: columns sn, cpu_milli, memory_mib, gpu, model.

    Raises:
        InvalidInput: the file is absent or not such a list, or has more models, or nodes with more GPUs, than a word
        has bits.
    """
    frame, report = read_table("openb", "nodes", path)
    cpu, memory, gpus = (frame[name].to_numpy().astype(np.int64) for name in ("cpu_milli", "memory_mib", "gpu"))
    of_node = [model or "" for model in frame["model"].to_list()]
    models = tuple(sorted({model for model, count in zip(of_node, gpus, strict=True) if count}))
    if len(models) > _MAX_MODELS:
        raise InvalidInput(path.name, len(models), f"at most {_MAX_MODELS} GPU models")
    if gpus.max() > MAX_DEVICES:
        raise InvalidInput(path.name, int(gpus.max()), f"at most {MAX_DEVICES} GPUs on a node")
    nodes = GpuNodeArrays(
        cpu_free=cpu.copy(),
        memory_free=memory * _MIB,
        gpu_free=(np.arange(max(int(gpus.max()), 1)) < gpus[:, None]).astype(np.int64) * WHOLE_GPU_MILLI,
        cpu=cpu,
        memory=memory * _MIB,
        gpu_count=gpus,
        model=np.array([models.index(model) if model in models else 0 for model in of_node], np.int64),
    )
    return OpenbCluster(nodes, tuple(frame["sn"].to_list()), models, report.sentences() if report.bad else ())


def read_pods(path: Path, models: tuple[str, ...]) -> PodList:
    """Read a pod list: columns name, cpu_milli, memory_mib, num_gpu, gpu_milli and, where models are requested,
    gpu_spec (`A|B`).

    A model that the cluster lacks is kept as a requirement that no node meets.

    Raises:
        InvalidInput: the file is absent or not such a list.
    """
    frame, report = read_table("openb", "pods", path)
    bits = {model: 1 << i for i, model in enumerate(models)}
    specs = [[model for model in (spec or "").split("|") if model] for spec in frame["gpu_spec"].to_list()]
    gpus = frame["num_gpu"].to_numpy()
    masks = [
        sum(bits.get(model, 0) for model in set(spec)) if spec and count else ANY_MODEL
        for spec, count in zip(specs, gpus, strict=True)
    ]
    table = np.stack(
        [
            frame["cpu_milli"].to_numpy().astype(np.int64),
            frame["memory_mib"].to_numpy().astype(np.int64) * _MIB,
            gpus.astype(np.int64),
            frame["gpu_milli"].to_numpy().astype(np.int64),
            np.array(masks, np.int64),
        ],
        axis=1,
    )
    distinct, shape = np.unique(table, axis=0, return_inverse=True)
    shapes = GpuShapes(*(np.ascontiguousarray(distinct[:, i]) for i in range(5)))
    return PodList(
        shapes, shape.ravel().astype(np.int64), tuple(frame["name"].to_list()), report.sentences() if report.bad else ()
    )


def node_list_path(folder: Path) -> Path:
    """Return the path of the node list, in any supported form.

    Raises:
        InvalidInput: there is none.
    """
    path = table_file(folder, NODE_LIST)
    if path is None:
        hint = f"give --traces DIR, where DIR holds {FOLDER}/"
        raise InvalidInput("traces", str(folder), f"a folder with {NODE_LIST}{IN_WORDS}", hint)
    return path


def pod_list_path(folder: Path, name: str) -> Path:
    """Return the path of the pod list called `name` (default, cpu250, ...), in any supported form.

    Raises:
        InvalidInput: there is no such list; the hint lists the existing ones.
    """
    path = table_file(folder, f"{_POD_LIST}{name}")
    if path is None:
        present = ", ".join(table_names(folder, _POD_LIST)) or "none"
        raise InvalidInput("workload", f"openb:{name}", "openb or openb:LIST", f"lists here: {present}")
    return path


def arrivals(pods: PodList, gpu_milli: int, rng: np.random.Generator) -> Int:
    """Return the pods (indices into the list) in order of arrival until their demand reaches `gpu_milli`.

    Raises:
        InvalidInput: no pod of the list requests a GPU, so the load is never reached.
    """
    demand = (pods.shapes.gpu_count * pods.shapes.gpu_milli)[pods.shape]
    if demand.sum() == 0:
        raise InvalidInput("pods", "no GPU requested", "a list with GPU pods")
    order = rng.permutation(len(demand))
    while (missing := gpu_milli - int(demand[order].sum())) > 0:
        likely = int(missing / demand.mean()) + 16
        order = np.concatenate([order, rng.integers(0, len(demand), likely)])
    reached = int(np.searchsorted(np.cumsum(demand[order]), gpu_milli))
    return order[: reached + 1]


def published_allocation(path: Path, arrived_pct: int = 130) -> dict[tuple[str, str], float]:
    """Return the published mean GPU allocation in percent, by pod list and policy (random, dot-product, ..., fgd), at a
    load.

    Raises:
        InvalidInput: the file is absent or not the published table.
    """
    frame, _ = read_table("openb", "results", path)
    at = (
        frame.filter(frame["arrived_pct"] == arrived_pct)
        .group_by("workload", "sc_policy")
        .agg(mean=pl.col("gpu_alloc_pct").mean())
    )
    return {
        (workload.removeprefix(_POD_LIST), _PUBLISHED_NAMES.get(policy, policy)): float(mean)
        for workload, policy, mean in at.iter_rows()
    }


_PUBLISHED_NAMES = {
    "01-Random": "random",
    "02-DotProd": "dot-product",
    "03-GpuClustering": "clustering",
    "04-GpuPacking": "packing",
    "05-BestFit": "best-fit",
    "06-FGD": "fgd",
}

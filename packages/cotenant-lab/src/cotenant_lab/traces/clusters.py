"""A trace as a cluster of today: machines, pods and use over time, for an assessment.

A trace says less than a cluster, and each in its own way; what had to be assumed is in `notes`, which the report shows.
Traces of jobs alone have no machines, and none are made up.
Limits: anti-affinity of `tianchi` and models of GPUs that pods of `openb` accept are left out.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl

from cotenant.model.arrays import Float
from cotenant.model.assess.history import AssessedHistory, ClusterHistory, Float32, PodHistory, no_history
from cotenant.model.errors import InvalidInput
from cotenant_lab.traces.folder import IN_WORDS, table_file
from cotenant_lab.traces.read import read_table

STEP_S = 300.0
_GIB_MIB = 1024.0
_MACHINE_GIB = 512  # Alibaba gives memory in percent of a machine; as in the lab's world
_CELL_CORES, _CELL_GIB = 1000, 4000  # of a cell of which only shares are published
_HOSTS, _HOST_CORES, _DAYS = 5, 64, 12
_CURVE_STEP_S = 900.0


class TraceNode(NamedTuple):
    """A machine."""

    name: str
    cpu_m: int
    memory_mib: int
    cards: int = 0


class TracePod(NamedTuple):
    """A pod of `application`; `node` "" = it waits. `card_percent`: of each of its cards."""

    name: str
    application: str
    node: str
    cpu_m: int
    memory_mib: int
    cards: int = 0
    card_percent: int = 100


class TraceCluster(NamedTuple):
    """All that a trace says of one."""

    nodes: tuple[TraceNode, ...]
    pods: tuple[TracePod, ...]
    history: ClusterHistory | None
    notes: tuple[str, ...]


def trace_cluster(name: str, folder: Path) -> TraceCluster:
    """Read the trace of this format from its folder. Raises `InvalidInput`."""
    if name not in READERS:
        raise InvalidInput("format", name, f"one of {', '.join(READERS)}", "others have jobs alone, and no machines")
    if not folder.is_dir():
        raise InvalidInput(str(folder), "no such folder", f"the folder of {name}")
    return READERS[name](folder)


def _read(folder: Path, name: str, form: str, table: str) -> pl.DataFrame:
    path = table_file(folder, name)
    if path is None:
        raise InvalidInput(str(folder), f"no {name}", f"{name} as {IN_WORDS}")
    return read_table(form, table, path)[0]


def _of_nodes(nodes: tuple[TraceNode, ...], cpu_m: Float, memory_mib: Float, step_s: float, why: str) -> ClusterHistory:
    """Use of whole nodes: of pods nothing is known."""
    none = no_history(why)
    names = tuple(node.name for node in nodes)
    use = AssessedHistory(0.0, step_s, names, cpu_m.astype(np.float32), memory_mib.astype(np.float32), why)
    return ClusterHistory(none.pods, use)


def _google2019(folder: Path) -> TraceCluster:
    table = _read(folder, "instance_usage_300s_days1-20", "google2019", "usage")
    node = TraceNode("cell", _CELL_CORES * 1000, round(_CELL_GIB * _GIB_MIB))
    cpu, memory = (table[column].to_numpy()[None, :] for column in ("avg_cpu", "avg_mem"))
    use = _of_nodes(
        (node,), cpu * node.cpu_m, memory * node.memory_mib, STEP_S, "the trace, means of 300 s of the whole cell"
    )
    note = f"one cell as one node of {_CELL_CORES:,} cores and {_CELL_GIB:,} GiB, as only shares of it are published"
    return TraceCluster((node,), (), use, (note, "requests are not in the trace"))


def _alibaba2018(folder: Path) -> TraceCluster:
    table = _read(folder, "machine_usage_11_machines", "alibaba2018", "machine_usage")
    names = sorted(table["machine_id"].unique().to_list())
    steps = int(table["time_stamp"].max() // STEP_S) + 1  # type: ignore[operator]
    nodes = tuple(TraceNode(name, 96_000, _MACHINE_GIB * 1024) for name in names)
    row = {name: at for at, name in enumerate(names)}
    at = np.array([row[name] for name in table["machine_id"].to_list()], np.int64)
    column = (table["time_stamp"].to_numpy() // STEP_S).astype(np.int64)
    shares = []
    for name in ("cpu_util_percent", "mem_util_percent"):
        values = table[name].cast(pl.Float64).fill_null(float("nan")).to_numpy()
        known = ~np.isnan(values)
        cells = at[known] * steps + column[known]
        total = np.bincount(cells, values[known], len(names) * steps)
        count = np.bincount(cells, minlength=len(names) * steps)
        mean = np.where(count > 0, total / np.maximum(count, 1), np.nan)
        shares.append(mean.reshape(len(names), steps) / 100.0)
    use = _of_nodes(
        nodes, shares[0] * 96_000, shares[1] * _MACHINE_GIB * 1024, STEP_S, "the trace, means of 300 s of machines"
    )
    note = f"machines of 96 cores and {_MACHINE_GIB} GiB: the trace gives memory in percent"
    return TraceCluster(nodes, (), use, (note, "requests are not in the trace"))


def _azure_vm(folder: Path) -> TraceCluster:
    table = _read(folder, "azure_vms", "azure-vm", "vms")
    arrivals = table["arrival_hours"].to_numpy()
    departures = arrivals + table["duration_hours"].to_numpy()
    end_h = float(arrivals.max())
    steps = round(_DAYS * 86_400 / STEP_S)
    begin_h = end_h - _DAYS * 24
    change = np.zeros((_HOSTS, steps + 1))
    free = [float(_HOST_CORES)] * _HOSTS
    leaving: list[tuple[float, int, float, int]] = []
    refused = 0
    for number, (at, until, cores) in enumerate(
        zip(arrivals.tolist(), departures.tolist(), table["cpus"].to_numpy().tolist(), strict=True)
    ):
        for gone in [one for one in leaving if one[0] <= at]:
            free[gone[1]] += gone[2]
        leaving = [one for one in leaving if one[0] > at]
        host = max(range(_HOSTS), key=free.__getitem__)
        if free[host] < cores:
            refused += 1
            continue
        free[host] -= cores
        leaving.append((until, host, cores, number))
        for time_h, sign in ((at, 1.0), (until, -1.0)):
            step = round((time_h - begin_h) * 3600 / STEP_S)
            if step <= steps:
                change[host, max(0, step)] += sign * cores
    allocated = np.cumsum(change, axis=1)[:, :steps] * 1000.0
    nodes = tuple(TraceNode(f"host-{at}", _HOST_CORES * 1000, _HOST_CORES * 4 * 1024) for at in range(_HOSTS))
    pods = tuple(
        TracePod(f"vm-{number}", "", f"host-{host}", round(cores * 1000), 0)
        for until, host, cores, number in leaving
        if until > end_h
    )
    use = _of_nodes(
        nodes,
        allocated,
        np.full(allocated.shape, np.nan),
        STEP_S,
        "the trace's allocated cores: of what virtual machines use nothing is known",
    )
    note = (
        f"virtual machines on the emptiest of {_HOSTS} hosts of {_HOST_CORES} cores, the last {_DAYS} days; "
        f"{refused:,} of {len(arrivals):,} found no room"
    )
    return TraceCluster(nodes, pods, use, (note, "arrivals are those of the sampler, and memory is not in the trace"))


def _openb(folder: Path) -> TraceCluster:
    machines = _read(folder, "openb_node_list_all_node", "openb", "nodes")
    listed = _read(folder, "openb_pod_list_default", "openb", "pods")
    nodes = tuple(
        TraceNode(row["sn"], row["cpu_milli"], row["memory_mib"], row["gpu"]) for row in machines.iter_rows(named=True)
    )
    pods = tuple(
        TracePod(
            row["name"], "", "", row["cpu_milli"], row["memory_mib"], row["num_gpu"], max(1, row["gpu_milli"] // 10)
        )
        for row in listed.iter_rows(named=True)
    )
    note = "the trace does not say where pods ran: all wait, and the report says how many fit"
    return TraceCluster(nodes, pods, None, (note, "use is not in the trace"))


def _tianchi(folder: Path) -> TraceCluster:
    apps = {row["app"]: row for row in _read(folder, "app_resources", "tianchi", "apps").iter_rows(named=True)}
    machines = _read(folder, "machine_resources", "tianchi", "machines")
    nodes = tuple(
        TraceNode(_label(row["machine"]), round(row["cpu"] * 1000), round(row["mem"] * _GIB_MIB))
        for row in machines.iter_rows(named=True)
    )
    pods, cpu, memory = [], [], []
    for row in _read(folder, "instance_deploy", "tianchi", "containers").iter_rows(named=True):
        app = apps.get(row["app"])
        if app is None:
            continue
        cores, gib = np.asarray(app["cpu_98"], np.float32), np.asarray(app["mem_98"], np.float32)
        node = _label(row["initial_machine"] or "")
        asked = (round(float(cores.max()) * 1000), round(float(gib.max()) * _GIB_MIB))
        pods.append(TracePod(_label(row["instance"]), _label(row["app"]), node, *asked))
        if node:
            cpu.append(cores * 1000)
            memory.append(gib * np.float32(_GIB_MIB))
    placed = [pod for pod in pods if pod.node]
    history = _of_pods(placed, np.array(cpu, np.float32), np.array(memory, np.float32))
    note = "requests are not in the trace: the highest use of the day stands for them"
    return TraceCluster(nodes, tuple(pods), history, (note, "rules of anti-affinity are left out"))


def _of_pods(pods: list[TracePod], cpu_m: Float32, memory_mib: Float32) -> ClusterHistory:
    source = "the trace, curves of one day in steps of 900 s"
    use = AssessedHistory(0.0, _CURVE_STEP_S, tuple(f"default/{pod.name}" for pod in pods), cpu_m, memory_mib, source)
    of_pods = PodHistory(
        use,
        tuple(pod.node for pod in pods),
        tuple(f"default/ReplicaSet/{pod.application}" for pod in pods),
        np.array([pod.cpu_m for pod in pods], np.float32),
        np.array([pod.memory_mib for pod in pods], np.float32),
    )
    return ClusterHistory(of_pods, of_pods.by_node())


def _label(name: str) -> str:
    return name.replace("_", "-").lower()


READERS: dict[str, Callable[[Path], TraceCluster]] = {
    "google2019": _google2019,
    "alibaba2018": _alibaba2018,
    "azure-vm": _azure_vm,
    "openb": _openb,
    "tianchi": _tianchi,
}

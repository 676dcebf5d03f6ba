"""Real long-running containers (Alibaba's 2018 contest, data set B) as nodes, shapes and a random order of arrival.

long-running containers are large, differ in shape and restrict their neighbours; batch does none of this, so on batch
alone every policy looks good. One shape per application (its containers are identical): peak CPU and peak memory over
the day's 98 samples, and disk; all anti-affinity rules; 125 machines of each of the two kinds; containers in an order
drawn by the seed, until they request `load` of the machines' CPU. No departures.
Sources: the four tables read by `cotenant_lab.traces`, which counts their bad rows.
Limits: peaks of one container need not coincide, so requests overstate the use at any one time (by 24 % on this data).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import polars as pl

from cotenant.model.arrays import Float, Int, NodeArrays, Param, ReportColumn, ShapeArrays, Sum
from cotenant.model.errors import InvalidInput
from cotenant.policy.placement.topology.group_antiaffinity import GroupRules, group_rules
from cotenant_lab.traces import read_table
from cotenant_lab.traces.folder import IN_WORDS, table_file

FOLDER = "alibaba2018-tianchi-containers"
_TABLES = ("app_resources", "instance_deploy", "machine_resources", "app_interference")
DISK = 3  # column after CPU, MEMORY, PODS
RESOURCES = ("cpu", "memory", "pods", "disk")
MACHINES_OF_A_KIND = 125
GIB = 1 << 30
MAX_PODS = 1 << 20  # the data set has no limit of its own


@dataclass(frozen=True, slots=True)
class TianchiContainers:
    """The data set. A applications, C containers; application a is shape a and group a."""

    app_names: tuple[str, ...]  # [A]
    container_names: tuple[str, ...]  # [C]
    app_of: Int  # [C]
    request: Int  # [A, 4] peak CPU (milli-CPU), peak memory (bytes), 1 pod, disk (bytes)
    mean_cpu: Float  # [A] milli-CPU, over the day
    cpu_curve: Float  # [A, 98] milli-CPU
    population: Int  # [A] containers of each application in the whole data set
    rules: GroupRules
    capacity: Int  # [N, 4], small machines first
    notes: tuple[str, ...]  # rows read and dropped


@dataclass(frozen=True, slots=True)
class TianchiWorld:
    """The empty cluster and the arrivals of one seed."""

    nodes: NodeArrays
    shapes: ShapeArrays
    arrivals: Int  # containers in order of arrival, the first `count` of them within the load
    count: int


def find_folder(traces: Path | None) -> Path:
    """The data set's folder under `traces` (or `traces` itself). Raises `InvalidInput` naming `--traces`."""
    if traces is None:
        raise InvalidInput(
            "--traces", "not given", "a folder with real traces", f"--traces DIR, with DIR/{FOLDER} inside"
        )
    places = (traces / FOLDER, traces)
    for folder in places:
        if any(folder.glob("app_resources.*")):
            return folder
    for folder in places:
        if (folder.name == FOLDER and folder.is_dir()) or any(table_file(folder, name) for name in _TABLES):
            _file(folder, "app_resources")  # says which table the set lacks
    raise InvalidInput(
        "--traces", str(traces), f"a folder that holds {FOLDER}", "--traces DIR names the folder of all traces"
    )


@lru_cache(maxsize=1)
def load(folder: Path) -> TianchiContainers:
    """Read the data set. Raises `InvalidInput` for a file of another format, or dangling references."""
    apps, apps_report = read_table("tianchi", "apps", _file(folder, "app_resources"))
    containers, containers_report = read_table("tianchi", "containers", _file(folder, "instance_deploy"))
    machines, machines_report = read_table("tianchi", "machines", _file(folder, "machine_resources"))
    rules, rules_report = read_table("tianchi", "rules", _file(folder, "app_interference"))
    notes = [
        line
        for report in (apps_report, containers_report, machines_report, rules_report)
        for line in report.sentences()
    ]
    index = apps.select("app").with_row_index("group")

    known, dropped = _refer(containers, index, ("app",))
    notes += _lost("containers of an unknown application", dropped)
    ruled, dropped = _refer(rules, index, ("app_present", "app_limited"))
    notes += _lost("rules on an unknown application", dropped)

    cpu = apps["cpu_98"].to_numpy() * 1000.0
    memory = apps["mem_98"].to_numpy().max(axis=1) * GIB
    disk = apps["disk"].to_numpy() * GIB
    request = np.ones((apps.height, len(RESOURCES)), np.int64)
    for column, amount in ((0, cpu.max(axis=1)), (1, memory), (DISK, disk)):
        request[:, column] = np.ceil(amount - 1e-6)
    app_of = known["app"].to_numpy().astype(np.int64)
    return TianchiContainers(
        tuple(apps["app"]),
        tuple(known["instance"]),
        app_of,
        request,
        cpu.mean(axis=1),
        cpu,
        np.bincount(app_of, minlength=apps.height).astype(np.int64),
        group_rules(
            apps.height,
            ruled["app_present"].to_numpy().astype(np.int64),
            ruled["app_limited"].to_numpy().astype(np.int64),
            ruled["max_count"].to_numpy(),
        ),
        _capacity(machines),
        tuple(notes),
    )


def make(data: TianchiContainers, load_: float, seed: int) -> TianchiWorld:
    """An empty cluster and the containers in the seed's order, as many as request `load_` of the CPU.

    Raises `InvalidInput` if that is not even one.
    """
    order = np.random.default_rng([seed, 0]).permutation(len(data.app_of)).astype(np.int64)
    requested = np.cumsum(data.request[data.app_of[order], 0])
    count = int(np.searchsorted(requested, load_ * data.capacity[:, 0].sum(), side="right"))
    if count == 0:
        raise InvalidInput("--load", load_, "a load that the first container does not exceed")
    groups, machines = len(data.app_names), len(data.capacity)
    nodes = NodeArrays(
        capacity=data.capacity.copy(),
        requested=np.zeros_like(data.capacity),
        sums=np.zeros((machines, len(Sum)), np.int64),
        report=np.full((machines, len(ReportColumn)), np.nan),
        taints=np.zeros(machines, np.uint64),
        labels=np.zeros((machines, 1), np.uint64),
        ready=np.ones(machines, np.bool_),
        group_count=np.zeros((machines, groups), np.int64),
    )
    params = np.zeros((groups, len(Param)))
    params[:, Param.USE_CPU] = data.request[:, 0] / 1000.0
    params[:, Param.USE_MEMORY] = data.request[:, 1]
    params[:, Param.IS_SERVICE] = 1.0
    params[:, [Param.ALLOWANCE, Param.LOAD_LIMIT, Param.DURATION]] = np.inf
    shapes = ShapeArrays(
        request=data.request,
        sums=np.zeros((groups, len(Sum)), np.int64),
        params=params,
        tolerated=np.zeros(groups, np.uint64),
        selector=np.zeros((groups, 1), np.uint64),
        tenant=np.arange(groups, dtype=np.int64),
        group=np.arange(groups, dtype=np.int64),
        group_limit=data.rules.limit,
    )
    return TianchiWorld(nodes, shapes, order, count)


def _file(folder: Path, stem: str) -> Path:
    found = table_file(folder, stem)
    if found is None:
        raise InvalidInput("--traces", str(folder), f"a file {stem}{IN_WORDS} in it")
    return found


def _refer(frame: pl.DataFrame, index: pl.DataFrame, columns: tuple[str, ...]) -> tuple[pl.DataFrame, int]:
    """Replace names of applications by their numbers; rows with unknown names are dropped and counted."""
    for column in columns:
        named = index.rename({"app": column, "group": "__group"})
        frame = frame.join(named, on=column, how="left", maintain_order="left").drop(column).rename({"__group": column})
    good = frame.drop_nulls(columns)
    if good.height == 0:
        raise InvalidInput(
            "--traces", "no row", "rows with applications of app_resources", "the files do not belong together"
        )
    return good, frame.height - good.height


def _lost(what: str, count: int) -> list[str]:
    return [f"dropped {count:,} {what}"] if count else []


def _capacity(machines: pl.DataFrame) -> Int:
    """The first machines of each kind, the kinds from small to large: `int64[N, 4]`."""
    columns = ["cpu", "mem", "disk"]
    rows = machines.select(columns).to_numpy()
    kinds, kind = np.unique(rows, axis=0, return_inverse=True)
    chosen = [np.flatnonzero(kind.ravel() == i)[:MACHINES_OF_A_KIND] for i in range(len(kinds))]
    short = [i for i, found in enumerate(chosen) if len(found) < MACHINES_OF_A_KIND]
    if len(kinds) != 2 or short:
        counted = ", ".join(f"{np.sum(kind.ravel() == i):,} of {kinds[i, 0]:g} cores" for i in range(len(kinds)))
        raise InvalidInput(
            "machine_resources", counted, f"two kinds of machines, at least {MACHINES_OF_A_KIND} of each"
        )
    picked = rows[np.concatenate(chosen)]
    capacity = np.full((len(picked), len(RESOURCES)), MAX_PODS, np.int64)
    capacity[:, 0] = np.floor(picked[:, 0] * 1000.0)
    capacity[:, 1] = np.floor(picked[:, 1] * GIB)
    capacity[:, DISK] = np.floor(picked[:, 2] * GIB)
    return capacity

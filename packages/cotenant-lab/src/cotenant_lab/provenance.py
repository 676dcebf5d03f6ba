"""The origin of figures: versions, machine, and the command that reproduces them."""

from __future__ import annotations

import os
import platform
import shlex
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import msgspec

from cotenant import __version__
from cotenant.model.errors import InvalidInput
from cotenant_lab import storage
from cotenant_lab.contract import RunSpec
from cotenant_lab.environment import libraries
from cotenant_lab.experiment import ExperimentPlan


@dataclass(frozen=True, slots=True)
class Provenance:
    """The origin of a set of figures."""

    command: str
    cotenant: str
    sources: str  # digest of the sources that produce results
    python: str
    libraries: tuple[str, ...]  # "numpy 2.4.0"
    machine: str
    cores: int
    jobs: int  # parallel runs
    cluster: str = ""  # where the runs were made, if elsewhere: "ray://head:10001: 3 nodes, 16 CPUs"


def provenance(arguments: Sequence[str], jobs: int, cluster: str = "") -> Provenance:
    """Describe this process, the command line `arguments` (without the program's name), and the cluster that runs
    are made on.
    """
    return Provenance(
        command=shlex.join(("cotenant", *arguments)),
        cotenant=__version__,
        sources=storage.code_digest(),
        python=platform.python_version(),
        libraries=libraries(),
        machine=_processor(),
        cores=len(os.sched_getaffinity(0)),
        jobs=jobs,
        cluster=cluster,
    )


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


class _Experiment(msgspec.Struct):
    """The content of `experiment.json`: enough to repeat any of its runs."""

    workload: str
    ours: str
    policies: tuple[str, ...]
    seeds: tuple[int, ...]
    loads: tuple[float, ...]
    interference: float
    estimate_error: float
    node_qos: bool
    failures: bool
    traces: str | None
    file: str | None
    overrides: tuple[tuple[str, str, float], ...]
    provenance: dict[str, object]
    pressure_law: str = "linear"  # absent in folders of earlier versions
    declared_profiles: bool = True  # likewise


def save_experiment(folder: Path, plan: ExperimentPlan, ours: str, origin: Provenance) -> None:
    """Write `experiment.json` before the runs start."""
    base = storage.absolute(plan.base)
    shared = {field.name: getattr(base, field.name) for field in fields(RunSpec)}
    shared |= {"traces": str(base.traces) if base.traces else None, "file": str(base.file) if base.file else None}
    shared |= {"ours": ours, "policies": plan.policies, "seeds": plan.seeds, "loads": plan.loads}
    shared |= {"overrides": plan.overrides, "provenance": asdict(origin)}
    storage.write_json(folder / storage.EXPERIMENT, {key: shared[key] for key in _Experiment.__struct_fields__})


@dataclass(frozen=True, slots=True)
class StoredExperiment:
    """The origin of a folder: the plan, the name of our policy in it, and the digest of the sources."""

    plan: ExperimentPlan
    ours: str
    sources: str


def load_experiment(folder: Path) -> StoredExperiment:
    """The experiment stored in a folder. Raises `InvalidInput` if the folder has none."""
    path = folder / storage.EXPERIMENT
    try:
        stored = msgspec.json.decode(path.read_bytes(), type=_Experiment)
    except (OSError, msgspec.MsgspecError) as error:
        hint = f"it has no readable {storage.EXPERIMENT}"
        raise InvalidInput("RUN", str(folder), "the --out folder of `cotenant lab compare`", hint) from error
    base = RunSpec(
        workload=stored.workload,
        policy="",
        seed=0,
        load=0.0,
        interference=stored.interference,
        pressure_law=stored.pressure_law,
        declared_profiles=stored.declared_profiles,
        estimate_error=stored.estimate_error,
        node_qos=stored.node_qos,
        failures=stored.failures,
        traces=Path(stored.traces) if stored.traces else None,
        file=Path(stored.file) if stored.file else None,
    )
    plan = ExperimentPlan(base, stored.policies, stored.seeds, stored.loads, stored.overrides)
    return StoredExperiment(plan, stored.ours, str(stored.provenance.get("sources", "")))

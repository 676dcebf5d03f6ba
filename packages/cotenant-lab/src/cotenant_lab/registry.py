"""The registry of workloads, without loading them.

A listing must be quick, but a scenario's module compiles kernels and reads traces. One line per workload here, and the
module is imported when used; each such module has `SCENARIOS`, a tuple of objects that implement `Scenario`. Further
modules are named by `COTENANT_SCENARIOS` (comma separated, importable), so a scenario can live outside this package.
Limits: those modules are imported for a listing.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module

from cotenant.model.errors import InvalidInput
from cotenant_lab.contract import Scenario

EXTRA = "COTENANT_SCENARIOS"


@dataclass(frozen=True, slots=True)
class RegisteredWorkload:
    """A registered workload. `loads` is the default sweep; empty = the scenario's own load. `reads_traces`: whether
    `--traces` can change its figures.
    """

    name: str
    summary: str
    module: str
    needs_traces: bool = False
    variants: str = ""  # placeholder for what may follow the name after a colon
    loads: tuple[float, ...] = ()
    reads_traces: bool = True


BUILT_IN: tuple[RegisteredWorkload, ...] = (
    RegisteredWorkload(
        "founding",
        "20,000 pods, services and batch, on 249 nodes at 77 % of CPU requested: the founding comparison",
        "cotenant_lab.scenarios.colocation",
        reads_traces=False,
    ),
    RegisteredWorkload(
        "colocation",
        "the same world over a sweep of loads: the largest load of each policy at <= 1 % violation of either class",
        "cotenant_lab.scenarios.colocation",
        loads=(0.70, 0.75, 0.80, 0.85, 0.90, 0.95),
        reads_traces=False,
    ),
    RegisteredWorkload(
        "replay",
        "an imported trace in the co-located world: its arrivals, sizes and usage; what it does not record is drawn",
        "cotenant_lab.scenarios.colocation",
        needs_traces=True,
    ),
    RegisteredWorkload(
        "takeover",
        "a cluster packed by best-fit, taken over at hour 2: how fast moves repair it, and how many they are",
        "cotenant_lab.scenarios.takeover",
        reads_traces=False,
    ),
    RegisteredWorkload(
        "openb",
        "GPU sharing: Alibaba's openb pods arriving up to 130 % on 1,213 nodes",
        "cotenant_lab.scenarios.openb",
        needs_traces=True,
        variants="LIST",
    ),
    RegisteredWorkload(
        "tianchi",
        "real containers with day curves and anti-affinity, arriving until the machines are full",
        "cotenant_lab.scenarios.tianchi",
        needs_traces=True,
    ),
    RegisteredWorkload(
        "dag",
        "DAG jobs with deadlines, real with --traces: stages wait for their parents; tuning or held-out: one half of "
        "the jobs",
        "cotenant_lab.scenarios.dag",
        variants="JOBS",
    ),
    RegisteredWorkload(
        "training",
        "jobs of 1 to 64 pods of eight teams on 192 GPUs, by the cluster's own engine: gangs, quotas, racks, devices",
        "cotenant_lab.scenarios.training",
        reads_traces=False,
    ),
)


def entries(environment: Mapping[str, str] = os.environ) -> tuple[RegisteredWorkload, ...]:
    """Every workload, the built-in ones first."""
    found = list(BUILT_IN)
    for module in filter(None, (part.strip() for part in environment.get(EXTRA, "").split(","))):
        found += [RegisteredWorkload(scenario.name, scenario.summary, module) for scenario in _scenarios(module, EXTRA)]
    return tuple(found)


def entry(workload: str) -> RegisteredWorkload:
    """The entry that `workload` (`NAME` or `NAME:VARIANT`) names. Raises `InvalidInput` with the closest names."""
    known = entries()
    name, _, variant = workload.partition(":")
    for element in known:
        if element.name == name:
            if variant and not element.variants:
                raise InvalidInput("--workload", workload, f"{name} without ':{variant}'", "it has no variants")
            return element
    names = [element.name for element in known]
    close = get_close_matches(name, names, n=2, cutoff=0.5)
    hint = f"did you mean {' or '.join(close)}?" if close else "`cotenant lab workloads` lists them"
    raise InvalidInput("--workload", workload, f"{', '.join(names)} or a .yaml file", hint)


def scenario(workload: str) -> Scenario:
    """Load the scenario that `workload` names. Raises `InvalidInput` if it is unknown or cannot be loaded."""
    found = entry(workload)
    for element in _scenarios(found.module, "--workload"):
        if element.name in (found.name, workload):
            return element
    raise InvalidInput("--workload", workload, f"a scenario of that name in {found.module}")


def _scenarios(module: str, field: str) -> tuple[Scenario, ...]:
    try:
        loaded = import_module(module)
    except ModuleNotFoundError as error:
        missing = error.name or module
        hint = "" if module.startswith(missing) else "install it with: pip install 'cotenant-lab[compare]'"
        raise InvalidInput(field, module, f"an importable module ({missing} was not found)", hint) from error
    found = getattr(loaded, "SCENARIOS", None)
    if not isinstance(found, tuple):
        raise InvalidInput(field, module, "a module with SCENARIOS, a tuple of scenarios")
    return found

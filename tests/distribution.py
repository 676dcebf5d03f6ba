"""How the suite is divided among pytest-xdist's workers.

Problem: `--dist loadscope` starts the modules with the most cases first, so a module of one long case may start last and keep one worker busy alone; and
it spreads folders whose modules share one expensive thing (a cluster, an emulated machine) over all workers, each of which then makes or awaits its own.
Choice: a unit of work is a module, or a whole folder of `TOGETHER`; units start in the order of `LONGEST`, the rest after them in the order of collection.
Limits: `LONGEST` is kept by hand from `--durations`; a wrong order costs time, never a result.
"""

from __future__ import annotations

from typing import Any

import pytest

# Folders whose modules share what is made once a session.
TOGETHER = ("tests/node/guest", "tests/e2e")
# Units that take more than five seconds, the longest first.
LONGEST = (
    "tests/node/guest",
    "tests/e2e",
    "tests/browser/test_console.py",
    "tests/node/test_experiments.py",
    "tests/unit/test_bench.py",
    "tests/fault/up/test_schedulers.py",
    "tests/fault/up/test_ends.py",
    "tests/property/groups/test_gangs_preempted.py",
    "tests/fault/keeper/test_kill.py",
    "tests/lab/test_colocation.py",
    "tests/unit/contributing/test_contributing.py",
    "tests/node/test_agent.py",
    "tests/lab/test_openb.py",
    "tests/property/node/test_agent.py",
    "tests/lab/test_dag.py",
    "tests/property/node/test_antagonist.py",
    "tests/fault/up/test_refused.py",
    "tests/lab/test_tianchi.py",
    "tests/lab/test_plant.py",
    "tests/fault/up/test_children.py",
    "tests/property/node/test_same_in_both_worlds.py",
    "tests/property/placement/test_why.py",
    "tests/unit/engine/test_churn.py",
    "tests/property/groups/test_quota.py",
    "tests/conformance/test_runner.py",
    "tests/property/placement/test_verdict_cache.py",
    "tests/node/test_keeper_kill.py",
    "tests/node/test_agent_hardware.py",
    "tests/property/node/test_node_cpu.py",
    "tests/property/placement/test_compiled_placement.py",
    "tests/property/node/test_agent_and_keeper.py",
    "tests/property/node/test_leases.py",
)
_RANK = {unit: rank for rank, unit in enumerate(LONGEST)}


def unit(node_id: str) -> str:
    """The unit of work that a case belongs to."""
    module = node_id.partition("::")[0]
    return next((folder for folder in TOGETHER if module.startswith(folder + "/")), module)


def sort(items: list[pytest.Item]) -> None:
    """Put the longest units first; the order inside a unit stays."""
    items.sort(key=lambda item: _RANK.get(unit(item.nodeid), len(_RANK)))


def scheduler(config: pytest.Config, log: Any) -> Any:
    """A scheduler for `--dist loadscope` whose scopes are units, taken in the order in which the workers collected them."""
    from xdist.scheduler import LoadScopeScheduling

    class UnitScheduling(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return unit(nodeid)

    config.option.loadscopereorder = False
    return UnitScheduling(config, log)

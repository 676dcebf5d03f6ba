"""An application of `examples/` under the loop, and the trace process that judges it.

The loop is the same whatever serves: groups of its own on the plant's core, a load, an objective, a trace process on
the load's core. What differs is in one value: its processes, a request, and where its objective is counted from.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import msgspec

from cotenant.model.errors import Permanent
from cotenant.model.json_object import JsonMapping, JsonObject
from cotenant_lab.experiments.site.site import OWN, Site, SiteProcess

EXAMPLES = Path(__file__).parents[6] / "examples"
NAMESPACE = "experiment"  # of the pods, as the agent calls the experiment's groups
_TRACES_S = 180.0  # its kernels may have to be compiled


@dataclass(frozen=True, slots=True)
class RunningApplication:
    """It runs. `traces`: URL of the trace process."""

    port: int
    traces: str


@dataclass(frozen=True, slots=True)
class SiteApplication:
    """What an experiment needs to know of it."""

    services: tuple[str, ...]
    frontend: str  # the one that has the objective
    path: str  # of a request; {} is a number
    objective: str  # namespace/name; the one that is judged
    note: str  # what its objective is of
    check: Callable[[], None]  # raises `Unsupported` where it cannot run
    start: Callable[
        [Site], RunningApplication
    ]  # each service in a group of its own; spans go to a port that nothing serves yet
    start_traces: Callable[
        [Site, RunningApplication, float, str], SiteProcess
    ]  # with a threshold in ms, as the load sees it; a target
    beside: tuple[str, ...] = ()  # further objectives of the frontend, whose burn is shown


def serve_traces(
    site: Site, running: RunningApplication, objectives: Mapping[str, JsonMapping], more: Sequence[str] = ()
) -> SiteProcess:
    """Start the trace process with these specs by objective."""
    file = site.scratch / "objectives.yaml"
    file.write_bytes(b"---\n".join(_manifest(name, spec) for name, spec in objectives.items()))
    address = running.traces.removeprefix("http://")
    command = [sys.executable, "-m", "cotenant", "traces", "--http", address, "--grpc", "", "--objectives", str(file)]
    child = site.start(OWN, [*command, *more], "traces")
    site.wait_for("the trace process", lambda: answers(f"{running.traces}/readyz"), _TRACES_S)
    return child


def _manifest(objective: str, spec: JsonMapping) -> bytes:
    namespace, _, name = objective.partition("/")
    manifest = {
        "apiVersion": "slo.cotenant.io/v1alpha1",
        "kind": "ServiceObjective",
        "metadata": {"namespace": namespace, "name": name},
        "spec": spec,
    }
    return msgspec.yaml.encode(manifest)


def objective_of(running: RunningApplication, objective: str) -> JsonObject:
    """The objective as the trace process has it. Raises `Permanent`."""
    try:
        with urlopen(f"{running.traces}/api/v1/objectives/{objective}", timeout=5) as answer:
            found = msgspec.json.decode(answer.read())
    except (URLError, OSError, msgspec.DecodeError) as error:
        raise Permanent(f"the trace process does not answer: {error}") from error
    if not isinstance(found, dict):
        raise Permanent("the trace process answered something else")
    return found


def answers(url: str) -> bool:
    """Whether a process answers there with 200."""
    try:
        with urlopen(url, timeout=1) as answer:
            return bool(answer.status == 200)
    except (URLError, OSError):
        return False

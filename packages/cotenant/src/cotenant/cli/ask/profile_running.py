"""`cotenant profile run`: arguments are checked, the replica found, the ladder run, the result printed and stored.

Everything that can be wrong must be one line before a load starts. Checks first (arguments, the cluster's object where
the result is to be stored, the replica, root and cgroups), then the run.
Limits: one replica a run.
"""

from __future__ import annotations

import platform
import sys
from dataclasses import dataclass, field
from datetime import UTC, datetime
from math import isfinite
from pathlib import Path

from cotenant.cli.ask import profile_showing
from cotenant.cli.interrupted import Interrupted
from cotenant.cli.traces import asking
from cotenant.drivers.kube.kinds.custom.workload_profile import USUAL_KIND
from cotenant.model.cluster.workload_profile import ProfileAxis, WorkloadProfile, WorkloadRef
from cotenant.model.errors import InvalidInput, Permanent, Transient, Unsupported
from cotenant.services.clients.agent import AgentClient
from cotenant.services.profiling import radar
from cotenant.services.profiling.cluster import ProfileClient, split
from cotenant.services.profiling.ladder import MEASURED, Ladder, LadderResult, climb
from cotenant.services.profiling.machine import open_machine
from cotenant.services.profiling.signals import LatencyFile, ObjectiveSignal, ProfiledSignal

ABORTED, NOT_HERE = 1, 2
_SLACK_S = 60.0


@dataclass(frozen=True, slots=True)
class RunRequest:
    """The command's arguments."""

    profile: str
    group: str = ""
    agent: str = ""
    objective: str = ""
    traces: str = ""
    latency_file: Path | None = None
    objective_ms: float | None = None
    axes: str = ""
    levels: int = 4
    windows: int = 4
    memory_mib: int = 256
    abort_factor: float = 2.0
    abort_ratio: float = 10.0
    store: bool = False
    radar: Path | None = None
    kubeconfig: Path | None = field(default=None)
    context: str = ""


def run(request: RunRequest, as_json: bool) -> int:
    """Measure; 1 where the run was aborted, 2 where it is not possible here. Raises `InvalidInput`."""
    namespace, name = split(request.profile)
    ladder = Ladder(_axes(request.axes), request.levels, request.windows, request.abort_factor, request.abort_ratio)
    if not 1 <= request.memory_mib <= 65_536:
        raise InvalidInput("--memory-mib", request.memory_mib, "1 to 65536")
    if request.radar is not None:
        radar.check_form(request.radar)
    _check_signal(request)
    client = ProfileClient(request.kubeconfig, request.context)
    profile = (
        client.one(request.profile)
        if request.store
        else WorkloadProfile(request.profile, WorkloadRef(USUAL_KIND, name))
    )
    group, pod = _replica(request, namespace, name, profile)
    signal = _signal(request, pod)
    seconds = ladder.windows * (signal.window_s if signal is not None else 1.0)
    try:
        with open_machine(group, signal, seconds + _SLACK_S, request.memory_mib) as machine:
            report = _quiet if as_json else _progress
            report(f"signal {machine.signal} of /{group.strip('/')}; Ctrl-C ends the run and its loads")
            result = climb(machine, ladder, report)
            measured = machine.signal
    except Unsupported as error:
        print("cotenant:", error, file=sys.stderr)
        return NOT_HERE
    except KeyboardInterrupt as error:
        raise Interrupted("interrupted; the loads are removed") from error
    return _finish(request, client, profile, result, measured, as_json)


def _finish(
    request: RunRequest,
    client: ProfileClient,
    profile: WorkloadProfile,
    result: LadderResult,
    signal: str,
    as_json: bool,
) -> int:
    at = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    shown = WorkloadProfile(
        profile.key,
        profile.workload,
        learned=profile.learned,
        learned_overall=profile.learned_overall,
        declared=profile.declared,
        declared_overall=profile.declared_overall,
        measured=result.axes,
        measured_on=platform.node(),
        measured_at=at,
    )
    if request.radar is not None:
        radar.write(request.radar, [shown])
    if request.store:
        client.store(profile, result, signal, platform.node(), at)
    if as_json:
        found = profile_showing.fields(shown)
        found["measured"] = {
            "node": platform.node(),
            "at": at,
            "signal": signal,
            "aborted": result.aborted or None,
            "runs": {
                axis.value: [
                    {"level": step.level, "withoutLoad": _numbers(step.alone), "values": _numbers(step.values)}
                    for step in steps
                ]
                for axis, steps in result.steps.items()
            },
        }
        profile_showing.print_json(found)
    else:
        profile_showing.show([shown], None, False)
    return ABORTED if result.aborted else 0


def _numbers(values: tuple[float, ...]) -> list[float | None]:
    return [value if isfinite(value) else None for value in values]


def _axes(text: str) -> tuple[ProfileAxis, ...]:
    if not text:
        return MEASURED
    names = [part.strip() for part in text.split(",")]
    if wrong := [name for name in names if name not in set(ProfileAxis)]:
        raise InvalidInput("--axes", ", ".join(wrong), "some of " + ", ".join(MEASURED))
    return tuple(dict.fromkeys(ProfileAxis(name) for name in names))


def _check_signal(request: RunRequest) -> None:
    if request.latency_file is not None and request.objective:
        raise InvalidInput("--latency-file", str(request.latency_file), "no --objective beside it")
    if request.objective_ms is not None and (
        request.latency_file is None or not (isfinite(request.objective_ms) and request.objective_ms > 0)
    ):
        raise InvalidInput("--objective-ms", request.objective_ms, "milliseconds above 0, with --latency-file")


def _signal(request: RunRequest, pod: str) -> ProfiledSignal | None:
    if request.latency_file is not None:
        return LatencyFile(request.latency_file, request.objective_ms)
    if request.objective:
        return ObjectiveSignal(asking.client(request.traces, None, None), request.objective, pod)
    return None


def _replica(request: RunRequest, namespace: str, name: str, profile: WorkloadProfile) -> tuple[str, str]:
    """The group of a replica, and its pod as the agent knows it."""
    if request.group:
        return request.group, ""
    workload = profile.workload.name or name
    try:
        state = AgentClient(request.agent).get("/v1/state")
    except (Transient, Permanent) as error:
        raise InvalidInput(
            "--group", "", "the cgroup of a replica", f"the agent cannot be asked for one: {error}"
        ) from error
    for entry in state.get("pods", ()):
        owner, _, pod = entry["pod"].partition("/")
        if owner == namespace and (pod == workload or pod.startswith(f"{workload}-")):
            return entry["group"], entry["pod"]
    raise InvalidInput("PROFILE", request.profile, "a workload with a replica on this machine", "--group names one")


def _progress(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _quiet(line: str) -> None:
    del line

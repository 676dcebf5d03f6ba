"""What a simulated pod really does: read from its annotations, or assumed for an ordinary one.

Problem: a manifest says what a pod asks for, not what it uses, how long it runs or how a neighbour hurts it. Choice: one JSON annotation
(`cotenant.io/simulated`) with the lab's terms, written by `--workload`; two plain ones for anybody's pods (`cotenant.io/run-seconds`,
`cotenant.io/exit-code`). A pod without any is a quiet service: it uses a third of the CPU and half of the memory that it requests, is
moderately sensitive, has no objective and never ends. Limits: an annotation that cannot be read is ignored and counted, because a node has nobody
to refuse it to; schedulers never read these.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, isfinite

import msgspec

from cotenant.local.controllers.views.core import Pod
from cotenant.model.cluster.annotations import EXIT_CODE, OBJECTIVE_P99_MS, RUN_SECONDS, SIMULATED, TENANT
from cotenant.model.errors import InvalidInput
from cotenant.model.resources import CPU_NAME, MEMORY_NAME, Amounts, ContainerAmounts, pod_requests

NO_OBJECTIVE = 1e9  # in service times: never missed
ORDINARY_CPU, ORDINARY_MEMORY = 1 / 3, 1 / 2
ORDINARY_SENSITIVITY, ORDINARY_PRESSURE = 0.25, 0.2  # the medians of lab/world/config.py
LEAST_CPU_MILLI, LEAST_MEMORY = 50, 64 << 20  # what a pod without requests uses at most


class Simulated(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The annotation `cotenant.io/simulated`; the fields of lab/world/truth.py, one pod's."""

    use_cores: float = 0.0  # batch: mean in use alone
    use_memory_bytes: int = 0
    sensitivity: float = 0.0
    pressure: float = 0.0
    duration_s: float = inf  # simulated seconds, alone on its node; absent = a service (JSON has no infinity)
    # a service only
    service: str = ""
    workers: int = 1
    peak_erlangs: float = 0.0  # of a replica
    replicas: int = 1  # that the peak is meant for: fewer or more replicas share the same load
    service_time_s: float = 0.005
    swing: float = 0.0  # the trough is 1 - swing of the peak
    phase: float = 0.0  # of a day


@dataclass(frozen=True, slots=True)
class Behaviour:
    """One pod's life on a node. Resources as requested; the rest is what it does."""

    cpu_milli: int
    memory_bytes: int
    tenant: str
    service: str  # "" = batch
    truth: Simulated
    objective: float  # of a service, in service times
    run_s: float  # simulated seconds alone, inf = for ever
    exit_code: int

    @property
    def is_service(self) -> bool:
        """Whether it answers requests; else it works."""
        return bool(self.service)


def requests_of(pod: Pod) -> Amounts:
    """What a pod asks of its node, as the scheduler counts it. Raises `InvalidInput`."""
    spec = pod.spec
    return pod_requests(
        [_amounts(c.resources.requests, c.resources.limits) for c in spec.containers],
        [
            _amounts(c.resources.requests, c.resources.limits, c.restart_policy == "Always")
            for c in spec.init_containers
        ],
        Amounts.parse(spec.overhead),
        Amounts.parse(spec.resources.requests),
    )


def _amounts(
    requests: dict[str, str | int | float], limits: dict[str, str | int | float], is_sidecar: bool = False
) -> ContainerAmounts:
    return ContainerAmounts(Amounts.parse(requests), Amounts.parse(limits), is_sidecar)


def behaviour_of(pod: Pod, requests: Amounts) -> tuple[Behaviour, bool]:
    """What the pod does, and whether its annotations could be read."""
    notes = pod.metadata.annotations
    cpu, memory = requests.get(CPU_NAME), requests.get(MEMORY_NAME)
    tenant = notes.get(TENANT) or pod.metadata.namespace
    readable = True
    try:
        run_s = _number(notes, RUN_SECONDS, inf)
        exit_code = int(_number(notes, EXIT_CODE, 0))
    except InvalidInput:
        run_s, exit_code, readable = inf, 0, False
    if SIMULATED in notes:
        try:
            truth = msgspec.json.decode(notes[SIMULATED], type=Simulated)
            service = truth.service
            objective_ms = _number(notes, OBJECTIVE_P99_MS, inf)
            _check(truth)
            objective = min(NO_OBJECTIVE, objective_ms / 1000.0 / truth.service_time_s)
            until = min(run_s, inf if service else truth.duration_s)
            return Behaviour(cpu, memory, tenant, service, truth, objective, until, exit_code), readable
        except (msgspec.DecodeError, InvalidInput):
            readable = False
    return Behaviour(cpu, memory, tenant, _owner(pod), _ordinary(cpu, memory), NO_OBJECTIVE, run_s, exit_code), readable


def _ordinary(cpu_milli: int, memory_bytes: int) -> Simulated:
    cores = max(cpu_milli, LEAST_CPU_MILLI) / 1000.0
    workers = max(1, min(128, round(cores)))
    return Simulated(
        use_cores=cores * ORDINARY_CPU,
        use_memory_bytes=int(max(memory_bytes, LEAST_MEMORY) * ORDINARY_MEMORY),
        sensitivity=ORDINARY_SENSITIVITY,
        pressure=ORDINARY_PRESSURE,
        workers=workers,
        peak_erlangs=min(cores, workers) * ORDINARY_CPU,
        replicas=0,  # each has a load of its own
    )


def _owner(pod: Pod) -> str:
    owner = pod.metadata.controller
    return f"{pod.metadata.namespace}/{owner.name if owner is not None else pod.metadata.name}"


def _number(notes: dict[str, str], name: str, otherwise: float) -> float:
    text = notes.get(name)
    if text is None:
        return otherwise
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not isfinite(value) or value < 0:
        raise InvalidInput(f"annotation {name}", text, "a number that is not negative")
    return value


def _check(truth: Simulated) -> None:
    for name in ("use_cores", "use_memory_bytes", "sensitivity", "pressure", "peak_erlangs"):
        value = getattr(truth, name)
        if not isfinite(value) or value < 0:
            raise InvalidInput(name, value, "a finite number that is not negative")
    if not 1 <= truth.workers <= 128 or not truth.service_time_s > 0 or not truth.duration_s > 0:
        raise InvalidInput("workers", truth.workers, "1 to 128, and positive times")
    if not 0 <= truth.swing <= 1:
        raise InvalidInput("swing", truth.swing, "0 to 1")

"""What a simulated pod actually does: read from its annotations, or assumed for an ordinary pod.

A manifest says what a pod requests, not what it uses, how long it runs or how neighbours slow it. One JSON annotation
(`cotenant.io/simulated`) with the lab's terms, written by `--workload`; two plain ones for any pod
(`cotenant.io/run-seconds`, `cotenant.io/exit-code`). A pod without any is a quiet service: it uses a third of the CPU
and half of the memory that it requests, is moderately sensitive, has no objective and never ends. Requests of batch
resources count as CPU and memory: the pod uses the same machine.
Limits: an annotation that cannot be parsed is ignored, because a node cannot reject it at admission, and its pod gets
an event that says so; schedulers never read these.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, isfinite

import msgspec

from cotenant.model.cluster.annotations import EXIT_CODE, OBJECTIVE_P99_MS, RUN_SECONDS, SIMULATED, TENANT
from cotenant.model.errors import InvalidInput
from cotenant.model.resources import (
    BATCH_CPU,
    BATCH_MEMORY,
    CPU_NAME,
    MEMORY_NAME,
    Amounts,
    ContainerAmounts,
    pod_requests,
)
from cotenant_local.controllers.views.pods import PodObjectView

NO_OBJECTIVE = 1e9  # in service times: never missed
ORDINARY_CPU, ORDINARY_MEMORY = 1 / 3, 1 / 2
ORDINARY_SENSITIVITY, ORDINARY_PRESSURE = 0.25, 0.2  # the medians of cotenant_lab/world/config.py
MIN_CPU_MILLI, MIN_MEMORY = 50, 64 << 20  # assumed requests of a pod without any


class SimulatedBehaviour(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The annotation `cotenant.io/simulated`; the fields of cotenant_lab/world/truth.py, one pod's."""

    use_cores: float = 0.0  # batch: mean in use alone
    use_memory_bytes: int = 0
    sensitivity: float = 0.0
    pressure: float = 0.0
    duration_s: float = inf  # simulated seconds, alone on its node; absent = a service (JSON has no infinity)
    # a service only
    service: str = ""
    workers: int = 1
    peak_erlangs: float = 0.0  # of a replica
    replicas: int = 1  # number the peak is calibrated for: fewer or more replicas share the same load
    service_time_s: float = 0.005
    swing: float = 0.0  # the trough is 1 - swing of the peak
    phase: float = 0.0  # of a day


@dataclass(frozen=True, slots=True)
class SimulatedPodBehaviour:
    """How one pod behaves on a node. Resources are as requested; the rest is actual behaviour."""

    cpu_milli: int
    memory_bytes: int
    tenant: str
    service: str  # "" = batch
    truth: SimulatedBehaviour
    objective: float  # of a service, in service times
    run_s: float  # simulated seconds alone on its node, inf = never ends
    exit_code: int

    @property
    def is_service(self) -> bool:
        """Whether the pod is a service; otherwise it is batch work."""
        return bool(self.service)


def requests_of(pod: PodObjectView) -> Amounts:
    """The pod's resource requests, as the scheduler computes them. Raises `InvalidInput`."""
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


def behaviour_of(pod: PodObjectView, requests: Amounts) -> tuple[SimulatedPodBehaviour, str]:
    """The pod's behaviour, and which annotation could not be parsed and why; "" = all were."""
    annotations = pod.metadata.annotations
    cpu = requests.get(CPU_NAME) + requests.get(BATCH_CPU)
    memory = requests.get(MEMORY_NAME) + requests.get(BATCH_MEMORY)
    tenant = annotations.get(TENANT) or pod.metadata.namespace
    wrong = ""
    try:
        run_s = _number(annotations, RUN_SECONDS, inf)
        exit_code = int(_number(annotations, EXIT_CODE, 0))
    except InvalidInput as error:
        run_s, exit_code, wrong = inf, 0, str(error)
    if SIMULATED in annotations:
        try:
            truth = msgspec.json.decode(annotations[SIMULATED], type=SimulatedBehaviour)
            service = truth.service
            objective_ms = _number(annotations, OBJECTIVE_P99_MS, inf)
            _check(truth)
            objective = min(NO_OBJECTIVE, objective_ms / 1000.0 / truth.service_time_s)
            until = min(run_s, inf if service else truth.duration_s)
            return SimulatedPodBehaviour(cpu, memory, tenant, service, truth, objective, until, exit_code), wrong
        except (msgspec.DecodeError, RecursionError, InvalidInput) as error:
            wrong = f"annotation {SIMULATED}: {error}"
    return SimulatedPodBehaviour(
        cpu, memory, tenant, _owner(pod), _ordinary(cpu, memory), NO_OBJECTIVE, run_s, exit_code
    ), wrong


def runs_forever(pod: PodObjectView, behaviour: SimulatedPodBehaviour) -> bool:
    """Whether a pod that does not restart (a Job's) will never end, because nothing says after how long."""
    spec = pod.spec
    limited = behaviour.run_s < inf or spec.active_deadline_seconds is not None
    return spec.restart_policy != "Always" and not limited and SIMULATED not in pod.metadata.annotations


def _ordinary(cpu_milli: int, memory_bytes: int) -> SimulatedBehaviour:
    cores = max(cpu_milli, MIN_CPU_MILLI) / 1000.0
    workers = max(1, min(128, round(cores)))
    return SimulatedBehaviour(
        use_cores=cores * ORDINARY_CPU,
        use_memory_bytes=int(max(memory_bytes, MIN_MEMORY) * ORDINARY_MEMORY),
        sensitivity=ORDINARY_SENSITIVITY,
        pressure=ORDINARY_PRESSURE,
        workers=workers,
        peak_erlangs=min(cores, workers) * ORDINARY_CPU,
        replicas=0,  # each replica has its own load
    )


def _owner(pod: PodObjectView) -> str:
    owner = pod.metadata.controller
    return f"{pod.metadata.namespace}/{owner.name if owner is not None else pod.metadata.name}"


def _number(annotations: dict[str, str], name: str, otherwise: float) -> float:
    text = annotations.get(name)
    if text is None:
        return otherwise
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not isfinite(value) or value < 0:
        raise InvalidInput(f"annotation {name}", text, "a number that is not negative")
    return value


def _check(truth: SimulatedBehaviour) -> None:
    for name in ("use_cores", "use_memory_bytes", "sensitivity", "pressure", "peak_erlangs"):
        value = getattr(truth, name)
        if not isfinite(value) or value < 0:
            raise InvalidInput(name, value, "a finite number that is not negative")
    if not 1 <= truth.workers <= 128 or not truth.service_time_s > 0 or not truth.duration_s > 0:
        raise InvalidInput("workers", truth.workers, "1 to 128, and positive times")
    if not 0 <= truth.swing <= 1:
        raise InvalidInput("swing", truth.swing, "0 to 1")

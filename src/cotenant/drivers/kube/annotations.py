"""The labels and annotations by which a user tells Cotenant about a pod. This table is the one place that defines them.

| name | on | value |
| --- | --- | --- |
| `cotenant.io/tenant` | label of a pod | whom its use is charged to; absent = its namespace |
| `cotenant.io/objective-p99-ms` | annotation of a pod | latency objective of a service: the 99th percentile, in milliseconds, above 0 |
| `cotenant.io/estimate` | annotation of a pod | what it is expected to do, as JSON (`EstimateForm`) |

Classes and priorities are said with Koordinator's labels (model/labels.py). A value that cannot be read is named on the pod and the pod is not
placed: a misspelt objective must not pass for none.
"""

from __future__ import annotations

from math import inf

import msgspec

from cotenant.model.errors import InvalidInput
from cotenant.model.pod import Estimate
from cotenant.model.quantities import milli, whole

TENANT = "cotenant.io/tenant"
OBJECTIVE_P99_MS = "cotenant.io/objective-p99-ms"
ESTIMATE = "cotenant.io/estimate"


class EstimateForm(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel", omit_defaults=True):
    """`{"cpu": "1500m", "memory": "2Gi", "sensitivity": 0.8, "pressure": 0.2, "allowance": 0.5, "durationSeconds": 60}`

    `cpu` and `memory`: expected use, as quantities. `sensitivity`, `pressure`, `allowance`: see model/pod.py `Estimate`; no allowance = any
    slowdown is tolerated. `durationSeconds`: alone on a node; absent = a service.
    """

    cpu: str
    memory: str
    sensitivity: float = 0.0
    pressure: float = 0.0
    allowance: float | None = None
    duration_seconds: float | None = None


_FORM = msgspec.json.Decoder(EstimateForm)


def parse_objective(text: str) -> float:
    """Milliseconds. `InvalidInput` names the annotation."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 < value < inf:
        raise InvalidInput(OBJECTIVE_P99_MS, text, "milliseconds above 0")
    return value


def parse_estimate(text: str) -> Estimate:
    """The annotation's value as the model has it. `InvalidInput` names the annotation and the field."""
    try:
        form = _FORM.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidInput(ESTIMATE, text, "an estimate as JSON", str(error)) from None
    return Estimate(
        use_cpu_cores=milli(form.cpu, f"{ESTIMATE}.cpu") / 1000.0,
        use_memory_bytes=whole(form.memory, f"{ESTIMATE}.memory"),
        sensitivity=form.sensitivity,
        pressure=form.pressure,
        allowance=inf if form.allowance is None else form.allowance,
        duration_s=inf if form.duration_seconds is None else form.duration_seconds,
    )


def write_estimate(estimate: Estimate) -> str:
    """The annotation's value: the inverse of `parse_estimate` up to a milli-CPU."""
    form = EstimateForm(
        cpu=f"{round(estimate.use_cpu_cores * 1000)}m",
        memory=str(estimate.use_memory_bytes),
        sensitivity=estimate.sensitivity,
        pressure=estimate.pressure,
        allowance=None if estimate.allowance == inf else estimate.allowance,
        duration_seconds=None if estimate.duration_s == inf else estimate.duration_s,
    )
    return msgspec.json.encode(form).decode()

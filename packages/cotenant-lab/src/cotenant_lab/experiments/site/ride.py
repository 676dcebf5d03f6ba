"""The ride service (`examples/ride`) in groups of its own, and the trace process that it sends spans to.

The loop from spans to a recovery must be shown on an application that knows nothing of it. The example's own commands,
each process in its group on the plant's core, instrumented by the OpenTelemetry SDK; the trace process runs on the
load's core with a file of one objective.
Limits: a checkout of the repository, and the extra `ride` (the SDK and its exporter).
"""

from __future__ import annotations

import importlib.util
import sys
from dataclasses import dataclass
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import msgspec

from cotenant.drivers.http.ports import free_port
from cotenant.model.errors import Permanent, Unsupported
from cotenant.model.json_object import JsonObject
from cotenant_lab.experiments.site.site import OWN, Child, Site, in_plant

FOLDER = Path(__file__).parents[6] / "examples" / "ride"
SERVICES = ("customers", "drivers", "route", "driver", "customer", "frontend")
NAMESPACE = "experiment"  # of the pods, as the agent calls the experiment's groups
OBJECTIVE = "ride/dispatch"
_READY_S = 60.0
_TRACES_S = 180.0  # its kernels may have to be compiled


@dataclass(frozen=True, slots=True)
class Ride:
    """The running service. `traces`: URL of the trace process."""

    port: int
    traces: str


def check() -> None:
    """Raises `Unsupported` where the service cannot run."""
    if not (FOLDER / "frontend.py").exists():
        raise Unsupported("the loop experiment", "a checkout of the repository, for examples/ride")
    for module in ("opentelemetry.sdk", "opentelemetry.exporter"):
        try:
            found = importlib.util.find_spec(module)
        except ModuleNotFoundError:
            found = None
        if found is None:
            raise Unsupported("the loop experiment", "the OpenTelemetry SDK: pip install 'cotenant[traces,ride]'")


def start(site: Site) -> Ride:
    """Start the stores and services in groups of their own, and wait for the frontend. Spans go to a port that
    nothing serves yet.
    """
    first, traces = free_port(), free_port()
    ports = {name: free_port() for name in SERVICES}
    ports["frontend"] = first
    site.make_plant(*SERVICES)
    at = {name: f"127.0.0.1:{port}" for name, port in ports.items()}
    words = {
        "customers": ["store.py", "customers", at["customers"]],
        "drivers": ["store.py", "drivers", at["drivers"]],
        "route": ["route.py", at["route"]],
        "driver": ["driver.py", at["driver"], at["drivers"]],
        "customer": ["customer.py", at["customer"], at["customers"]],
        "frontend": ["frontend.py", at["frontend"], at["customer"], at["driver"], at["route"]],
    }
    url = f"http://127.0.0.1:{traces}"
    for name in SERVICES:
        settings = [f"OTEL_EXPORTER_OTLP_ENDPOINT={url}", f"POD_NAME={name}", f"POD_NAMESPACE={NAMESPACE}"]
        command = ["env", *settings, sys.executable, str(FOLDER / words[name][0]), *words[name][1:]]
        site.start(in_plant(name), command, name)
    site.wait_for("the frontend", lambda: _answers(f"http://127.0.0.1:{first}/ready"), _READY_S)
    return Ride(first, url)


def start_traces(site: Site, ride: Ride, threshold_ms: float, target: str) -> Child:
    """Start the trace process with one objective of the frontend."""
    spec = {
        "service": {"name": "frontend", "operation": "GET /dispatch"},
        "indicator": {"latency": {"below": f"{round(threshold_ms * 1000)}us"}},
        "target": target,
        "protect": {"maxAction": "idle"},
    }
    namespace, _, name = OBJECTIVE.partition("/")
    manifest = {
        "apiVersion": "slo.cotenant.io/v1alpha1",
        "kind": "ServiceObjective",
        "metadata": {"namespace": namespace, "name": name},
        "spec": spec,
    }
    file = site.scratch / "objectives.yaml"
    file.write_bytes(msgspec.yaml.encode(manifest))
    address = ride.traces.removeprefix("http://")
    command = [sys.executable, "-m", "cotenant", "traces", "--http", address, "--grpc", "", "--objectives", str(file)]
    child = site.start(OWN, command, "traces")
    site.wait_for("the trace process", lambda: _answers(f"{ride.traces}/readyz"), _TRACES_S)
    return child


def objective(ride: Ride) -> JsonObject:
    """The objective as the trace process has it. Raises `Permanent`."""
    try:
        with urlopen(f"{ride.traces}/api/v1/objectives/{OBJECTIVE}", timeout=5) as answer:
            found = msgspec.json.decode(answer.read())
    except (URLError, OSError, msgspec.DecodeError) as error:
        raise Permanent(f"the trace process does not answer: {error}") from error
    if not isinstance(found, dict):
        raise Permanent("the trace process answered something else")
    return found


def _answers(url: str) -> bool:
    try:
        with urlopen(url, timeout=1) as answer:
            return bool(answer.status == 200)
    except (URLError, OSError):
        return False

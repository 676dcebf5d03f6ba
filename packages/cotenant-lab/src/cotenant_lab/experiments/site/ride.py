"""The ride service (`examples/ride`) in groups of its own, and the trace process that it sends spans to.

The loop from spans to a recovery must be shown on an application that knows nothing of it. The example's own commands,
each process in its group on the plant's core, instrumented by the OpenTelemetry SDK; the trace process runs on the
load's core with a file of one objective.
Limits: a checkout of the repository, and the extra `ride` (the SDK and its exporter).
"""

from __future__ import annotations

import importlib.util
import sys

from cotenant.drivers.http.ports import free_port
from cotenant.model.errors import Unsupported
from cotenant_lab.experiments.site.application import (
    EXAMPLES,
    NAMESPACE,
    RunningApplication,
    SiteApplication,
    answers,
    serve_traces,
)
from cotenant_lab.experiments.site.site import Site, SiteProcess, in_plant

FOLDER = EXAMPLES / "ride"
SERVICES = ("customers", "drivers", "route", "driver", "customer", "frontend")
OBJECTIVE = "ride/dispatch"
_READY_S = 60.0


def _check() -> None:
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


def _start(site: Site) -> RunningApplication:
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
    site.wait_for("the frontend", lambda: answers(f"http://127.0.0.1:{first}/ready"), _READY_S)
    return RunningApplication(first, url)


def _start_traces(site: Site, running: RunningApplication, threshold_ms: float, target: str) -> SiteProcess:
    """One objective of the frontend."""
    spec = {
        "service": {"name": "frontend", "operation": "GET /dispatch"},
        "indicator": {"latency": {"below": f"{round(threshold_ms * 1000)}us"}},
        "target": target,
        "protect": {"maxAction": "idle"},
    }
    return serve_traces(site, running, {OBJECTIVE: spec})


RIDE = SiteApplication(
    services=SERVICES,
    frontend="frontend",
    path="/dispatch?customer={}",
    objective=OBJECTIVE,
    note="Six processes in six groups on one core. The objective is of the latency of the frontend's spans",
    check=_check,
    start=_start,
    start_traces=_start_traces,
)

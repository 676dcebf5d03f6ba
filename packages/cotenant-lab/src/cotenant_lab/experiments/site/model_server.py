"""The stand-in for a model server (`examples/llm`) in a group of its own, judged by its time to first token; the time
per output token has an objective beside.

Objectives are counted from /metrics, so a limit has to be an edge of its histogram: the first one that is at least
`MARGIN` times the 99th percentile alone, which is itself known to an edge.
Limits: a checkout of the repository.
"""

from __future__ import annotations

import sys
from urllib.error import URLError
from urllib.request import urlopen

import msgspec

from cotenant.drivers.http.ports import free_port
from cotenant.drivers.modelserver.exposition import read_exposition
from cotenant.model.errors import Permanent, Unsupported
from cotenant.model.traces.model_server import ModelMeasure, ServerHistogram
from cotenant_lab.experiments.site.application import (
    EXAMPLES,
    NAMESPACE,
    RunningApplication,
    SiteApplication,
    answers,
    serve_traces,
)
from cotenant_lab.experiments.site.site import Site, SiteProcess, in_plant

MARGIN = 1.5
NAME = "llm"
OBJECTIVE = f"{NAMESPACE}/first-token"
PER_TOKEN = f"{NAMESPACE}/per-token"
_SERVER = EXAMPLES / "llm" / "server.py"
_READY_S = 60.0


def _check() -> None:
    if not _SERVER.exists():
        raise Unsupported("the llm experiment", "a checkout of the repository, for examples/llm")


def _start(site: Site) -> RunningApplication:
    port, traces = free_port(), f"http://127.0.0.1:{free_port()}"
    site.make_plant(NAME)
    settings = [
        f"OTEL_EXPORTER_OTLP_ENDPOINT={traces}",
        f"POD_NAME={NAME}",
        f"POD_NAMESPACE={NAMESPACE}",
        f"SERVICE_NAMESPACE={NAMESPACE}",
    ]
    site.start(in_plant(NAME), ["env", *settings, sys.executable, str(_SERVER), f"127.0.0.1:{port}"], NAME)
    site.wait_for("the model server", lambda: answers(f"http://127.0.0.1:{port}/ready"), _READY_S)
    return RunningApplication(port, traces)


def _start_traces(site: Site, running: RunningApplication, threshold_ms: float, target: str) -> SiteProcess:
    """The threshold of the load is of whole answers; the objective's own is from what the server measured alone."""
    url = f"http://127.0.0.1:{running.port}/metrics"
    try:
        with urlopen(url, timeout=5) as answer:
            reading = read_exposition(answer.read().decode())
    except (URLError, OSError) as error:
        raise Permanent(f"the model server does not answer: {error}") from error
    measured = {found.measure: found for found in reading.histograms}
    specs = {
        name: {
            "service": {"name": NAME},
            "indicator": {"modelServer": {limit: f"{limit_us(measured[measure])}us"}},
            "target": target,
            "protect": {"maxAction": "idle"},
        }
        for name, limit, measure in (
            (OBJECTIVE, "timeToFirstToken", ModelMeasure.TIME_TO_FIRST_TOKEN),
            (PER_TOKEN, "timePerOutputToken", ModelMeasure.TIME_PER_OUTPUT_TOKEN),
        )
    }
    file = site.scratch / "model-servers.yaml"
    file.write_bytes(msgspec.yaml.encode({"servers": [{"service": f"{NAMESPACE}/{NAME}", "url": url, "pod": NAME}]}))
    return serve_traces(site, running, specs, ["--model-servers", str(file)])


def limit_us(first: ServerHistogram, share: float = 0.99) -> int:
    """The edge that is `MARGIN` times the edge below which this share lies. Raises `Permanent` where there is none."""
    at_share = next(
        (edge for edge, count in zip(first.edges_us, first.at_most, strict=True) if count >= share * first.total), None
    )
    limit = next((edge for edge in first.edges_us if at_share is not None and edge >= MARGIN * at_share), None)
    if limit is None or not first.total:
        raise Permanent("the model server alone is slower than its histogram tells apart")
    return limit


MODEL_SERVER = SiteApplication(
    services=(NAME,),
    frontend=NAME,
    path="/v1/completions?prompt_tokens=1{}&max_tokens=8",
    objective=OBJECTIVE,
    note=(
        "A stand-in for a model server, continuous batching on one core without a GPU. The objective is of its time "
        "to first token, counted from its /metrics, as that of its time per output token beside; the latencies shown "
        "are of whole answers"
    ),
    check=_check,
    start=_start,
    start_traces=_start_traces,
    beside=(PER_TOKEN,),
)

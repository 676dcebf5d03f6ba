"""Istio and linkerd as sources of spans: a real Envoy with what Istio's control plane makes of the example, and spans
as linkerd's proxy makes them, over real gRPC. Neither mesh itself is here.

Source: Istio, pilot/pkg/networking/core/tracing.go (tracer, resource detector, tags, directions of listeners) and its
page "OpenTelemetry"; linkerd2-proxy, linkerd/trace-context, linkerd/opentelemetry and app/src/trace_collector.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from tests.fakes.servers.ports import free_port
from tests.fakes.servers.trace_process import Clock, Running
from tests.fakes.waiting import eventually, patience

from cotenant.services.traces.traces_arguments import TraceSettings

from .test_envoy import FAILED, OBJECTIVE, REQUESTS, asked, envoy_path, pages, service

__all__ = ["service"]
pytestmark = pytest.mark.slow
EXAMPLES = Path(__file__).parents[2] / "examples/meshes"
MANAGER = "envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager"
ROUTER = "envoy.extensions.filters.http.router.v3.Router"
ENVIRONMENT = "envoy.extensions.tracers.opentelemetry.resource_detectors.v3.EnvironmentResourceDetectorConfig"


def example(name: str) -> Any:
    return yaml.safe_load((EXAMPLES / name).read_text())


def typed(kind: str, **fields: object) -> dict[str, object]:
    return {"@type": f"type.googleapis.com/{kind}", **fields}


def listener(workload: str, direction: str, port: int, upstream: str, provider: Any) -> dict[str, object]:
    """A sidecar's, as istiod writes it for a Telemetry with this provider."""
    to = provider["opentelemetry"]
    tags = {"istio.canonical_service": workload, "istio.namespace": "shop", "istio.mesh_id": "cluster.local"}
    tracer = typed(
        "envoy.config.trace.v3.OpenTelemetryConfig",
        service_name=workload,  # by tracingServiceName CANONICAL_NAME_ONLY
        http_service={
            "http_uri": {
                "uri": to["service"] + to["http"]["path"],
                "cluster": "traces",
                "timeout": to["http"]["timeout"],
            }
        },
        resource_detectors=[
            {"name": "envoy.tracers.opentelemetry.resource_detectors.environment", "typed_config": typed(ENVIRONMENT)}
        ],
    )
    tracing = {
        "provider": {"name": "envoy.tracers.opentelemetry", "typed_config": tracer},
        "client_sampling": {"value": 100},
        "random_sampling": {"value": 100},
        "overall_sampling": {"value": 100},
        "custom_tags": [{"tag": tag, "literal": {"value": value}} for tag, value in sorted(tags.items())],
    }
    route = {
        "match": {"prefix": "/"},
        "route": {"cluster": upstream},
        "decorator": {"operation": "web.shop.svc.cluster.local:8080/*"},
    }
    manager = typed(
        MANAGER,
        stat_prefix=direction.lower(),
        route_config={"virtual_hosts": [{"name": "all", "domains": ["*"], "routes": [route]}]},
        http_filters=[{"name": "envoy.filters.http.router", "typed_config": typed(ROUTER)}],
        tracing=tracing,
    )
    filters = [{"name": "envoy.filters.network.http_connection_manager", "typed_config": manager}]
    return {
        "name": direction,
        "traffic_direction": direction,
        "address": {"socket_address": {"address": "127.0.0.1", "port_value": port}},
        "filter_chains": [{"filters": filters}],
    }


def cluster(name: str, port: int) -> dict[str, object]:
    at = {"endpoint": {"address": {"socket_address": {"address": "127.0.0.1", "port_value": port}}}}
    return {"name": name, "load_assignment": {"cluster_name": name, "endpoints": [{"lb_endpoints": [at]}]}}


@contextmanager
def sidecars(folder: Path, inbound: int, outbound: int, service: int, traces: int) -> Iterator[None]:
    """That of `cart`, whose requests go to that of `web`."""
    values = example("istio-values.yaml")["meshConfig"]
    (provider,) = values["extensionProviders"]
    listeners = [
        listener("cart", "OUTBOUND", outbound, "sidecar", provider),
        listener("web", "INBOUND", inbound, "web", provider),
    ]
    clusters = [cluster("web", service), cluster("sidecar", inbound), cluster("traces", traces)]
    configuration = {"static_resources": {"listeners": listeners, "clusters": clusters}}
    (folder / "envoy.json").write_text(json.dumps(configuration))
    given = values["defaultConfig"]["proxyMetadata"]["OTEL_RESOURCE_ATTRIBUTES"].replace("$(POD_NAMESPACE)", "shop")
    with (folder / "log").open("wb") as log:
        command = [envoy_path(), "-c", str(folder / "envoy.json"), "--use-dynamic-base-id"]
        environment = {**os.environ, "OTEL_RESOURCE_ATTRIBUTES": given}
        running = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
    try:
        yield
    finally:
        running.terminate()
        running.wait(patience(60))


def by_service(traces: Running) -> dict[tuple[str, str], dict[str, Any]]:
    operations: Any = pages(traces, "services")["operations"]
    return {(found["service"], found["kind"]): found for found in operations}


def edges(traces: Running) -> set[tuple[str, str]]:
    found: Any = pages(traces, "graph")
    return {(edge["client"], edge["server"]) for edge in found}


def test_istio_s_sidecars_count_for_an_objective(service: int, tmp_path: Path) -> None:
    telemetry, _ = yaml.safe_load_all((EXAMPLES / "istio-telemetry.yaml").read_text())
    (tracing,) = telemetry["spec"]["tracing"]
    (provider,) = example("istio-values.yaml")["meshConfig"]["extensionProviders"]
    assert tracing["providers"] == [{"name": provider["name"]}]
    assert tracing["randomSamplingPercentage"] == 100
    inbound, outbound = free_port(), free_port()
    (tmp_path / "objectives.yaml").write_text(OBJECTIVE)
    clock = Clock(time.time())
    settings = TraceSettings(http="127.0.0.1:0", grpc="", objectives=tmp_path / "objectives.yaml")
    with Running(settings, clock) as traces:
        port = int(traces.url.rpartition(":")[2].strip("/"))
        with sidecars(tmp_path, inbound, outbound, service, port):
            eventually("they serve", lambda: asked(outbound, "/first") == 200, tolerated=(OSError,))
            answers = [asked(outbound, "/broken" if k < FAILED else "/") for k in range(REQUESTS - 1)]
            assert answers.count(503) == FAILED

            def counted() -> bool:
                clock.now_s = time.time()
                return by_service(traces).get(("shop/web", "server"), {}).get("requests") == REQUESTS

            eventually("all are counted", counted)
            assert list(by_service(traces)) == [("shop/web", "server")]
            assert by_service(traces)["shop/web", "server"]["errors"] == FAILED

            def called() -> bool:
                clock.now_s = time.time()
                return ("shop/cart", "shop/web") in edges(traces)

            eventually("who calls whom is known", called)
            objective = pages(traces, "objectives/shop/web-errors")
            assert (objective["requests"], objective["bad"]) == (REQUESTS, FAILED)


def of_linkerd(name: str, code: str, number: int, now_ns: int) -> ExportTraceServiceRequest:
    """What a proxy sends of a request: no status, the code as text, a parent that is not its own."""
    request = ExportTraceServiceRequest()
    of_resource = request.resource_spans.add()
    described = of_resource.resource.attributes
    described.add(key="process.pid").value.int_value = 1
    described.add(key="host.name").value.string_value = "web-7d9f"
    described.add(key="service.name").value.string_value = name
    described.add(key="service.namespace").value.string_value = "shop"
    described.add(key="k8s.pod.uid").value.string_value = "uid-1"
    span = of_resource.scope_spans.add().spans.add(name="/cart", kind=2)
    span.trace_id, span.span_id = (number + 1).to_bytes(16, "big"), (2 * number + 1).to_bytes(8, "big")
    span.parent_span_id = (2 * number + 2).to_bytes(8, "big")
    span.start_time_unix_nano, span.end_time_unix_nano = now_ns, now_ns + 5_000_000
    said = {"direction": "inbound", "http.request.method": "GET", "url.path": "/cart", "network.transport": "tcp"}
    for key, value in {**said, "http.response.status_code": code}.items():
        span.attributes.add(key=key).value.string_value = value
    return request


def test_linkerd_s_proxies_count_by_grpc_with_their_errors(tmp_path: Path) -> None:
    grpc = pytest.importorskip("grpc")
    at = example("linkerd-values.yaml")["proxy"]["tracing"]["collector"]["endpoint"]
    assert at == "cotenant-traces.cotenant-system:4317"
    port = free_port()
    (tmp_path / "objectives.yaml").write_text(OBJECTIVE)
    clock = Clock(time.time())
    settings = TraceSettings(http="127.0.0.1:0", grpc=f"127.0.0.1:{port}", objectives=tmp_path / "objectives.yaml")
    with Running(settings, clock) as traces, grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        export = channel.unary_unary(
            "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
            request_serializer=ExportTraceServiceRequest.SerializeToString,
            response_deserializer=ExportTraceServiceResponse.FromString,
        )
        for number in range(REQUESTS):
            code = "503" if number < FAILED else "200"
            export(of_linkerd("web", code, number, int(clock.now_s * 1e9)), timeout=60, wait_for_ready=True)
        served = by_service(traces)["shop/web", "server"]
        assert (served["requests"], served["errors"]) == (REQUESTS, FAILED)
        objective = pages(traces, "objectives/shop/web-errors")
        assert (objective["requests"], objective["bad"]) == (REQUESTS, FAILED)

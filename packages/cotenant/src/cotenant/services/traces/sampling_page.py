"""The answer to remote samplers: with which probability a service's clients begin traces.

    GET /sampling?service=NAME        as Jaeger's agent, and OpenTelemetry's jaegerremotesampling extension
    GET /api/sampling?service=NAME    as Jaeger's collector
    jaeger.api_v2.SamplingManager     the same over gRPC, at the address of OTLP/gRPC

A sampler that gets no answer goes on as it was configured, so without a budget this answers 404 and changes nobody's
sampling. The lower bound of traces a second is 0: one above it takes traces of which no probability is true.

Source: jaegertracing/jaeger-idl, thrift/sampling.thrift (SamplingStrategyResponse) in its JSON form.
"""

from __future__ import annotations

from urllib.parse import parse_qsl

import msgspec

from cotenant.drivers.http.messages import TEXT, HttpAnswer
from cotenant.drivers.jaeger.sampling_messages import encode_strategy, read_service
from cotenant.engine.traces.head_rates import HeadStrategy
from cotenant.engine.traces.trace_engine import TraceEngine
from cotenant.model.errors import InvalidInput, Unsupported

SAMPLING = ("/sampling", "/api/sampling")


class Probabilistic(msgspec.Struct, frozen=True, rename="camel"):
    """A probability."""

    sampling_rate: float


class OperationStrategy(msgspec.Struct, frozen=True, rename="camel"):
    """That of an operation."""

    operation: str
    probabilistic_sampling: Probabilistic


class OperationStrategies(msgspec.Struct, frozen=True, rename="camel"):
    """Those of all operations."""

    default_sampling_probability: float
    default_lower_bound_traces_per_second: float
    per_operation_strategies: list[OperationStrategy]


class StrategyResponse(msgspec.Struct, frozen=True, rename="camel"):
    """Clients that know no operations read `probabilistic_sampling`."""

    strategy_type: str
    probabilistic_sampling: Probabilistic
    operation_sampling: OperationStrategies


def answer(engine: TraceEngine, namespace: str, query: str, now_s: float) -> HttpAnswer:
    """The answer to a GET; `namespace`: that the client has proven to be of, else any."""
    service = dict(parse_qsl(query)).get("service", "")
    if not service:
        return HttpAnswer(400, b"service: expected the name of a service\n", TEXT)
    if engine.head.budget <= 0.0:
        return HttpAnswer(404, b"no rates are answered: this process runs without --head-spans-per-s\n", TEXT)
    return HttpAnswer(200, msgspec.json.encode(_response(_strategy(engine, namespace, service, now_s))))


def grpc_answer(engine: TraceEngine, namespace: str, body: bytes, now_s: float) -> bytes:
    """The answer to GetSamplingStrategy. Raises `InvalidInput`, `Unsupported` without a budget."""
    service = read_service(body)
    if not service:
        raise InvalidInput("serviceName", service, "the name of a service")
    if engine.head.budget <= 0.0:
        raise Unsupported("rates for samplers", "--head-spans-per-s of `cotenant traces`")
    found = _strategy(engine, namespace, service, now_s)
    return encode_strategy(found.probability, found.operations)


def _strategy(engine: TraceEngine, namespace: str, service: str, now_s: float) -> HeadStrategy:
    given, slash, name = service.partition("/")
    if slash and namespace in ("", given):
        namespace, service = given, name
    return engine.head.strategy(namespace, service, engine.operations.known, now_s)


def _response(found: HeadStrategy) -> StrategyResponse:
    operations = [OperationStrategy(name, Probabilistic(probability)) for name, probability in found.operations]
    return StrategyResponse(
        "PROBABILISTIC",
        Probabilistic(found.probability),
        OperationStrategies(found.probability, 0.0, operations),
    )

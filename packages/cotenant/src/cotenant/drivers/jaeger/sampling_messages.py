"""The messages of Jaeger's SamplingManager, by which remote samplers ask for rates over gRPC.

Source: jaegertracing/jaeger-idl, proto/api_v2/sampling.proto (names and numbers of fields).
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError

from cotenant.model.errors import InvalidInput

METHOD = "/jaeger.api_v2.SamplingManager/GetSamplingStrategy"
_PACKAGE = "jaeger.api_v2"
_KINDS = descriptor_pb2.FieldDescriptorProto
_STRING, _DOUBLE, _INT32 = _KINDS.TYPE_STRING, _KINDS.TYPE_DOUBLE, _KINDS.TYPE_INT32
# By message and field: number, and type, which is another message by name, or a list of those.
_FIELDS: dict[str, dict[str, tuple[int, int | str | list[str]]]] = {
    "SamplingStrategyParameters": {"serviceName": (1, _STRING)},
    "ProbabilisticSamplingStrategy": {"samplingRate": (1, _DOUBLE)},
    "OperationSamplingStrategy": {
        "operation": (1, _STRING),
        "probabilisticSampling": (2, "ProbabilisticSamplingStrategy"),
    },
    "PerOperationSamplingStrategies": {
        "defaultSamplingProbability": (1, _DOUBLE),
        "defaultLowerBoundTracesPerSecond": (2, _DOUBLE),
        "perOperationStrategies": (3, ["OperationSamplingStrategy"]),
    },
    "SamplingStrategyResponse": {
        "strategyType": (1, _INT32),  # an enumeration; 0: probabilistic
        "probabilisticSampling": (2, "ProbabilisticSamplingStrategy"),
        "operationSampling": (4, "PerOperationSamplingStrategies"),
    },
}


def read_service(body: bytes) -> str:
    """Whose rates are asked for. Raises `InvalidInput`."""
    try:
        return str(_classes()["SamplingStrategyParameters"].FromString(body).serviceName)
    except DecodeError as error:
        raise InvalidInput("body", body[:20], "SamplingStrategyParameters in protobuf", str(error)[:200]) from None


def encode_strategy(probability: float, operations: Iterable[tuple[str, float]]) -> bytes:
    """The answer; clients that know no operations read the first probability."""
    answer = _classes()["SamplingStrategyResponse"]()
    answer.probabilisticSampling.samplingRate = probability
    answer.operationSampling.defaultSamplingProbability = probability
    for operation, rate in operations:
        added = answer.operationSampling.perOperationStrategies.add(operation=operation)
        added.probabilisticSampling.samplingRate = rate
    return bytes(answer.SerializeToString())


@functools.cache
def _classes() -> dict[str, Any]:
    file = descriptor_pb2.FileDescriptorProto(name="cotenant/sampling.proto", package=_PACKAGE, syntax="proto3")
    for name, fields in _FIELDS.items():
        message = file.message_type.add(name=name)
        for field, (number, kind) in fields.items():
            label = _KINDS.LABEL_REPEATED if isinstance(kind, list) else _KINDS.LABEL_OPTIONAL
            added = message.field.add(name=field, number=number, label=label)
            if isinstance(kind, int):
                added.type = kind
            else:
                added.type, added.type_name = _KINDS.TYPE_MESSAGE, f".{_PACKAGE}.{''.join(kind)}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{name}")) for name in _FIELDS}

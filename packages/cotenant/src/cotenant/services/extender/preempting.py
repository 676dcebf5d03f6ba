"""The answer to a planned preemption: on which nodes it can help.

kube-scheduler chose victims by requests alone; where a node is rejected for its measured use, evicting pods there may
not make room. A node stays unless it is certain that it stays rejected without its victims: the pod requests more than
the whole node, or more than what is free and all its victims request together. A victim that is unknown, or that
requests none of the resource that is short (it may use much of it), gives the node the benefit of the doubt. Victims
are returned as they came: never more, never fewer.
Limits: what victims use is taken to be what they request.
Source: scheduler extender protocol, `ProcessPreemption`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from cotenant.drivers.kube.kinds.pod.schema import PodObject
from cotenant.model.cluster.pod import Shape
from cotenant.model.errors import InvalidInput
from cotenant.model.resources import CPU_NAME, MEMORY_NAME
from cotenant.services.extender.judge import Judge, NodeRoom, PodDemand
from cotenant.services.extender.mirror import UNKNOWN, Mirror
from cotenant.services.extender.pod_reader import PodDemandReader
from cotenant.services.extender.wire import MetaPod, MetaVictims, PreemptionAnswer, PreemptionArgs

_decoder = msgspec.json.Decoder(PreemptionArgs)
_pod = msgspec.json.Decoder(PodObject)
_encode = msgspec.json.Encoder().encode


def preempt(body: bytes, mirror: Mirror, judge: Judge, pods: PodDemandReader, now_s: float) -> bytes:
    """The encoded answer to a preemption request. Raises `InvalidInput`."""
    try:
        args = _decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidInput("request", "(not shown)", "ExtenderPreemptionArgs", str(error)) from None
    ask = pods.read(bytes(args.pod))
    mirror.forget_unused()
    mirror.apply()
    kept: dict[str, MetaVictims] = {}
    for name, victims in (args.node_name_to_meta_victims or {}).items():
        shapes = [mirror.resident_shape(victim.uid) for victim in victims.pods or ()]
        if _may_help(ask, judge.room(mirror.rows.get(name, UNKNOWN), now_s), shapes):
            kept[name] = victims
    for name, whole in (args.node_name_to_victims or {}).items():
        try:
            found = [_pod.decode(raw) for raw in whole.pods or ()]
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise InvalidInput(f"NodeNameToVictims[{name}]", "(not shown)", "v1 Pods", str(error)) from None
        shapes = [pods.ask(pod).shape for pod in found]
        if _may_help(ask, judge.room(mirror.rows.get(name, UNKNOWN), now_s), shapes):
            uids = [MetaPod(pod.metadata.uid or "") for pod in found]
            kept.setdefault(name, MetaVictims(uids, whole.violations))
    return _encode(PreemptionAnswer(kept))


def _may_help(ask: PodDemand, room: NodeRoom, victims: Iterable[Shape | None]) -> bool:
    if ask.cpu_milli > room.cpu_whole or ask.memory_bytes > room.memory_whole:
        return False
    shapes = list(victims)
    return _may_fit(ask.cpu_milli, room.cpu_free, shapes, lambda shape: shape.requests.get(CPU_NAME)) and _may_fit(
        ask.memory_bytes, room.memory_free, shapes, lambda shape: shape.requests.get(MEMORY_NAME)
    )


def _may_fit(asked: int, free: float, victims: list[Shape | None], of: Callable[[Shape], int]) -> bool:
    """Whether the amount may be free without the victims."""
    if asked == 0 or asked <= free:
        return True
    for shape in victims:
        amount = 0 if shape is None else of(shape)
        if amount == 0:
            return True
        free += amount
    return asked <= free

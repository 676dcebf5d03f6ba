"""What an extender says to a planned preemption: which nodes are worth their victims.

Problem: kube-scheduler chose victims by requests alone; where a node is refused for its measured use, killing pods there may not make room.
Choice: a node stays unless it is plain that it stays refused with its victims gone: the pod asks for more than the whole node, or
for more than what is free and all its victims ask for together. A victim of which nothing is known, or that asks for none of what is short
(it may use much of it), gives the node the benefit of the doubt. Victims are handed back as they came: never more, never fewer.
Limits: what victims use is taken to be what they ask for.
Source: scheduler extender protocol, `ProcessPreemption`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from cotenant.drivers.kube.kinds.pod.schema import PodObject
from cotenant.model.cluster.pod import Shape
from cotenant.model.errors import InvalidInput
from cotenant.model.resources import CPU_NAME, MEMORY_NAME
from cotenant.services.extender.judge import Judge, PodDemand, Room
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
        if _worth(ask, judge.room(mirror.rows.get(name, UNKNOWN), now_s), shapes):
            kept[name] = victims
    for name, whole in (args.node_name_to_victims or {}).items():
        try:
            found = [_pod.decode(raw) for raw in whole.pods or ()]
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise InvalidInput(f"NodeNameToVictims[{name}]", "(not shown)", "v1 Pods", str(error)) from None
        shapes = [pods.ask(pod).shape for pod in found]
        if _worth(ask, judge.room(mirror.rows.get(name, UNKNOWN), now_s), shapes):
            uids = [MetaPod(pod.metadata.uid or "") for pod in found]
            kept.setdefault(name, MetaVictims(uids, whole.violations))
    return _encode(PreemptionAnswer(kept))


def _worth(ask: PodDemand, room: Room, victims: Iterable[Shape | None]) -> bool:
    if ask.cpu_milli > room.cpu_whole or ask.memory_bytes > room.memory_whole:
        return False
    shapes = list(victims)
    return _freed(ask.cpu_milli, room.cpu_free, shapes, lambda shape: shape.requests.get(CPU_NAME)) and _freed(
        ask.memory_bytes, room.memory_free, shapes, lambda shape: shape.requests.get(MEMORY_NAME)
    )


def _freed(asked: int, free: float, victims: list[Shape | None], of: Callable[[Shape], int]) -> bool:
    """Whether the pod may find its amount once the victims are gone."""
    if asked == 0 or asked <= free:
        return True
    for shape in victims:
        amount = 0 if shape is None else of(shape)
        if amount == 0:
            return True
        free += amount
    return asked <= free

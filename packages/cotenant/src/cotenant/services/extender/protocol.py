"""The extender protocol: a request's bytes in, an answer's bytes out.

kube-scheduler fails a pod's whole cycle for an answer it does not expect, drops the connection after any status but
200, and reports only what FailedNodes contains. Filter answers bad requests in its own `Error`; every rejection has a
reason; names are only ever taken from the request. A list that passes whole is answered with the bytes that came.
Limits: prioritize and preempt have no field for an error, so theirs are raised and become a plain 400, which
kube-scheduler logs.
Source: Kubernetes, staging/src/k8s.io/kube-scheduler/extender/v1 (v1.36), and the observed behaviour of v1.36.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
import numpy as np

from cotenant.model.errors import InvalidInput
from cotenant.services.extender.extender_arguments import FOUNDING_MAX
from cotenant.services.extender.judge import Judge, PodDemand
from cotenant.services.extender.mirror import Mirror
from cotenant.services.extender.pod_reader import PodDemandReader
from cotenant.services.extender.preempting import preempt
from cotenant.services.extender.request_nodes import NodeListReader, RequestNodes
from cotenant.services.extender.standings import QuotaStandings
from cotenant.services.extender.wire import LARGEST_SCORE, NULL, ExtenderArgs, FilterAnswer

_args = msgspec.json.Decoder(ExtenderArgs)
_encode = msgspec.json.Encoder().encode
_MISSING = b"null"


@dataclass(slots=True)
class ExtenderCounts:
    """Counts for metrics."""

    judged: int = 0  # nodes checked by filter
    refused: int = 0  # of these, rejected
    unknown: int = 0  # of these, unknown
    errors: int = 0  # answered with Error


class ExtenderProtocol:
    """The protocol's verbs over a judge. Times are Unix seconds."""

    def __init__(
        self, mirror: Mirror, judge: Judge, score_max: int = LARGEST_SCORE, standings: QuotaStandings | None = None
    ) -> None:
        if not 1 <= score_max <= FOUNDING_MAX:
            raise InvalidInput("score max", score_max, f"1 to {FOUNDING_MAX}", f"{LARGEST_SCORE} is the protocol's")
        self.tally = ExtenderCounts()
        self._mirror = mirror
        self._judge = judge
        self._pods = PodDemandReader(standings)
        self._given = NodeListReader(mirror)
        # Each founding score as its text on the wire, rounded to the nearest.
        self._texts = [
            b"%d}" % ((2 * s * score_max + FOUNDING_MAX) // (2 * FOUNDING_MAX)) for s in range(FOUNDING_MAX + 1)
        ]

    def filter(self, body: bytes, now_s: float) -> bytes:
        """The answer to a filter request: always one that kube-scheduler can read."""
        try:
            ask, given = self._read(body)
        except InvalidInput as error:
            return self.failure(str(error))
        passes = self._judge.passing(ask, given.rows, now_s)
        tally = self.tally
        tally.judged += len(given.names)
        unusable = self._unusable(given)
        if unusable:
            passes = passes.copy()
            passes[list(unusable)] = False
        tally.unknown += int(np.count_nonzero(given.rows == 0)) - len(unusable)
        if passes.all():
            if given.items is None:
                return b'{"NodeNames":%b,"Nodes":null,"FailedNodes":{},"FailedAndUnresolvableNodes":{},"Error":""}' % (
                    given.raw or _encode(given.names)
                )
            return _encode(FilterAnswer(nodes=_listed(given.items)))
        refused = np.flatnonzero(~passes)
        places = refused if not unusable else np.setdiff1d(refused, list(unusable))
        rows = given.rows[places]
        reasons = self._judge.reasons(ask, rows, now_s)
        never = self._judge.unresolvable(ask, rows, now_s)
        failed: dict[str, str] = {}
        unresolvable = {given.names[place]: why for place, why in unusable.items()}
        for place, reason, is_final in zip(places.tolist(), reasons, never.tolist(), strict=True):
            (unresolvable if is_final else failed)[given.names[place]] = reason
        tally.refused += len(refused)
        left = np.flatnonzero(passes)
        names, nodes = NULL, NULL
        if given.items is None:
            names = msgspec.Raw(self._given.subset(given, left).raw)
        else:
            nodes = _listed([given.items[i] for i in left.tolist()])
        return _encode(FilterAnswer(nodes, names, failed, unresolvable))

    def prioritize(self, body: bytes, now_s: float) -> bytes:
        """The answer to a prioritize request: one entry for each distinct name given. Raises `InvalidInput`."""
        ask, given = self._read(body)
        scores = self._judge.scores(ask, given.rows, now_s)
        parts: list[bytes] = [b","] * (3 * len(given.names))
        parts[0::3] = self._given.starts(given)
        parts[1::3] = map(self._texts.__getitem__, scores.tolist())
        return b"[" + b"".join(parts[:-1]) + b"]"

    def preempt(self, body: bytes, now_s: float) -> bytes:
        """The answer to a preemption request. Raises `InvalidInput`."""
        return preempt(body, self._mirror, self._judge, self._pods, now_s)

    def failure(self, why: str) -> bytes:
        """A filter's answer that is only an error."""
        self.tally.errors += 1
        return _encode(FilterAnswer(error=why))

    def _unusable(self, given: RequestNodes) -> dict[int, str]:
        """Why, by their places: the given nodes that can hold no pod."""
        known = self._mirror.unusable
        if not known:
            return {}
        return {place: known[name] for place, name in enumerate(given.names) if name in known}

    def _read(self, body: bytes) -> tuple[PodDemand, RequestNodes]:
        try:
            args = _args.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise InvalidInput("request", "(not shown)", "ExtenderArgs as JSON", str(error)) from None
        pod = bytes(args.pod)
        if pod == _MISSING:
            raise InvalidInput("Pod", "null", "the pod to judge")
        ask = self._pods.read(pod)
        self._mirror.forget_unused()
        names, nodes = bytes(args.node_names), bytes(args.nodes)
        if names != _MISSING:
            return ask, self._given.by_name(names)
        if nodes != _MISSING:
            return ask, self._given.by_object(nodes)
        raise InvalidInput("NodeNames", "null", "NodeNames or Nodes", "one of the two must be given")


def _listed(items: Sequence[msgspec.Raw]) -> msgspec.Raw:
    """A NodeList of encoded nodes, byte by byte as they came."""
    return msgspec.Raw(_encode({"items": items}))

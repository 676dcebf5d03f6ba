"""From the pod inside a request to its demand.

Filter and prioritize each carry the whole pod, some kilobytes for a few dozen bytes that matter, and the same pod twice
in a row. Only the fields used are decoded, and the last pods are cached by their bytes, which cannot be confused.
Limits: a field that cannot be read counts as absent, as it does where pods are listed (drivers/kube/kinds/pod):
kube-scheduler has validated it already.
"""

from __future__ import annotations

import msgspec

from cotenant.drivers.kube.kinds.pod.reader import PodReader
from cotenant.drivers.kube.kinds.pod.schema import PodObject
from cotenant.model.errors import InvalidInput
from cotenant.services.extender.judge import PodDemand, demand_of
from cotenant.services.extender.standings import QuotaStandings

_CACHED = 8

_decoder = msgspec.json.Decoder(PodObject)


class PodDemandReader:
    """Reads pods; caches the last few."""

    def __init__(self, standings: QuotaStandings | None = None) -> None:
        """`standings`: the debt of the pods' quotas; None = credit is not considered."""
        self._reader = PodReader()
        self._standings = standings
        self._revision = 0  # of the standings, with which the last pods were read
        self._last: dict[bytes, PodDemand] = {}

    def read(self, raw: bytes) -> PodDemand:
        """The demand of an encoded pod. Raises `InvalidInput` for what is not a pod."""
        if self._standings is not None and self._standings.revision != self._revision:
            self._revision = self._standings.revision
            self._last.clear()
        found = self._last.get(raw)
        if found is not None:
            return found
        ask = self.ask(read_pod(raw))
        if len(self._last) >= _CACHED:
            del self._last[next(iter(self._last))]
        self._last[raw] = ask
        return ask

    def ask(self, pod: PodObject) -> PodDemand:
        """The demand of a decoded pod."""
        read = self._reader.pod(pod).pod
        return demand_of(read, 0 if self._standings is None else self._standings.debt_of(read))


def read_pod(raw: bytes) -> PodObject:
    """The fields used of an encoded pod. Raises `InvalidInput`."""
    try:
        return _decoder.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidInput("Pod", "(not shown)", "a v1 Pod", str(error)) from None

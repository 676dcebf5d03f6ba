"""From the pod inside a request to what it asks.

Problem: filter and prioritize each carry the whole pod, some kilobytes of which a few dozen bytes matter, and the same one twice in a row.
Choice: only the fields used are decoded, and the last pods are remembered by their bytes, which cannot be confused. Limits: what
cannot be read of a pod counts as absent, as it does where pods are listed (drivers/kube/kinds/pod/reader.py): kube-scheduler has judged it already.
"""

from __future__ import annotations

import msgspec

from cotenant.drivers.kube.kinds.pod.reader import PodReader
from cotenant.drivers.kube.kinds.pod.schema import PodObject
from cotenant.model.errors import InvalidInput
from cotenant.services.extender.judge import PodDemand, demand_of

_REMEMBERED = 8

_decoder = msgspec.json.Decoder(PodObject)


class PodDemandReader:
    """Reads pods; remembers the last few."""

    def __init__(self) -> None:
        self._reader = PodReader()
        self._last: dict[bytes, PodDemand] = {}

    def read(self, raw: bytes) -> PodDemand:
        """What an encoded pod asks. Raises `InvalidInput` for what is no pod."""
        found = self._last.get(raw)
        if found is not None:
            return found
        ask = self.ask(read_pod(raw))
        if len(self._last) >= _REMEMBERED:
            del self._last[next(iter(self._last))]
        self._last[raw] = ask
        return ask

    def ask(self, pod: PodObject) -> PodDemand:
        """What a decoded pod asks."""
        return demand_of(self._reader.pod(pod).pod)


def read_pod(raw: bytes) -> PodObject:
    """The fields used of an encoded pod. Raises `InvalidInput`."""
    try:
        return _decoder.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidInput("Pod", "(not shown)", "a v1 Pod", str(error)) from None

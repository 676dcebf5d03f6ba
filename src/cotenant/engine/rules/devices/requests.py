"""What pods ask of a node's devices, read once for all that ask alike.

Problem: thousands of pods ask for the same, and asking for a choice of devices means reading requests, hints and strategies together. Choice: one object an ask,
known by identity, so that verdicts about nodes can hang on it; what contradicts itself is a sentence. Limits: asks that no pod has any more are
forgotten only when there are many.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from cotenant.model.cluster.demands import Demands
from cotenant.model.cluster.pod import Pod
from cotenant.model.devices.request import CARDS, RESOURCES, device_requests, type_of
from cotenant.model.errors import InvalidInput
from cotenant.model.resources import Amounts
from cotenant.policy.placement.devices.allocation import DeviceAsk
from cotenant.policy.placement.devices.strategy import Strategy, UsualPod

_MOST_UNUSED = 256


@dataclass(frozen=True, slots=True)
class DeviceSettings:
    """How devices are chosen. Both pack by default: what parts and small jobs leave whole is what large jobs need."""

    shared: Strategy = Strategy.BINPACK  # of parts of a GPU, within a node and between nodes
    whole: Strategy = Strategy.BINPACK  # of whole devices
    weight: float = 2.0  # of the strategy's 0 to 100 in a node's score; the profile's own has 1: it decides between nodes that suit alike
    usual: tuple[UsualPod, ...] = ()  # pods that usually come, for Strategy.FRAGMENTATION; without them it packs


@dataclass(frozen=True, slots=True, eq=False)
class Ask:
    """One way of asking. `plain`: whole cards and nothing else, which a node without a Device object can count too."""

    wanted: DeviceAsk
    plain: bool
    pods: set[int] = field(default_factory=set, repr=False)  # numbers, of those that ask so

    @property
    def name(self) -> str:
        """What it is for, as one thing that lies on NUMA nodes: all types of devices together."""
        return " and ".join(request.type.value for request in self.wanted.requests)


def read_ask(pod: Pod, demands: Demands, settings: DeviceSettings) -> DeviceAsk | str:
    """What a pod with device requests asks, or a sentence about what contradicts itself."""
    asked = Amounts.of((name, amount) for name, amount in pod.requests if name in RESOURCES)
    try:
        requests = device_requests(asked)
    except InvalidInput as error:
        return str(error)
    types = {request.type for request in requests}
    for hint in demands.device_hints:
        if hint.type not in types:
            return f"device-allocate-hint: {hint.type.value}: expected a type that is requested; request it, or leave the hint out"
    return DeviceAsk(
        requests,
        demands.device_hints,
        demands.joint_devices,
        demands.partition,
        settings.shared if any(request.shared for request in requests) else settings.whole,
        settings.usual,
    )


class Asks:
    """The asks of the pods that are known."""

    def __init__(self, settings: DeviceSettings) -> None:
        self._settings = settings
        self._known: dict[tuple[Amounts, object], Ask | str] = {}
        self._unused = 0

    def read(self, number: int, pod: Pod, demands: Demands) -> Ask | str:
        """The ask of a pod with device requests, which from now on has it; or a sentence."""
        key = (pod.requests, (demands.device_hints, demands.joint_devices, demands.partition))
        found = self._known.get(key)
        if found is None:
            if len(self._known) > 2 * _MOST_UNUSED:
                self._known = {k: ask for k, ask in self._known.items() if isinstance(ask, Ask) and ask.pods}
            wanted = read_ask(pod, demands, self._settings)
            found = wanted if isinstance(wanted, str) else self._same(wanted, pod)
            self._known[key] = found
        if isinstance(found, Ask):
            found.pods.add(number)
        return found

    def _same(self, wanted: DeviceAsk, pod: Pod) -> Ask:
        """Pods that differ in CPU alone ask the same of devices."""
        plain = (
            all(name in CARDS for name, amount in pod.requests if amount and type_of(name) is not None)
            and not wanted.hints
            and wanted.joint is None
            and wanted.partition is None
        )
        for other in self._known.values():
            if isinstance(other, Ask) and other.plain == plain and other.wanted == wanted:
                return other
        return Ask(wanted, plain)

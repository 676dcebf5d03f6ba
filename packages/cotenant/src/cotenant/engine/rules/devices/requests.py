"""Device requests of pods, read once for all pods with equal requests.

Thousands of pods ask for the same, and a choice of devices needs requests, hints and strategies together. One object
per distinct ask, compared by identity, to which the cached verdicts about nodes are attached; a contradictory request
is stored as a message.
Limits: asks without pods are dropped only when there are many.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from cotenant.model.cluster.demands import Demands
from cotenant.model.cluster.pod import Pod
from cotenant.model.devices.card_need import NO_NEED, CardNeed
from cotenant.model.devices.inventory import GPU_ISOLATION
from cotenant.model.devices.request import CARDS, RESOURCES, asks_lent_gpu, device_requests, type_of
from cotenant.model.errors import InvalidInput
from cotenant.model.resources import Amounts
from cotenant.policy.placement.devices.allocation import ANY_ISOLATION, DeviceAsk, asks_share
from cotenant.policy.placement.devices.strategy import LENT_STRATEGY, DeviceStrategy, UsualPod

_MAX_UNUSED = 256


@dataclass(frozen=True, slots=True)
class DeviceSettings:
    """How devices are chosen. Both pack by default: what parts and small jobs leave whole is what large jobs need."""

    shared: DeviceStrategy = DeviceStrategy.BINPACK  # for parts of a GPU, within a node and between nodes
    whole: DeviceStrategy = DeviceStrategy.BINPACK  # for whole devices
    # of the strategy's 0 to 100 in a node's score; the profile's own has 1: it decides between otherwise equal nodes
    weight: float = 2.0
    # of what speaks against the neighbours on a card, 0 to 250, in a node's score; 0: what pods need is not looked at
    neighbours: float = 0.0
    only_isolated: bool = False  # a share of a GPU is given only where something is said to enforce it
    usual: tuple[UsualPod, ...] = ()  # typical pods, for Strategy.FRAGMENTATION; without them it packs


@dataclass(frozen=True, slots=True, eq=False)
class DistinctDeviceRequest:
    """A distinct device request. `plain`: whole cards only, which can also be counted on a node without a Device
    object.
    """

    wanted: DeviceAsk
    plain: bool
    pods: set[int] = field(default_factory=set, repr=False)  # numbers of the pods with this ask

    @property
    def is_share(self) -> bool:
        """Whether others may use the rest of a GPU that it is given."""
        return asks_share(self.wanted)

    @property
    def name(self) -> str:
        """Name of the combined resource in NUMA hints: all requested device types together."""
        return " and ".join(request.type.value for request in self.wanted.requests)


def read_ask(pod: Pod, demands: Demands, settings: DeviceSettings, need: CardNeed = NO_NEED) -> DeviceAsk | str:
    """What a pod with device requests asks for, or a message about a contradiction. `need`: what it takes of a card."""
    asked = Amounts.of((name, amount) for name, amount in pod.requests if name in RESOURCES)
    try:
        requests = device_requests(asked)
    except InvalidInput as error:
        return str(error)
    types = {request.type for request in requests}
    for hint in demands.device_hints:
        if hint.type not in types:
            return (
                f"device-allocate-hint: {hint.type.value}: expected a type that is requested; request it, or leave "
                "the hint out"
            )
    lent = asks_lent_gpu(asked)
    strategy = settings.shared if any(request.shared for request in requests) else settings.whole
    return DeviceAsk(
        requests,
        demands.device_hints,
        demands.joint_devices,
        demands.partition,
        LENT_STRATEGY if lent else strategy,
        settings.usual,
        pod.labels.get(GPU_ISOLATION) or (ANY_ISOLATION if settings.only_isolated or lent else ""),
        need=need,
        grace_s=demands.lent_gpu_grace_s,
    )


class Asks:
    """The asks of the known pods."""

    def __init__(self, settings: DeviceSettings) -> None:
        self._settings = settings
        self._known: dict[tuple[Amounts, object], DistinctDeviceRequest | str] = {}
        self._unused = 0

    def read(self, number: int, pod: Pod, demands: Demands, need: CardNeed = NO_NEED) -> DistinctDeviceRequest | str:
        """The ask of a pod with device requests, registered for the pod; or a message."""
        isolation = pod.labels.get(GPU_ISOLATION)
        grace_s = demands.lent_gpu_grace_s
        key = (pod.requests, (demands.device_hints, demands.joint_devices, demands.partition, isolation, need, grace_s))
        found = self._known.get(key)
        if found is None:
            if len(self._known) > 2 * _MAX_UNUSED:
                self._known = {
                    k: ask for k, ask in self._known.items() if isinstance(ask, DistinctDeviceRequest) and ask.pods
                }
            wanted = read_ask(pod, demands, self._settings, need)
            found = wanted if isinstance(wanted, str) else self._same(wanted, pod)
            self._known[key] = found
        if isinstance(found, DistinctDeviceRequest):
            found.pods.add(number)
        return found

    def _same(self, wanted: DeviceAsk, pod: Pod) -> DistinctDeviceRequest:
        """Share one ask between pods that differ only in other resources."""
        plain = (
            all(name in CARDS for name, amount in pod.requests if amount and type_of(name) is not None)
            and not wanted.hints
            and wanted.joint is None
            and wanted.partition is None
        )
        for other in self._known.values():
            if isinstance(other, DistinctDeviceRequest) and other.plain == plain and other.wanted == wanted:
                return other
        return DistinctDeviceRequest(wanted, plain)

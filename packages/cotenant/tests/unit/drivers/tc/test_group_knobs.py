"""Rate, delay and loss of a group's network, over a namespace that only remembers."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from cotenant.drivers.tc.group_knobs import GroupNetworkKnobs
from cotenant.drivers.tc.shaping import TrafficShape
from cotenant.model.errors import InvalidInput, Permanent, Unsupported
from cotenant.model.machine.knob import Knob, KnobTarget, Vanished


@dataclass
class Namespaces:
    shapes: dict[str, TrafficShape] = field(default_factory=dict)

    def read(self, namespace: str) -> TrafficShape:
        return self.shapes.get(namespace, TrafficShape())

    def write(self, namespace: str, shape: TrafficShape) -> None:
        self.shapes[namespace] = shape


PIDS = {"docker/web": 7, "docker/host": 1}


def made() -> tuple[GroupNetworkKnobs, Namespaces]:
    namespaces = Namespaces()
    return GroupNetworkKnobs(PIDS.get, namespaces, lambda pid: "own" if pid == 7 else "host"), namespaces


def test_each_knob_leaves_the_others() -> None:
    knobs, namespaces = made()
    rate, delay, loss = (
        KnobTarget("docker/web", knob) for knob in (Knob.NETWORK_RATE, Knob.NETWORK_DELAY, Knob.NETWORK_LOSS)
    )
    before = {target: knobs.raw(target) for target in (rate, delay, loss)}
    assert [*before.values()] == ["max", "0", "0"]
    for target, value in ((rate, "8000000"), (delay, "20000"), (loss, "10000")):
        knobs.write(target, value)
        assert knobs.read(target) == value
    assert namespaces.shapes == {"/proc/7/ns/net": TrafficShape(8_000_000, 20_000, 10_000)}
    for target in (delay, rate, loss):
        knobs.restore(target, before[target])
    assert namespaces.shapes == {"/proc/7/ns/net": TrafficShape()}
    assert knobs.identity(rate) == "own"


def test_the_hosts_network_is_never_limited() -> None:
    knobs, namespaces = made()
    with pytest.raises(Permanent, match="shares the host's network"):
        knobs.write(KnobTarget("docker/host", Knob.NETWORK_RATE), "8000000")
    assert namespaces.shapes == {}


def test_a_group_without_a_process_is_gone() -> None:
    knobs, _ = made()
    with pytest.raises(Vanished):
        knobs.read(KnobTarget("docker/other", Knob.NETWORK_RATE))


def test_other_knobs_and_values_are_refused() -> None:
    knobs, _ = made()
    with pytest.raises(Unsupported):
        knobs.read(KnobTarget("docker/web", Knob.CPU_MAX))
    for value in ("20", "8000001", "20Mbit"):
        with pytest.raises(InvalidInput):
            knobs.write(KnobTarget("docker/web", Knob.NETWORK_RATE), value)
    assert knobs.supported(Knob.CPU_MAX) is not None
    assert knobs.supported(Knob.NETWORK_RATE) is None

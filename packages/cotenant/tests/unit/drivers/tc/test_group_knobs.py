"""Rate, delay and loss of a group's network, over a namespace that only remembers."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from cotenant.drivers.tc.group_knobs import GroupNetworkKnobs
from cotenant.drivers.tc.shaping import Shape
from cotenant.model.errors import InvalidInput, Permanent, Unsupported
from cotenant.model.machine.knob import Knob, Target, Vanished


@dataclass
class Namespaces:
    shapes: dict[str, Shape] = field(default_factory=dict)

    def read(self, namespace: str) -> Shape:
        return self.shapes.get(namespace, Shape())

    def write(self, namespace: str, shape: Shape) -> None:
        self.shapes[namespace] = shape


PIDS = {"docker/web": 7, "docker/host": 1}


def made() -> tuple[GroupNetworkKnobs, Namespaces]:
    namespaces = Namespaces()
    return GroupNetworkKnobs(PIDS.get, namespaces, lambda pid: "own" if pid == 7 else "host"), namespaces


def test_each_knob_leaves_the_others() -> None:
    knobs, namespaces = made()
    rate, delay, loss = (
        Target("docker/web", knob) for knob in (Knob.NETWORK_RATE, Knob.NETWORK_DELAY, Knob.NETWORK_LOSS)
    )
    before = {target: knobs.raw(target) for target in (rate, delay, loss)}
    assert [*before.values()] == ["max", "0", "0"]
    for target, value in ((rate, "8000000"), (delay, "20000"), (loss, "10000")):
        knobs.write(target, value)
        assert knobs.read(target) == value
    assert namespaces.shapes == {"/proc/7/ns/net": Shape(8_000_000, 20_000, 10_000)}
    for target in (delay, rate, loss):
        knobs.restore(target, before[target])
    assert namespaces.shapes == {"/proc/7/ns/net": Shape()}
    assert knobs.identity(rate) == "own"


def test_the_hosts_network_is_never_limited() -> None:
    knobs, namespaces = made()
    with pytest.raises(Permanent, match="shares the host's network"):
        knobs.write(Target("docker/host", Knob.NETWORK_RATE), "8000000")
    assert namespaces.shapes == {}


def test_a_group_without_a_process_is_gone() -> None:
    knobs, _ = made()
    with pytest.raises(Vanished):
        knobs.read(Target("docker/other", Knob.NETWORK_RATE))


def test_other_knobs_and_values_are_refused() -> None:
    knobs, _ = made()
    with pytest.raises(Unsupported):
        knobs.read(Target("docker/web", Knob.CPU_MAX))
    for value in ("20", "8000001", "20Mbit"):
        with pytest.raises(InvalidInput):
            knobs.write(Target("docker/web", Knob.NETWORK_RATE), value)
    assert knobs.supported(Knob.CPU_MAX) is not None
    assert knobs.supported(Knob.NETWORK_RATE) is None
